"""What is asked of a stream's state, on the in-process Redis and on every real server at hand: who has it, and what moves it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.names import TenantId
from gateway.stores.contract import Begin, Entry, TenantStatus
from gateway.stores.link import AnyLink
from gateway.stores.redis import RedisStore

TENANT, OTHER = TenantId("aaaabbbbccccdddd"), TenantId("zzzzyyyyxxxxwwww")


@pytest.fixture
async def store(link: AnyLink) -> RedisStore:
    store = RedisStore(link)
    await store.create_tenant(TENANT, b"record")
    for number in range(1, 6):
        await store.begin(TENANT, Begin(Entry("w1", number, b"event %d" % number)))
    return store


async def add(store: RedisStore, name: str = "st_1", *, from_start: bool = True) -> bool:
    return await store.streams.add(TENANT, name, b"sealed", 2, from_start=from_start)


async def test_a_stream_begins_at_either_end_of_the_log(store: RedisStore) -> None:
    assert await add(store, "st_1")
    assert await add(store, "st_2", from_start=False)
    first, second = await store.streams.state(TENANT, "st_1"), await store.streams.state(TENANT, "st_2")
    assert (first.cursor, first.seq, first.behind) == (0, 5, 5)
    assert (second.cursor, second.seq, second.behind) == (5, 5, 0)
    assert await store.streams.tenants() == {TENANT}
    assert await store.streams.records(TENANT) == {"st_1": b"sealed", "st_2": b"sealed"}


async def test_no_more_than_so_many_are_taken_and_the_same_call_twice_is_one(store: RedisStore) -> None:
    assert await add(store, "st_1")
    assert await add(store, "st_1")
    assert await add(store, "st_2")
    assert not await add(store, "st_3")
    assert not await store.streams.add(OTHER, "st_1", b"sealed", 2, from_start=True)


async def test_one_has_a_stream_until_its_lease_is_over(store: RedisStore) -> None:
    await add(store)
    assert await store.streams.lease(TENANT, "st_1", "a", 0.2, upto=3)
    assert await store.streams.lease(TENANT, "st_1", "b", 60) is None
    assert await store.streams.lease(TENANT, "st_1", "a", 0.2)
    await asyncio.sleep(0.25)
    taken = await store.streams.lease(TENANT, "st_1", "b", 60)
    assert taken is not None
    assert (taken.cursor, taken.upto) == (0, 3)
    assert not await store.streams.delivered(TENANT, "st_1", "a", 3, "digest")
    assert await store.streams.delivered(TENANT, "st_1", "b", 3, "digest")
    state = await store.streams.state(TENANT, "st_1")
    assert (state.cursor, state.digest, state.upto, state.behind) == (3, "digest", 0, 2)


async def test_a_failure_makes_everybody_wait_and_a_delivery_forgets_it(store: RedisStore) -> None:
    await add(store)
    await store.streams.lease(TENANT, "st_1", "a", 60)
    assert await store.streams.failed(TENANT, "st_1", "a", 4, "it answered 500", 0.3, stop=False)
    state = await store.streams.state(TENANT, "st_1")
    assert (state.failures, state.error, 0 < state.retry_in_s <= 0.3) == (4, "it answered 500", True)
    assert await store.streams.lease(TENANT, "st_1", "a", 60) is None
    await asyncio.sleep(0.35)
    again = await store.streams.lease(TENANT, "st_1", "a", 60)
    assert again is not None
    assert again.failures == 4
    await store.streams.delivered(TENANT, "st_1", "a", 1, "digest")
    state = await store.streams.state(TENANT, "st_1")
    assert (state.failures, state.error, state.retry_in_s) == (0, "", 0)


async def test_a_stopped_stream_is_nobodys_until_it_is_woken(store: RedisStore) -> None:
    await add(store)
    await store.streams.lease(TENANT, "st_1", "a", 60)
    await store.streams.failed(TENANT, "st_1", "a", 1, "gone", 60, stop=True)
    assert (await store.streams.state(TENANT, "st_1")).stopped
    assert await store.streams.lease(TENANT, "st_1", "a", 60) is None
    await store.streams.wake(TENANT, "st_1")
    assert await store.streams.lease(TENANT, "st_1", "a", 60)


async def test_a_stream_that_is_removed_or_whose_tenant_is_erased_is_nobodys(store: RedisStore) -> None:
    await add(store, "st_1")
    await add(store, "st_2")
    await store.streams.lease(TENANT, "st_1", "a", 60)
    assert await store.streams.remove(TENANT, "st_1")
    assert not await store.streams.remove(TENANT, "st_1")
    assert await store.streams.lease(TENANT, "st_1", "a", 60) is None
    assert not await store.streams.delivered(TENANT, "st_1", "a", 5, "digest"), "nothing of it comes back"
    assert (await store.streams.state(TENANT, "st_1")).cursor == 0
    await store.set_tenant_status(TENANT, TenantStatus.ERASED)
    assert await store.streams.lease(TENANT, "st_2", "a", 60) is None
    assert not await add(store, "st_3")
    await store.streams.forget(TENANT)
    assert await store.streams.tenants() == frozenset()
