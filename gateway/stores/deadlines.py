"""One time limit for many futures: all have the same, so they run out in the order in which they began to be watched."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

STALLED_S: Final = 0.05
"""A timer that comes later than this was held up by the event loop, not by who should have answered."""
_CLOCK_S: Final = 0.001
"""Timers count in steps of so much."""

_Watched = tuple[float, asyncio.Future[Any], Callable[[], Exception]]
"""When it is due (loop time), what fails then, and with what."""


class Deadlines:
    """Fails futures that are not done `limit_s` after `watch`. One timer serves them all, for one of its own costs each 1 µs
    and a collector's attention; `asyncio.timeout` costs 5."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._watched: deque[_Watched] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, future: asyncio.Future[Any], failure: Callable[[], Exception]) -> None:
        watched, loop = self._watched, future.get_loop()
        while watched and watched[0][1].done():
            watched.popleft()
        due = loop.time() + self._limit_s
        watched.append((due, future, failure))
        if self._timer is None:
            self._timer = loop.call_at(due, self._run_out, loop)

    def _run_out(self, loop: asyncio.AbstractEventLoop) -> None:
        watched, now = self._watched, loop.time() + _CLOCK_S
        held_up: list[_Watched] = []
        while watched and (watched[0][0] <= now or watched[0][1].done()):
            one = watched.popleft()
            if now - one[0] > STALLED_S:
                held_up.append(one)
            else:
                _fail(one)
        if held_up:
            # Where the loop itself stood still, the answer may lie unread: it gets one more turn to arrive.
            loop.call_later(STALLED_S, _fail, *held_up)
        self._timer = loop.call_at(watched[0][0], self._run_out, loop) if watched else None


def _fail(*overdue: _Watched) -> None:
    for _, future, failure in overdue:
        if not future.done():
            future.set_exception(failure())
