"""How a tenant's log is kept: days of retention, a legal hold, the tenant's own anchor, and the end of a halt."""

from __future__ import annotations

from gateway.admin.administration import AdminEvent, AdminInvalid, Administration, AdminMissing, AdminRefused
from gateway.audit.anchors.contract import AnchorFailed
from gateway.audit.resealing import Resealed, ResealRefused, reseal
from gateway.clock import now_us
from gateway.names import TenantId
from gateway.outgoing import Outgoing, OutgoingRefused
from gateway.stores.log import LogState, Rules


async def retain(admin: Administration, tenant: TenantId, days: int | None) -> None:
    """Events older than so many days are archived and leave the store; 0: they stay, None: as the settings say."""
    kept = -1 if days is None else days
    async with admin.recorded(tenant, AdminEvent.AUDIT_RETAIN, changes={"days": days}):
        await admin.store.log.set_rules(tenant, days=kept)


async def hold(admin: Administration, tenant: TenantId, on: bool) -> None:
    """From its return on nothing of the log leaves the store, and the tenant is not erased; or no longer so."""
    async with admin.recorded(tenant, AdminEvent.AUDIT_HOLD, changes={"on": on}):
        await admin.store.log.set_rules(tenant, hold=int(on))


async def set_anchor(admin: Administration, outgoing: Outgoing, tenant: TenantId, url: str) -> None:
    """Checkpoints are sent there from now on; empty: nowhere. Raises AdminInvalid for an address that `outgoing` does not call.

    The log says that it was set, and not to what: a URL may hold a secret.
    """
    if url:
        try:
            outgoing.check(url)
        except OutgoingRefused as refused:
            raise AdminInvalid(str(refused)) from None
    async with admin.recorded(tenant, AdminEvent.AUDIT_ANCHOR, changes={"webhook": bool(url)}):
        await admin.store.log.set_rules(tenant, webhook=url)


async def reseal_log(admin: Administration, tenant: TenantId) -> Resealed:
    """Accepts that events of a halted log are lost; the log itself is the record. Raises AdminRefused."""
    deployment, audit = (await admin.keyring.deployment()).keys.deployment, (await admin.unlock(tenant)).keys.audit
    try:
        return await reseal(admin.store, admin.anchors, tenant, deployment, audit, admin.caller.actor, now_us())
    except ResealRefused as refused:
        raise AdminRefused(str(refused)) from None
    except AnchorFailed as failed:
        raise AdminRefused(f"what was signed before cannot be read: {failed}") from None


async def standing(admin: Administration, tenant: TenantId) -> tuple[LogState, Rules]:
    """How far the log goes, is signed, anchored and trimmed, and how it is kept. Raises AdminRefused."""
    state = await admin.store.log.state(tenant)
    if state is None:
        raise AdminMissing("the tenant is unknown")
    return state, await admin.store.log.rules(tenant)
