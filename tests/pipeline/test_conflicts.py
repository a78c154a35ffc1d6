"""An upstream that answers a create with an object that somebody holds already."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.admin.ids import Upstream, adopt
from gateway.demo.stand_in.raw_ids import RawIds
from gateway.names import Owner
from gateway.upstreams.fleet import FIRST
from tests.pipeline.desk import Desk

PROJECT = "default"


def answer_with(at: Desk, raw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in's next response has this ID."""
    real = RawIds.new

    def new(self: RawIds, prefix: str, *args: Any, **more: Any) -> str:
        made = real(self, prefix, *args, **more)
        return raw if prefix == "resp_" else made

    monkeypatch.setattr(RawIds, "new", new)


def raw_of(at: Desk) -> str:
    return next(reversed(at.stand_in.provider.responses))


def deletes(at: Desk) -> int:
    return sum(one.method == "DELETE" for one in at.upstream)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_object_that_another_tenant_holds_is_withheld_and_buried(
    at: Desk, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    bobs = await at.created(who="bob")
    raw = raw_of(at)
    answer_with(at, raw, monkeypatch)
    reply = await at.create(stream=stream)
    assert reply.status_code == 502
    assert reply.headers["x-should-retry"] == "false"
    assert reply.json()["error"]["code"] == "mapping_conflict"
    assert (await at.outcomes(reply.headers["x-request-id"]))[-1] == ("error", "mapping_conflict", 502)
    assert deletes(at) == 0, "it is Bob's"
    assert (await at.call("GET", f"/responses/{bobs['id']}", who="bob")).status_code == 200
    # What Alice's record would have been called opens for nobody in her tenant.
    mapper = await mapper_of(at)
    opaque = mapper.to_opaque(mapper_kind(), raw).text
    assert (await at.call("GET", f"/responses/{opaque}")).status_code == 404
    assert await at.unanswered() == []


@pytest.mark.parametrize("stream", [False, True])
async def test_an_object_of_another_user_is_withheld_and_stays_theirs(
    at: Desk, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    carols = await at.created(who="carol")
    answer_with(at, raw_of(at), monkeypatch)
    reply = await at.create(stream=stream)
    assert reply.status_code == 502
    assert reply.json()["error"]["code"] == "mapping_conflict"
    assert (await at.outcomes(reply.headers["x-request-id"]))[-1] == ("error", "mapping_conflict", 502)
    assert deletes(at) == 0
    assert (await at.call("GET", f"/responses/{carols['id']}")).status_code == 404
    assert (await at.call("GET", f"/responses/{carols['id']}", who="carol")).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_ones_own_object_is_only_refreshed(at: Desk, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    first = await at.created()
    answer_with(at, raw_of(at), monkeypatch)
    reply = await at.create(stream=stream)
    assert reply.status_code == 200, reply.text
    assert first["id"] in reply.text
    assert (await at.call("GET", f"/responses/{first['id']}")).status_code == 200


async def test_ones_own_deleted_object_does_not_come_back(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await at.created()
    raw = raw_of(at)
    await at.call("DELETE", f"/responses/{first['id']}")
    answer_with(at, raw, monkeypatch)
    assert (await at.create()).status_code == 502
    assert (await at.call("GET", f"/responses/{first['id']}")).status_code == 404


async def test_an_adopted_object_is_its_owners(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await at.created(who="bob")
    raw = "resp_" + "0123456789abcdef" * 3
    tenant = await at.tenant("bob")
    await adopt(at.admin, tenant, raw, Owner("local", "bob"), Upstream(FIRST, PROJECT))
    answer_with(at, raw, monkeypatch)
    assert (await at.create()).status_code == 502


async def mapper_of(at: Desk) -> Any:
    from gateway.mapping import Mapper  # noqa: PLC0415

    shared = at.gateway.gateway.shared
    return Mapper(await shared.keyring.deployment(), await shared.keyring.tenant(await at.tenant()), FIRST, PROJECT)


def mapper_kind() -> Any:
    from gateway.names import Kind  # noqa: PLC0415

    return Kind.RESPONSE
