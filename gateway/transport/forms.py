"""Forms with files (RFC 7578), taken apart as they arrive: texts are held, files pass or wait on disk, never in memory.

Some clients send a form's texts first (Python's), some its files (those for browsers and Node). A file's bytes go on at once
where all that decides on them is known; else the rest of the form is read first, and the file waits in a `Spool`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser, parse_options_header

from gateway.errors import Problem, Reason
from gateway.rewrite.forms import Fields, FilePart, TextPart, file_at, is_file_place, media_type, read_disposition
from gateway.surfaces.spec import Spec
from gateway.transport.budget import Lease
from gateway.transport.guard import Head, Receive
from gateway.transport.limits import Limits
from gateway.transport.spool import Spools

LOG = logging.getLogger(__name__)

MEDIA_TYPE: Final = "multipart/form-data"
_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,./:=?-](?:[0-9A-Za-z'()+_,./:=? -]{0,198}[0-9A-Za-z'()+_,./:=?-])?")
"""RFC 2046 section 5.1.1, which stops at 70 characters; some clients do not."""
_AS_IS: Final = frozenset({"7bit", "8bit", "binary"})
_HEADER_BYTES: Final = 4096
_HEADERS: Final = 8


def is_form(head: Head) -> bool:
    return head.by_name.get(b"content-type", b"").partition(b";")[0].strip().lower() == MEDIA_TYPE.encode()


async def read_form(receive: Receive, head: Head, limits: Limits, request: Spec, spools: Spools, lease: Lease) -> Form:
    """The form once everything is known that decides on it. Close it in any case. `lease`: for its texts. Raises Problem."""
    form = Form(_Segments(receive, limits, _parser(head, limits)), limits, request, spools, lease)
    try:
        await form.begin()
    except BaseException:
        await form.aclose()
        raise
    return form


def _parser(head: Head, limits: Limits) -> PushMultipartParser:
    if head.by_name.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
        raise Problem(Reason.UNSUPPORTED_ENCODING)
    essence, options = parse_options_header(head.header(b"content-type"))
    boundary = options.get("boundary", "")
    if essence != MEDIA_TYPE or not _BOUNDARY.fullmatch(boundary):
        raise Problem(Reason.UNSUPPORTED_MEDIA_TYPE, detail=MEDIA_TYPE)
    if int(head.by_name.get(b"content-length", b"0")) > limits.form_bytes:
        raise _too_large(limits.form_bytes)
    # Not in its strict mode, which refuses the line break that nearly all clients send after the last boundary, if it comes
    # alone. What that mode is for is looked after here: nothing goes on of what stands before, between or after the parts.
    return PushMultipartParser(
        boundary, max_header_size=_HEADER_BYTES, max_header_count=_HEADERS, max_segment_count=limits.form_parts
    )


@dataclass(frozen=True, slots=True)
class _Header:
    """What a part says of itself. `filename`: None for a text."""

    name: str
    filename: str | None
    media_type: str


class _Segments:
    """The form as it comes: a part's header, pieces of it, and None at its end."""

    def __init__(self, receive: Receive, limits: Limits, parser: PushMultipartParser) -> None:
        self._receive = receive
        self._limits = limits
        self._parser = parser
        self._events = self._read()

    async def header(self) -> _Header | None:
        """The next part's; None at the form's end."""
        async for event in self._events:
            if isinstance(event, _Header):
                return event
        return None

    async def content(self) -> AsyncIterator[bytes]:
        """The pieces of the part whose header came last."""
        async for event in self._events:
            if not isinstance(event, bytes):
                return
            yield event

    async def aclose(self) -> None:
        await self._events.aclose()

    async def _read(self) -> AsyncGenerator[_Header | bytes | None, None]:
        limits, parser = self._limits, self._parser
        ends_at = asyncio.get_running_loop().time() + limits.form_total_s
        size, more = 0, True
        try:
            while more:
                chunk, more = await self._chunk(ends_at)
                size += len(chunk)
                if size > limits.form_bytes:
                    raise _too_large(limits.form_bytes)
                for event in parser.parse(chunk) if chunk else ():
                    yield _header(event) if isinstance(event, MultipartSegment) else event
            parser.close()
        except ParserLimitReached:
            raise _malformed("it has too many parts, or too long headers") from None
        except MultipartError:
            raise _malformed("it is not a whole multipart body") from None

    async def _chunk(self, ends_at: float) -> tuple[bytes, bool]:
        try:
            async with asyncio.timeout_at(min(ends_at, asyncio.get_running_loop().time() + self._limits.body_idle_s)):
                message = await self._receive()
        except TimeoutError:
            raise Problem(Reason.REQUEST_TIMEOUT) from None
        if message["type"] != "http.request":
            raise Problem(Reason.CLIENT_CLOSED)
        return message.get("body", b""), message.get("more_body", False)


def _header(segment: MultipartSegment) -> _Header:
    values: dict[str, str] = {}
    for name, value in segment.headerlist:
        if name in values:
            raise _malformed("a part has the same header twice")
        values[name] = value
    if values.get("Content-Transfer-Encoding", "binary").strip().lower() not in _AS_IS:
        raise _malformed("a part is encoded")
    name, filename = read_disposition(values.get("Content-Disposition", ""))
    return _Header(name, filename, media_type(values.get("Content-Type", "")))


class Form:
    """A form of which everything is known that decides on it. `parts` may still be on their way."""

    def __init__(self, segments: _Segments, limits: Limits, request: Spec, spools: Spools, lease: Lease) -> None:
        self._segments = segments
        self._lease = lease
        self._limits = limits
        self._request = request
        self._fields = Fields()
        self._held_bytes = 0
        self._spool = spools.open(lease.tenant)
        self._kept: list[tuple[_Header, int]] = []
        """What is in the spool: files, with their sizes."""
        self._next: _Header | None = None

    @property
    def value(self) -> dict[str, Any]:
        """What the texts spell, as a JSON body would say it."""
        return self._fields.value

    async def begin(self) -> None:
        """Reads up to the first file that may go on, or else to the end."""
        while (header := await self._segments.header()) is not None:
            if header.filename is None:
                await self._text(header.name)
                continue
            if not self._kept and self._may_go_on(header.name):
                self._next = header
                return
            await self._keep(header)

    async def _keep(self, header: _Header) -> None:
        """Reads a file to its end, into the spool."""
        self._take_note(header)
        begins = self._spool.size
        async for piece in self._segments.content():
            if self._spool.size + len(piece) > self._limits.spool_bytes:
                raise _too_large(self._limits.spool_bytes, " where a form's fields follow its file")
            try:
                await self._spool.write(piece)
            except OSError as error:
                LOG.error("spool.not_written", extra={"fields": {"error": error.strerror}})
                raise Problem(Reason.SERVER_BUSY, retry_after_s=1) from None
        self._kept.append((header, self._spool.size - begins))

    async def parts(self) -> AsyncGenerator[FilePart | TextPart, None]:
        """The files, and the texts that follow the first of them, in their order. Raises Problem."""
        for header, size in self._kept:
            yield FilePart(header.name, header.filename or "", header.media_type, self._spool.read(size))
        following = self._next
        while following is not None:
            name, filename = following.name, following.filename
            if filename is None:
                yield TextPart(name, await self._text(name))
            else:
                if not self._may_go_on(name):
                    raise Problem(Reason.BAD_PARAMETER, "fields must stand before this file", param=name)
                self._take_note(following)
                yield FilePart(name, filename, following.media_type, self._segments.content())
            following = await self._segments.header()

    async def aclose(self) -> None:
        """Frees what is held. Nobody may be reading."""
        self._spool.close()
        await self._segments.aclose()

    def _may_go_on(self, name: str) -> bool:
        """Whether a file of that name needs not wait for what may follow it. Raises Problem where the table has no file."""
        after = file_at(self._request, name).after
        return after is not None and all(field in self._fields for field in after)

    def _take_note(self, header: _Header) -> None:
        """Of a file that has come."""
        self._hold(len(header.name) + len(header.filename or ""))
        self._fields.add_file(header.name)

    def _hold(self, size: int) -> None:
        """Raises Problem for texts that are together too large for a form or for the process."""
        self._held_bytes += size
        if self._held_bytes > self._limits.form_text_bytes:
            raise _too_large(self._limits.form_text_bytes, " in the fields of a form")
        self._lease.hold(self._held_bytes)

    async def _text(self, name: str) -> str:
        if is_file_place(self._request, name):
            raise Problem(Reason.BAD_PARAMETER, "this part of the form must be a file, with a file name", param=name)
        self._hold(len(name))
        pieces: list[bytes] = []
        async for piece in self._segments.content():
            self._hold(len(piece))
            pieces.append(piece)
        try:
            text = b"".join(pieces).decode()
        except UnicodeDecodeError:
            raise Problem(Reason.BAD_PARAMETER, "a field of the form is not UTF-8", param=name) from None
        self._fields.add(name, text)
        return text


def _malformed(what: str) -> Problem:
    return Problem(Reason.BAD_FORM, detail=what)


def _too_large(most: int, where: str = "") -> Problem:
    return Problem(Reason.BODY_TOO_LARGE, detail=f"{most} bytes{where}")
