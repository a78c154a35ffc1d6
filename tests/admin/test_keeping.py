"""How a log is kept, as operators say it: each change is on record, and does what it says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from gateway.admin.administration import Administration, AdminRefused
from gateway.admin.events import Opened, as_json, as_line, opened, tail
from gateway.admin.keeping import hold, reseal_log, retain, set_anchor, standing
from gateway.audit.event import Event, Outcome, Phase, RequestFacts, Result
from gateway.audit.persons import NETWORK, person, sealed
from gateway.names import Owner, Principal, PrincipalKind, TenantId
from gateway.outgoing import Outgoing
from gateway.stores.log import Rules
from tests.audit.logbook import TENANT, Replica, cut, replica
from tests.redis_fixture import RedisServer, own_redis_server

__all__ = ["own_redis_server"]


@dataclass
class At:
    one: Replica
    admin: Administration

    async def newest(self) -> dict[str, object]:
        """The changes of the newest event, and its type and phase."""
        seq = (await self.one.state()).seq
        event = orjson.loads((await self.one.store.read_events(TENANT, seq - 1, 1))[0].body)
        return {"type": event["type"], "phase": event["phase"], **event["changes"]}


@pytest.fixture
async def at(own_redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[At]:
    async with replica(own_redis_server, tmp_path) as one:
        yield At(one, Administration(one.store, one.keyring, one.log, one.checkpointer))


async def test_retention_hold_and_anchor_are_set_and_on_record(at: At) -> None:
    await retain(at.admin, TENANT, 90)
    assert await at.newest() == {"type": "audit.retain", "phase": "outcome", "days": 90}
    await hold(at.admin, TENANT, True)
    assert await at.newest() == {"type": "audit.hold", "phase": "outcome", "on": True}
    await set_anchor(at.admin, Outgoing(), TENANT, "https://example.com/hook?secret=abc")
    assert await at.newest() == {"type": "audit.anchor", "phase": "outcome", "webhook": True}
    _, rules = await standing(at.admin, TENANT)
    assert rules == Rules(90, True, "https://example.com/hook?secret=abc")
    await retain(at.admin, TENANT, None)
    await hold(at.admin, TENANT, False)
    await set_anchor(at.admin, Outgoing(), TENANT, "")
    assert (await standing(at.admin, TENANT))[1] == Rules()


@pytest.mark.parametrize("url", ["http://example.com/", "https://10.0.0.1/", "https://127.0.0.1/", "nonsense"])
async def test_an_anchor_that_may_not_be_called_is_refused_when_it_is_set(at: At, url: str) -> None:
    with pytest.raises(AdminRefused):
        await set_anchor(at.admin, Outgoing(), TENANT, url)
    assert (await standing(at.admin, TENANT))[1].webhook == ""


async def test_a_halted_log_goes_on_after_a_reseal(at: At, own_redis_server: RedisServer) -> None:
    with pytest.raises(AdminRefused, match="not halted"):
        await reseal_log(at.admin, TENANT)
    await at.one.signed(5)
    cut(own_redis_server, 4)
    await at.one.checkpointer.check([TENANT])
    with pytest.raises(AdminRefused, match="audit log cannot be written"):
        await retain(at.admin, TENANT, 1)
    done = await reseal_log(at.admin, TENANT)
    assert (done.epoch, done.first, done.last) == (1, 5, 5)
    await retain(at.admin, TENANT, 1)


async def test_an_unknown_tenant_has_no_standing(at: At) -> None:
    with pytest.raises(AdminRefused):
        await standing(at.admin, TenantId("nobodynobodynobo"))


async def test_auditors_open_the_personal_fields_of_their_own_tenant_and_the_log_says_so(at: At) -> None:
    keys = await at.one.audit_keys.tenant(TENANT)
    alice = Principal(TENANT, Owner("idp", "alice@example.com"), PrincipalKind.USER, "jwt")
    facts = RequestFacts("req_1", network=sealed(keys.newest, keys.current, TENANT, NETWORK, "192.0.2.7"))
    actor = person(keys.newest, keys.current, alice)
    await at.one.log.record(
        TENANT, Event(TENANT, 1, "responses.get", Phase.SINGLE, actor, facts, Outcome(Result.ALLOW, "", 200))
    )
    stored, *_ = [one async for one in tail(at.admin, TENANT, opens=True)]
    assert b"alice@example.com" not in stored.body
    personal = opened(keys, TENANT, stored)
    assert personal == Opened("alice@example.com", "192.0.2.7")
    assert "alice@example.com" in as_line(stored, personal)
    assert "alice" not in as_line(stored)
    assert orjson.loads(as_json(stored, personal))["opened"] == {"subject": "alice@example.com", "network": "192.0.2.7"}
    assert (await at.newest())["opened"] is True
    others = await at.one.audit_keys.tenant(TenantId("zzzzyyyyxxxxwwww"))
    assert opened(others, TenantId("zzzzyyyyxxxxwwww"), stored) == Opened()
