from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.tokens import continuation_id, idempotency_key, prompt_cache_key, safety_identifier
from gateway.names import Owner, TenantId

KEY = b"k" * 32
ACME, RIVAL = TenantId("acme"), TenantId("rival")
ALICE, CAROL = Owner("local", "alice"), Owner("local", "carol")

PERSONAL: list[Callable[[TenantId, Owner, str], str]] = [
    lambda tenant, owner, value: continuation_id(KEY, tenant, owner, value),
    lambda tenant, owner, value: idempotency_key(KEY, tenant, owner, "responses.create", value),
    lambda tenant, owner, value: safety_identifier(KEY, tenant, owner, value),
]


@given(st.text(max_size=600))
def test_every_token_fits_the_services_limit_of_64_characters(value: str) -> None:
    tokens = [prompt_cache_key(KEY, ACME, value), *(make(ACME, ALICE, value) for make in PERSONAL)]
    assert all(re.fullmatch("[0-9A-Za-z]{44}", token) for token in tokens)
    assert len(set(tokens)) == 4


def test_a_cache_key_is_the_tenants() -> None:
    assert prompt_cache_key(KEY, ACME, "v") == prompt_cache_key(KEY, ACME, "v")
    assert prompt_cache_key(KEY, ACME, "v") != prompt_cache_key(KEY, RIVAL, "v")
    assert prompt_cache_key(KEY, ACME, "v") != prompt_cache_key(b"l" * 32, ACME, "v")


@pytest.mark.parametrize("make", PERSONAL)
def test_the_other_tokens_are_the_principals(make: Callable[[TenantId, Owner, str], str]) -> None:
    assert make(ACME, ALICE, "v") == make(ACME, ALICE, "v")
    others = [make(RIVAL, ALICE, "v"), make(ACME, CAROL, "v"), make(ACME, Owner("locala", "lice"), "v")]
    assert make(ACME, ALICE, "v") not in [*others, make(ACME, ALICE, "w")]


def test_an_idempotency_key_is_another_one_on_another_route() -> None:
    assert idempotency_key(KEY, ACME, ALICE, "responses.create", "v") != idempotency_key(
        KEY, ACME, ALICE, "conversations.create", "v"
    )
