"""Wrapped keys as the store has them, and their way to another root key: the same keys, wrapped anew.

Each is replaced only while it is what was read: several may do it at once, and none comes back that was deleted meanwhile.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.ids.keys import (
    MAX_VERSION,
    NONCE_BYTES,
    KeyRefused,
    Purpose,
    RootKey,
    deployment_key_context,
    tenant_key_context,
)
from gateway.names import TenantId


class KeyStore(Protocol):
    """What the keyring needs of the `Store`: wrapped keys by name, which are put if absent, and replaced by
    nothing but the same key under another root key."""

    async def wrapped_keys(self, tenant: TenantId) -> Mapping[str, bytes]: ...

    async def put_wrapped_key(self, tenant: TenantId, name: str, blob: bytes) -> bytes: ...

    async def replace_wrapped_key(self, tenant: TenantId, name: str, held: bytes, blob: bytes) -> bool: ...

    async def delete_wrapped_keys(self, tenant: TenantId) -> None: ...

    async def deployment_secret(self, name: str) -> bytes | None: ...

    async def put_deployment_secret(self, name: str, blob: bytes) -> bytes: ...

    async def replace_deployment_secret(self, name: str, held: bytes, blob: bytes) -> bool: ...


@dataclass(frozen=True, slots=True)
class Rewrapping:
    store: KeyStore
    roots: Mapping[Purpose, RootKey]
    deployment: str
    own: Mapping[str, Purpose]
    """The deployment's secrets by name, the retired ones included, with whose root key wraps each."""

    async def has_former(self, tenant: TenantId) -> bool:
        """Whether a former root key wraps one of the tenant's keys. Raises KeyRefused where one opens by none of them."""
        return bool(await self._former(tenant))

    async def tenant(self, tenant: TenantId) -> int:
        """Wraps the tenant's keys anew; how many had to be. Raises KeyRefused as `has_former` does."""
        former = await self._former(tenant)
        return sum([await self.store.replace_wrapped_key(tenant, *one) for one in former])

    async def of_deployment(self) -> int:
        """The same for the deployment's own."""
        changed = 0
        for name, purpose in self.own.items():
            blob = await self.store.deployment_secret(name)
            if blob is not None:
                renewed = await self._renewed(purpose, deployment_key_context(name), blob)
                changed += renewed is not None and await self.store.replace_deployment_secret(name, blob, renewed)
        return changed

    async def _former(self, tenant: TenantId) -> list[tuple[str, bytes, bytes]]:
        """Name, blob and renewed blob of each key that is not under the newest root key."""
        found = []
        for name, blob in (await self.store.wrapped_keys(tenant)).items():
            purpose, version = parse_key_name(name)
            context = tenant_key_context(self.deployment, tenant, purpose, version)
            renewed = await self._renewed(purpose, context, blob)
            if renewed is not None:
                found.append((name, blob, renewed))
        return found

    async def _renewed(self, purpose: Purpose, context: bytes, blob: bytes) -> bytes | None:
        return await asyncio.to_thread(self.roots[purpose].renewed, context, blob, os.urandom(NONCE_BYTES))


def parse_key_name(name: str) -> tuple[Purpose, int]:
    """Purpose and version of a tenant's wrapped key's name. Raises KeyRefused for a name that `Keyring` does not write."""
    text, _, number = name.partition(".")
    try:
        purpose, version = Purpose(text), int(number)
    except ValueError as error:
        raise KeyRefused("a wrapped key has an unknown name") from error
    if name != f"{purpose.value}.{version}" or not 1 <= version <= MAX_VERSION:
        raise KeyRefused("a wrapped key has an unknown name")
    return purpose, version
