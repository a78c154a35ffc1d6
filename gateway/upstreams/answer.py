"""One upstream answer: its head, and its body as pieces in the order and moment in which they arrived."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, Self

from gateway.upstreams.failures import Reason, UpstreamBadAnswer, UpstreamError

Headers = tuple[tuple[bytes, bytes], ...]

_BEGUN_PIECES: Final = 4


class BodySource(Protocol):
    """What an answer needs of the connection that fills it."""

    def hold_back(self) -> None:
        """Stop reading from the network, and the clock of silence with it."""

    def go_on(self) -> None:
        """Read again."""

    def abort(self) -> None:
        """Close the connection at once. It is never used again."""


class BodySink(Protocol):
    """Takes a body straight from the transport's callback: the cheapest way for streams of small events.

    Neither method may raise or block. A sink that is full calls `answer.hold_back()`, and nothing comes until it calls
    `answer.go_on()`.
    """

    def body_piece(self, piece: bytes) -> None:
        """The next bytes of the body, as they came in."""

    def body_end(self, failure: UpstreamError | None) -> None:
        """Called once, last: None if the body is complete."""


class UpstreamAnswer:
    """Status, headers (names in lower case) and body of an answer whose head has arrived.

    Read the body once: by `async for`, by `read`, or by `push_to`. A piece is what one read of the network brought,
    without the transfer coding. Use it in `async with`: leaving early closes the connection, and a body that came to
    its end has given the connection back already. A failure is raised after the pieces before it.
    """

    __slots__ = (
        "_buffered",
        "_ended",
        "_failure",
        "_held",
        "_max_buffered",
        "_on_end",
        "_pieces",
        "_sink",
        "_source",
        "_waiter",
        "begun",
        "headers",
        "status",
    )

    def __init__(self, status: int, headers: Headers, source: BodySource, max_buffered_bytes: int) -> None:
        self.status = status
        self.headers = headers
        self._source = source
        self._max_buffered = max_buffered_bytes
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._held = False
        self._ended = False
        self._failure: UpstreamError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sink: BodySink | None = None
        self._on_end: Callable[[], None] | None = None
        self.begun = b""
        """Of a body that `read` gave up, how it began."""

    def header(self, name: bytes) -> bytes | None:
        """The first value of `name` (lower case), or None."""
        return next((value for known, value in self.headers if known == name), None)

    # --- the reader's side

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                raise StopAsyncIteration
            await self._wait()
        piece = self._pieces.popleft()
        self._buffered -= len(piece)
        if self._held and self._buffered * 2 <= self._max_buffered:
            self.go_on()
        return piece

    async def read(self, max_bytes: int, grow: Callable[[int], None] | None = None) -> bytes:
        """The whole rest of the body; if longer than `max_bytes`, UpstreamBadAnswer(TOO_LARGE) and the connection closed.
        `grow` hears of the bytes of each part as it comes; what it raises ends the body in the same way."""
        pieces: list[bytes] = []
        try:
            if (
                self._ended and self._failure is None and self._buffered <= max_bytes
            ):  # it is all here, as JSON mostly is
                pieces += self._pieces
                size, self._buffered = self._buffered, 0
                self._pieces.clear()
                if grow is not None:
                    grow(size)
            else:
                size = 0
                async for piece in self:
                    pieces.append(piece)
                    size += len(piece)
                    if size > max_bytes:
                        raise UpstreamBadAnswer(Reason.TOO_LARGE)
                    if grow is not None:
                        grow(len(piece))
        except BaseException:
            self.begun = b"".join(pieces[:_BEGUN_PIECES])
            self.abort()
            raise
        return b"".join(pieces)

    def push_to(self, sink: BodySink) -> None:
        """Hand what has arrived, and from now on every piece in the moment of its arrival, to `sink`."""
        self._sink = sink
        self.go_on()
        self._push()

    def hold_back(self) -> None:
        """Read no more from the upstream until `go_on`."""
        if not self._held:
            self._held = True
            if not self._ended:
                self._source.hold_back()

    def go_on(self) -> None:
        """Read on after `hold_back`."""
        if self._held:
            self._held = False
            self._push()
            if not self._held and not self._ended:
                self._source.go_on()

    def abort(self) -> None:
        """Drop the rest: closes the connection unless the body is complete. May be called at any time, repeatedly."""
        if not self._ended:
            self._source.abort()
            self._pieces.clear()
            self._held = False
            self.end(UpstreamBadAnswer(Reason.TRUNCATED))

    async def aclose(self) -> None:
        """The same as `abort`, for callers that close asynchronously."""
        self.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.abort()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._waiter = None

    def _push(self) -> None:
        """Give the sink what waits for it, the end last."""
        while (sink := self._sink) is not None and not self._held:
            if self._pieces:
                piece = self._pieces.popleft()
                self._buffered -= len(piece)
                sink.body_piece(piece)
            else:
                if self._ended:
                    self._sink = None
                    sink.body_end(self._failure)
                return

    def on_end(self, call: Callable[[], None]) -> None:
        """Have `call` called once when the body has ended in any way, at once if it has: the connection is free or gone then."""
        if self._ended:
            call()
        else:
            self._on_end = call

    # --- the connection's side

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the body from the connection."""
        if self._sink is not None and not self._held:
            self._sink.body_piece(piece)
            return
        self._pieces.append(piece)
        self._buffered += len(piece)
        if self._buffered > self._max_buffered:
            self.hold_back()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, failure: UpstreamError | None) -> None:
        """Take the end of the body from the connection, once."""
        self._ended = True
        self._failure = failure
        if self._on_end is not None:
            call, self._on_end = self._on_end, None
            call()
        if self._sink is not None:
            self._push()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
