from __future__ import annotations

import dataclasses
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.keys import (
    AuditKeys,
    DeploymentKeys,
    IdentityKeys,
    KeyRefused,
    LocalRoot,
    Purpose,
    StorageKeys,
    Versions,
    deployment_key_context,
    derive,
    rewrap,
    tenant_key_context,
)
from gateway.names import TenantId

ROOT = LocalRoot(b"r" * 32)
NONCE = b"n" * 12
KEY = b"k" * 32
ALICE, BOB = TenantId("alice"), TenantId("bob")
CONTEXT = tenant_key_context("d", ALICE, Purpose.STORAGE, 1)


def test_a_wrapped_key_opens_under_its_root_and_context() -> None:
    wrapped = ROOT.wrap(CONTEXT, KEY, NONCE)
    assert KEY not in wrapped
    assert ROOT.unwrap(CONTEXT, wrapped) == KEY


@pytest.mark.parametrize(
    "elsewhere",
    [
        tenant_key_context("d", BOB, Purpose.STORAGE, 1),
        tenant_key_context("d", ALICE, Purpose.IDENTITY, 1),
        tenant_key_context("d", ALICE, Purpose.STORAGE, 2),
        tenant_key_context("e", ALICE, Purpose.STORAGE, 1),
        deployment_key_context("tag.1"),
    ],
)
def test_it_opens_for_no_other_tenant_purpose_version_or_deployment(elsewhere: bytes) -> None:
    with pytest.raises(KeyRefused):
        ROOT.unwrap(elsewhere, ROOT.wrap(CONTEXT, KEY, NONCE))


def test_it_opens_under_no_other_root_and_the_audit_root_is_another_one() -> None:
    wrapped = ROOT.wrap(CONTEXT, KEY, NONCE)
    for other in (LocalRoot(b"s" * 32), ROOT.audit_root()):
        with pytest.raises(KeyRefused, match="another root key"):
            other.unwrap(CONTEXT, wrapped)
    with pytest.raises(KeyRefused):
        ROOT.unwrap(CONTEXT, ROOT.audit_root().wrap(CONTEXT, KEY, NONCE))
    assert ROOT.audit_root().unwrap(CONTEXT, LocalRoot(b"r" * 32).audit_root().wrap(CONTEXT, KEY, NONCE)) == KEY


def test_any_changed_or_missing_byte_is_refused() -> None:
    wrapped = ROOT.wrap(CONTEXT, KEY, NONCE)
    for at in range(len(wrapped)):
        for changed in (wrapped[:at] + bytes([wrapped[at] ^ 1]) + wrapped[at + 1 :], wrapped[:at]):
            with pytest.raises(KeyRefused):
                ROOT.unwrap(CONTEXT, changed)


@pytest.mark.parametrize("size", [0, 16, 31, 33, 64])
def test_a_root_key_has_32_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        LocalRoot(b"r" * size)


def test_root_rotation_gives_the_same_key_under_the_new_root_alone() -> None:
    new = LocalRoot(b"s" * 32)
    wrapped = rewrap(ROOT, new, CONTEXT, ROOT.wrap(CONTEXT, KEY, NONCE), b"m" * 12)
    assert new.unwrap(CONTEXT, wrapped) == KEY
    with pytest.raises(KeyRefused):
        ROOT.unwrap(CONTEXT, wrapped)


def test_keys_of_different_use_never_coincide() -> None:
    derived = [
        *_keys_of(IdentityKeys.derive(KEY)),
        *_keys_of(StorageKeys.derive(KEY)),
        *_keys_of(AuditKeys.derive(KEY)),
        derive(KEY, "tag"),
        *dataclasses.astuple(DeploymentKeys.derive(b"12345678" + KEY, KEY, 1))[2:],
        KEY,
    ]
    assert all(isinstance(key, bytes) and len(key) == 32 for key in derived)
    assert len(set(derived)) == len(derived) == 15


def _keys_of(keys: IdentityKeys | StorageKeys | AuditKeys) -> list[bytes]:
    return [getattr(keys, one.name) for one in dataclasses.fields(keys) if one.init]


def test_derivation_is_hkdf_sha256() -> None:
    """Against RFC 5869's own two steps, written out."""
    extracted = hmac.digest(bytes(32), KEY, "sha256")
    assert derive(KEY, "prf") == hmac.digest(extracted, b"coatcheck prf\x01", "sha256")


def test_a_retired_tag_key_changes_the_tag_key_alone() -> None:
    before = DeploymentKeys.derive(b"12345678" + KEY, b"t" * 32, 1)
    after = DeploymentKeys.derive(b"12345678" + KEY, b"u" * 32, 2)
    assert before.deployment == after.deployment == b"12345678".hex()
    assert (before.own, before.claim, before.pepper, before.erasures) == (
        after.own,
        after.claim,
        after.pepper,
        after.erasures,
    )
    assert set(after.tag.keys) == {2}
    assert before.tag.newest != after.tag.newest


@given(st.binary(max_size=80), st.binary(max_size=40), st.integers(-1, 300))
def test_other_lengths_are_no_deployment_keys(secret: bytes, tag_key: bytes, version: int) -> None:
    if len(secret) != 40 or len(tag_key) != 32 or not 1 <= version <= 15:
        with pytest.raises(KeyRefused):
            DeploymentKeys.derive(secret, tag_key, version)


def test_no_key_shows_in_a_repr() -> None:
    keys = [IdentityKeys.derive(KEY), StorageKeys.derive(KEY), AuditKeys.derive(KEY)]
    shown = repr([*keys, Versions({1: keys[1]}, 1), DeploymentKeys.derive(b"12345678" + KEY, KEY, 1)])
    assert "\\x" not in shown
    assert "b'" not in shown


def test_the_current_version_has_a_key() -> None:
    with pytest.raises(ValueError, match="current"):
        Versions({1: KEY}, 2)
