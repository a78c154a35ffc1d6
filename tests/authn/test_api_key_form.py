"""The form of API keys, and what their sealed records give away."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.authn.api_key_form import KeyId, read_key, write_key
from gateway.authn.api_key_record import ApiKeyRecord, open_api_key, seal_api_key
from gateway.ids.keys import StorageKeys, Versions
from gateway.names import Owner, PrincipalKind, TenantId

PEPPER = b"p" * 32
TENANT = TenantId("k3vq2n7aaaaaaaaa")
OTHER = TenantId("z3vq2n7aaaaaaaaa")
KEY = write_key(PEPPER, TENANT, bytes(range(64))).encode()
KEYS = Versions({1: StorageKeys.derive(b"1" * 32), 2: StorageKeys.derive(b"2" * 32)}, 2)
RECORD = ApiKeyRecord(
    Owner("https://idp.example", "zoë@example.com"), PrincipalKind.SERVICE, ("act_as:https://idp.example",), 5, 99
)


def test_a_key_leads_to_its_tenant_and_to_a_name_that_does_not_hold_it() -> None:
    key = read_key(PEPPER, KEY)
    assert key is not None
    assert key.tenant == TENANT
    assert re.fullmatch(r"cck_[a-z2-7]{16}_[0-9A-Za-z]{49}", KEY.decode())
    assert KeyId.parse(str(key)) == key
    assert not any(KEY[start : start + 8] in str(key).encode() for start in range(21, len(KEY) - 8))


@given(st.binary(min_size=64, max_size=64))
def test_every_key_that_is_written_can_be_read(random: bytes) -> None:
    assert read_key(PEPPER, write_key(PEPPER, TENANT, random).encode()) is not None


@given(st.integers(0, len(KEY) - 1), st.sampled_from(b"09AZaz_-.\x00\xff "))
def test_a_key_with_one_character_changed_is_no_key(place: int, character: int) -> None:
    changed = KEY[:place] + bytes([character]) + KEY[place + 1 :]
    assert changed == KEY or read_key(PEPPER, changed) is None


@pytest.mark.parametrize("wrong", [
    b"", b"cck_", KEY[:-1], KEY + b"0", KEY + b"\n", b" " + KEY, KEY.upper(), KEY.swapcase(), KEY.replace(b"_", b"-"),
    KEY.replace(TENANT.encode(), OTHER.encode()),
])  # fmt: skip
def test_what_is_nearly_a_key_is_none(wrong: bytes) -> None:
    assert read_key(PEPPER, wrong) is None


def test_a_key_of_another_deployment_is_none() -> None:
    assert read_key(b"q" * 32, KEY) is None


def test_too_little_randomness_is_refused() -> None:
    with pytest.raises(ValueError, match="random"):
        write_key(PEPPER, TENANT, b"x" * 32)


@pytest.mark.parametrize(
    "text", ["", "a_b", KEY.decode(), f"{TENANT}_{'A' * 32}", f"{TENANT}-{'a' * 32}", f"{TENANT}_{'a' * 33}"]
)
def test_what_is_no_key_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="key ID"):
        KeyId.parse(text)


def test_a_record_opens_for_its_own_key_alone() -> None:
    key = KeyId(TENANT, "0" * 32)
    sealed = seal_api_key(KEYS, key, RECORD, os.urandom(12))
    assert open_api_key(KEYS, key, sealed) == RECORD
    for other in (replace(key, tag="1" * 32), replace(key, tenant=OTHER)):
        assert open_api_key(KEYS, other, sealed) is None
    assert open_api_key(Versions({2: StorageKeys.derive(b"3" * 32)}, 2), key, sealed) is None
    assert open_api_key(Versions({1: KEYS.keys[1]}, 1), key, sealed) is None


def test_a_changed_record_does_not_open() -> None:
    key = KeyId(TENANT, "0" * 32)
    sealed = seal_api_key(KEYS, key, RECORD, os.urandom(12))
    for place in range(len(sealed)):
        changed = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        assert open_api_key(KEYS, key, changed) is None
    for length in range(0, len(sealed), 7):
        assert open_api_key(KEYS, key, sealed[:length]) is None


def test_a_stored_record_shows_neither_subject_nor_key() -> None:
    sealed = seal_api_key(KEYS, KeyId(TENANT, "0" * 32), RECORD, os.urandom(12))
    for text in (b"example", b"zo", KEY[:30]):
        assert text not in sealed


def test_a_record_of_an_older_storage_key_still_opens() -> None:
    key = KeyId(TENANT, "0" * 32)
    sealed = seal_api_key(Versions(KEYS.keys, 1), key, RECORD, os.urandom(12))
    assert open_api_key(KEYS, key, sealed) == RECORD
