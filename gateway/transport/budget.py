"""How much one process holds at once, of which no tenant takes all: bytes of bodies, answers and frames, bytes that wait on
disk, open sockets, calls upstream.

A body or an answer of up to `FREE_BYTES` is never refused: there can be no more of them than connections. What is larger shares
one budget: a body from its first byte beyond that until its request is answered, an answer until its client has taken it. So
neither senders who stall nor readers who do can fill the memory.
"""

from __future__ import annotations

from typing import Final

from gateway.errors import Problem, Reason
from gateway.names import TenantId

FREE_BYTES: Final = 64 * 1024


class Budget:
    """`total` for all together, of which one tenant may hold `percent`. What is leased holds `free` for nothing. `waiting`: so
    much beyond `total` waits elsewhere for its turn."""

    def __init__(self, total: int, percent: int = 100, *, free: int = FREE_BYTES, waiting: int = 0) -> None:
        self._left = total + waiting
        self._share = total * percent // 100
        self._free = free
        self._by_tenant: dict[TenantId, int] = {}
        """What each holds that holds anything."""

    @property
    def left(self) -> int:
        return self._left

    def held_by(self, tenant: TenantId) -> int:
        return self._by_tenant.get(tenant, 0)

    def lease(self, tenant: TenantId | None = None) -> Lease:
        """None: nobody's, as what a service sends by itself."""
        return Lease(self, tenant)

    def _take(self, size: int, tenant: TenantId | None) -> None:
        if size > self._left:
            raise Problem(Reason.SERVER_BUSY, retry_after_s=1)
        if tenant is not None and self.held_by(tenant) + size > self._share:
            raise Problem(Reason.SHARE_EXHAUSTED, retry_after_s=1)
        self._move(size, tenant)

    def _move(self, size: int, tenant: TenantId | None) -> None:
        self._left -= size
        if tenant is not None:
            held = self.held_by(tenant) + size
            if held:
                self._by_tenant[tenant] = held
            else:
                self._by_tenant.pop(tenant, None)


class Lease:
    """One holder's part. `give_back` may be called more than once."""

    __slots__ = ("_budget", "_size", "tenant")

    def __init__(self, budget: Budget, tenant: TenantId | None) -> None:
        self._budget = budget
        self._size = 0
        self.tenant = tenant

    def hold(self, size: int) -> None:
        """It has grown to `size`. Raises Problem where its tenant (SHARE_EXHAUSTED) or the process (SERVER_BUSY) has no more,
        and then holds what it held."""
        if size <= self._size:
            return
        free = self._budget._free
        if size > free:
            self._budget._take(size - max(self._size, free), self.tenant)
        self._size = size

    def grow(self, more: int) -> None:
        """`hold`, of what it held and `more`."""
        self.hold(self._size + more)

    def shrink(self, size: int) -> None:
        """It is no larger than `size` by now."""
        if size >= self._size:
            return
        free = self._budget._free
        if self._size > free:
            self._budget._move(max(size, free) - self._size, self.tenant)
        self._size = size

    def shed(self, less: int) -> None:
        """`shrink`, to what it held without `less`."""
        self.shrink(self._size - less)

    def give_back(self) -> None:
        self.shrink(0)
