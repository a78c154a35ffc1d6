"""What concerns the whole deployment: another root key, the retirement of every opaque ID, and the log of what is no tenant's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from gateway.admin.administration import AdminEvent, AdminInvalid, Administration, AdminRefused, AdminUnavailable
from gateway.admin.tenants import list_tenants
from gateway.ids.keys import KeyRefused
from gateway.names import TenantId
from gateway.stores.rewrapping import Rewrapping

_PAGE: Final = 1000
REWRAPPED: Final = "deployment_rewrapped"
"""What the operator's log counts: the deployment's keys belong to no tenant."""


@dataclass(frozen=True, slots=True)
class Rewrapped:
    tenants: int
    """Those that have keys, and all of them under the newest root keys."""
    keys: int
    """How many were wrapped anew by this run."""
    left: dict[TenantId, str]
    """Whose keys are not all done, and why."""


async def rewrap(admin: Administration, progress: Callable[[int, int], None] = lambda done, of: None) -> Rewrapped:
    """Has the newest root keys wrap all that former ones have wrapped. No key, ID, record or log changes.

    What is done stays done, so a run that broke off is given again; one that finds nothing to do says that the former keys are
    needed no more. A tenant whose log takes no event is left as it is. Raises KeyRefused where the deployment's own keys
    open by none of the root keys, and what the store raises.
    """
    rewrapping = await admin.keyring.rewrapping()
    keys = await rewrapping.of_deployment()
    if keys:
        admin.log.count_stranger(REWRAPPED, "")
    tenants = [tenant.id async for tenant in list_tenants(admin) if not tenant.erased]
    left: dict[TenantId, str] = {}
    for number, tenant in enumerate(dict.fromkeys(tenants), 1):
        try:
            keys += await _rewrap(admin, rewrapping, tenant)
        except AdminRefused as refused:
            left[tenant] = str(refused)
        except KeyRefused:
            left[tenant] = "one of its keys opens by none of the root keys"
        progress(number, len(tenants))
    return Rewrapped(len(set(tenants)) - len(left), keys, left)


async def _rewrap(admin: Administration, rewrapping: Rewrapping, tenant: TenantId) -> int:
    if not await rewrapping.has_former(tenant):
        return 0
    async with admin.recorded(tenant, AdminEvent.TENANT_REWRAP) as recording:
        recording.changes["keys"] = keys = await rewrapping.tenant(tenant)
    return keys


@dataclass(frozen=True, slots=True)
class Retired:
    version: int
    """Of the new tag key, 2 to 15."""
    unrecorded: tuple[TenantId, ...]
    """Whose log is halted, and does not tell of it."""


async def retire_tag(admin: Administration, *, accept_loss: bool = False) -> Retired:
    """An emergency: a new tag key, with which every opaque ID of every tenant is dead within a minute.

    Each tenant's log tells of it, by an intent before it is done; halted ones alone are left out, for their calls are refused
    anyway. Raises AdminRefused.
    """
    if not accept_loss:
        raise AdminInvalid("every ID of every tenant would stop opening: accept the loss (--accept-loss)")
    halted = []
    async with AsyncExitStack() as stack:
        for tenant in {tenant.id: tenant async for tenant in list_tenants(admin)}.values():
            if tenant.erased:
                continue
            state = await admin.store.tenant_state(tenant.id)
            if state is not None and state.halted:
                halted.append(tenant.id)
                continue
            try:
                await stack.enter_async_context(admin.recorded(tenant.id, AdminEvent.TAG_RETIRE))
            except AdminUnavailable as error:
                raise AdminUnavailable(f"tenant {tenant.id}: {error}") from None
        try:
            version = await admin.keyring.retire_tag()
        except ValueError as error:
            raise AdminRefused(str(error)) from None
    return Retired(version, tuple(halted))


async def operator_log(admin: Administration) -> AsyncIterator[bytes]:
    """What belongs to no tenant, oldest first: sums as `audit/strangers.py` writes them. Raises what the store raises."""
    after = "0"
    while rows := await admin.store.read_operator_events(after, _PAGE):
        for _, body in rows:
            yield body
        after = rows[-1][0]
