"""Bytes that pass through: a form's files on their way up, an answer in bytes on its way down. Neither is ever held whole.

A file's content is what its owner put there, so nothing in it is looked at, unless a `Rewriter` stands in its way: the lines of
a batch are requests and answers, with IDs in them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import quote, unquote

from multipart import parse_options_header

from gateway.authz import Circumstances
from gateway.errors import Problem, Reason
from gateway.pipeline import forward
from gateway.pipeline.exchange import Answer, Exchange, Form, Sending
from gateway.pipeline.provider import Provider
from gateway.pipeline.recorder import Recorder
from gateway.pipeline.streaming import Begun
from gateway.rewrite.forms import Fields, TextPart, end, head, texts
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.inbound import names_something
from gateway.surfaces.spec import File, Obj
from gateway.upstreams import UpstreamAnswer, UpstreamError
from gateway.upstreams.openai import answer_headers

_PURPOSE: Final = "purpose"
"""The part of a form that says what its file is for."""

_EXTENDED: Final = re.compile(r";[ \t]*filename\*[ \t]*=[ \t]*utf-8'[^']*'([^;\s]+)", re.I)
"""RFC 8187 section 3.2; the only charset that it has is UTF-8."""
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
_TOLD_APART: Final = re.compile(r'[^\x20-\x7e]|["\\%]')
"""What two readers of a quoted file name might read differently."""


class Rewriter(Protocol):
    """Stands between a file's bytes and where they go. It gets them in pieces of any size, and gives what goes on in their
    place, when it likes. It refuses by raising Problem: on the way up, nothing is made then."""

    async def feed(self, piece: bytes) -> bytes: ...
    async def end(self) -> bytes: ...
    def close(self) -> None:
        """Nothing more comes, whether or not it was the end."""


@dataclass(frozen=True, slots=True)
class Rewriters:
    uploads: Mapping[str, Callable[[Exchange], Rewriter]] = field(default_factory=dict)
    """By a form's `purpose`, in lower case, where its file waits for that."""
    download: Callable[[Exchange, UpstreamAnswer, IdTable], Awaitable[Rewriter | None]] | None = None
    """Asked for each answer in bytes; None for those that pass as they are."""


def sending(exchange: Exchange, rewriters: Rewriters) -> Sending | None:
    """The form that the request carries, put together anew as it is sent; None for a request without one."""
    if exchange.form is None:
        return None
    rewriter = rewriters.uploads.get(_purpose(exchange))
    # Of letters and digits alone: the service has been seen to misread boundaries with hyphens.
    boundary = f"coatcheck{secrets.token_hex(16)}"
    parts = _parts(exchange, exchange.form, boundary, rewriter(exchange) if rewriter else None)
    return Sending(f"multipart/form-data; boundary={boundary}".encode(), parts)


def _purpose(exchange: Exchange) -> str:
    """What the form's file is for, where that is a thing to know before it goes on. Raises Problem where it says so in a way
    that the service might read in its own."""
    request, said = exchange.known_route.request, exchange.body.get(_PURPOSE, "")
    files = request.fields.values() if isinstance(request, Obj) else ()
    if not any(isinstance(one, File) and _PURPOSE in (one.after or ()) for one in files):
        return ""
    if not isinstance(said, str):
        raise Problem(Reason.BAD_PARAMETER, "this must be a string", param=_PURPOSE)
    return said.strip().casefold()


async def _parts(
    exchange: Exchange, form: Form, boundary: str, rewriter: Rewriter | None
) -> AsyncGenerator[bytes, None]:
    decided = _circumstances(exchange)
    try:
        if early := b"".join([_text(boundary, part) for part in texts(exchange.body)]):
            yield early
        async with aclosing(form.parts()) as parts:
            async for later in parts:
                if isinstance(later, TextPart):
                    _check_late(exchange, later, decided)
                    yield _text(boundary, later)
                    continue
                yield head(boundary, later.name, later.filename, later.media_type)
                async for piece in _rewritten(later.content, rewriter):
                    yield piece
                yield b"\r\n"
        # Only now can anything be made of it: whatever failed before has cut the request off.
        yield end(boundary)
    finally:
        if rewriter:
            rewriter.close()


async def _rewritten(content: AsyncIterator[bytes], rewriter: Rewriter | None) -> AsyncIterator[bytes]:
    async for piece in content:
        data = await rewriter.feed(piece) if rewriter else piece
        if data:
            yield data
    if rewriter and (data := await rewriter.end()):
        yield data


def _text(boundary: str, part: TextPart) -> bytes:
    return head(boundary, part.name) + part.text.encode() + b"\r\n"


def _check_late(exchange: Exchange, part: TextPart, decided: Circumstances) -> None:
    """What comes after a file that is on its way decides nothing any more: it may name nothing, and nothing that a policy
    looks at. Raises Problem."""
    fields = Fields()
    fields.add(part.name, part.text)
    names = names_something(exchange.known_route, fields.value, exchange.known_mapper.verify)
    if names or _circumstances(exchange) != decided:
        raise Problem(Reason.BAD_PARAMETER, "this part of the form must stand before the file", param=part.name)


def _circumstances(exchange: Exchange) -> Circumstances:
    body = exchange.body
    return forward.circumstances(exchange.known_route, str(body.get("model")), body, exchange.head.client)


# --- down


async def download(
    exchange: Exchange, upstream: UpstreamAnswer, table: IdTable, recorder: Recorder, rewriter: Rewriter | None
) -> Answer:
    """An answer in bytes, once the first of them may leave: what fails before is an ordinary error answer."""
    if upstream.status != 200:  # a part of it, or nothing: nobody asked for that
        raise Problem(Reason.UPSTREAM_BAD_ANSWER)
    sent = _sent(exchange, upstream, recorder, rewriter)
    first = await anext(sent, b"")
    headers = [
        *answer_headers(upstream.headers),
        (b"content-disposition", disposition(upstream.header(b"content-disposition") or b"", table)),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        (b"x-request-id", exchange.head.request_id.encode()),
    ]
    return Answer(200, headers, Begun(first, sent), exchange.action, media=True)


async def _sent(
    exchange: Exchange, upstream: UpstreamAnswer, recorder: Recorder, rewriter: Rewriter | None
) -> AsyncGenerator[bytes, None]:
    """The last piece waits until the outcome is on record."""
    held, begun = b"", False
    try:
        async for piece in _rewritten(upstream, rewriter):
            if held:
                exchange.bytes_out += len(held)
                begun = True
                yield held
            held = piece
        exchange.bytes_out += len(held)
        await recorder.finish(exchange, (), upstream.status)
        if held:
            yield held
    except Exception as error:
        if begun:
            await recorder.refuse(exchange, _problem(error))
        raise
    finally:
        upstream.abort()
        if rewriter:
            rewriter.close()
        if begun:
            await recorder.abandon(exchange)


def _problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    return Provider.problem(error) if isinstance(error, UpstreamError) else Problem(Reason.INTERNAL)


def disposition(said: bytes, table: IdTable) -> bytes:
    """A Content-Disposition (RFC 6266) for what the upstream said: always an attachment, by the same name, in which every ID
    of the service is replaced."""
    name = _filename(said.decode("latin-1"))
    if not name:
        return b"attachment"
    table.disarm_within(name)
    shown = table.replace(name.encode()).decode()
    plain = _TOLD_APART.sub("_", shown)
    header = f'attachment; filename="{plain}"'
    return (header if plain == shown else f"{header}; filename*=UTF-8''{quote(shown, safe='')}").encode()


def _filename(header: str) -> str:
    extended = _EXTENDED.search(header)
    try:
        if extended:
            name = unquote(extended[1], errors="strict")
        else:
            name = str(parse_options_header(header)[1].get("filename", "")).encode("latin-1").decode()
    except UnicodeError:
        return ""
    return _UNPRINTABLE.sub("", name)
