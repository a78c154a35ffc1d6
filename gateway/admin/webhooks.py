"""A tenant's webhooks, entered, given another secret, and their dead letters seen and sent again, on record."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.admin.administration import AdminEvent, Administration
from gateway.admin.receivers import refusals, shown
from gateway.audit.receivers import NewReceiver
from gateway.names import TenantId
from gateway.webhooks.registry import Dead, Webhooks


async def add_webhook(admin: Administration, webhooks: Webhooks, tenant: TenantId, url: str) -> NewReceiver:
    """Raises AdminRefused, and what the store raises."""
    keys = (await admin.unlock(tenant)).keys.audit
    async with admin.recorded(tenant, AdminEvent.WEBHOOK_ADD) as recording:
        with refusals():
            made = await webhooks.add(tenant, keys, url)
        recording.changes["webhook"] = made.id
    return made


async def rotate_webhook(admin: Administration, webhooks: Webhooks, tenant: TenantId, webhook: str) -> NewReceiver:
    """Another secret. Raises AdminMissing where there is no such webhook."""
    keys = (await admin.unlock(tenant)).keys.audit
    async with admin.recorded(tenant, AdminEvent.WEBHOOK_ROTATE, changes={"webhook": shown(webhook)}):
        with refusals():
            return await webhooks.rotate(tenant, keys, webhook)


async def dead_letters(admin: Administration, webhooks: Webhooks, tenant: TenantId, webhook: str) -> Sequence[Dead]:
    """The oldest first. Raises AdminMissing where there is no such webhook."""
    keys = (await admin.unlock(tenant)).keys.audit
    async with admin.recorded(tenant, AdminEvent.WEBHOOK_DEAD, changes={"webhook": shown(webhook)}):
        with refusals():
            return await webhooks.dead(tenant, keys, webhook)


async def replay_webhook(
    admin: Administration, webhooks: Webhooks, tenant: TenantId, webhook: str, message: str = ""
) -> int:
    """Has dead letters (all, or one) sent again; how many. Raises AdminRefused."""
    changes = {"webhook": shown(webhook), **({"message": shown(message)} if message else {})}
    async with admin.recorded(tenant, AdminEvent.WEBHOOK_REPLAY, changes=changes) as recording:
        with refusals():
            replayed = await webhooks.replay(tenant, webhook, message)
        recording.changes["replayed"] = replayed
    return replayed
