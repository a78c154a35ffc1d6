"""API keys from the operator's hand to the gateway's answer, on a real Redis."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from gateway.admin.administration import AdminRefused
from gateway.admin.keys import create_key, list_keys, parse_lifetime, revoke_key, rotate_key
from gateway.admin.tenants import create_tenant
from gateway.authn.api_key import ApiKeyAuthenticator
from gateway.authn.api_key_form import KeyId
from gateway.authn.verdict import Rejected, Verdict, Why
from gateway.names import Owner, Principal, PrincipalKind, TenantId
from tests.admin.conftest import Desk

ALICE = Owner("local", "alice")


async def verdict(desk: Desk, key: str, *, after_s: float = 0) -> Verdict:
    """That of a replica that has not seen the key."""
    fresh = ApiKeyAuthenticator(desk.admin.store, desk.admin.keyring)
    return await fresh.authenticate(key.encode(), time.time() + after_s)


async def why(desk: Desk, key: str, *, after_s: float = 0) -> Why:
    refused = await verdict(desk, key, after_s=after_s)
    assert isinstance(refused, Rejected)
    return refused.why


async def test_a_new_key_works_names_its_owner_and_is_listed(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    made = await create_key(desk.admin, acme, ALICE, lifetime_s=90 * 86_400)
    principal = await verdict(desk, made.key)
    assert principal == Principal(acme, ALICE, PrincipalKind.USER, "api_key", credential=made.id.tag)
    (listed,) = await list_keys(desk.admin, acme)
    assert listed.id == made.id
    assert listed.record is not None
    assert (listed.record.owner, listed.revoked, listed.expires) == (ALICE, False, listed.record.created + 90 * 86_400)


@pytest.mark.parametrize("scope", ["act_as:https://idp.example", "webhooks:write"])
async def test_a_services_key_carries_its_scope(desk: Desk, scope: str) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    made = await create_key(desk.admin, acme, Owner("local", "crm"), service=True, scopes=[scope])
    principal = await verdict(desk, made.key)
    assert isinstance(principal, Principal)
    assert (principal.kind, principal.scopes) == (PrincipalKind.SERVICE, frozenset({scope}))


@pytest.mark.parametrize(("owner", "service", "scopes", "lifetime_s"), [
    (Owner("local", "a\nb"), False, [], None), (Owner("a#b", "alice"), False, [], None),
    (Owner("local", "x" * 257), False, [], None), (ALICE, False, ["act_as:https://idp.example"], None),
    (ALICE, False, ["webhooks:write"], None), (ALICE, True, ["webhooks:write", "webhooks:write"], None),
    (ALICE, True, ["webhooks:"], None), (ALICE, True, ["webhooks:read"], None),
    (ALICE, True, ["admin"], None), (ALICE, True, ["act_as:a", "act_as:b"], None), (ALICE, False, [], 0),
])  # fmt: skip
async def test_a_key_that_would_be_unclear_is_not_made(
    desk: Desk, owner: Owner, service: bool, scopes: list[str], lifetime_s: int | None
) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    with pytest.raises(AdminRefused):
        await create_key(desk.admin, acme, owner, service=service, scopes=scopes, lifetime_s=lifetime_s)
    assert await list_keys(desk.admin, acme) == ()


async def test_a_key_of_one_tenant_is_listed_with_no_other(desk: Desk) -> None:
    acme, globex = await create_tenant(desk.admin, "Acme"), await create_tenant(desk.admin, "Globex")
    await create_key(desk.admin, acme, ALICE)
    assert await list_keys(desk.admin, globex) == ()


async def test_a_revoked_key_is_refused_and_stays_in_the_list(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    made, other = await create_key(desk.admin, acme, ALICE), await create_key(desk.admin, acme, ALICE)
    await revoke_key(desk.admin, KeyId.parse(str(made.id)))
    await revoke_key(desk.admin, made.id)
    assert await why(desk, made.key) is Why.REVOKED
    assert isinstance(await verdict(desk, other.key), Principal)
    assert sorted(listed.revoked for listed in await list_keys(desk.admin, acme)) == [False, True]


async def test_a_key_that_is_unknown_cannot_be_revoked(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    for key in (KeyId(acme, "0" * 32), KeyId(TenantId("abcdefghijklmnop"), "0" * 32)):
        with pytest.raises(AdminRefused, match="no such key"):
            await revoke_key(desk.admin, key)


async def test_a_rotated_key_and_its_successor_both_work_until_the_stated_moment(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    old = await create_key(desk.admin, acme, ALICE, lifetime_s=86_400)
    new = await rotate_key(desk.admin, old.id, grace_s=3600)
    for key in (old.key, new.key):
        assert isinstance(await verdict(desk, key, after_s=3590), Principal)
    assert await why(desk, old.key, after_s=3601) is Why.EXPIRED
    successor = await verdict(desk, new.key, after_s=3601)
    assert isinstance(successor, Principal)
    assert successor.owner == ALICE
    assert await why(desk, new.key, after_s=86_401) is Why.EXPIRED


async def test_a_rotation_never_lengthens_the_old_keys_life_and_a_dead_key_is_not_rotated(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    old = await create_key(desk.admin, acme, ALICE, lifetime_s=60)
    before = await desk.admin.store.api_key(acme, old.id.tag)
    await rotate_key(desk.admin, old.id, grace_s=86_400)
    assert await desk.admin.store.api_key(acme, old.id.tag) == before
    assert await why(desk, old.key, after_s=61) is Why.EXPIRED
    await revoke_key(desk.admin, old.id)
    with pytest.raises(AdminRefused, match="revoked or expired"):
        await rotate_key(desk.admin, old.id, grace_s=60)


async def test_every_change_of_a_key_is_on_record_without_key_or_subject(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    made = await create_key(desk.admin, acme, Owner("local", "alice.liddell"))
    new = await rotate_key(desk.admin, made.id, grace_s=0)
    await revoke_key(desk.admin, new.id)
    assert (await desk.story(acme))[1:] == [
        "key.create intent", "key.create outcome allow", "key.rotate intent", "key.rotate outcome allow",
        "key.revoke intent", "key.revoke outcome allow",
    ]  # fmt: skip
    dump = desk.dump()
    for secret in (made.key[21:40], new.key[21:40], "liddell"):
        assert secret not in dump
    created = (await desk.events(acme))[1]
    assert created["changes"]["key"] == made.id.tag
    assert (created["actor"]["kind"], created["actor"]["auth"], created["actor"]["sealed"]) == (
        "operator",
        "command",
        "",
    )


async def test_a_record_that_was_tampered_with_is_listed_as_such(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    made = await create_key(desk.admin, acme, ALICE)
    stored = await desk.admin.store.api_key(acme, made.id.tag)
    assert stored is not None
    await desk.admin.store.put_api_key(acme, made.id.tag, replace(stored, data=stored.data[:-1] + b"?"))
    (listed,) = await list_keys(desk.admin, acme)
    assert listed.record is None
    with pytest.raises(AdminRefused):
        await rotate_key(desk.admin, made.id, grace_s=1)


@pytest.mark.parametrize(("text", "seconds"), [("90d", 7_776_000), ("12h", 43_200), ("1m", 60)])
def test_a_lifetime_is_written_with_its_unit(text: str, seconds: int) -> None:
    assert parse_lifetime(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "d", "0d", "-1d", "1.5h", "1w", "90d ", "9999999d", "٣d"])
def test_a_lifetime_without_a_clear_unit_is_refused(text: str) -> None:
    with pytest.raises(AdminRefused):
        parse_lifetime(text)
