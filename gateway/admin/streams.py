"""A stream of a tenant's log, begun on record."""

from __future__ import annotations

from gateway.admin.administration import AdminEvent, Administration
from gateway.admin.receivers import refusals
from gateway.audit.receivers import NewReceiver
from gateway.audit.streams.batch import Format
from gateway.audit.streams.registry import Streams
from gateway.names import TenantId


async def add_stream(
    admin: Administration, streams: Streams, tenant: TenantId, url: str, format_: Format, *, from_start: bool
) -> NewReceiver:
    """Raises AdminRefused, and what the store raises."""
    keys = (await admin.unlock(tenant)).keys.audit
    async with admin.recorded(tenant, AdminEvent.STREAM_ADD, changes={"format": format_.value}) as recording:
        with refusals():
            made = await streams.add(tenant, keys, url, format_, from_start=from_start)
        recording.changes["stream"] = made.id
    return made
