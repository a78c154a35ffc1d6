"""`audit tail` on a real Redis."""

from __future__ import annotations

import asyncio
import json

from gateway.admin.events import as_json, as_line, tail
from gateway.admin.keys import create_key
from gateway.admin.tenants import create_tenant
from gateway.audit.event import Actor, Event, Outcome, Phase, RequestFacts, Result
from gateway.names import Owner
from gateway.stores.contract import StoredEvent
from tests.admin.conftest import Desk


async def test_the_newest_events_come_oldest_first_and_reading_is_one_of_them(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    for number in range(5):
        await create_key(desk.admin, acme, Owner("local", f"user{number}"))
    seqs = [stored.seq async for stored in tail(desk.admin, acme, newest=4)]
    assert seqs == [9, 10, 11, 12, 13]
    assert (await desk.story(acme))[-2:] == ["audit.read intent", "audit.read outcome allow"]


async def test_following_shows_each_new_event_once(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    seen: list[int] = []
    reached = asyncio.Event()

    async def follow() -> None:
        async for stored in tail(desk.admin, acme, follow=True):
            seen.append(stored.seq)
            if stored.seq == 5:
                reached.set()

    async with asyncio.TaskGroup() as group:
        following = group.create_task(follow())
        await asyncio.sleep(0.1)
        await create_key(desk.admin, acme, Owner("local", "alice"))
        async with asyncio.timeout(3):
            await reached.wait()
        following.cancel()
    assert seen == [1, 2, 3, 4, 5]


async def test_events_of_another_tenant_are_not_shown(desk: Desk) -> None:
    acme, globex = await create_tenant(desk.admin, "Acme"), await create_tenant(desk.admin, "Globex")
    await create_key(desk.admin, globex, Owner("local", "alice"))
    assert all(acme in as_json(stored) for stored in [one async for one in tail(desk.admin, acme)])


async def test_an_event_as_json_holds_the_stored_bytes(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    (stored,) = await desk.admin.store.read_events(acme, 0, 10)
    line = json.loads(as_json(stored))
    assert line["seq"] == 1
    assert line["event"] == json.loads(stored.body)
    assert stored.body.decode() in as_json(stored)


async def test_a_hostile_value_cannot_steer_the_terminal(desk: Desk) -> None:
    acme = await create_tenant(desk.admin, "Acme")
    event = Event(
        acme, 1_800_000_000_000_000, "responses.create", Phase.SINGLE, Actor("user", "ab12"),
        RequestFacts("req_1", model="gpt\x1b[2J\r\n\u202e\x9b31m"), Outcome(Result.DENY, "policy_denied", 403),
    )  # fmt: skip
    begun = await desk.admin.log.record(acme, event)
    stored = (await desk.admin.store.read_events(acme, begun.seq - 1, 1))[0]
    line = as_line(stored)
    assert line.isprintable()
    assert "policy_denied" in line
    assert "2027-01-15T08:00:00.000Z" in line


def test_what_is_no_event_is_told_as_such() -> None:
    assert "not an audit event" in as_line(StoredEvent(3, b"\xff{"))
