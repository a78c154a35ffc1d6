from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.blobs import Scope, open_blob, seal_blob
from gateway.names import Owner, TenantId

ACME, RIVAL = TenantId("acme"), TenantId("rival")
ALICE, CAROL = Owner("local", "alice"), Owner("local", "carol")
KEYS = {1: b"1" * 32, 2: b"2" * 32}
BLOB = "gAAAAABo" + "x" * 400

scopes: st.SearchStrategy[Scope] = st.sampled_from(["p", "t"])


@given(st.text(max_size=300), scopes, st.sampled_from([1, 2]))
def test_a_blob_opens_for_whom_it_was_sealed(blob: str, scope: Scope, version: int) -> None:
    sealed = seal_blob(KEYS[version], version, ACME, scope, ALICE, blob, project="p")
    assert sealed.startswith(f"{blob}.cc1.{version}.{scope}.")
    assert len(sealed) <= len(blob) + 33
    assert open_blob(KEYS, ACME, ALICE, sealed, project="p") == blob


def test_a_private_blob_opens_for_no_other_user_and_a_shared_one_for_the_tenant() -> None:
    private = seal_blob(KEYS[1], 1, ACME, "p", ALICE, BLOB, project="p")
    shared = seal_blob(KEYS[1], 1, ACME, "t", ALICE, BLOB, project="p")
    assert open_blob(KEYS, ACME, CAROL, private, project="p") is None
    assert open_blob(KEYS, ACME, CAROL, shared, project="p") == BLOB
    assert open_blob(KEYS, ACME, Owner("locala", "lice"), private, project="p") is None


def test_no_blob_opens_in_another_upstream_project() -> None:
    sealed = seal_blob(KEYS[1], 1, ACME, "t", ALICE, BLOB, project="p")
    assert open_blob(KEYS, ACME, ALICE, sealed, project="q") is None


@pytest.mark.parametrize("scope", ["p", "t"])
def test_no_blob_opens_for_another_tenant(scope: Scope) -> None:
    sealed = seal_blob(KEYS[1], 1, ACME, scope, ALICE, BLOB, project="p")
    assert open_blob(KEYS, RIVAL, ALICE, sealed, project="p") is None
    assert open_blob({1: b"3" * 32}, ACME, ALICE, sealed, project="p") is None


def test_private_does_not_turn_into_shared() -> None:
    sealed = seal_blob(KEYS[1], 1, ACME, "p", ALICE, BLOB, project="p")
    assert open_blob(KEYS, ACME, CAROL, sealed.replace(".p.", ".t."), project="p") is None


def test_a_blob_without_a_good_suffix_is_refused() -> None:
    sealed = seal_blob(KEYS[1], 1, ACME, "t", ALICE, BLOB, project="p")
    wrong = [BLOB, "", sealed + "\n", sealed + ".", sealed[:-1], sealed.replace(".cc1.1.", ".cc1.01."), "x" + sealed]
    wrong += [sealed.replace(".cc1.1.", f".cc1.{version}.") for version in (0, 2, 3, 999)]
    assert [open_blob(KEYS, ACME, ALICE, text, project="p") for text in wrong] == [None] * len(wrong)


@given(st.integers(0, 432), st.characters())
def test_any_changed_character_is_refused(at: int, character: str) -> None:
    sealed = seal_blob(KEYS[1], 1, ACME, "t", ALICE, BLOB, project="p")
    changed = sealed[:at] + character + sealed[at + 1 :]
    assert open_blob(KEYS, ACME, ALICE, changed, project="p") == (BLOB if changed == sealed else None)


def test_after_a_rotation_older_blobs_open_as_long_as_their_key_is_kept() -> None:
    sealed = seal_blob(KEYS[1], 1, ACME, "t", ALICE, BLOB, project="p")
    assert open_blob(KEYS, ACME, ALICE, sealed, project="p") == BLOB
    assert open_blob({2: KEYS[2]}, ACME, ALICE, sealed, project="p") is None
