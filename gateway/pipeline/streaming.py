"""A streamed answer: events leave as they come, each only once what it shows is recorded.

The first event that carries a new root's ID waits until the mapping is durable; the terminal event waits until the
children's mappings and the outcome are. Back-pressure: what the client has not taken stops the upstream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final, Self

import orjson

from gateway.errors import Problem, error_fields
from gateway.pipeline.exchange import Outlet
from gateway.surfaces.spec import Spec, Typed
from gateway.upstreams import UpstreamAnswer

PING: Final = b": ping\n"
"""A comment without a blank line: a blank line would make the official SDK parse an empty event."""

MAX_WAITING_BYTES: Final = 256 * 1024


@dataclass(slots=True, eq=False)
class Begun:
    """A stream or a download whose first bytes are here. Closing it ends it also where nobody has read of it."""

    first: bytes
    rest: AsyncGenerator[bytes, None]

    def lend(self, outlet: Outlet) -> None:
        """Takes no shorter way: files come in large pieces, and gain nothing by one."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if first := self.first:
            self.first = b""
            return first
        return await anext(self.rest)

    async def aclose(self) -> None:
        await self.rest.aclose()


class Mailbox:
    """Takes the upstream's pieces straight from the transport, and hands them over together, one reader at a time.

    While the reader waits, `passes` may take a piece at once, without waking it; what it raises ends the stream.
    `pieces` gives what has arrived, an empty list when `ping_s` passed in silence, and None at the end.
    """

    __slots__ = (
        "_answer", "_ended", "_failure", "_held", "_loop", "_passes", "_pieces", "_ping_s", "_size", "_timer", "_waiter",
    )  # fmt: skip

    def __init__(self, answer: UpstreamAnswer, ping_s: float, passes: Callable[[bytes], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer = answer
        self._ping_s = ping_s
        self._passes = passes
        self._pieces: list[bytes] = []
        self._size = 0
        self._held = False
        self._ended = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        answer.push_to(self)

    def body_piece(self, piece: bytes) -> None:
        if self._waiter is not None and not self._waiter.done():
            try:
                if self._passes(piece):
                    return
            except Exception as error:  # the reader raises it
                self.fail(error)
                return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > MAX_WAITING_BYTES and not self._held:
            self._held = True
            self._answer.hold_back()
        self._wake()

    def body_end(self, failure: Exception | None) -> None:
        if not self._ended:
            self._ended, self._failure = True, failure
            self._wake()

    def fail(self, failure: Exception) -> None:
        """The reader raises `failure`, once it has what has come; the upstream is heard no more."""
        self.body_end(failure)
        self._answer.abort()

    async def pieces(self) -> list[bytes] | None:
        """Raises UpstreamError, or what `passes` raised, after the pieces before it."""
        if not self._pieces and not self._ended:
            self._waiter = self._loop.create_future()
            if self._timer is None:
                self._timer = self._loop.call_later(self._ping_s, self._silent)
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._pieces:
            pieces, self._pieces, self._size = self._pieces, [], 0
            if self._held:
                self._held = False
                self._answer.go_on()
            return pieces
        if not self._ended:
            return []
        if self._failure is not None:
            raise self._failure
        return None

    def close(self) -> None:
        """Drops the rest and the connection, unless the body is complete."""
        if self._timer is not None:
            self._timer.cancel()
        self._answer.abort()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _silent(self) -> None:
        self._timer = None
        self._wake()


def has_error_type(events: Spec | None) -> bool:
    """Whether a failure of such a stream is an event of type `error`."""
    return isinstance(events, Typed) and "error" in events.table


def error_event(problem: Problem, events: Spec | None) -> bytes:
    """The last event of a stream that failed under way: of type `error` where the table has one (Responses API), else an
    error answer's body, which is what the official SDK looks for in all other streams."""
    message, kind, param, code = error_fields(problem)
    if not has_error_type(events):
        error = {"message": message, "type": kind, "param": param, "code": code}
        return b"data: " + orjson.dumps({"error": error}) + b"\n\n"
    content = {"type": "error", "sequence_number": 0, "code": code, "message": message, "param": param}
    return b"event: error\ndata: " + orjson.dumps(content) + b"\n\n"
