"""The other end of one request: how its answer is written, and how its leaving is heard of.

An ASGI server hands a body over in messages that are waited for, takes an answer as messages, looks each header over, and may
be asked to wait for every piece. What has come already is simply taken here; and what the gateway answers it has made itself, so
a whole answer is one write, and a stream's piece is one call. Not a task waits for the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

CLIENT: Final = "gateway.client"
"""The scope's key for the request's `Client`."""


class Wire(Protocol):
    """What the server's connection lends for one request and its answer."""

    def arrived(self) -> bytes | None:
        """The request's body where all of it is there already, which `receive` then gives no more; None: ask `receive`."""

    def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes | None) -> Awaitable[None] | None:
        """Head and body; None for the body: pieces follow, and `end`. What is returned is awaited: a large body leaves as the
        client takes it. ValueError for a line break in a header."""

    def piece(self, data: bytes) -> Awaitable[None] | None:
        """Part of a body, not empty. What is returned is awaited before the next: the client is slow."""

    def is_ready(self) -> bool:
        """Whether a piece may leave without waiting: the client is here, and takes what it gets."""

    def push(self, data: bytes) -> None:
        """`piece`, after which nobody waits: only where the wire `is_ready`."""

    def end(self) -> None:
        """The body is complete."""

    def cut(self) -> None:
        """The body can't be completed: the connection ends, so that nobody takes it for whole."""


class Client:
    """One request's sender. Leaving is told once, to whoever asked last."""

    __slots__ = ("_call", "left", "wire")

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.left = False
        self._call: Callable[[], object] | None = None

    def on_leave(self, call: Callable[[], object] | None) -> None:
        """Have `call` called when the client leaves, at once if it has; None: nothing more is to be called."""
        self._call = call
        if self.left and call is not None:
            call()

    def leave(self) -> None:
        """The connection is gone."""
        self.left = True
        if self._call is not None:
            self._call()
