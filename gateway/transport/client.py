"""Who waits for an answer. The server tells when it has left, without a task that would watch for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

CLIENT: Final = "gateway.client"
"""The scope's key for the request's `Client`."""


class Client:
    """One request's sender. Leaving is told once, to whoever asked last."""

    __slots__ = ("_call", "left")

    def __init__(self) -> None:
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
