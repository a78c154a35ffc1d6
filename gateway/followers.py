"""A task for each receiver that tenants have entered: found when it is entered, ended when it is removed.

Every replica follows every receiver; who of them sends is agreed in the store. A tenant's server that does not answer, or a turn
that fails, holds up nobody else's.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Protocol

from gateway.names import TenantId
from gateway.stores.contract import Store, StoreError, TenantStatus
from gateway.tasks import Tasks

LOG = logging.getLogger(__name__)

Turn = Callable[[TenantId, str], Awaitable[bool]]
"""Does what there is to do for one receiver. Whether there may be more. Raises StoreError."""


class Registered(Protocol):
    async def tenants(self) -> frozenset[TenantId]:
        """Those that may have receivers."""

    async def forget(self, tenant: TenantId) -> None: ...

    async def names(self, tenant: TenantId) -> Collection[str]:
        """Of the tenant's receivers."""


class Followers:
    """`what` names the receivers in logs: `streams`."""

    def __init__(
        self, what: str, store: Store, registered: Registered, turn: Turn, *, poll_s: float, discover_s: float
    ) -> None:
        self._what = what
        self._store = store
        self._registered = registered
        self._turn = turn
        self._poll_s = poll_s
        self._discover_s = discover_s
        self._running: dict[tuple[TenantId, str], asyncio.Task[None]] = {}

    async def run_forever(self) -> None:
        """Ends when cancelled, and its tasks with it."""
        tasks = Tasks()
        try:
            while True:
                try:
                    await self._discover(tasks)
                except StoreError as error:
                    LOG.warning("receivers.not_looked_for", extra={"fields": {"of": self._what, "reason": str(error)}})
                await asyncio.sleep(self._discover_s)
        finally:
            await tasks.aclose()

    async def _discover(self, tasks: Tasks) -> None:
        found: set[tuple[TenantId, str]] = set()
        for tenant in await self._registered.tenants():
            try:
                names = await self._registered.names(tenant)
                found.update((tenant, name) for name in names)
                if not names and await self._is_erased(tenant):
                    await self._registered.forget(tenant)
            except StoreError as error:
                # Another tenant's server may well answer; what runs of this one goes on.
                found.update(running for running in self._running if running[0] == tenant)
                fields = {"of": self._what, "tenant": tenant, "reason": str(error)}
                LOG.warning("receivers.not_looked_for", extra={"fields": fields})
        for gone in self._running.keys() - found:
            self._running.pop(gone).cancel()
        for tenant, name in found - self._running.keys():
            self._running[tenant, name] = tasks.spawn(self._what, self._follow(tenant, name))

    async def _is_erased(self, tenant: TenantId) -> bool:
        """Final, so that none of its receivers is overlooked later."""
        state = await self._store.tenant_state(tenant)
        return state is None or state.status is TenantStatus.ERASED

    async def _follow(self, tenant: TenantId, name: str) -> None:
        while True:
            try:
                went_on = await self._turn(tenant, name)
            except StoreError as error:
                LOG.warning("receivers.store_failed", extra={"fields": {"receiver": name, "reason": str(error)}})
                went_on = False
            except Exception:  # a receiver's task must go on whatever one turn of it met
                LOG.exception("receivers.failed", extra={"fields": {"receiver": name}})
                went_on = False
            if not went_on:
                await asyncio.sleep(self._poll_s)


_MOST_DOUBLINGS: Final = 20


def pause_s(failures: int, first_s: float, longest_s: float) -> float:
    """Seconds until the next attempt after so many failures in a row: doubled each time, and half of it by chance, so that
    what failed together does not come together again."""
    longest = min(longest_s, first_s * float(2 ** min(failures - 1, _MOST_DOUBLINGS)))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load and keeps no secret
