"""The outermost layer, for `http` and `websocket`: what can be read in two ways is refused before anything reads it.

Pure ASGI and without I/O of its own. Behind it a request is a `Head`: immutable, with one Host, at most one of each header in
`SINGLE`, and a path that no two parsers read differently (RFC 9112 sections 3.2, 6.1 and 11.2; RFC 9110 section 5.3).
Routing and decisions read `Head.raw_path`, which is never percent-decoded here.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

from gateway.errors import Problem, Reason, render
from gateway.names import RequestId
from gateway.telemetry import REQUEST_ID
from gateway.transport.drain import Drain
from gateway.transport.limits import Limits

_LOG: Final = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]

HEAD: Final = "gateway.head"
"""The scope's key for the request's `Head`."""

SINGLE: Final = frozenset(
    {
        b"host",
        b"authorization",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"transfer-encoding",
        b"idempotency-key",
        b"expect",
        b"origin",
    }
)
"""Headers that decide something. Two of one are refused, not joined: the next hop might take the other."""

HEALTH_PATHS: Final = frozenset({b"/healthz", b"/readyz"})
"""Paths that are still answered while the server drains (gateway/transport/health.py)."""

_CONTROLS: Final = bytes([*range(0x20), 0x7F])
_PATH: Final = b"/%-._~!$&'()*+,=:@0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""RFC 3986 `pchar` and `/`, without the `;` that some servers cut at."""
_QUERY: Final = _PATH + b'?;[]{}|"<>^`'
"""What clients write there unescaped; no blank, no `#`, no backslash, nothing outside ASCII."""
_HOST: Final = b"-._~%:[]0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})|%(?:[01].|7f|2e|2f|5c|25)", re.I)
"""In a path: a malformed escape, or one that stands for a control, `.`, `/`, a backslash or another `%`."""
_DOT_SEGMENT: Final = re.compile(rb"/\.{1,2}(?:/|\Z)")


@dataclass(slots=True)
class Head:
    """What came before the body, as every later stage sees it; not to be changed (a frozen one takes 0.8 us to make)."""

    request_id: RequestId
    method: str
    raw_path: bytes
    """As sent, but for a trailing slash; ASCII, percent-escapes intact, no empty or dot segment."""
    query: bytes
    headers: Headers = field(repr=False)
    """All of them in order, names in lower case."""
    by_name: Mapping[bytes, bytes] = field(repr=False)
    """One value a name; a repeated header that is not in `SINGLE` is joined with `, ` (RFC 9110 section 5.3)."""
    client: str
    """The client's address: the peer's, or what a configured proxy says."""

    def header(self, name: bytes) -> str:
        """The value of `name` (lower case), empty where it is missing. Latin-1, so that no byte is lost or refused."""
        return self.by_name.get(name, b"").decode("latin-1")


@dataclass(frozen=True, slots=True)
class Guard:
    """`app` behind the rules of this module. Everything but `http` and `websocket` (that is, `lifespan`) passes."""

    app: App
    limits: Limits
    drain: Drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        request_id = new_request_id()
        REQUEST_ID.set(request_id)
        headers: Headers = tuple(scope["headers"])
        try:
            by_name = check_headers(headers, scope["http_version"], self.limits)
            raw_path = check_target(scope["raw_path"], scope["query_string"])
            if self.drain.draining and raw_path not in HEALTH_PATHS:
                raise Problem(Reason.SERVER_DRAINING, retry_after_s=1)
            head = Head(
                request_id,
                scope.get("method", "GET"),
                raw_path,
                scope["query_string"],
                headers,
                by_name,
                client_address(scope.get("client"), by_name.get(b"x-forwarded-for"), self.limits.trusted_proxies),
            )
            path = raw_path.decode("ascii")
            await self.app({**scope, "path": path, "raw_path": raw_path, "headers": headers, HEAD: head}, receive, send)
        except Problem as problem:
            await refuse(problem, request_id, scope, send)
        except Exception:
            # Where an answer was begun, `send` refuses a second one, and the server closes the connection.
            _LOG.exception("guard.app_failed")
            await refuse(Problem(Reason.INTERNAL), request_id, scope, send)


def new_request_id() -> RequestId:
    return RequestId("req_" + os.urandom(16).hex())


def check_headers(headers: Headers, http_version: str, limits: Limits) -> dict[bytes, bytes]:
    """The headers by name. Raises Problem where they can be read in two ways, or are too many or too large."""
    if http_version not in ("1.1", "2", "3"):
        raise _framing("the version is not HTTP/1.1")
    if len(headers) > limits.head_fields:
        raise Problem(Reason.HEADERS_TOO_LARGE, detail=f"{limits.head_fields} fields")
    by_name = dict(headers)
    if len(by_name) != len(headers):
        by_name = _joined(headers)
    host = by_name.get(b"host")
    if not host or host.translate(None, _HOST):
        raise _framing("exactly one Host header is required")
    names, values = b"".join(by_name), b"".join(by_name.values())
    if len(names) + len(values) > limits.head_bytes:
        raise Problem(Reason.HEADERS_TOO_LARGE, detail=f"{limits.head_bytes} bytes")
    if b"_" in names or not names.islower():
        # Twins: many servers read `x_y` as `x-y`. Upper case cannot come from an ASGI server.
        raise _framing("a header name may not hold an underscore or be in upper case")
    if len(values.translate(None, _CONTROLS)) != len(values):
        raise _framing("a header value holds a control character")
    if (coding := by_name.get(b"transfer-encoding")) is not None:
        if b"content-length" in by_name:
            raise _framing("Transfer-Encoding and Content-Length exclude each other")
        if coding.lower() != b"chunked":
            raise _framing("the only Transfer-Encoding is chunked")
    elif (length := by_name.get(b"content-length")) is not None and not (length.isdigit() and len(length) <= 18):
        raise _framing("Content-Length is not a number")
    if (expected := by_name.get(b"expect")) is not None and expected.lower() != b"100-continue":
        raise Problem(Reason.EXPECTATION_FAILED)
    return by_name


def _joined(headers: Headers) -> dict[bytes, bytes]:
    by_name: dict[bytes, bytes] = {}
    for name, value in headers:
        if name not in by_name:
            by_name[name] = value
        elif name in SINGLE:
            raise _framing(f"more than one {name.decode('ascii')} header")
        else:
            by_name[name] += b", " + value
    return by_name


def check_target(raw_path: bytes, query: bytes) -> bytes:
    """The path without a trailing slash. Raises Problem for a target that two parsers could read differently.

    The query may hold escapes that the path may not: it names no resource, and is parsed once and rebuilt before it goes on.
    """
    if not raw_path.startswith(b"/"):
        raise _target("it must begin with a slash")
    if b"//" in raw_path or raw_path.translate(None, _PATH):
        raise _target("the path holds a character or an empty segment that is not allowed")
    if b"%" in raw_path and _BAD_ESCAPE.search(raw_path):
        raise _target("the path holds an escape that is not allowed")
    if b"/." in raw_path and _DOT_SEGMENT.search(raw_path):
        raise _target("the path holds a dot segment")
    if query and (query.translate(None, _QUERY) or b"%00" in query):
        raise _target("the query holds a character that is not allowed")
    return raw_path[:-1] if raw_path.endswith(b"/") and len(raw_path) > 1 else raw_path


def client_address(
    peer: Iterable[Any] | None, forwarded: bytes | None, trusted: tuple[IPv4Network | IPv6Network, ...]
) -> str:
    """The nearest address that is not a trusted proxy; empty where there is none (a Unix socket).

    `X-Forwarded-For` is read from its end, where our own proxies write, and only as far as they vouch for it: what stands
    left of an untrusted or unreadable entry is the client's own claim.
    """
    address = str(next(iter(peer), "")) if peer else ""
    if not trusted or forwarded is None or not _is_trusted(address, trusted):
        return address
    for entry in reversed(forwarded.decode("latin-1").split(",")):
        if (parsed := _address(entry)) is None:
            break
        address = str(parsed)
        if not _is_trusted(address, trusted):
            break
    return address


@lru_cache(maxsize=1024)
def _is_trusted(address: str, trusted: tuple[IPv4Network | IPv6Network, ...]) -> bool:
    parsed = _address(address)
    return parsed is not None and any(parsed in network for network in trusted)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """`1.2.3.4`, `1.2.3.4:80`, `::1` or `[::1]:80`; an IPv4 address mapped into IPv6 comes out as IPv4."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


async def refuse(problem: Problem, request_id: RequestId, scope: Scope, send: Send) -> None:
    """Send the answer to `problem`; for a WebSocket that is not accepted yet, as the HTTP answer to its upgrade."""
    status, headers, body = render(problem, request_id)
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _framing(detail: str) -> Problem:
    return Problem(Reason.BAD_FRAMING, detail=detail)


def _target(detail: str) -> Problem:
    return Problem(Reason.BAD_TARGET, detail=detail)
