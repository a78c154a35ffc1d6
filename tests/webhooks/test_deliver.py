"""Delivery on a real Redis to receivers that behave as a test says: at least once, in each object's order, by one replica."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest
from openai import InvalidWebhookSignatureError, OpenAI

from gateway.audit.event import Target
from gateway.audit.log import AuditLog
from gateway.audit.receivers import NewReceiver, ReceiverRefused
from gateway.audit.sinks import OVERLAP_S
from gateway.standard_webhooks import message_id
from gateway.stores.contract import TenantStatus
from gateway.stores.webhooks import Message, Put, WebhookState
from gateway.webhooks import message
from gateway.webhooks.deliver import Deliverer, DeliverySettings
from gateway.webhooks.registry import MOST, Webhooks
from tests.audit.streams.conftest import OTHER, TENANT, Receiver, Stage, delivering, receiving, stage
from tests.patience import PATIENT_LOG
from tests.redis_fixture import _session_redis_server, redis_server, until

__all__ = ["_session_redis_server", "redis_server", "stage"]

QUICK = DeliverySettings(
    lease_s=5.0, poll_s=0.02, discover_s=0.05, first_pause_s=0.05, longest_pause_s=0.2, longest_rest_s=0.1
)
SLOW = replace(QUICK, lease_s=60.0, first_pause_s=60.0, longest_pause_s=60.0, longest_rest_s=60.0)
KEYS = itertools.count()


@dataclass(slots=True)
class Desk:
    """A tenant's webhooks, and what the intake would put down for them."""

    stage: Stage
    log: AuditLog
    webhooks: Webhooks

    async def add(self, receiver: Receiver, tenant: Any = TENANT) -> NewReceiver:
        return await self.webhooks.add(tenant, await self.stage.keys(tenant), receiver.url)

    async def put(
        self, hook: NewReceiver, lane: str, number: int, tenant: Any = TENANT, *, came_ms: int = 0
    ) -> Message:
        keys = await self.stage.keys(tenant)
        body = orjson.dumps({"type": "batch.completed", "data": {"id": f"batch_{lane}"}, "number": number})
        content = message.Content(body, "batch.completed", Target("batch", f"batch_{lane}"))
        id_ = message_id(hook.id, f"wh_{next(KEYS)}".encode())
        made = message.seal(keys, tenant, hook.id, id_, lane, came_ms or 2**42, content)
        assert await self.webhooks.store.put(tenant, hook.id, made, 100_000) is Put.TAKEN
        return made

    def deliverer(self, settings: DeliverySettings = QUICK) -> Deliverer:
        """Of another replica each time."""
        at = self.stage
        return Deliverer(at.store, self.webhooks, at.keyring, self.log, settings)

    async def state(self, hook: NewReceiver, tenant: Any = TENANT) -> WebhookState:
        return await self.webhooks.store.state(tenant, hook.id)

    async def events(self, tenant: Any = TENANT) -> list[dict[str, Any]]:
        stored = await self.stage.store.read_events(tenant, 0, 10_000)
        return [one for row in stored if (one := orjson.loads(row.body))["type"] == "webhook.deliver"]


@pytest.fixture
async def desk(stage: Stage) -> AsyncIterator[Desk]:
    log = AuditLog(stage.store, stage.keyring, PATIENT_LOG)
    yield Desk(stage, log, Webhooks(stage.store.webhooks, stage.outgoing))
    await log.aclose()


def said(receiver: Receiver) -> list[tuple[str, int]]:
    """Object and number of each event that came, in order."""
    bodies = [orjson.loads(post.body) for post in receiver.posts]
    return [(body["data"]["id"].removeprefix("batch_"), body["number"]) for body in bodies]


def firsts(rows: list[tuple[str, int]]) -> dict[str, list[int]]:
    """By object, its numbers in the order in which each came first."""
    seen: dict[str, list[int]] = {}
    for lane, number in rows:
        if number not in seen.setdefault(lane, []):
            seen[lane].append(number)
    return seen


def verify(receiver: Receiver, secret: str) -> None:
    """As a client of the official SDK does."""
    for post in receiver.posts:
        OpenAI(api_key="none").webhooks.verify_signature(post.body, post.headers, secret=secret)


async def test_each_message_is_delivered_once_signed_and_on_record(desk: Desk) -> None:
    async with receiving() as receiver:
        hook = await desk.add(receiver)
        for number in range(3):
            await desk.put(hook, "aa", number)
        await desk.put(hook, "bb", 0)
        async with delivering(desk.deliverer(), desk.deliverer(), desk.deliverer()):
            await until(lambda: len(receiver.posts) == 4)
            await asyncio.sleep(0.2)
        verify(receiver, hook.secret)
        assert sorted(said(receiver)) == [("aa", 0), ("aa", 1), ("aa", 2), ("bb", 0)]
        assert firsts(said(receiver))["aa"] == [0, 1, 2]
        assert await desk.state(hook) == WebhookState()
        events = await desk.events()
        assert [one["outcome"] for one in events] == [
            {"policy": "", "reason": "", "result": "allow", "status": 200}
        ] * 4
        assert {one["targets"][0]["id"] for one in events} == {"batch_aa", "batch_bb"}
        assert {one["changes"]["message"] for one in events} == {post.headers["webhook-id"] for post in receiver.posts}


@pytest.mark.parametrize("status", [500, 404, 301, 302, 307, 308, 429, 0, -1])
async def test_what_fails_goes_again_as_the_very_same_message_and_no_redirect_is_followed(
    desk: Desk, status: int
) -> None:
    async with receiving(status) as receiver, receiving() as elsewhere:
        receiver.location = elsewhere.url
        hook = await desk.add(receiver)
        await desk.put(hook, "aa", 1)
        assert not await desk.deliverer(SLOW).deliver(TENANT, hook.id)
        now = await desk.state(hook)
        assert (now.waiting, now.failures, now.dead, bool(now.error), now.retry_in_s > 0) == (1, 1, 0, True, True)
        assert not await desk.deliverer(SLOW).deliver(TENANT, hook.id), "it is left alone"
        assert await desk.events() == []
        receiver.status = 200
        await desk.webhooks.store.wake(TENANT, hook.id)
        assert await desk.deliverer().deliver(TENANT, hook.id)
        first, second = receiver.posts
        assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])
        verify(receiver, hook.secret)
        assert elsewhere.posts == []
        (event,) = await desk.events()
        assert event["changes"]["attempts"] == 2


async def test_an_object_whose_events_fail_keeps_its_order_and_holds_up_no_other(desk: Desk) -> None:
    async with receiving() as receiver:
        receiver.refused = b'"batch_aa"'
        hook = await desk.add(receiver)
        for number in range(3):
            for lane in ("aa", "bb", "cc"):
                await desk.put(hook, lane, number)
        async with delivering(desk.deliverer(), desk.deliverer()):
            await until(lambda: {("bb", 2), ("cc", 2)} <= set(said(receiver)))
            assert {row for row in said(receiver) if row[0] == "aa"} == {("aa", 0)}
            receiver.refused = b""
            await until(lambda: ("aa", 2) in said(receiver))
        assert firsts(said(receiver)) == {lane: [0, 1, 2] for lane in ("aa", "bb", "cc")}


async def test_what_is_given_up_is_a_dead_letter_that_can_be_read_and_sent_again(desk: Desk) -> None:
    async with receiving(500) as receiver:
        hook = await desk.add(receiver)
        old, young = await desk.put(hook, "aa", 1, came_ms=1), await desk.put(hook, "aa", 2)
        assert not await desk.deliverer(SLOW).deliver(TENANT, hook.id)
        (dead,) = await desk.webhooks.dead(TENANT, await desk.stage.keys(), hook.id)
        assert (dead.letter.message, dead.letter.error, dead.letter.attempts) == (old, "the receiver answered 500", 1)
        assert dead.content is not None
        assert (dead.content.type, dead.content.target.id) == ("batch.completed", "batch_aa")
        (event,) = await desk.events()
        outcome = event["outcome"]
        assert (outcome["reason"], outcome["result"], outcome["status"]) == ("webhook_given_up", "error", 500)
        receiver.status = 200
        await desk.webhooks.store.wake(TENANT, hook.id)
        with pytest.raises(ReceiverRefused):
            await desk.webhooks.replay(TENANT, hook.id, young.id)
        assert await desk.webhooks.replay(TENANT, hook.id, old.id) == 1
        assert await desk.webhooks.replay(TENANT, hook.id) == 0
        async with delivering(desk.deliverer()):
            await until(lambda: len(receiver.posts) == 3)
        assert said(receiver) == [("aa", 1), ("aa", 2), ("aa", 1)]
        assert receiver.posts[0].headers["webhook-id"] == receiver.posts[2].headers["webhook-id"]
        assert await desk.state(hook) == WebhookState()


async def test_a_receiver_that_wants_no_more_gets_no_more_until_it_is_tried_again(desk: Desk) -> None:
    async with receiving(410) as receiver:
        hook = await desk.add(receiver)
        await desk.put(hook, "aa", 1, came_ms=1)
        async with delivering(desk.deliverer()):
            await until(lambda: receiver.posts)
            await asyncio.sleep(0.3)
            assert len(receiver.posts) == 1
            assert ((await desk.state(hook)).stopped, (await desk.state(hook)).waiting) == (True, 1)
            receiver.status = 200
            assert await desk.webhooks.test(TENANT, await desk.stage.keys(), hook.id) == 200
            await until(lambda: len(receiver.posts) == 3)
        assert orjson.loads(receiver.posts[1].body)["type"] == "webhook.test"
        verify(receiver, hook.secret)


async def test_a_new_secret_and_the_old_one_both_verify_for_a_day(desk: Desk) -> None:
    async with receiving() as receiver:
        hook = await desk.add(receiver)
        rotated = await desk.webhooks.rotate(TENANT, await desk.stage.keys(), hook.id)
        await desk.put(hook, "aa", 1)
        assert await desk.deliverer().deliver(TENANT, hook.id)
        verify(receiver, hook.secret)
        verify(receiver, rotated.secret)
        (listed,) = await desk.webhooks.list(TENANT, await desk.stage.keys())
        assert listed.sink is not None
        at = listed.sink.replaced_s
        assert (len(listed.sink.secrets(at + OVERLAP_S - 1)), len(listed.sink.secrets(at + OVERLAP_S))) == (2, 1)
        assert listed.sink.secrets(at)[0] != listed.sink.secrets(at)[1]


async def test_a_message_opens_at_its_own_webhook_only(desk: Desk) -> None:
    async with receiving() as mine, receiving() as theirs:
        hook, stranger = await desk.add(mine), await desk.add(theirs, OTHER)
        moved = await desk.put(hook, "aa", 1)
        assert await desk.webhooks.store.put(OTHER, stranger.id, moved, 10) is Put.TAKEN
        forged = replace(moved, id="msg_" + "0" * 32, sealed="1." + "A" * 80)
        assert await desk.webhooks.store.put(TENANT, hook.id, forged, 10) is Put.TAKEN
        async with delivering(desk.deliverer()):
            await until(lambda: mine.posts)
            await asyncio.sleep(0.2)
        assert (len(mine.posts), theirs.posts) == (1, [])
        assert (await desk.state(stranger, OTHER)).dead == 1
        assert (await desk.state(hook)).dead == 1
        with pytest.raises(InvalidWebhookSignatureError):
            verify(mine, stranger.secret)


async def test_what_was_removed_or_suspended_meanwhile_gets_nothing(desk: Desk) -> None:
    async with receiving() as receiver, receiving() as other:
        hook, suspended = await desk.add(receiver), await desk.add(other, OTHER)
        await desk.put(hook, "aa", 1)
        await desk.put(suspended, "aa", 1, OTHER)
        await desk.webhooks.remove(TENANT, hook.id)
        await desk.stage.store.set_tenant_status(OTHER, TenantStatus.SUSPENDED)
        async with delivering(desk.deliverer()):
            await asyncio.sleep(0.3)
        assert (receiver.posts, other.posts) == ([], [])
        assert not desk.stage.server.command("KEYS", f"{{t:{TENANT}}}:hook:*")
        assert (await desk.state(suspended, OTHER)).waiting == 1


async def test_a_tenant_has_few_webhooks_and_none_leads_inside(desk: Desk) -> None:
    inside = Webhooks(desk.webhooks.store, type(desk.stage.outgoing)())
    for url in ("http://example.com/", "https://127.0.0.1/", "https://169.254.169.254/", "https://[::1]/", "ftp://x/"):
        with pytest.raises(ReceiverRefused):
            await inside.add(TENANT, await desk.stage.keys(), url)
    made = [await inside.add(TENANT, await desk.stage.keys(), f"https://example.com/{at}?a=b") for at in range(MOST)]
    with pytest.raises(ReceiverRefused, match="at most"):
        await inside.add(TENANT, await desk.stage.keys(), "https://example.com/")
    rows = await inside.list(TENANT, await desk.stage.keys())
    assert {row.id for row in rows} == {one.id for one in made}
    assert {row.sink.shown for row in rows if row.sink} == {f"https://example.com/{at}?…" for at in range(MOST)}
    for call in (inside.remove(TENANT, "hook_x"), inside.rotate(TENANT, await desk.stage.keys(), "hook_x")):
        with pytest.raises(ReceiverRefused, match="no such"):
            await call


async def test_one_replica_that_ends_in_the_middle_leaves_nothing_undelivered(desk: Desk) -> None:
    async with receiving(pause_s=0.05) as receiver:
        hook = await desk.add(receiver)
        rng, wanted = random.Random(7), []
        for number in range(10):
            for lane in ("aa", "bb", "cc", "dd"):
                await desk.put(hook, lane, number)
                wanted.append((lane, number))
        brief = replace(QUICK, lease_s=0.6)
        for _ in range(3):
            async with delivering(desk.deliverer(brief)):
                await asyncio.sleep(rng.uniform(0.1, 0.3))
        async with delivering(desk.deliverer(brief), desk.deliverer(brief)):
            await until(lambda: set(said(receiver)) == set(wanted), 30)
        assert firsts(said(receiver)) == {lane: list(range(10)) for lane in ("aa", "bb", "cc", "dd")}
