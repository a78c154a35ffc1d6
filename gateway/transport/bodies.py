"""JSON bodies: received whole, decoded within caps, parsed strictly, and written again from the parsed value.

The client's own bytes never go on, so what is checked is what is sent. A body that cannot be decoded is refused, never passed.
The standard library's parser is used, not orjson's: it alone tells of a name that is given twice, and hands over a number as
text, so that one which a 64-bit integer or a double cannot hold is carried through unchanged. On usual bodies it costs what
finding such numbers beforehand would cost.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable
from typing import Any, Final, NoReturn

import orjson
import zstandard

from gateway.errors import Problem, Reason
from gateway.transport.budget import Lease
from gateway.transport.guard import Head, Receive
from gateway.transport.limits import Limits

_FREE_BYTES: Final = 1024 * 1024
"""Decoded bytes that no ratio is asked of: so little cannot hurt."""
_STEP_BYTES: Final = 256 * 1024
_INLINE_BYTES: Final = 256 * 1024
"""What is decoded and parsed on the event loop: a few milliseconds at most."""
_GZIP_MEMBERS: Final = 1000
_ZSTD_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""RFC 9659: no more is allowed to the content coding `zstd`."""


async def read_json(
    receive: Receive,
    head: Head,
    limits: Limits,
    *,
    allow_empty: bool = False,
    arrived: bytes | None = None,
    lease: Lease | None = None,
) -> Any:
    """The parsed body: dict, list, str, int, float, `orjson.Fragment` (a number too long for those), bool or None.

    `arrived` is the body as sent where all of it is there; else `receive` is asked for it. None also stands for an empty body
    where the route allows one. Raises Problem: CLIENT_CLOSED when the client left before the end (nothing may go upstream),
    SERVER_BUSY where `lease` can't hold it, REQUEST_TIMEOUT, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, UNSUPPORTED_ENCODING,
    BAD_JSON.
    """
    encoding = head.by_name.get(b"content-encoding", b"identity").strip().lower()
    decode = DECODERS.get(encoding)
    if decode is None:
        raise Problem(Reason.UNSUPPORTED_ENCODING)
    media_type = head.by_name.get(b"content-type")
    if not (is_json(media_type) or (media_type is None and allow_empty)):
        raise Problem(Reason.UNSUPPORTED_MEDIA_TYPE, detail="application/json")
    sent = await read_body(receive, head, limits, lease) if arrived is None else _within(arrived, limits)
    if lease is not None:
        lease.hold(len(sent))
    if not sent and allow_empty:
        return None
    if media_type is None:
        raise Problem(Reason.UNSUPPORTED_MEDIA_TYPE, detail="application/json")
    if len(sent) <= (_INLINE_BYTES if decode is _identity else _INLINE_BYTES // 16):
        return parse_json(decode(sent, limits), limits)
    # A thread, so that one large body does not hold up every stream of the process.
    return await asyncio.to_thread(lambda: parse_json(decode(sent, limits), limits))


def is_json(media_type: bytes | None) -> bool:
    """Whether a Content-Type is `application/json`; its only charset is UTF-8 (RFC 8259 section 8.1)."""
    if media_type == b"application/json":
        return True
    essence, *parameters = (media_type or b"").lower().split(b";")
    if essence.strip() != b"application/json":
        return False
    charsets = [
        value.strip(b' \t"') for name, _, value in (p.partition(b"=") for p in parameters) if name.strip() == b"charset"
    ]
    return all(charset in (b"utf-8", b"utf8") for charset in charsets)


def _within(sent: bytes, limits: Limits) -> bytes:
    if len(sent) > limits.body_bytes:
        raise _too_large(limits)
    return sent


async def read_body(receive: Receive, head: Head, limits: Limits, lease: Lease | None = None) -> bytes:
    """The bytes of the body as sent, at most `limits.body_bytes`. Only `more_body=False` ends it. Raises Problem."""
    if int(head.by_name.get(b"content-length", b"0")) > limits.body_bytes:
        raise _too_large(limits)
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + limits.body_total_s
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout_at(min(ends_at, loop.time() + limits.body_idle_s)) as deadline:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Problem(Reason.CLIENT_CLOSED)
                chunk = message.get("body", b"")
                size += len(chunk)
                if size > limits.body_bytes:
                    raise _too_large(limits)
                if lease is not None:
                    lease.hold(size)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return b"".join(chunks)
                if chunk:
                    deadline.reschedule(min(ends_at, loop.time() + limits.body_idle_s))
    except TimeoutError:
        raise Problem(Reason.REQUEST_TIMEOUT) from None


def _allowed_bytes(sent: bytes, limits: Limits) -> int:
    return min(limits.body_bytes, max(_FREE_BYTES, len(sent) * limits.body_ratio))


def _identity(sent: bytes, limits: Limits) -> bytes:
    return sent


def _gunzip(sent: bytes, limits: Limits) -> bytes:
    """RFC 1952, several members allowed; what follows the last must be another one."""
    allowed = _allowed_bytes(sent, limits)
    pieces: list[bytes] = []
    size = at = 0
    try:
        for _ in range(_GZIP_MEMBERS):
            member = zlib.decompressobj(wbits=31)
            given = b""
            while not member.eof:
                # In steps: what a member leaves unread is copied, and that may be nearly all, after each of a thousand.
                if not given and at < len(sent):
                    given = sent[at : at + _STEP_BYTES]
                    at += len(given)
                piece = member.decompress(given, _STEP_BYTES)
                size += len(piece)
                if size > allowed:
                    raise _too_large(limits)
                pieces.append(piece)
                given = member.unconsumed_tail
                if not piece and not given and at == len(sent) and not member.eof:
                    raise _corrupt("gzip")
            at -= len(member.unused_data)
            if at == len(sent):
                return b"".join(pieces)
    except zlib.error:
        raise _corrupt("gzip") from None
    raise _corrupt("gzip")


def _unzstd(sent: bytes, limits: Limits) -> bytes:
    """RFC 8878, one frame. In one call into a buffer of the allowed size: the streaming reader does not tell of a cut frame."""
    allowed = _allowed_bytes(sent, limits)
    decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    try:
        declared = zstandard.get_frame_parameters(sent).content_size
        if declared != zstandard.CONTENTSIZE_UNKNOWN and declared > allowed:
            raise _too_large(limits)
        return decoder.decompress(sent, max_output_size=allowed, allow_extra_data=False)
    except zstandard.ZstdError:
        if _zstd_exceeds(decoder, sent, allowed):
            raise _too_large(limits) from None
        raise _corrupt("zstd") from None


def _zstd_exceeds(decoder: zstandard.ZstdDecompressor, sent: bytes, allowed: int) -> bool:
    """Whether a frame that failed holds more than is allowed (413), and is not merely broken (400)."""
    size = 0
    try:
        with decoder.stream_reader(sent) as reader:
            while piece := reader.read(_STEP_BYTES):
                size += len(piece)
                if size > allowed:
                    return True
    except zstandard.ZstdError:
        pass
    return False


DECODERS: Final[dict[bytes, Callable[[bytes, Limits], bytes]]] = {
    b"": _identity,
    b"identity": _identity,
    b"gzip": _gunzip,
    b"x-gzip": _gunzip,
    b"zstd": _unzstd,
}
"""Content codings by name. A list of codings is none of them, hence 415."""


def parse_json(data: bytes, limits: Limits) -> Any:
    """The value of strict JSON (RFC 8259): UTF-8 without BOM, no NaN or Infinity, no name twice in an object, bounded depth."""
    try:
        text = data.decode().strip(_BLANKS)
    except UnicodeDecodeError:
        raise Problem(Reason.BAD_JSON, detail="it is not UTF-8") from None
    containers = text.count("[") + text.count("{")
    if containers > limits.json_containers:
        raise _too_large(limits)
    try:
        # What `json.JSONDecoder.decode` calls between its two searches for blanks, which take a third of its time.
        value, end = _SCAN(text, 0)
    except _Refused as refused:
        raise Problem(Reason.BAD_JSON, detail=str(refused)) from None
    except RecursionError:
        raise _too_deep(limits) from None
    except (ValueError, StopIteration):
        raise Problem(Reason.BAD_JSON, detail="it is not valid JSON") from None
    if end != len(text):
        raise Problem(Reason.BAD_JSON, detail="it is not valid JSON")
    # Each comma parts two values, unless it stands in a string.
    if text.count(",") >= limits.json_containers and _values(value) > limits.json_containers:
        raise _too_large(limits)
    if containers > limits.json_depth and isinstance(value, dict | list) and _is_deeper(value, limits.json_depth):
        raise _too_deep(limits)
    if "\\u" in text:
        _refuse_surrogates(value)
    return value


class _Refused(ValueError):
    """JSON that a lenient parser takes. The text is ours."""


def _integer(text: str) -> int | orjson.Fragment:
    if len(text) <= 20 and text != "-0" and -(2**63) <= (number := int(text)) < 2**64:
        return number
    return orjson.Fragment(text)


def _real(text: str) -> float | orjson.Fragment:
    """A float where writing it again gives the same text, else the text itself."""
    if len(text) <= 40 and orjson.dumps(number := float(text)) == text.encode():
        return number
    return orjson.Fragment(text)


def _constant(_: str) -> NoReturn:
    raise _Refused("NaN and Infinity are not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refused("an object has the same name twice")
    return value


_BLANKS: Final = " \t\n\r"
_SCAN: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder(
    parse_int=_integer, parse_float=_real, parse_constant=_constant, object_pairs_hook=_object
).scan_once  # type: ignore[attr-defined]
"""The value that begins at a place in a text, and where it ends. Raises ValueError or StopIteration where there is none."""


def _values(value: Any) -> int:
    """How many values are in objects and arrays: each costs its time again at every stage."""
    count, level = 0, [value]
    while level:
        level = [one for one in level if isinstance(one, dict | list)]
        count += sum(map(len, level))
        level = [child for one in level for child in (one.values() if isinstance(one, dict) else one)]
    return count


def _is_deeper(value: Any, depth: int) -> bool:
    """Level by level, so that the depth of what is measured costs no stack."""
    level = [value]
    for _ in range(depth):
        children = (parent.values() if isinstance(parent, dict) else parent for parent in level)
        level = [child for siblings in children for child in siblings if isinstance(child, dict | list)]
    return bool(level)


def _refuse_surrogates(value: Any) -> None:
    """Half a surrogate pair, written as an escape, is no character and has no UTF-8."""
    try:
        orjson.dumps(value)
    except TypeError:
        raise Problem(Reason.BAD_JSON, detail="a string holds half a surrogate pair") from None


def _too_large(limits: Limits) -> Problem:
    return Problem(Reason.BODY_TOO_LARGE, detail=f"{limits.body_bytes} bytes")


def _too_deep(limits: Limits) -> Problem:
    return Problem(Reason.BAD_JSON, detail=f"it is nested deeper than {limits.json_depth} levels")


def _corrupt(coding: str) -> Problem:
    return Problem(Reason.BAD_JSON, detail=f"it is not valid {coding}")
