"""What is asked of the messages that wait, on the in-process Redis and on every real server at hand: lanes, leases, endings."""

from __future__ import annotations

import asyncio

import pytest

from gateway.names import TenantId
from gateway.stores.contract import TenantStatus
from gateway.stores.link import AnyLink
from gateway.stores.redis import RedisStore
from gateway.stores.webhooks import DeadLetter, Leased, Message, Put, WebhookState

TENANT, OTHER = TenantId("aaaabbbbccccdddd"), TenantId("zzzzyyyyxxxxwwww")
HOOK = "hook_1"


@pytest.fixture
async def store(link: AnyLink) -> RedisStore:
    store = RedisStore(link)
    await store.create_tenant(TENANT, b"record")
    assert await store.webhooks.add(TENANT, HOOK, b"sealed", 2)
    return store


def of(lane: str, number: int = 1) -> Message:
    return Message(f"msg_{lane}{number}", lane, 1_000 + number, f"sealed {lane} {number}")


async def put(store: RedisStore, *messages: Message, most: int = 10) -> list[Put]:
    return [await store.webhooks.put(TENANT, HOOK, message, most) for message in messages]


async def lease(store: RedisStore, owner: str = "a", lease_s: float = 60) -> Leased:
    leased = await store.webhooks.lease(TENANT, HOOK, owner, lease_s)
    assert leased is not None
    return leased


async def nothing_is_due(store: RedisStore) -> bool:
    return await store.webhooks.lease(TENANT, HOOK, "nobody", 60) is None


async def state(store: RedisStore) -> WebhookState:
    return await store.webhooks.state(TENANT, HOOK)


async def test_messages_of_one_lane_go_one_after_the_other_and_lanes_side_by_side(store: RedisStore) -> None:
    assert await put(store, of("aa", 1), of("aa", 2), of("bb", 1)) == [Put.TAKEN] * 3
    first, second = await lease(store, "1"), await lease(store, "2")
    assert {first.message, second.message} == {of("aa", 1), of("bb", 1)}
    assert await nothing_is_due(store), "the second of a lane waits for the first"
    assert await store.webhooks.delivered(TENANT, HOOK, "1" if first.message.lane == "aa" else "2", "aa")
    assert (await lease(store, "3")).message == of("aa", 2)
    assert (await state(store)).waiting == 2


async def test_a_message_is_taken_once_and_no_more_than_so_many(store: RedisStore) -> None:
    assert await put(store, of("aa"), of("aa")) == [Put.TAKEN, Put.KNOWN]
    assert await put(store, of("bb"), of("cc"), most=2) == [Put.TAKEN, Put.FULL]
    await lease(store)
    await store.webhooks.delivered(TENANT, HOOK, "a", "aa")
    assert await put(store, of("aa")) == [Put.KNOWN], "also after its delivery"
    assert await store.webhooks.put(TENANT, HOOK, of("aa"), 10, again=True) is Put.TAKEN


async def test_what_nobody_settled_is_somebody_elses_once_its_lease_is_over(store: RedisStore) -> None:
    await put(store, of("aa"))
    await lease(store, "a", 0.2)
    assert await nothing_is_due(store)
    await asyncio.sleep(0.25)
    assert (await lease(store, "b")).message == of("aa")
    assert not await store.webhooks.delivered(TENANT, HOOK, "a", "aa")
    assert not await store.webhooks.failed(TENANT, HOOK, "a", "aa", "late", (0, 0), stop=False)
    assert (await state(store)).waiting == 1
    assert await store.webhooks.delivered(TENANT, HOOK, "b", "aa")
    assert await state(store) == WebhookState()
    assert await nothing_is_due(store)


async def test_a_failure_keeps_its_lane_waiting_and_the_receiver_for_a_shorter_while(store: RedisStore) -> None:
    await put(store, of("aa", 1), of("aa", 2), of("bb", 1))
    failed = await lease(store)
    lane = failed.message.lane
    assert await store.webhooks.failed(TENANT, HOOK, "a", lane, "it answered 500", (0.8, 0.3), stop=False)
    now = await state(store)
    assert (now.failures, now.error, now.waiting, 0 < now.retry_in_s <= 0.3) == (1, "it answered 500", 3, True)
    assert await nothing_is_due(store)
    await asyncio.sleep(0.35)
    other = await lease(store)
    assert (other.message.lane != lane, other.attempts, other.failures) == (True, 0, 1)
    await store.webhooks.delivered(TENANT, HOOK, "a", other.message.lane)
    assert (await state(store)).failures == 0
    await asyncio.sleep(0.55)
    again = await lease(store)
    while again.message.lane != lane:
        await store.webhooks.delivered(TENANT, HOOK, "a", again.message.lane)
        again = await lease(store)
    assert (again.message, again.attempts) == (failed.message, 1)


async def test_a_stopped_receiver_is_left_alone_until_it_is_woken_and_then_all_is_due(store: RedisStore) -> None:
    await put(store, of("aa"), of("bb"))
    stopped = await lease(store)
    await store.webhooks.failed(TENANT, HOOK, "a", stopped.message.lane, "gone", (60, 60), stop=True)
    assert (await state(store)).stopped
    assert await nothing_is_due(store)
    await store.webhooks.wake(TENANT, HOOK)
    assert {(await lease(store, "1")).message.lane, (await lease(store, "2")).message.lane} == {"aa", "bb"}


async def test_a_dead_letter_stays_until_it_is_taken_out_and_makes_room_for_the_next_of_its_lane(
    store: RedisStore,
) -> None:
    await put(store, of("aa", 1), of("aa", 2))
    await lease(store)
    dead = DeadLetter(of("aa", 1), 5_000, 7, "it answered 500")
    assert await store.webhooks.bury(TENANT, HOOK, "a", dead, 1, 0.0)
    assert await store.webhooks.dead(TENANT, HOOK) == (dead,)
    assert ((await state(store)).waiting, (await state(store)).dead) == (1, 1)
    assert (await lease(store)).message == of("aa", 2)
    assert await store.webhooks.bury(TENANT, HOOK, "a", DeadLetter(of("aa", 2), 6_000, 7, "no"), 1, 0.0)
    assert await store.webhooks.dead(TENANT, HOOK) == (dead,), "no more than so many"
    await store.webhooks.exhume(TENANT, HOOK, dead.message.id)
    assert await store.webhooks.dead(TENANT, HOOK) == ()


async def test_what_is_removed_leaves_nothing_and_takes_nothing(store: RedisStore) -> None:
    await put(store, of("aa"), of("bb"))
    await lease(store)
    assert await store.webhooks.remove(TENANT, HOOK)
    assert not await store.webhooks.remove(TENANT, HOOK)
    assert await put(store, of("cc")) == [Put.GONE]
    assert not await store.webhooks.delivered(TENANT, HOOK, "a", "aa")
    assert await store.webhooks.names(TENANT) == []
    assert await store.webhooks.add(TENANT, HOOK, b"sealed", 2)
    assert await state(store) == WebhookState()
    assert await nothing_is_due(store)


async def test_a_suspended_tenants_messages_wait_and_an_erased_ones_are_nobodys(store: RedisStore) -> None:
    await put(store, of("aa"))
    await store.set_tenant_status(TENANT, TenantStatus.SUSPENDED)
    assert await nothing_is_due(store)
    await store.set_tenant_status(TENANT, TenantStatus.ACTIVE)
    assert (await lease(store)).message == of("aa")
    await store.set_tenant_status(TENANT, TenantStatus.ERASED)
    assert await put(store, of("bb")) == [Put.GONE]
    assert await nothing_is_due(store)


async def test_a_record_is_replaced_only_by_who_has_seen_it(store: RedisStore) -> None:
    assert not await store.webhooks.replace(TENANT, HOOK, b"another", b"new")
    assert await store.webhooks.replace(TENANT, HOOK, b"sealed", b"new")
    assert await store.webhooks.replace(TENANT, HOOK, b"sealed", b"new"), "the same call twice is one"
    assert await store.webhooks.records(TENANT) == {HOOK: b"new"}
    assert not await store.webhooks.add(OTHER, HOOK, b"sealed", 2)
