"""Mappers of real keys, without a store: `mapper("acme")` is the same tenant each time, another name another tenant."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

from gateway.ids.form import DeploymentForm, TenantForm
from gateway.ids.keys import AuditKeys, DeploymentKeys, IdentityKeys, StorageKeys, TenantKeys, Versions
from gateway.mapping import Mapper
from gateway.names import TenantId
from gateway.stores.contract import Found, Lookup, Write
from gateway.stores.erasures import ErasureList
from gateway.stores.keyring import Deployment, Unlocked

_COUNT = itertools.count(1)


def deployment(secret: bytes = b"s" * 40) -> Deployment:
    keys = DeploymentKeys.derive(secret, b"t" * 32, 1)
    return Deployment(
        keys, DeploymentForm(keys.deployment, keys.tag.keys, keys.tag.current), ErasureList(Path("-"), b"")
    )


def unlocked(name: str, made: Deployment) -> Unlocked:
    seed = hashlib.sha256(name.encode()).digest()
    keys = TenantKeys(
        TenantId(name.ljust(16, "a")),
        Versions({1: IdentityKeys.derive(seed)}, 1),
        Versions({1: StorageKeys.derive(seed)}, 1),
        Versions({1: AuditKeys.derive(seed)}, 1),
    )
    return Unlocked(keys, TenantForm(made.form, keys.identity.keys, 1))


def mapper(name: str = "acme", made: Deployment | None = None, project: str = "project") -> Mapper:
    made = made or deployment()
    return Mapper(made, unlocked(name, made), "openai", project, lambda size: next(_COUNT).to_bytes(size, "big"))


def stored(*writes: Write) -> dict[tuple[str, bytes], bytes]:
    """A store that holds these records."""
    return {(write.kind.value, write.h): write.data for write in writes}


def found(store: dict[tuple[str, bytes], bytes], lookup: Lookup, root: tuple[str, bytes] | None = None) -> Found:
    return Found(store.get((lookup.kind.value, lookup.h)), store.get(root) if root else None)
