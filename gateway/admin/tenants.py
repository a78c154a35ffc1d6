"""Tenants: create, list, suspend, resume, give new keys, and find by ID or name."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from gateway.admin.administration import AdminEvent, AdminInvalid, Administration, AdminMissing, AdminRefused
from gateway.authn.claims import is_name
from gateway.ids.encoding import lp
from gateway.ids.keys import NONCE_BYTES, DeploymentKeys, Purpose, derive
from gateway.names import Tenant, TenantId, is_tenant_id
from gateway.stores.contract import TenantStatus

_BLOCK: Final = 64
# Names are padded with spaces to whole blocks, so that an entry's length says little.


async def create_tenant(admin: Administration, name: str) -> TenantId:
    """Makes an active tenant with keys of its own. Raises AdminRefused for a name that is taken or can't be one.

    The keys come first: a tenant that is in the directory always has keys. What breaks off before that leaves
    keys of nobody behind.
    """
    if not is_name(name) or is_tenant_id(name):
        raise AdminInvalid("a tenant's name is 1 to 256 printable characters, and does not look like a tenant ID")
    async for tenant in list_tenants(admin):
        if tenant.name == name:
            raise AdminRefused(f"there is a tenant named {name!r}: {tenant.id}")
    tenant_id = new_tenant_id()
    deployment = await admin.keyring.deployment()
    await admin.keyring.create_tenant(tenant_id)
    record = _seal_name(deployment.keys, tenant_id, name, os.urandom(NONCE_BYTES))
    if not await admin.store.create_tenant(tenant_id, record):
        raise AdminRefused("the new tenant's ID was used before; try again")
    try:
        await admin.record(tenant_id, AdminEvent.TENANT_CREATE)
    except BaseException:
        # Not on record, so not in use: an operator sees it in the list, suspended, and can only make another one.
        await admin.store.set_tenant_status(tenant_id, TenantStatus.SUSPENDED)
        raise
    return tenant_id


async def list_tenants(admin: Administration) -> AsyncIterator[Tenant]:
    """Every tenant that was ever created, in no order. An entry that does not open has the name `?`."""
    keys = (await admin.keyring.deployment()).keys
    async for tenant, record in admin.store.tenants():
        state = await admin.store.tenant_state(tenant)
        active = state is not None and state.status is TenantStatus.ACTIVE
        erased = state is not None and state.status is TenantStatus.ERASED
        yield Tenant(tenant, _open_name(keys, tenant, record) or "?", active, erased)


async def suspend_tenant(admin: Administration, tenant: TenantId) -> None:
    """From its return on every call of the tenant is refused, on every replica. Raises AdminRefused."""
    await _set_status(admin, tenant, AdminEvent.TENANT_SUSPEND, TenantStatus.SUSPENDED)


async def resume_tenant(admin: Administration, tenant: TenantId) -> None:
    """From its return on the tenant's calls are let through again. Raises AdminRefused."""
    await _set_status(admin, tenant, AdminEvent.TENANT_RESUME, TenantStatus.ACTIVE)


async def _set_status(admin: Administration, tenant: TenantId, what: AdminEvent, status: TenantStatus) -> None:
    async with admin.recorded(tenant, what):
        if not await admin.store.set_tenant_status(tenant, status):
            raise AdminRefused("the tenant is erased, which is final")


async def rotate_tenant(
    admin: Administration, tenant: TenantId, purposes: Sequence[Purpose], *, accept_loss: bool = False
) -> list[tuple[Purpose, int]]:
    """A new version of the tenant's key for each purpose, and its number. What older ones sealed still opens; but with a new
    identity key every ID that the tenant holds is dead, which takes `accept_loss`. Raises AdminRefused."""
    if Purpose.IDENTITY in purposes and not accept_loss:
        raise AdminInvalid(
            "every ID that the tenant holds would stop opening: accept the loss (accept_loss, --accept-loss)"
        )
    rotated: list[tuple[Purpose, int]] = []
    async with admin.recorded(tenant, AdminEvent.TENANT_ROTATE) as recording:
        for purpose in purposes:
            try:
                version = await admin.keyring.rotate(tenant, purpose)
            except ValueError as error:
                raise AdminRefused(str(error)) from None
            rotated.append((purpose, version))
            recording.changes[purpose.value] = version
    return rotated


async def find_tenant(admin: Administration, name_or_id: str) -> TenantId:
    """The tenant that an operator means. Raises AdminMissing where none, AdminRefused where several have that name."""
    if is_tenant_id(name_or_id):
        tenant = TenantId(name_or_id)
        if await admin.store.tenant_record(tenant) is None:
            raise AdminMissing(f"no tenant {name_or_id}; `tenant list` shows them all")
        return tenant
    found = [tenant.id async for tenant in list_tenants(admin) if tenant.name == name_or_id]
    if not found:
        raise AdminMissing(f"no tenant named {name_or_id!r}; `tenant list` shows them all")
    if len(found) > 1:
        raise AdminRefused(f"several tenants have this name, so give the ID: {', '.join(found)}")
    return found[0]


def new_tenant_id() -> TenantId:
    """16 base32 characters: 80 random bits."""
    return TenantId(base64.b32encode(os.urandom(10)).decode().lower())


def _seal_name(keys: DeploymentKeys, tenant: TenantId, name: str, nonce: bytes) -> bytes:
    """A directory entry: the name, readable with the deployment's keys and for this tenant only."""
    text = name.encode()
    return nonce + AESGCMSIV(_directory_key(keys)).encrypt(nonce, text + b" " * (-len(text) % _BLOCK), lp(tenant))


def _open_name(keys: DeploymentKeys, tenant: TenantId, record: bytes) -> str | None:
    try:
        text = AESGCMSIV(_directory_key(keys)).decrypt(record[:NONCE_BYTES], record[NONCE_BYTES:], lp(tenant))
        return text.decode().rstrip(" ")
    except (InvalidTag, ValueError):
        return None


def _directory_key(keys: DeploymentKeys) -> bytes:
    return derive(keys.pepper, "tenant directory")
