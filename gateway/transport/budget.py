"""How many bytes of request bodies one process holds at once.

A body of up to `FREE_BYTES` is never refused: there can be no more of them than connections. What is larger shares one
budget, from its first byte beyond that until its request is answered, so that senders who stall cannot fill the memory.
"""

from __future__ import annotations

from typing import Final

from gateway.errors import Problem, Reason

FREE_BYTES: Final = 64 * 1024


class BodyBudget:
    """`total` bytes for all large bodies together."""

    def __init__(self, total: int) -> None:
        self._left = total

    @property
    def left(self) -> int:
        return self._left

    def lease(self) -> BodyLease:
        return BodyLease(self)

    def _take(self, size: int) -> None:
        if size > self._left:
            raise Problem(Reason.SERVER_BUSY, retry_after_s=1)
        self._left -= size

    def _give_back(self, size: int) -> None:
        self._left += size


class BodyLease:
    """One request's share. `give_back` may be called more than once."""

    __slots__ = ("_budget", "_held")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._held = 0

    def hold(self, size: int) -> None:
        """The body has `size` bytes by now. Raises Problem(SERVER_BUSY), and then holds what it held."""
        more = size - FREE_BYTES - self._held
        if more > 0:
            self._budget._take(more)
            self._held += more

    def give_back(self) -> None:
        self._budget._give_back(self._held)
        self._held = 0
