"""Turns of one event loop: what comes over its sockets is parsed a little at a time, and everybody else gets the loop between.

A frame costs its sender six bytes, and a process as much as some hundred bytes of a longer one. So a turn is measured in both,
and all sockets share it: whoever opens more of them gets no more of it than another party.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from contextvars import Context
from typing import Final, Protocol
from weakref import WeakKeyDictionary

TURN_BYTES: Final = 16 * 1024
"""Parsed in one turn of the loop, by all together."""
FRAME_BYTES: Final = 1024
"""What a frame costs beside its bytes."""


class Taker(Protocol):
    """Who has received what is not parsed yet."""

    @property
    def party(self) -> Hashable:
        """For whom it came: parties take turns, and so do the takers of each."""

    def take_turn(self, allowance: int) -> int:
        """Parses for about `allowance` bytes, at least one frame where one is complete; gives what it cost. May ask again."""


class Turns:
    """One for each loop (`turns_of`)."""

    def __init__(self) -> None:
        self._left = TURN_BYTES
        self._waiting: dict[Hashable, deque[Taker]] = {}
        """By party, in the order of their turns."""
        self._serves = False
        self._ends = False
        """Whether the end of this turn is known to the loop."""
        self._context = Context()

    def ask(self, taker: Taker) -> None:
        """A turn for `taker`, which may be now."""
        self._waiting.setdefault(taker.party, deque()).append(taker)
        if not self._serves:
            self._serve()

    def _serve(self) -> None:
        self._serves = True
        try:
            while self._waiting and self._left > 0:
                party = next(iter(self._waiting))
                takers = self._waiting.pop(party)
                taker = takers.popleft()
                if takers:
                    self._waiting[party] = takers
                self._left -= taker.take_turn(self._left)
        finally:
            self._serves = False
            if not self._ends and (self._waiting or self._left < TURN_BYTES):
                self._ends = True
                asyncio.get_running_loop().call_soon(self._begin, context=self._context)

    def _begin(self) -> None:
        self._ends, self._left = False, TURN_BYTES
        self._serve()


_OF: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]] = WeakKeyDictionary()


def turns_of(loop: asyncio.AbstractEventLoop) -> Turns:
    turns = _OF.get(loop)
    if turns is None:
        turns = _OF[loop] = Turns()
    return turns
