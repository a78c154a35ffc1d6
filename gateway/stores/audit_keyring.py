"""Audit keys alone, for a process that reviews logs: it opens them with the audit root key and never sees the root key.

Who runs it learns the deployment's name, every tenant's audit keys, and which tenants were erased. It can neither read a record
nor make or open an ID.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakValueDictionary

from gateway.ids.keys import (
    AuditDeploymentKeys,
    AuditKeys,
    Purpose,
    RootKey,
    Versions,
    deployment_key_context,
    tenant_key_context,
)
from gateway.names import TenantId
from gateway.stores.erasures import ErasureList
from gateway.stores.keyring import AUDITORS, MAX_AGE_S, KeysMissing
from gateway.stores.rewrapping import parse_key_name

MAX_TENANTS: Final = 1024


class WrappedKeys(Protocol):
    """What it needs of the `Store`."""

    async def wrapped_keys(self, tenant: TenantId) -> Mapping[str, bytes]: ...

    async def deployment_secret(self, name: str) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    keys: Versions[AuditKeys]


class AuditKeyring:
    """Opens audit keys and keeps them for at most a minute, so that an erased tenant's log closes everywhere."""

    def __init__(
        self,
        store: WrappedKeys,
        audit_root: RootKey,
        erasures: Path,
        *,
        max_age_s: float = MAX_AGE_S,
        clock: Callable[[], float] = time.monotonic,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._root = audit_root
        self._path = erasures
        self._max_age_s = max_age_s
        self._clock = clock
        self._now_s = now_s
        self._deployment: AuditDeploymentKeys | None = None
        self._tenants: dict[TenantId, _Kept] = {}
        self._loading: WeakValueDictionary[TenantId, asyncio.Lock] = WeakValueDictionary()

    async def deployment(self) -> AuditDeploymentKeys:
        """Raises KeysMissing (no gateway has started on this store yet), KeyRefused, and what the store raises."""
        if self._deployment is None:
            blob = await self._store.deployment_secret(AUDITORS)
            if blob is None:
                raise KeysMissing("the deployment has no audit keys yet: start its gateway once")
            secret = await asyncio.to_thread(self._root.unwrap, deployment_key_context(AUDITORS), blob)
            self._deployment = AuditDeploymentKeys.parse(secret)
        return self._deployment

    async def tenant(self, tenant: TenantId, *, having: int = 0) -> Versions[AuditKeys]:
        """The tenant's audit keys; read anew where those that are kept lack the version `having`, which another process, by
        another clock, may use already. Raises KeysMissing (never created, or erased), KeyRefused, ErasuresUnreadable, and
        what the store raises.
        """
        if kept := self._fresh(tenant, having):
            return kept
        async with self._loading.setdefault(tenant, asyncio.Lock()):
            return self._fresh(tenant, having) or await self._load(tenant)

    def _fresh(self, tenant: TenantId, having: int) -> Versions[AuditKeys] | None:
        kept = self._tenants.get(tenant)
        if kept is None or self._clock() >= kept.until or (having and having not in kept.keys.keys):
            return None
        return kept.keys

    async def _load(self, tenant: TenantId) -> Versions[AuditKeys]:
        until = self._clock() + self._max_age_s
        deployment = await self.deployment()
        blobs = await self._store.wrapped_keys(tenant)
        keys = await asyncio.to_thread(self._unlock, deployment, tenant, blobs)
        self._tenants.pop(tenant, None)
        if len(self._tenants) >= MAX_TENANTS:
            del self._tenants[next(iter(self._tenants))]
        self._tenants[tenant] = _Kept(until, keys)
        return keys

    def _unlock(
        self, deployment: AuditDeploymentKeys, tenant: TenantId, blobs: Mapping[str, bytes]
    ) -> Versions[AuditKeys]:
        if tenant in ErasureList(self._path, deployment.erasures).tenants():
            raise KeysMissing("the tenant was erased")
        secrets: dict[int, bytes] = {}
        for name, blob in blobs.items():
            purpose, version = parse_key_name(name)
            if purpose is Purpose.AUDIT:
                context = tenant_key_context(deployment.deployment, tenant, purpose, version)
                secrets[version] = self._root.unwrap(context, blob)
        if not secrets:
            raise KeysMissing("the tenant has no keys")
        return Versions.at(self._now_s(), secrets, AuditKeys.derive)
