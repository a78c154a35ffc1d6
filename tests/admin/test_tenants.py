"""Tenants on a real Redis."""

from __future__ import annotations

import re

import pytest

from gateway.admin.administration import AdminEvent, AdminRefused
from gateway.admin.tenants import create_tenant, find_tenant, list_tenants, resume_tenant, rotate_tenant, suspend_tenant
from gateway.ids.keys import Purpose
from gateway.stores.contract import TenantStatus
from tests.admin.conftest import Desk


async def test_a_new_tenant_is_active_has_keys_and_a_random_id(desk: Desk) -> None:
    acme, globex = await create_tenant(desk.admin, "Acme"), await create_tenant(desk.admin, "Globex")
    assert re.fullmatch(r"[a-z2-7]{16}", acme)
    assert acme != globex
    assert {(t.id, t.name, t.active) async for t in list_tenants(desk.admin)} == {
        (acme, "Acme", True),
        (globex, "Globex", True),
    }
    first, second = await desk.admin.keyring.tenant(acme), await desk.admin.keyring.tenant(globex)
    assert first.keys.storage.newest != second.keys.storage.newest
    assert await desk.story(acme) == ["tenant.create single allow"]


async def test_the_store_does_not_show_a_tenants_name(desk: Desk) -> None:
    await create_tenant(desk.admin, "Weyland-Yutani")
    assert "Weyland" not in desk.dump()


async def test_a_directory_entry_moved_to_another_tenant_does_not_open(desk: Desk) -> None:
    acme, globex = await create_tenant(desk.admin, "Acme"), await create_tenant(desk.admin, "Globex")
    desk.server.command("HSET", "tenants", acme, desk.server.command("HGET", "tenants", globex))
    assert {t.id: t.name async for t in list_tenants(desk.admin)} == {acme: "?", globex: "Globex"}


@pytest.mark.parametrize("name", ["", " ", " Acme", "a\nb", "a\u202eb", "x" * 257, "abcdefghijklmnop"])
async def test_a_name_that_is_unclear_or_looks_like_an_id_is_refused(desk: Desk, name: str) -> None:
    with pytest.raises(AdminRefused, match="name"):
        await create_tenant(desk.admin, name)
    assert [t async for t in list_tenants(desk.admin)] == []


async def test_a_name_is_given_once(desk: Desk) -> None:
    await create_tenant(desk.admin, "Acme")
    with pytest.raises(AdminRefused, match="there is a tenant"):
        await create_tenant(desk.admin, "Acme")


async def test_a_tenant_is_found_by_id_and_by_name(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    assert await find_tenant(desk.admin, "Acme") == await find_tenant(desk.admin, acme) == acme
    for unknown in ("acme", "Globex", "abcdefghijklmnop", "", "*"):
        with pytest.raises(AdminRefused, match="no tenant"):
            await find_tenant(desk.admin, unknown)


async def test_a_suspended_tenant_is_inactive_and_the_suspension_is_on_record(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    await suspend_tenant(desk.admin, acme)
    state = await desk.admin.store.tenant_state(acme)
    assert state is not None
    assert state.status is TenantStatus.SUSPENDED
    assert [t.active async for t in list_tenants(desk.admin)] == [False]
    assert await desk.story(acme) == [
        "tenant.create single allow", "tenant.suspend intent", "tenant.suspend outcome allow",
    ]  # fmt: skip


async def test_a_resumed_tenant_is_active_again_and_the_resumption_is_on_record(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    await suspend_tenant(desk.admin, acme)
    await resume_tenant(desk.admin, acme)
    assert [t.state async for t in list_tenants(desk.admin)] == ["active"]
    assert (await desk.story(acme))[3:] == ["tenant.resume intent", "tenant.resume outcome allow"]


async def test_rotated_keys_are_newer_and_what_was_sealed_before_still_opens(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    before = (await desk.admin.keyring.tenant(acme)).keys
    rotated = await rotate_tenant(desk.admin, acme, (Purpose.STORAGE, Purpose.AUDIT))
    assert rotated == [(Purpose.STORAGE, 2), (Purpose.AUDIT, 2)]
    after = (await desk.admin.keyring.tenant(acme)).keys
    assert (after.storage.keys[1], after.audit.keys[1]) == (before.storage.newest, before.audit.newest)
    assert (set(after.storage.keys), set(after.audit.keys), after.identity) == ({1, 2}, {1, 2}, before.identity)
    told = (await desk.events(acme))[-1]
    assert (told["type"], told["outcome"]["result"], told["changes"]) == (
        "tenant.rotate", "allow", {"audit": 2, "storage": 2},
    )  # fmt: skip


async def test_an_identity_key_is_not_rotated_unless_the_loss_of_every_id_is_accepted(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    with pytest.raises(AdminRefused, match="accept-loss"):
        await rotate_tenant(desk.admin, acme, (Purpose.IDENTITY,))
    assert await rotate_tenant(desk.admin, acme, (Purpose.IDENTITY,), accept_loss=True) == [(Purpose.IDENTITY, 2)]


async def test_suspending_a_tenant_leaves_the_others_alone(desk: Desk) -> None:
    acme, globex = await create_tenant(desk.admin, "Acme"), await create_tenant(desk.admin, "Globex")
    await suspend_tenant(desk.admin, acme)
    state = await desk.admin.store.tenant_state(globex)
    assert state is not None
    assert state.status is TenantStatus.ACTIVE


async def test_an_erased_tenant_cannot_be_suspended_back_to_life(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    await desk.admin.store.set_tenant_status(acme, TenantStatus.ERASED)
    with pytest.raises(AdminRefused, match="erased"):
        await suspend_tenant(desk.admin, acme)
    with pytest.raises(AdminRefused, match="unknown or erased"):
        await resume_tenant(desk.admin, acme)
    assert [t.state async for t in list_tenants(desk.admin)] == ["erased"]


async def test_without_the_log_nothing_is_done(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    desk.server.pause()
    try:
        with pytest.raises(AdminRefused, match="audit log"):
            async with desk.admin.recorded(acme, AdminEvent.TENANT_SUSPEND):
                pytest.fail("the body ran without an intent")
    finally:
        desk.server.resume()
