"""Wrapped keys in the store, unwrapped for less than a minute.

Who reads the store learns which tenants have keys and how often each was rotated. Who writes it can delete keys (the
tenant then reads as one without keys) or take the newest version away; it cannot read a key, or put one in another place.

Creating and loading are different calls: a tenant whose keys are gone never gets new ones by being asked for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from gateway.ids.form import DeploymentForm, TenantForm
from gateway.ids.keys import (
    DEPLOYMENT_NAME_BYTES,
    KEY_BYTES,
    MAX_EPOCH,
    MAX_VERSION,
    NONCE_BYTES,
    AuditDeploymentKeys,
    AuditKeys,
    DeploymentKeys,
    IdentityKeys,
    Purpose,
    RootKey,
    StorageKeys,
    TenantKeys,
    Versions,
    dated,
    deployment_key_context,
    tenant_key_context,
)
from gateway.names import TenantId
from gateway.stores.erasures import ErasureList
from gateway.stores.rewrapping import KeyStore, Rewrapping, parse_key_name

MAX_AGE_S: Final = 60
"""After which no process knows older keys, nor does what it has open."""
KEPT_S: Final = 40
"""In a gateway, whose open sockets look every 20 s."""
USED_AFTER_S: Final = 2 * MAX_AGE_S
"""A minute until every process has read a new key, and one for clocks that differ."""
_MASTER: Final = "master"
_TAG: Final = "tag."
AUDITORS: Final = "audit"
"""Name of the deployment's secret that the audit root key opens."""

K = TypeVar("K")


class KeysMissing(Exception):
    """There are no keys: the deployment or the tenant was never created, or the tenant is erased."""


@dataclass(frozen=True, slots=True)
class Deployment:
    keys: DeploymentKeys
    form: DeploymentForm
    erasures: ErasureList


@dataclass(frozen=True, slots=True)
class Unlocked:
    """One tenant's keys, and its IDs' form under them."""

    keys: TenantKeys
    form: TenantForm


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    value: Unlocked


class Keyring:
    """`root` opens everything but audit keys, `audit_root` those. `max_tenants` bounds the cache, not the tenants."""

    def __init__(
        self,
        store: KeyStore,
        root: RootKey,
        audit_root: RootKey,
        erasures: Path,
        *,
        max_age_s: float = KEPT_S,
        max_tenants: int = 4096,
        clock: Callable[[], float] = time.monotonic,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        if not 0 <= max_age_s <= MAX_AGE_S:
            raise ValueError(f"keys are kept for at most {MAX_AGE_S} s")
        self._store = store
        self._roots = {Purpose.IDENTITY: root, Purpose.STORAGE: root, Purpose.AUDIT: audit_root}
        self._root = root
        self._path = erasures
        self._max_age_s = max_age_s
        self._max_tenants = max_tenants
        self._clock = clock
        self._now_s = now_s
        self._deployment: tuple[float, Deployment] | None = None
        self._tenants: OrderedDict[TenantId, _Kept] = OrderedDict()
        self._loading: WeakValueDictionary[TenantId | None, asyncio.Lock] = WeakValueDictionary()

    async def create_deployment(self, *, new_list: bool = False) -> Deployment:
        """At start: the deployment's keys, made where absent. Whoever of several replicas is first decides them.

        A new deployment begins with an empty erasure list. Where the deployment exists and the list does not (another
        machine, a restored backup) only `new_list` makes one: it says that no tenant was erased, or that the loss is known.

        Raises KeyRefused where the root key is another one, ErasuresUnreadable where the deployment has an erasure list
        and it is not here, and what the store raises.
        """
        if await self._store.deployment_secret(_TAG + "1") is None:
            # The tag key comes last and marks the deployment as complete: a start that broke off begins again here.
            secret = await self._put_deployment_key(_MASTER, os.urandom(DEPLOYMENT_NAME_BYTES + KEY_BYTES))
            erasures = DeploymentKeys.derive(secret, os.urandom(KEY_BYTES), 1).erasures
            await asyncio.to_thread(ErasureList(self._path, erasures).create)
            await self._put_deployment_key(_TAG + "1", os.urandom(KEY_BYTES))
        deployment = await self.deployment()
        await self._share_with_auditors(deployment.keys)
        if new_list:
            await asyncio.to_thread(deployment.erasures.create)
        await asyncio.to_thread(deployment.erasures.tenants)
        return deployment

    def at_hand(self, tenant: TenantId) -> tuple[Deployment, Unlocked] | None:
        """What `deployment` and `tenant` give, where neither has to wait; else None."""
        if (deployment := self._fresh_deployment()) and (unlocked := self._fresh(tenant)):
            return deployment, unlocked
        return None

    async def deployment(self) -> Deployment:
        """The deployment's keys, at most `max_age_s` old. Raises KeysMissing, KeyRefused, and what the store raises."""
        if kept := self._fresh_deployment():
            return kept
        async with self._loading.setdefault(None, asyncio.Lock()):
            return self._fresh_deployment() or await self._load_deployment()

    async def create_tenant(self, tenant: TenantId) -> None:
        """Gives the tenant its keys, where it has none. Raises KeysMissing if it was erased: an ID is never used again."""
        deployment = await self.deployment()
        if tenant in await asyncio.to_thread(deployment.erasures.tenants):
            raise KeysMissing("the tenant was erased")
        for purpose in Purpose:
            await self._put_tenant_key(deployment, tenant, purpose, 1)

    async def tenant(self, tenant: TenantId) -> Unlocked:
        """The tenant's keys, at most `max_age_s` old.

        Raises KeysMissing (never created, or erased), KeyRefused (another root key, or a key that was not wrapped for
        this tenant), ErasuresUnreadable, and what the store raises.
        """
        deployment = await self.deployment()
        if kept := self._fresh(tenant):
            return kept
        async with self._loading.setdefault(tenant, asyncio.Lock()):
            return self._fresh(tenant) or await self._load(deployment, tenant)

    async def rotate(self, tenant: TenantId, purpose: Purpose) -> int:
        """Adds a version and returns its number. ValueError when none is left.

        Storage and audit rotate freely: the version is used after `USED_AFTER_S`, when every replica can open what others have
        sealed with it. Identity only in an emergency: every ID that the tenant holds stops opening, within `max_age_s`.
        """
        deployment = await self.deployment()
        names = map(parse_key_name, await self._store.wrapped_keys(tenant))
        versions = [version for key, version in names if key is purpose]
        if not versions:
            raise KeysMissing("the tenant has no keys")
        version = max(versions) + 1
        from_s = 0 if purpose is Purpose.IDENTITY else int(self._now_s()) + USED_AFTER_S
        await self._put_tenant_key(deployment, tenant, purpose, version, from_s)
        self._tenants.pop(tenant, None)
        return version

    async def retire_tag(self) -> int:
        """Emergency: a new K_tag, and every ID of every tenant stops verifying within `max_age_s`."""
        version = (await self.deployment()).keys.tag.current + 1
        if version > MAX_EPOCH:
            raise ValueError(f"tag-key versions end at {MAX_EPOCH}")
        await self._put_deployment_key(f"{_TAG}{version}", os.urandom(KEY_BYTES))
        self._deployment = None
        self._tenants.clear()
        return version

    async def rewrapping(self) -> Rewrapping:
        """What has the newest root keys wrap all that former ones have wrapped."""
        deployment = (await self.deployment()).keys
        own = (_MASTER, *(f"{_TAG}{version}" for version in range(1, deployment.tag.current + 1)), AUDITORS)
        return Rewrapping(self._store, self._roots, deployment.deployment, {name: _purpose_of(name) for name in own})

    async def erase(self, tenant: TenantId, now_s: int) -> None:
        """Puts the tenant on the erasure list, then deletes its wrapped keys. Other replicas forget them in `max_age_s`."""
        deployment = await self.deployment()
        await asyncio.to_thread(deployment.erasures.add, tenant, now_s)
        await self._store.delete_wrapped_keys(tenant)
        self._tenants.pop(tenant, None)

    def _fresh_deployment(self) -> Deployment | None:
        return self._deployment[1] if self._deployment and self._clock() < self._deployment[0] else None

    def _fresh(self, tenant: TenantId) -> Unlocked | None:
        kept = self._tenants.get(tenant)
        return kept.value if kept and self._clock() < kept.until else None

    async def _load_deployment(self) -> Deployment:
        until = self._clock() + self._max_age_s
        secret, tag_version, tag_blob = await self._store.deployment_secret(_MASTER), 0, None
        while (blob := await self._store.deployment_secret(f"{_TAG}{tag_version + 1}")) is not None:
            tag_version, tag_blob = tag_version + 1, blob
        if secret is None or tag_blob is None:
            raise KeysMissing("the deployment has no keys")
        keys = await asyncio.to_thread(self._unlock_deployment, secret, tag_version, tag_blob)
        deployment = Deployment(
            keys,
            DeploymentForm(keys.deployment, keys.tag.keys, keys.tag.current),
            ErasureList(self._path, keys.erasures),
        )
        if self._deployment and self._deployment[1].keys != keys:
            self._tenants.clear()  # their forms mint with the tag key that was retired
        self._deployment = until, deployment
        return deployment

    def _unlock_deployment(self, secret: bytes, tag_version: int, tag_blob: bytes) -> DeploymentKeys:
        tag_key = self._root.unwrap(deployment_key_context(f"{_TAG}{tag_version}"), tag_blob)
        return DeploymentKeys.derive(self._root.unwrap(deployment_key_context(_MASTER), secret), tag_key, tag_version)

    async def _load(self, deployment: Deployment, tenant: TenantId) -> Unlocked:
        until = self._clock() + self._max_age_s
        blobs = await self._store.wrapped_keys(tenant)
        unlocked = await asyncio.to_thread(self._unlock, deployment, tenant, blobs)
        self._tenants[tenant] = _Kept(until, unlocked)
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > self._max_tenants:
            self._tenants.popitem(last=False)
        return unlocked

    def _unlock(self, deployment: Deployment, tenant: TenantId, blobs: Mapping[str, bytes]) -> Unlocked:
        """Blocks: on the erasure list's file, and on root keys that live elsewhere."""
        if tenant in deployment.erasures.tenants():
            raise KeysMissing("the tenant was erased")
        wrapped: dict[Purpose, dict[int, bytes]] = {purpose: {} for purpose in Purpose}
        for name, blob in blobs.items():
            purpose, version = parse_key_name(name)
            wrapped[purpose][version] = blob
        if not all(wrapped.values()):
            raise KeysMissing("the tenant has no keys")
        # An older epoch's IDs are dead, so its key is not even unwrapped.
        epoch = max(wrapped[Purpose.IDENTITY])
        wrapped[Purpose.IDENTITY] = {epoch: wrapped[Purpose.IDENTITY][epoch]}

        def versions(purpose: Purpose, derive: Callable[[bytes], K]) -> Versions[K]:
            root, name = self._roots[purpose], deployment.keys.deployment
            secrets = {
                version: root.unwrap(tenant_key_context(name, tenant, purpose, version), blob)
                for version, blob in wrapped[purpose].items()
            }
            return Versions.at(self._now_s(), secrets, derive)

        keys = TenantKeys(
            tenant,
            versions(Purpose.IDENTITY, IdentityKeys.derive),
            versions(Purpose.STORAGE, StorageKeys.derive),
            versions(Purpose.AUDIT, AuditKeys.derive),
        )
        return Unlocked(keys, TenantForm(deployment.form, keys.identity.keys, keys.identity.current))

    async def _share_with_auditors(self, keys: DeploymentKeys) -> None:
        """What a process with the audit root key alone needs to know (`audit_keyring.py`). Raises KeyRefused where it was
        made with another audit root key."""
        root, context = self._roots[Purpose.AUDIT], deployment_key_context(AUDITORS)
        blob = await self._store.deployment_secret(AUDITORS)
        if blob is None:
            secret = AuditDeploymentKeys(keys.deployment, keys.erasures, os.urandom(KEY_BYTES)).to_bytes()
            made = await asyncio.to_thread(root.wrap, context, secret, os.urandom(NONCE_BYTES))
            blob = await self._store.put_deployment_secret(AUDITORS, made)
        await asyncio.to_thread(root.unwrap, context, blob)

    async def _put_deployment_key(self, name: str, key: bytes) -> bytes:
        """Puts `key` under `name` unless there is one; returns the one that is there now."""
        context = deployment_key_context(name)
        blob = await asyncio.to_thread(self._root.wrap, context, key, os.urandom(NONCE_BYTES))
        return await asyncio.to_thread(self._root.unwrap, context, await self._store.put_deployment_secret(name, blob))

    async def _put_tenant_key(
        self, deployment: Deployment, tenant: TenantId, purpose: Purpose, version: int, from_s: int = 0
    ) -> None:
        """Puts a random key, used from then on, unless there is one, and proves that what is there now opens."""
        if version > (MAX_EPOCH if purpose is Purpose.IDENTITY else MAX_VERSION):
            raise ValueError(f"no version of the {purpose.value} key is left")
        root, context = self._roots[purpose], tenant_key_context(deployment.keys.deployment, tenant, purpose, version)
        blob = await asyncio.to_thread(
            root.wrap, context, dated(os.urandom(KEY_BYTES), from_s), os.urandom(NONCE_BYTES)
        )
        stored = await self._store.put_wrapped_key(tenant, f"{purpose.value}.{version}", blob)
        await asyncio.to_thread(root.unwrap, context, stored)


def _purpose_of(name: str) -> Purpose:
    """Whose root key wraps a deployment's secret."""
    return Purpose.AUDIT if name == AUDITORS else Purpose.STORAGE
