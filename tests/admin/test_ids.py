"""Adopting raw IDs and showing what opaque ones stand for, on a real Redis."""

from __future__ import annotations

import secrets

import pytest

from gateway.admin.administration import AdminEvent, AdminRefused
from gateway.admin.ids import Line, Upstream, adopt, adopt_lines, show
from gateway.admin.tenants import create_tenant, suspend_tenant
from gateway.mapping import Mapper
from gateway.names import Kind, OpaqueId, Owner, TenantId, Visibility
from gateway.stores.contract import Mode
from tests.admin.conftest import Desk

UPSTREAM = Upstream("default", "proj_test")
ALICE, CAROL = Owner("local", "alice"), Owner("local", "carol")


def raw_id(prefix: str = "resp_") -> str:
    return prefix + "0" + secrets.token_hex(24) + "1"


async def mapper(desk: Desk, tenant: TenantId) -> Mapper:
    keyring = desk.admin.keyring
    return Mapper(await keyring.deployment(), await keyring.tenant(tenant), UPSTREAM.name, UPSTREAM.project)


async def lines(desk: Desk, tenant: TenantId, text: str, owner: Owner | None = None) -> list[Line]:
    return [line async for line in adopt_lines(desk.admin, tenant, text.splitlines(), owner, UPSTREAM)]


@pytest.mark.parametrize(("prefix", "kind"), [("resp_", Kind.RESPONSE), ("conv_", Kind.CONVERSATION)])
async def test_an_adopted_id_opens_for_its_owner_under_the_id_that_the_gateway_would_mint(
    desk: Desk, prefix: str, kind: Kind
) -> None:
    acme, raw = await create_tenant(desk.admin, "Acme"), raw_id(prefix)
    opaque = await adopt(desk.admin, acme, raw, ALICE, UPSTREAM)
    assert opaque == (await mapper(desk, acme)).to_opaque(kind, raw)
    shown = await show(desk.admin, acme, opaque.text, UPSTREAM)
    assert (shown.raw.text, shown.raw.kind) == (raw, kind)
    assert shown.opened.root.owner == ALICE
    assert shown.opened.root.visibility is Visibility.PRIVATE


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ("file-" + "a1" * 12, Kind.FILE),
        ("vs_" + "a1" * 16, Kind.VECTOR_STORE),
        ("cntr_" + "a1" * 24, Kind.CONTAINER),
        ("skill_" + "a1" * 24, Kind.SKILL),
        ("ftjob-" + "a1" * 12, Kind.FINE_TUNING_JOB),
        ("ft:gpt-4o-mini-2024-07-18:acme:coats:8k01tfYd", Kind.FINE_TUNED_MODEL),
    ],
)
async def test_an_object_of_any_kind_that_is_served_is_adopted(desk: Desk, raw: str, kind: Kind) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    opaque = await adopt(desk.admin, acme, raw, ALICE, UPSTREAM)
    assert opaque.text.startswith(raw[: len(opaque.text) - 34])
    shown = await show(desk.admin, acme, opaque.text, UPSTREAM)
    assert (shown.raw.kind, shown.raw.text, shown.opened.root.owner) == (kind, raw, ALICE)


async def test_adopting_again_is_fine_for_the_same_owner_and_refused_for_another(desk: Desk) -> None:
    acme, raw = await create_tenant(desk.admin, "Acme"), raw_id()
    assert await adopt(desk.admin, acme, raw, ALICE, UPSTREAM) == await adopt(desk.admin, acme, raw, ALICE, UPSTREAM)
    with pytest.raises(AdminRefused, match="another owner"):
        await adopt(desk.admin, acme, raw, CAROL, UPSTREAM)
    opaque = (await mapper(desk, acme)).to_opaque(Kind.RESPONSE, raw)
    assert (await show(desk.admin, acme, opaque.text, UPSTREAM)).opened.root.owner == ALICE


async def test_an_object_that_another_tenant_holds_is_refused_and_nothing_is_recorded(desk: Desk) -> None:
    acme, globex = await create_tenant(desk.admin, "Acme"), await create_tenant(desk.admin, "Globex")
    raw = raw_id()
    await adopt(desk.admin, acme, raw, ALICE, UPSTREAM)
    with pytest.raises(AdminRefused, match="another tenant"):
        await adopt(desk.admin, globex, raw, ALICE, UPSTREAM)
    assert desk.server.command("KEYS", f"{{t:{globex}}}:id:*") == []
    assert (await desk.story(globex))[-1] == "id.adopt outcome deny"


async def test_an_object_that_was_deleted_here_is_not_adopted_back(desk: Desk) -> None:
    acme, raw = await create_tenant(desk.admin, "Acme"), raw_id()
    opaque = await adopt(desk.admin, acme, raw, ALICE, UPSTREAM)
    opened = (await show(desk.admin, acme, opaque.text, UPSTREAM)).opened
    tombstone = (await mapper(desk, acme)).write_tombstone(opened)
    assert tombstone.mode is Mode.TOMBSTONE
    async with desk.admin.recorded(acme, AdminEvent.ID_ADOPT) as recording:
        await recording.write(tombstone)
    with pytest.raises(AdminRefused, match="deleted"):
        await adopt(desk.admin, acme, raw, ALICE, UPSTREAM)


@pytest.mark.parametrize("raw", [
    "", "resp_", "resp_short1", "hello", "msg_" + "a1" * 20, "pmpt_" + "a1" * 12, "org-" + "a1" * 12, "sk-" + "a1" * 20,
    "resp_" + "a1" * 40, "resp_" + "a1" * 20 + "\n", " resp_" + "a1" * 20, "RESP_" + "a1" * 20, "a1" * 20,
])  # fmt: skip
async def test_what_is_no_id_of_an_object_that_can_be_owned_is_refused(desk: Desk, raw: str) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    with pytest.raises(AdminRefused):
        await adopt(desk.admin, acme, raw, ALICE, UPSTREAM)
    assert desk.server.command("KEYS", "*:id:*") == []
    assert desk.server.command("KEYS", "own:*") == []


async def test_an_opaque_id_is_not_adopted(desk: Desk) -> None:
    acme, globex = await create_tenant(desk.admin, "Acme"), await create_tenant(desk.admin, "Globex")
    opaque = await adopt(desk.admin, acme, raw_id(), ALICE, UPSTREAM)
    for tenant in (acme, globex):
        with pytest.raises(AdminRefused, match="opaque"):
            await adopt(desk.admin, tenant, opaque.text, ALICE, UPSTREAM)


async def test_a_file_is_adopted_line_by_line_and_wrong_lines_are_told(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    first, second = raw_id(), raw_id("conv_")
    text = f"# mine\n{first}\n\nnot an id\n{second} local#carol\n{second} local#alice\n{raw_id()} nobody\n"
    told = await lines(desk, acme, text, ALICE)
    assert [(line.number, line.opaque is not None) for line in told] == [
        (2, True), (4, False), (5, True), (6, False), (7, False),
    ]  # fmt: skip
    assert all(line.error for line in told if line.opaque is None)
    assert "another owner" in told[3].error
    opaque = told[2].opaque
    assert opaque is not None
    assert (await show(desk.admin, acme, opaque.text, UPSTREAM)).opened.root.owner == CAROL
    assert not any(raw in line.error for line in told for raw in (first, second))


async def test_a_line_without_an_owner_needs_a_default(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    (line,) = await lines(desk, acme, raw_id())
    assert "no owner" in line.error


async def test_only_the_tenants_own_recorded_ids_are_shown(desk: Desk) -> None:
    acme, globex = await create_tenant(desk.admin, "Acme"), await create_tenant(desk.admin, "Globex")
    opaque = await adopt(desk.admin, acme, raw_id(), ALICE, UPSTREAM)
    never = (await mapper(desk, acme)).to_opaque(Kind.RESPONSE, raw_id())
    flipped = opaque.text[:-1] + ("0" if opaque.text[-1] != "0" else "1")
    for tenant, text in ((globex, opaque.text), (acme, never.text), (acme, flipped), (acme, raw_id()), (acme, "")):
        with pytest.raises(AdminRefused):
            await show(desk.admin, tenant, text, UPSTREAM)


async def test_adopting_and_showing_are_on_record_with_the_opaque_id_alone(desk: Desk) -> None:
    acme, raw = await create_tenant(desk.admin, "Acme"), raw_id()
    opaque = await adopt(desk.admin, acme, raw, ALICE, UPSTREAM)
    await show(desk.admin, acme, opaque.text, UPSTREAM)
    assert (await desk.story(acme))[1:] == [
        "id.adopt intent", "id.adopt outcome accepted", "id.adopt outcome allow",
        "id.show intent", "id.show outcome allow",
    ]  # fmt: skip
    assert all(event["targets"] == [{"kind": "response", "id": opaque.text}] for event in (await desk.events(acme))[1:])
    assert raw not in desk.dump()
    assert raw[5:] not in desk.dump()


async def test_a_suspended_tenants_ids_are_neither_adopted_nor_shown(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    opaque = await adopt(desk.admin, acme, raw_id(), ALICE, UPSTREAM)
    await suspend_tenant(desk.admin, acme)
    with pytest.raises(AdminRefused, match="suspended"):
        await show(desk.admin, acme, opaque.text, UPSTREAM)
    with pytest.raises(AdminRefused, match="suspended"):
        await adopt(desk.admin, acme, raw_id(), ALICE, UPSTREAM)
    assert len(desk.server.command("KEYS", "own:*")) == 1


async def test_what_is_shown_does_not_print_its_raw_id_by_accident(desk: Desk) -> None:
    acme, raw = await create_tenant(desk.admin, "Acme"), raw_id()
    opaque = await adopt(desk.admin, acme, raw, ALICE, UPSTREAM)
    assert raw not in repr(await show(desk.admin, acme, opaque.text, UPSTREAM))
    assert isinstance(opaque, OpaqueId)
