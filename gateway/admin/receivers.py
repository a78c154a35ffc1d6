"""A tenant's receivers of either kind (streams of its log, webhooks): seen, tried and removed, on record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from gateway.admin.administration import AdminBusy, AdminEvent, Administration, AdminMissing, AdminRefused
from gateway.audit.receivers import Listed, ReceiverBusy, ReceiverMissing, ReceiverRefused, Receivers
from gateway.names import TenantId

StateT = TypeVar("StateT")

_NAME: Final = re.compile(r"(?:st|hook)_[0-9a-f]{16}|msg_[0-9a-f]{32}")
"""Of a stream, a webhook, a message."""


async def list_receivers(
    admin: Administration, receivers: Receivers[StateT], tenant: TenantId
) -> Sequence[Listed[StateT]]:
    """The oldest first. Raises AdminRefused, and what the store raises."""
    keys = (await admin.unlock(tenant)).keys.audit
    async with admin.recorded(tenant, AdminEvent(f"{receivers.noun}.list")):
        return await receivers.list(tenant, keys)


async def remove_receiver(admin: Administration, receivers: Receivers[StateT], tenant: TenantId, name: str) -> None:
    """Raises AdminMissing where the tenant has none of that name."""
    changes = {receivers.noun: shown(name)}
    async with admin.recorded(tenant, AdminEvent(f"{receivers.noun}.remove"), changes=changes):
        with refusals():
            await receivers.remove(tenant, name)


async def test_receiver(admin: Administration, receivers: Receivers[StateT], tenant: TenantId, name: str) -> int:
    """The receiver's status. Raises AdminMissing where there is none of that name, AdminBusy where it is tried too often,
    AdminRefused where it gives no answer."""
    keys = (await admin.unlock(tenant)).keys.audit
    changes = {receivers.noun: shown(name)}
    async with admin.recorded(tenant, AdminEvent(f"{receivers.noun}.test"), changes=changes) as recording:
        with refusals():
            status = await receivers.test(tenant, keys, name)
        recording.changes["status"] = status
    return status


def shown(name: str) -> str:
    """The name for the log: what nobody of ours wrote may be anything, a raw ID too, and does not stand in it."""
    return name if _NAME.fullmatch(name) else "?"


@contextmanager
def refusals() -> Iterator[None]:
    """What the receivers refuse, as a refusal of the operator's."""
    try:
        yield
    except ReceiverMissing as missing:
        raise AdminMissing(str(missing)) from None
    except ReceiverBusy as busy:
        raise AdminBusy(str(busy)) from None
    except ReceiverRefused as refused:
        raise AdminRefused(str(refused)) from None
