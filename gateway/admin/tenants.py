"""Tenants: create, list, suspend, and find by ID or name."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import AsyncIterator
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from gateway.admin.administration import AdminEvent, Administration, AdminRefused
from gateway.authn.claims import is_name
from gateway.ids.encoding import lp
from gateway.ids.keys import NONCE_BYTES, DeploymentKeys, derive
from gateway.names import Tenant, TenantId
from gateway.stores.contract import TenantStatus

_TENANT_ID: Final = re.compile(r"[a-z2-7]{16}")
_BLOCK: Final = 64
# Names are padded with spaces to whole blocks, so that an entry's length says little.


async def create_tenant(admin: Administration, name: str) -> TenantId:
    """Makes an active tenant with keys of its own. Raises AdminRefused for a name that is taken or can't be one.

    The keys come first: a tenant that is in the directory always has keys. What breaks off before that leaves
    keys of nobody behind.
    """
    if not is_name(name) or _TENANT_ID.fullmatch(name):
        raise AdminRefused("a tenant's name is 1 to 256 printable characters, and does not look like a tenant ID")
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
        yield Tenant(tenant, _open_name(keys, tenant, record) or "?", active)


async def suspend_tenant(admin: Administration, name_or_id: str) -> TenantId:
    """From its return on every call of the tenant is refused, on every replica. Raises AdminRefused."""
    tenant = await find_tenant(admin, name_or_id)
    async with admin.recorded(tenant, AdminEvent.TENANT_SUSPEND):
        if not await admin.store.set_tenant_status(tenant, TenantStatus.SUSPENDED):
            raise AdminRefused("the tenant is erased, which is final")
    return tenant


async def find_tenant(admin: Administration, name_or_id: str) -> TenantId:
    """The tenant that an operator means. Raises AdminRefused where none or several have that name."""
    if _TENANT_ID.fullmatch(name_or_id):
        tenant = TenantId(name_or_id)
        if await admin.store.tenant_record(tenant) is None:
            raise AdminRefused(f"no tenant {name_or_id}")
        return tenant
    found = [tenant.id async for tenant in list_tenants(admin) if tenant.name == name_or_id]
    if len(found) != 1:
        raise AdminRefused(
            f"no tenant named {name_or_id!r}" if not found else f"several tenants have this name: {', '.join(found)}"
        )
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
