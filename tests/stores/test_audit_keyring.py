"""The audit keyring opens what the whole keyring made, with the audit root key alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.ids.keys import KeyRefused, LocalRoot, Purpose
from gateway.names import TenantId
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.fake import FakeLink
from gateway.stores.keyring import USED_AFTER_S, Keyring, KeysMissing
from gateway.stores.redis import SCRIPTS, RedisStore

ACME = TenantId("aaaaaaaaaaaaaaaa")


@pytest.fixture
def store() -> RedisStore:
    return RedisStore(FakeLink(SCRIPTS))


@pytest.fixture
def erasures(tmp_path: Path) -> Path:
    return tmp_path / "erasures"


@pytest.fixture
async def whole(store: RedisStore, erasures: Path) -> Keyring:
    keyring = Keyring(store, LocalRoot(b"r" * 32), LocalRoot(b"a" * 32), erasures)
    await keyring.create_deployment()
    await keyring.create_tenant(ACME)
    return keyring


async def test_it_opens_the_same_audit_keys_of_every_version(store: RedisStore, whole: Keyring, erasures: Path) -> None:
    await whole.rotate(ACME, Purpose.AUDIT)
    auditors = AuditKeyring(store, LocalRoot(b"a" * 32), erasures)
    assert await auditors.tenant(ACME) == (await whole.tenant(ACME)).keys.audit
    later = AuditKeyring(store, LocalRoot(b"a" * 32), erasures, now_s=lambda: time.time() + USED_AFTER_S)
    assert ((await auditors.tenant(ACME)).current, (await later.tenant(ACME)).current) == (1, 2)
    assert (await auditors.deployment()).deployment == (await whole.deployment()).keys.deployment


async def test_another_root_key_opens_nothing(store: RedisStore, whole: Keyring, erasures: Path) -> None:
    with pytest.raises(KeyRefused):
        await AuditKeyring(store, LocalRoot(b"x" * 32), erasures).tenant(ACME)
    with pytest.raises(KeyRefused):
        await Keyring(store, LocalRoot(b"r" * 32), LocalRoot(b"x" * 32), erasures).create_deployment()


async def test_an_erased_or_unknown_tenant_has_no_keys(store: RedisStore, whole: Keyring, erasures: Path) -> None:
    await whole.erase(ACME, 1)
    auditors = AuditKeyring(store, LocalRoot(b"a" * 32), erasures)
    for tenant in (ACME, TenantId("bbbbbbbbbbbbbbbb")):
        with pytest.raises(KeysMissing):
            await auditors.tenant(tenant)


async def test_without_the_erasure_list_nothing_opens(store: RedisStore, whole: Keyring, tmp_path: Path) -> None:
    with pytest.raises(ErasuresUnreadable):
        await AuditKeyring(store, LocalRoot(b"a" * 32), tmp_path / "elsewhere").tenant(ACME)


async def test_a_store_that_no_gateway_has_used_is_said_to_be_one(store: RedisStore, erasures: Path) -> None:
    with pytest.raises(KeysMissing, match="start its gateway"):
        await AuditKeyring(store, LocalRoot(b"a" * 32), erasures).deployment()
