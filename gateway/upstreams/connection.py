"""One HTTP/1.1 connection to an upstream (RFC 9112), driven by the transport's callbacks. One exchange at a time, no pipelining.

What an answer may look like is decided here, on top of llhttp in its strict mode: anything ambiguous ends the connection.
A connection that failed, was left early, or sent a byte that nobody asked for is never used again.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import AsyncIterator, Callable
from enum import IntEnum
from math import inf
from typing import NoReturn, cast

import httptools

from gateway.upstreams.answer import UpstreamAnswer
from gateway.upstreams.failures import Reason, UpstreamBadAnswer, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from gateway.upstreams.framing import Framing, framing_of
from gateway.upstreams.limits import Deadlines, UpstreamLimits

# Bodies up to this size leave in one write with the head; larger ones are not copied.
_JOIN_BYTES = 65_536


class Phase(IntEnum):
    """What a connection waits for; it decides which time-out runs."""

    IDLE = 0
    UPLOAD = 1
    HEAD = 2
    BODY = 3
    HELD = 4
    DEAD = 5


_TIMEOUT_REASON = {
    Phase.UPLOAD: Reason.IDLE_TIMEOUT,
    Phase.HEAD: Reason.HEADERS_TIMEOUT,
    Phase.BODY: Reason.IDLE_TIMEOUT,
}


class Connection(asyncio.Protocol):
    """A connection of a pool: calls `on_free` when it may serve the next exchange, and `on_dead` once when it never will."""

    __slots__ = (
        "_answer",
        "_answer_bytes",
        "_body_over",
        "_deadlines",
        "_drained",
        "_fault",
        "_head",
        "_head_only",
        "_headers",
        "_heard_at",
        "_limits",
        "_loop",
        "_on_dead",
        "_on_free",
        "_overhead",
        "_parser",
        "_parts",
        "_phase",
        "_poll",
        "_reusable",
        "_served",
        "_timer",
        "_timer_at",
        "_transport",
        "_until_close",
        "_uploading",
        "on_body",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: UpstreamLimits,
        on_free: Callable[[Connection], None],
        on_dead: Callable[[Connection], None],
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._on_free = on_free
        self._on_dead = on_dead
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._phase = Phase.IDLE
        self._heard_at = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._deadlines = Deadlines(inf, inf, inf)
        self._drained: asyncio.Future[None] | None = None
        self._uploading = False
        self._head: asyncio.Future[UpstreamAnswer] | None = None
        self._head_only = False
        self._answer: UpstreamAnswer | None = None
        self._answer_bytes = False
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._overhead = 0
        self._until_close = False
        self._body_over = False
        self._reusable = False
        self._served = False
        self._fault: Reason | None = None
        # The parser finds this as a bound C function: a stream's event costs no Python frame inside the parser.
        self.on_body = self._parts.append
        self._parser = httptools.HttpResponseParser(self)

    # --- the pool's side

    @property
    def reused(self) -> bool:
        """True once an exchange was completed on this connection."""
        return self._served

    def is_closed(self) -> bool:
        """True once this connection can serve nothing any more."""
        return self._phase is Phase.DEAD or self._transport is None or self._transport.is_closing()

    def is_stale(self) -> bool:
        """True if an idle connection must not be used: it is closed, or there is something to read, and nobody asked.

        The look at the socket closes the gap between the peer's close and the loop's notice of it, so that no POST is
        written into a connection which the kernel knows to be closed.
        """
        if self._phase is not Phase.IDLE or self.is_closed():
            return True
        return self._poll is not None and bool(self._poll.poll(0))

    def abort(self) -> None:
        """Close at once, without flushing; the pool's place is free when this returns."""
        if self._phase is Phase.DEAD:
            return
        self._phase = Phase.DEAD
        self._answer = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._on_dead(self)

    async def exchange(
        self, head: bytes, body: bytes | AsyncIterator[bytes] | None, deadlines: Deadlines, *, head_only: bool
    ) -> UpstreamAnswer:
        """Send a request, and wait for the head of its answer. `head` is the whole header block with its empty line.

        A body that is iterated is sent in chunks; an answer that comes before its end stops it. Raises UpstreamError,
        or what the body's iterator raised. Whatever is raised, and if cancelled, the connection is closed.
        """
        if self._transport is None or self._phase is not Phase.IDLE:
            raise UpstreamUnavailable(Reason.CONNECTION_LOST, written=False)
        self._deadlines = deadlines
        self._head_only = head_only
        self._answer = None
        self._answer_bytes = self._until_close = self._body_over = False
        self._overhead = 0
        waiting: asyncio.Future[UpstreamAnswer] = self._loop.create_future()
        self._head = waiting
        try:
            if body is None or isinstance(body, bytes):
                self._enter(Phase.HEAD)
                self._write_whole(self._transport, head, body)
                return await waiting
            self._enter(Phase.UPLOAD)
            self._transport.write(head)
            return await self._exchange_streamed(self._transport, body, waiting)
        except BaseException:
            # Cancelled after the answer was whole, the connection may be another call's by now: ask the answer, which knows.
            if self._head is waiting:
                self.abort()
            elif not waiting.cancelled() and waiting.exception() is None:
                waiting.result().abort()
            if waiting.done() and not waiting.cancelled():
                waiting.exception()  # of a body's source, perhaps, that nobody waits for any more
            raise

    @staticmethod
    def _write_whole(transport: asyncio.Transport, head: bytes, body: bytes | None) -> None:
        if not body:
            transport.write(head)
        elif len(body) <= _JOIN_BYTES:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)

    async def _exchange_streamed(
        self, transport: asyncio.Transport, body: AsyncIterator[bytes], waiting: asyncio.Future[UpstreamAnswer]
    ) -> UpstreamAnswer:
        self._uploading = True
        async with asyncio.TaskGroup() as group:
            upload = group.create_task(self._upload(transport, body, waiting))
            # Unlike awaiting it, this raises nothing of the future's inside the group, where it would be wrapped.
            await asyncio.wait([waiting])
            upload.cancel()
        return waiting.result()

    async def _upload(
        self, transport: asyncio.Transport, body: AsyncIterator[bytes], waiting: asyncio.Future[UpstreamAnswer]
    ) -> None:
        try:
            async for piece in body:
                if waiting.done():
                    return
                if piece:
                    self._enter(Phase.UPLOAD)
                    transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    if self._drained is not None:
                        await self._drained
                # The source has its own time-outs; only the total runs while it is awaited.
                self._stop_silence_clock()
            transport.write(b"0\r\n\r\n")
            self._uploading = False
            if self._phase is Phase.UPLOAD:
                self._enter(Phase.HEAD)
        except Exception as error:  # the body's source failed: its failure is the caller's
            if not waiting.done():
                waiting.set_exception(error)

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        handle = transport.get_extra_info("socket")
        if handle is not None:
            self._poll = select.poll()
            self._poll.register(handle.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        phase = self._phase
        if phase is Phase.DEAD:
            return
        if phase is Phase.IDLE:
            self.abort()  # bytes that nobody asked for: whose answer would they become?
            return
        self._answer_bytes = True
        if phase is Phase.BODY:
            self._heard_at = self._loop.time()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._reusable = False
            if not self._body_over:
                self._parts.clear()
                self.fail(UpstreamBadAnswer(self._fault or Reason.MALFORMED))
                return
        answer = self._answer
        parts = self._parts
        if self._head_only:
            parts.clear()
        if parts:
            self._overhead = 0
            piece = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            if answer is not None:
                answer.feed(piece)
        else:
            # Bytes that are no body: header blocks, chunk extensions, trailers. Nothing makes them endless.
            self._overhead += len(data)
            if self._overhead > self._limits.max_header_bytes and not self._body_over:
                self.fail(UpstreamBadAnswer(Reason.HEADERS_TOO_LARGE))
                return
        if answer is None or self._phase is Phase.DEAD:
            return
        if self._head is not None:
            head, self._head = self._head, None
            if head.done():  # the body's source failed, or the caller is being cancelled: nobody takes this answer
                self.abort()
                return
            head.set_result(answer)
            if not self._body_over and self._phase is not Phase.HELD:
                self._enter(Phase.BODY)
        if self._body_over:
            self._complete(answer)

    def eof_received(self) -> bool:
        answer = self._answer
        if self._until_close and answer is not None and self._phase in (Phase.BODY, Phase.HELD) and self._is_true_end():
            self._reusable = False
            self._complete(answer)
        return False  # anything else is what `connection_lost` makes of it

    def _is_true_end(self) -> bool:
        """False if TLS ends without the peer's closure alert: someone on the way may have cut the body (RFC 9112 §9.8).

        asyncio calls `eof_received` in both cases; the TLS object knows.
        """
        tls = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        if tls is None:
            return True
        try:
            return bool(tls.read(1) == b"")
        except ssl.SSLError:
            return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._phase is Phase.DEAD:
            return
        if self._phase is Phase.IDLE:
            self.abort()
        elif self._answer_bytes:
            self.fail(UpstreamBadAnswer(Reason.TRUNCATED))
        else:
            self.fail(UpstreamUnavailable(Reason.CONNECTION_LOST, written=True))

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._drained is not None:
            if not self._drained.done():
                self._drained.set_result(None)
            self._drained = None

    # --- the parser's side

    def on_message_begin(self) -> None:
        if self._body_over:
            self._reject(Reason.FRAMING)  # a second answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is None:  # else it is a trailer, which never becomes a header
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        headers = tuple(self._headers)
        self._headers.clear()
        if 100 <= status < 200 and status != 101:
            return
        framing = framing_of(self._parser.get_http_version(), status, headers, self._limits.max_header_bytes)
        if isinstance(framing, Reason):
            self._reject(framing)
        self._until_close = framing is Framing.UNTIL_CLOSE
        self._reusable = self._parser.should_keep_alive() and not self._head_only
        self._answer = UpstreamAnswer(status, headers, self, self._limits.max_buffered_bytes)
        # llhttp cannot be told that an answer to HEAD has no body: the connection ends with its header block.
        self._body_over = self._head_only

    def on_message_complete(self) -> None:
        if self._answer is not None:
            self._body_over = True

    def _reject(self, reason: Reason) -> NoReturn:
        """Stop the parser from inside one of its callbacks."""
        self._fault = reason
        raise UpstreamBadAnswer(reason)

    # --- the answer's side

    def hold_back(self) -> None:
        if self._phase in (Phase.HEAD, Phase.UPLOAD, Phase.BODY) and self._transport is not None:
            self._phase = Phase.HELD
            self._transport.pause_reading()

    def go_on(self) -> None:
        if self._phase is Phase.HELD and self._transport is not None:
            self._heard_at = self._loop.time()
            self._enter(Phase.BODY)
            self._transport.resume_reading()

    # --- ends

    def _complete(self, answer: UpstreamAnswer) -> None:
        """The answer is whole: free the connection for the next call, even if its reader has not seen all of it."""
        if self._phase is Phase.HELD and self._transport is not None:
            self._transport.resume_reading()
        self._answer = None
        if self._reusable and not self._uploading and self._transport is not None and not self._transport.is_closing():
            self._served = True
            self._enter(Phase.IDLE)
            answer.end(None)
            self._on_free(self)
        else:
            answer.end(None)
            self.abort()

    def fail(self, failure: UpstreamError) -> None:
        """Close at once, and raise `failure` where the exchange is awaited."""
        answer, head = self._answer, self._head
        self.abort()
        if head is not None and not head.done():
            head.set_exception(failure)
        elif answer is not None:
            answer.end(failure)

    # --- clocks: one timer a connection, moved only when a deadline comes nearer, so that a request or an event costs none

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._heard_at = self._loop.time()
        self._arm(self._due_at())

    def _stop_silence_clock(self) -> None:
        if self._phase is Phase.UPLOAD:
            self._heard_at = inf

    def _due_at(self) -> float:
        phase = self._phase
        if phase is Phase.IDLE:
            return self._heard_at + self._limits.idle_expiry_s
        if phase is Phase.HEAD:
            return min(self._heard_at + self._deadlines.headers_timeout_s, self._deadlines.ends_at)
        if phase is Phase.HELD:
            return self._deadlines.ends_at
        return min(self._heard_at + self._deadlines.idle_timeout_s, self._deadlines.ends_at)

    def _arm(self, due: float) -> None:
        if due < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = due
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = inf
        if self._phase is Phase.DEAD:
            return
        now = self._loop.time()
        due = self._due_at()
        if now < due:
            self._arm(due)
        elif self._phase is Phase.IDLE:
            self.abort()
        else:
            over = now >= self._deadlines.ends_at
            self.fail(UpstreamTimeout(Reason.TOTAL_TIMEOUT if over else _TIMEOUT_REASON[self._phase], written=True))
