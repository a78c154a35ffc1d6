"""One connection of the HTTP/1.1 server: what the ASGI scope no longer shows is refused here, in uvicorn's httptools protocol.

The subclasses lean on names inside uvicorn, which is pinned; `tests/transport/test_server.py` holds them to a contract.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, ClassVar, Final, cast

import httptools
from uvicorn import Config
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.errors import Problem, Reason, render
from gateway.transport.client import CLIENT, Client
from gateway.transport.guard import Headers, check_headers, check_target, new_request_id
from gateway.transport.limits import Limits

_BODY_HEADERS: Final = (b"content-length", b"transfer-encoding")


class LimitedConfig(Config):
    """uvicorn's configuration, and our limits."""

    limits: Limits


class StrictProtocol(HttpToolsProtocol):
    """One connection. Against its parent it also

    - takes origin-form targets and HTTP/1.1 only (RFC 9112 sections 3.2 and 2.3), also for a WebSocket upgrade;
    - bounds the header in bytes and time before it is complete, and what is not body between a body's chunks;
    - refuses trailers, which the parent appends to the request's headers: a body with one never ends (RFC 9110 section 6.5.1);
    - does not run pipelined requests: it closes after the one under way (RFC 9112 section 9.3.2), so that one connection has
      one request, and a client that leaves is noticed;
    - never writes an error into an answer that is under way;
    - cuts off a client that reads nothing of its answer for too long;
    - reads on for a moment after an early refusal, for a reset would take the answer from its reader (RFC 9112 section 9.6).
    """

    write_s: ClassVar[float] = 60.0
    """How long a client may leave a full send buffer as it is before its connection is cut."""

    def __init__(self, config: LimitedConfig, **parent: Any) -> None:
        super().__init__(config, **parent)
        self.limits = config.limits
        self._problem: Problem | None = None
        self._deaf = False
        """Whatever still arrives is dropped."""
        self._in_head = True
        self._has_begun = False
        """Within a head: whether its first byte is there."""
        self._in_body = False
        self._head_headers: Headers = ()
        self._loose_bytes = 0
        """Received since the head began, or within a body since its last byte."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._idle_until: float | None = None
        """When a connection without a request is closed, in event-loop time; None while it has one."""
        self._upgrades = False
        """Whether the request is an upgrade that a WebSocket library takes over."""
        self._closing: asyncio.Transport = self.transport
        """What an answer is written with."""
        self._client: Client | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._closing = cast(asyncio.Transport, ClosingTransport(transport, self._close))
        self._head_timer = self.loop.call_later(self.limits.head_s, self._head_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        for timer in (self._head_timer, self._linger_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self._closing.close = self.transport.close  # type: ignore[method-assign] # nothing refers back to this
        if self._client is not None:
            self._client.leave()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._idle_until = None
        self._loose_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._upgrade()
            return
        except httptools.HttpParserError:
            if not self._deaf:
                self._refuse(self._problem or Problem(Reason.BAD_FRAMING, detail="it could not be parsed"))
            return
        if self._in_head:
            if self._loose_bytes > self.limits.head_bytes:
                self._refuse(self._head_too_large())
            elif self._head_timer is None and self._open_cycle() is None:
                self._head_timer = self.loop.call_later(self.limits.head_s, self._head_late)
        elif self._in_body and self._loose_bytes > self.limits.head_bytes:
            self._refuse(Problem(Reason.BAD_FRAMING, detail="chunk extensions or trailers are too large"))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # What the parser tells. An exception here comes out of `feed_data` as HttpParserCallbackError.

    # They do all that the parent's do, in one pass: a scope made once, no second parse of the target, no second look at the
    # upgrade. With the parent's own a request took 22 us of CPU up to the app and back, with these 17.

    def on_message_begin(self) -> None:
        if (cycle := self._open_cycle()) is not None:
            self._deaf = True
            cycle.keep_alive = False
            raise ValueError("a pipelined request")
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._has_begun = True

    def on_headers_complete(self) -> None:
        self._in_head = self._has_begun = False
        self._loose_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        # What is appended from here on are trailers.
        self._head_headers = headers = tuple(self.headers)
        parser, url = self.parser, self.url
        version = parser.get_http_version()
        if version != "1.1":
            raise self._stop(Problem(Reason.BAD_FRAMING, detail="the version is not HTTP/1.1"))
        if len(url) > self.limits.head_bytes:
            raise self._stop(self._head_too_large())
        if not url.startswith(b"/") or b"#" in url:
            raise self._stop(Problem(Reason.BAD_TARGET, detail="it must be a path and a query"))
        path, _, query = url.partition(b"?")
        # The path in characters is the guard's to make, from bytes that it has looked at.
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "scheme": self.scheme,
            "path": path.decode("latin-1"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "server": self.server,
            "client": self.client,
            "state": self.app_state.copy(),
        }
        self.scope = cast(Any, scope)
        self._upgrades = False
        if parser.should_upgrade():
            self._upgrades = self._should_upgrade()
            try:
                self._check_upgrade(path, query, headers, version)
            except Problem as problem:
                raise self._stop(problem) from None
            if self._upgrades:
                return
        self._in_body = True
        self.cycle = cycle = Cycle(self, scope)
        scope[CLIENT] = self._client = Client(cycle)
        self._start_asgi_task(cycle, self.app)

    def on_body(self, body: bytes) -> None:
        self._loose_bytes = 0
        cycle = self.cycle
        if self._upgrades or cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if len(self.headers) != len(self._head_headers):
            raise self._stop(Problem(Reason.BAD_FRAMING, detail="trailers are not taken"))
        cycle = self.cycle
        if not self._upgrades and not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()
        self._in_body = False
        # Until the next header is complete, its bytes are counted from here.
        self._in_head = True
        self._loose_bytes = 0

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        # One timer a connection, which looks again where the connection has been busy, instead of two calls a request.
        self._idle_until = self.loop.time() + self.timeout_keep_alive
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_at(self._idle_until, self.timeout_keep_alive_handler)
        if self._in_body:
            # Answered before the body's end: nobody reads the rest, so nobody would notice how slowly it comes.
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_until is None:
            return
        if self.loop.time() < self._idle_until:
            self.timeout_keep_alive_task = self.loop.call_at(self._idle_until, self.timeout_keep_alive_handler)
        elif not self.transport.is_closing():
            self.transport.close()

    # Refusal and close.

    def _open_cycle(self) -> RequestResponseCycle | None:
        """The request that is not answered yet."""
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    def _check_upgrade(self, path: bytes, query: bytes, headers: Headers, version: str) -> None:
        """The guard's rules ahead of the guard: the WebSocket library parses the header again, and may read it another way."""
        check_target(path, query)
        by_name = check_headers(headers, version, self.limits)
        if self._upgrades and not by_name.keys().isdisjoint(_BODY_HEADERS):
            raise Problem(Reason.BAD_FRAMING, detail="an upgrade to WebSocket has no body")

    def _upgrade(self) -> None:
        if self._should_upgrade():
            self.handle_websocket_upgrade()
            return
        # RFC 9110 section 7.8: an upgrade that we don't know is ignored. The parser has stopped, so the connection ends.
        self._deaf = True
        self.cycle.keep_alive = False

    def _stop(self, problem: Problem) -> ValueError:
        self._problem = problem
        return ValueError(problem.reason)

    def _head_too_large(self) -> Problem:
        return Problem(Reason.HEADERS_TOO_LARGE, detail=f"{self.limits.head_bytes} bytes")

    def _head_late(self) -> None:
        self._head_timer = None
        if self._deaf or self.transport.is_closing():
            return
        if self._has_begun:
            self._refuse(Problem(Reason.REQUEST_TIMEOUT))
        elif self._open_cycle() is None:
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Answer and close. The request that was being read is over: its app reads `http.disconnect`, never an end of body."""
        self._deaf = True
        if (cycle := self._open_cycle()) is not None:
            if not self._in_body:
                # The request under way came whole; only what follows it is refused.
                cycle.keep_alive = False
                return
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        status, headers, body = render(problem, new_request_id())
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()]
        lines += [b"%b: %b\r\n" % header for header in headers]
        self.transport.write(b"".join([*lines, b"\r\n", body]))
        self._in_body = True
        self._close()

    def _close(self) -> None:
        """Close; at once where the request was read to its end, else after what is still on its way."""
        if not self._in_body or self.transport.is_closing() or not self.transport.can_write_eof():
            self.transport.close()
        elif self._linger_timer is None:
            self._deaf = True
            self.transport.write_eof()
            self.flow.resume_reading()
            self._linger_timer = self.loop.call_later(self.limits.linger_s, self.transport.close)


class Cycle(RequestResponseCycle):
    """One request and its answer: uvicorn's cycle, begun from fewer parts, and the `Wire` that writes past its messages.

    The `Wire` keeps the state that the parent's `send` keeps (uvicorn is pinned), and writes less often. The headers are the
    gateway's own or of an allow-list with closed values, so they are not looked over again; a line break in one is refused
    all the same.
    """

    # What the parent sets on each of its instances.
    logger = logging.getLogger("uvicorn.error")
    access_logger = logging.getLogger("uvicorn.access")
    access_log = False
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0

    def __init__(self, protocol: StrictProtocol, scope: dict[str, Any]) -> None:
        self.scope = cast(Any, scope)
        self.transport = protocol._closing
        self.flow = protocol.flow
        self.keep_alive = protocol.parser.should_keep_alive()
        self.message_event = asyncio.Event()
        self.on_response = protocol.on_response_complete
        self.default_headers = protocol.server_state.default_headers
        self.waiting_for_100_continue = protocol.expect_100_continue
        self.body = bytearray()

    async def run_asgi(self, app: ASGI3Application) -> None:
        await super().run_asgi(app)
        # The one circle of references: without it a request's memory is free at its end, not when the collector runs.
        del self.scope[CLIENT]  # type: ignore[typeddict-item]

    def arrived(self) -> bytes | None:
        if self.more_body or self.disconnected or self.response_complete or self.waiting_for_100_continue:
            return None
        self.flow.resume_reading()
        self.message_event.clear()
        body, self.body = bytes(self.body), bytearray()
        return body

    def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes | None) -> Awaitable[None] | None:
        if self.disconnected or self.response_started:
            return None
        head = _status_line(status) + b"".join([b"%b: %b\r\n" % header for header in headers])
        lines = 1 + len(headers)
        if not head.count(b"\r\n") == head.count(b"\r") == head.count(b"\n") == lines:
            raise ValueError("a header holds a line break")
        self.response_started = True
        self.waiting_for_100_continue = False
        if b"connection: close\r\n" in head:
            self.keep_alive = False
        elif not self.keep_alive:
            head += b"connection: close\r\n"
        if body is None:
            self.transport.write(head + b"transfer-encoding: chunked\r\n\r\n")
            return None
        if self.scope["method"] == "HEAD":
            body = b""
        if len(body) > HIGH_WATER_LIMIT:
            self.transport.write(head + b"\r\n")
            return self._answer_slowly(body)
        self.transport.write(b"%b\r\n%b" % (head, body))
        self._complete()
        return None

    async def _answer_slowly(self, body: bytes) -> None:
        for at in range(0, len(body), HIGH_WATER_LIMIT):
            if self.flow.write_paused:
                await self.flow.drain()
            if self.disconnected or self.response_complete or self.transport.is_closing():
                self.cut()
                return
            self.transport.write(body[at : at + HIGH_WATER_LIMIT])
        self._complete()

    def piece(self, data: bytes) -> Awaitable[None] | None:
        if len(data) > HIGH_WATER_LIMIT:
            return self._give_slowly(data)
        if data and not self.disconnected:  # an empty chunk would be the last one
            self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return self.flow.drain() if self.flow.write_paused and not self.disconnected else None

    async def _give_slowly(self, data: bytes) -> None:
        for at in range(0, len(data), HIGH_WATER_LIMIT):
            if self.transport.is_closing():
                return
            if (slow := self.piece(data[at : at + HIGH_WATER_LIMIT])) is not None:
                await slow

    def is_ready(self) -> bool:
        return not (self.flow.write_paused or self.disconnected)

    def push(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        if not self.disconnected and not self.response_complete:
            self.transport.write(b"0\r\n\r\n")
            self._complete()

    def cut(self) -> None:
        if not self.disconnected and not self.response_complete:
            self.keep_alive = False
            self._complete()

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


@lru_cache(maxsize=64)
def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


class ClosingTransport:
    """The part of a transport that an answer is written with, whose `close` is the connection's own."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = close
