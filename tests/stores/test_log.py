"""What is asked of a log beyond its events, on a real Redis: who is first, what is refused, what stays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.names import Kind, TenantId
from gateway.stores.address import parse_target
from gateway.stores.contract import ApiKey, Begin, Entry, EventsLost, Finish, Mode, TenantStatus, Write
from gateway.stores.keyspace import tenant_keys
from gateway.stores.link import Link
from gateway.stores.log import Rules, Signed
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.redis_fixture import RedisServer

TENANT, OTHER = TenantId("aaaabbbbccccdddd"), TenantId("zzzzyyyyxxxxwwww")


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncIterator[RedisStore]:
    store = RedisStore(await Link.open(LinkSettings(parse_target(redis_server.url)), SCRIPTS))
    await store.create_tenant(TENANT, b"record")
    for number in range(1, 6):
        await store.begin(TENANT, Begin(Entry("w1", number, b"event %d" % number)))
    yield store
    await store.aclose()


def signed(size: int, before: int = 0, epoch: int = 0, last: bytes | None = None) -> Signed:
    body = b"event %d" % size if last is None else last
    return Signed(epoch, before, size, f"note {epoch} {size}", b"frontier %d" % size, "keys", body, b"leaf")


async def test_a_generation_that_is_no_number_stops_the_tenant_until_its_status_is_set(
    store: RedisStore, redis_server: RedisServer
) -> None:
    redis_server.command("HSET", tenant_keys(TENANT).meta, "generation", "x")
    begun = await store.begin(TENANT, Begin(Entry("w1", 6, b"event 6")))
    assert (begun.seq, begun.tenant_active) == (6, False)
    state = await store.tenant_state(TENANT)
    assert state is not None
    assert state.generation == -1
    assert await store.set_tenant_status(TENANT, TenantStatus.ACTIVE)
    begun = await store.begin(TENANT, Begin(Entry("w1", 7, b"event 7")))
    assert (begun.seq, begun.tenant_active, begun.generation) == (7, True, 1)


async def test_a_log_without_a_checkpoint_says_how_far_it_goes(store: RedisStore) -> None:
    state = await store.log.state(TENANT)
    assert state is not None
    assert (state.seq, state.size, state.note, state.halted) == (5, 0, "", "")
    assert await store.log.state(OTHER) is None


async def test_of_two_checkpoints_after_the_same_one_only_the_first_is_taken(store: RedisStore) -> None:
    assert await store.log.put_checkpoint(TENANT, signed(3))
    assert await store.log.put_checkpoint(TENANT, signed(3)), "the same call again"
    assert not await store.log.put_checkpoint(TENANT, signed(4))
    assert await store.log.put_checkpoint(TENANT, signed(5, before=3))
    state = await store.log.state(TENANT)
    assert state is not None
    assert (state.size, state.note, state.frontier, state.keys) == (5, "note 0 5", b"frontier 5", "keys")


async def test_a_checkpoint_over_events_that_are_no_longer_there_is_not_taken(store: RedisStore) -> None:
    assert not await store.log.put_checkpoint(TENANT, signed(5, last=b"another"))
    assert not await store.log.put_checkpoint(TENANT, signed(6))
    assert not await store.log.put_checkpoint(TENANT, signed(5, epoch=1))
    assert not await store.log.put_checkpoint(OTHER, signed(5))


async def test_a_halted_log_takes_neither_events_nor_checkpoints_and_keeps_the_first_reason(store: RedisStore) -> None:
    await store.log.halt(TENANT, "first")
    await store.log.halt(TENANT, "second")
    await store.log.halt(OTHER, "nobody")
    with pytest.raises(EventsLost):
        await store.begin(TENANT, Begin(Entry("w1", 6, b"event 6")))
    with pytest.raises(EventsLost):
        await store.finish(TENANT, Finish((Entry("w1", 6, b"event 6"),)))
    assert not await store.log.put_checkpoint(TENANT, signed(5))
    state = await store.log.state(TENANT)
    assert state is not None
    assert state.halted == "first"
    assert await store.log.state(OTHER) is None


async def test_a_reseal_appends_its_event_and_opens_the_next_epoch(store: RedisStore) -> None:
    await store.log.put_checkpoint(TENANT, signed(5))
    await store.log.set_anchored(TENANT, 0, 5)
    resealed = Entry("w9", 1, b"resealed")
    assert not await store.log.reseal(TENANT, resealed, signed(6, 0, 1, b"resealed")), "it is not halted"
    await store.log.halt(TENANT, "why")
    assert not await store.log.reseal(TENANT, resealed, signed(7, 0, 1, b"resealed")), "another size"
    assert not await store.log.reseal(TENANT, resealed, signed(6, 1, 2, b"resealed")), "another epoch"
    assert await store.log.reseal(TENANT, resealed, signed(6, 0, 1, b"resealed"))
    state = await store.log.state(TENANT)
    assert state is not None
    assert (state.seq, state.epoch, state.size, state.note, state.anchored) == (6, 1, 6, "note 1 6", 0)
    assert (await store.read_events(TENANT, 5, 10))[0].body == b"resealed"
    assert (await store.begin(TENANT, Begin(Entry("w1", 6, b"event 6")))).seq == 7


async def test_after_a_reseal_other_writers_that_lost_events_are_followed_without_another_halt(
    store: RedisStore,
) -> None:
    await store.begin(TENANT, Begin(Entry("w2", 1, b"x")))
    with pytest.raises(EventsLost):
        await store.begin(TENANT, Begin(Entry("w3", 1, b"opened", "w1", 9)))
    state = await store.log.state(TENANT)
    assert state is not None
    assert state.halted == "a writer confirmed 9 events and the log holds 5"
    assert await store.log.reseal(TENANT, Entry("w9", 1, b"resealed"), signed(7, 0, 1, b"resealed"))
    assert (await store.begin(TENANT, Begin(Entry("w4", 1, b"opened", "w2", 3)))).seq == 8
    await store.begin(TENANT, Begin(Entry("w5", 1, b"new")))
    with pytest.raises(EventsLost):
        await store.begin(TENANT, Begin(Entry("w6", 1, b"opened", "w5", 2)))


async def test_anchored_never_goes_back_and_belongs_to_its_epoch(store: RedisStore) -> None:
    await store.log.put_checkpoint(TENANT, signed(5))
    assert await store.log.set_anchored(TENANT, 0, 4)
    assert await store.log.set_anchored(TENANT, 0, 3)
    assert not await store.log.set_anchored(TENANT, 1, 5)
    assert not await store.log.set_anchored(TENANT, 0, 6), "ahead of the checkpoint"
    state = await store.log.state(TENANT)
    assert state is not None
    assert state.anchored == 4


async def test_only_what_is_anchored_is_trimmed_and_nothing_under_a_hold(store: RedisStore) -> None:
    assert not await store.log.trim(TENANT, 1, b"base")
    await store.log.put_checkpoint(TENANT, signed(4))
    await store.log.set_anchored(TENANT, 0, 4)
    assert not await store.log.trim(TENANT, 5, b"base")
    await store.log.set_rules(TENANT, hold=1)
    assert not await store.log.trim(TENANT, 3, b"base")
    await store.log.set_rules(TENANT, hold=0)
    assert await store.log.trim(TENANT, 3, b"base")
    assert not await store.log.trim(TENANT, 3, b"base")
    state = await store.log.state(TENANT)
    assert state is not None
    assert (state.trimmed, state.base) == (3, b"base")
    assert [event.seq for event in await store.read_events(TENANT, 0, 10)] == [4, 5]
    assert (await store.begin(TENANT, Begin(Entry("w1", 6, b"event 6")))).seq == 6


async def test_rules_are_kept_each_by_itself(store: RedisStore) -> None:
    assert await store.log.rules(TENANT) == Rules()
    await store.log.set_rules(TENANT, days=30)
    await store.log.set_rules(TENANT, webhook="https://example.com/", hold=1)
    assert await store.log.rules(TENANT) == Rules(30, True, "https://example.com/")
    await store.log.set_rules(TENANT, days=-1, hold=0)
    assert await store.log.rules(TENANT) == Rules(None, False, "https://example.com/")


async def test_a_purge_leaves_the_log_and_what_proves_it(store: RedisStore, redis_server: RedisServer) -> None:
    write = Write(Kind.RESPONSE, bytes(16), b"data", None, Mode.CREATE)
    await store.finish(TENANT, Finish((Entry("w1", 6, b"event 6"),), (write,), 1))
    await store.put_api_key(TENANT, "tag", ApiKey(b"data", None, revoked=False))
    await store.create_tenant(OTHER, b"other")
    await store.begin(OTHER, Begin(Entry("w1", 1, b"x"), open_until_s=9))
    await store.log.put_checkpoint(TENANT, signed(5))
    await store.log.set_rules(TENANT, days=5)
    assert [data async for _, data in store.log.records(TENANT)] == [b"data"]
    assert await store.log.purge(TENANT) == 4
    await store.set_tenant_status(TENANT, TenantStatus.ERASED)
    left = {name.decode().rpartition("}:")[2] for name in redis_server.command("KEYS", f"{{t:{TENANT}}}*")}
    assert left == {"meta", "aud", "ckpt", "rules"}
    assert len(await store.read_events(TENANT, 0, 10)) == 6
    assert len(redis_server.command("KEYS", f"{{t:{OTHER}}}*")) == 4
