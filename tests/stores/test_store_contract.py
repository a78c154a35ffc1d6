"""The store's contract, on the in-process Redis and on every real server at hand: PATH's, the oldest supported, Valkey."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.ids.kinds import KINDS
from gateway.names import Kind, TenantId
from gateway.stores.address import parse_target
from gateway.stores.contract import (
    ApiKey,
    Begin,
    Begun,
    Entry,
    EventsLost,
    Finish,
    Finished,
    Found,
    Lookup,
    Mode,
    Store,
    TenantStatus,
    Write,
    WriterRefused,
)
from gateway.stores.fake import FakeLink
from gateway.stores.keyspace import tenant_keys
from gateway.stores.link import AnyLink, Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.redis_fixture import RedisServer, server_binary, wheel_binaries

TENANT = TenantId("aaaabbbbccccdddd")
OTHER = TenantId("zzzzyyyyxxxxwwww")
H1, H2, H3 = b"\x01" * 16, b"\xfe" * 16, b"\x00" * 16
ROOT = b"\x01\x01\x00" + b"sealed root"
BINARIES = {next(part for part in path.parts if part.endswith("lite")): path for path in wheel_binaries()}


def child_of(kind: Kind, h: bytes) -> bytes:
    return b"\x01\x01" + bytes([KINDS[kind].code]) + h + b"sealed child"


@pytest.fixture(scope="module", params=["path", *BINARIES, "fakeredis"])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer | None]:
    if request.param == "fakeredis":
        yield None
        return
    binary: Path = BINARIES.get(request.param) or server_binary()
    with RedisServer(binary=binary) as running:
        yield running


@pytest.fixture
async def link(server: RedisServer | None) -> AsyncIterator[AnyLink]:
    link: AnyLink
    if server is None:
        link = await FakeLink.open(SCRIPTS)
    else:
        server.command("FLUSHALL")
        link = await Link.open(LinkSettings(parse_target(server.url)), SCRIPTS)
    yield link
    await link.aclose()


@pytest.fixture
async def store(link: AnyLink) -> Store:
    store = RedisStore(link)
    assert await store.create_tenant(TENANT, b"directory record")
    return store


async def begin(store: Store, wseq: int, *lookups: Lookup, credential: str = "", open_until_s: int = 0) -> Begun:
    entry = Entry("w1", wseq, b"event %d" % wseq)
    return await store.begin(TENANT, Begin(entry, credential, lookups, open_until_s))


async def finish(store: Store, wseq: int, *writes: Write, generation: int = 1, closes: int = 0) -> Finished:
    entry = Entry("w1", wseq, b"event %d" % wseq)
    return await store.finish(TENANT, Finish((entry,), writes, generation, closes))


async def bodies(store: Store, tenant: TenantId = TENANT) -> list[tuple[int, bytes]]:
    return [(event.seq, event.body) for event in await store.read_events(tenant, 0, 1000)]


async def test_events_are_numbered_from_one_without_a_gap_in_the_order_of_the_calls(store: Store) -> None:
    calls = [store.begin(TENANT, Begin(Entry("w1", n, b"event %d" % n))) for n in range(1, 51)]
    assert [(await call).seq for call in calls] == list(range(1, 51))
    assert await bodies(store) == [(n, b"event %d" % n) for n in range(1, 51)]


async def test_events_are_read_by_keyset_in_both_directions(store: Store) -> None:
    for n in range(1, 8):
        await begin(store, n)
    assert [event.seq for event in await store.read_events(TENANT, 2, 3)] == [3, 4, 5]
    assert [event.seq for event in await store.read_events_before(TENANT, 4, 2)] == [3, 2]
    assert await store.read_events_before(TENANT, 1, 2) == ()


async def test_a_missed_lookup_finds_nothing_and_a_root_has_no_root(store: Store) -> None:
    await begin(store, 1)
    await finish(store, 2, Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE))
    begun = await begin(store, 3, Lookup(Kind.RESPONSE, H2), Lookup(Kind.RESPONSE, H1), Lookup(Kind.CONVERSATION, H1))
    assert begun.found == (Found(None, None), Found(ROOT, None), Found(None, None))


@pytest.mark.parametrize("h", [H1, H2, H3, b"%d:]\n{}\r\xff\x80abcdef"])
async def test_a_child_brings_its_root_in_the_same_call(store: Store, h: bytes) -> None:
    child = child_of(Kind.RESPONSE, h)
    await finish(store, 1, Write(Kind.RESPONSE, h, ROOT, 99, Mode.CREATE), Write(Kind.ITEM, H2, child, 99, Mode.CREATE))
    begun = await begin(store, 2, Lookup(Kind.ITEM, H2))
    assert begun.found == (Found(child, ROOT),)


async def test_a_child_whose_root_is_gone_is_found_without_it(store: Store) -> None:
    child = child_of(Kind.CONVERSATION, H1)
    await finish(store, 1, Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE), Write(Kind.ITEM, H2, child, 99, Mode.PUT))
    assert (await begin(store, 2, Lookup(Kind.ITEM, H2))).found == (Found(child, None),)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x01\x01" + b"short", b"\x01\x01\xff" + b"x" * 40])
async def test_a_record_with_a_broken_pointer_is_found_without_a_root(store: Store, data: bytes) -> None:
    await finish(store, 1, Write(Kind.ITEM, H2, data, None, Mode.CREATE))
    assert (await begin(store, 2, Lookup(Kind.ITEM, H2))).found == (Found(data, None),)


async def test_another_tenant_finds_nothing_under_the_same_hash(store: Store) -> None:
    await store.create_tenant(OTHER, b"other")
    await finish(store, 1, Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE))
    begun = await store.begin(OTHER, Begin(Entry("w9", 1, b"x"), lookups=(Lookup(Kind.RESPONSE, H1),)))
    assert begun.seq == 1
    assert begun.found == (Found(None, None),)


async def test_the_same_entry_again_is_answered_as_before_and_appended_once(store: Store) -> None:
    await begin(store, 1, open_until_s=1)
    for n in range(2, 200):
        await begin(store, n)
    assert (await begin(store, 1)).seq == 1
    assert (await begin(store, 150)).seq == 150
    assert len(await bodies(store)) == 199


async def test_the_same_entry_is_found_again_between_those_of_other_writers(store: Store) -> None:
    for n in range(1, 5):
        await begin(store, n)
        for other in range(100):
            await store.begin(TENANT, Begin(Entry(f"o{other}", n, b"o %d %d" % (other, n))))
    again = await begin(store, 2, Lookup(Kind.ITEM, H1))
    assert again.seq == 102
    assert again.found == (Found(None, None),)


async def test_a_lookup_repeated_with_its_entry_reads_the_present(store: Store) -> None:
    lookup = Lookup(Kind.RESPONSE, H1)
    assert (await begin(store, 1, lookup)).found == (Found(None, None),)
    await finish(store, 2, Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE))
    assert (await begin(store, 1, lookup)).found == (Found(ROOT, None),)


@pytest.mark.parametrize(("wseq", "body"), [(3, b"event 3"), (5, b"event 5"), (1, b"another body"), (0, b"event 0")])
async def test_an_entry_that_is_not_the_next_is_refused_and_nothing_is_written(
    store: Store, wseq: int, body: bytes
) -> None:
    await begin(store, 1)
    write = Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE)
    with pytest.raises(WriterRefused):
        await store.begin(TENANT, Begin(Entry("w1", wseq, body), open_until_s=5))
    with pytest.raises(WriterRefused):
        await store.finish(TENANT, Finish((Entry("w1", wseq, body),), (write,), 1))
    assert await bodies(store) == [(1, b"event 1")]
    assert await store.take_overdue(TENANT, 10**10, 1, 10) == ()
    assert (await begin(store, 2, Lookup(Kind.RESPONSE, H1))).found == (Found(None, None),)


async def test_a_finish_sent_again_appends_nothing_and_says_the_same(store: Store) -> None:
    entries = tuple(Entry("w1", n, b"e%d" % n) for n in (1, 2, 3))
    call = Finish(entries, (Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE),), 1)
    first = await store.finish(TENANT, call)
    assert first == Finished(3, True, (None,))
    assert await store.finish(TENANT, call) == first
    assert [seq for seq, _ in await bodies(store)] == [1, 2, 3]


async def test_entries_of_one_call_must_follow_each_other(store: Store) -> None:
    with pytest.raises(ValueError, match="follow each other"):
        await store.finish(TENANT, Finish((Entry("w1", 1, b"a"), Entry("w1", 3, b"b"))))


async def test_an_ended_writer_takes_no_entry_any_more(store: Store) -> None:
    await begin(store, 1)
    await store.begin(TENANT, Begin(Entry("w2", 1, b"opened", "w1", 1)))
    with pytest.raises(WriterRefused):
        await begin(store, 2)
    with pytest.raises(WriterRefused):
        await begin(store, 1)
    assert (await store.begin(TENANT, Begin(Entry("w2", 2, b"next")))).seq == 3


async def test_a_log_that_lost_confirmed_events_is_halted_until_the_loss_is_accepted(store: Store) -> None:
    await begin(store, 1)
    opened = Begin(Entry("w2", 1, b"opened", "w1", 7))
    for _ in range(2):
        with pytest.raises(EventsLost):
            await store.begin(TENANT, opened)
    with pytest.raises(EventsLost):
        await finish(store, 2)
    state = await store.tenant_state(TENANT)
    assert state is not None
    assert state.halted
    await store.accept_loss(TENANT)
    assert (await store.begin(TENANT, opened)).seq == 2


async def test_an_erased_tenant_gets_no_event_and_no_record(store: Store) -> None:
    await begin(store, 1, open_until_s=1)
    await store.set_tenant_status(TENANT, TenantStatus.ERASED)
    assert await begin(store, 2, Lookup(Kind.RESPONSE, H1)) == Begun(0, 2, False, False, None, ())
    assert await finish(store, 2, Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE)) == Finished(0, False, ())
    assert [seq for seq, _ in await bodies(store)] == [1]
    assert await store.take_overdue(TENANT, 10**10, 1, 10) == ()
    assert not await store.set_tenant_status(TENANT, TenantStatus.ACTIVE)


async def test_an_unknown_tenant_gets_no_event(store: Store) -> None:
    assert (await store.begin(OTHER, Begin(Entry("w1", 1, b"x"), open_until_s=1))).seq == 0
    assert (await store.finish(OTHER, Finish((Entry("w1", 1, b"x"),)))).seq == 0
    assert await bodies(store, OTHER) == []


async def test_a_suspended_tenant_gets_the_event_and_nothing_else(store: Store) -> None:
    await finish(store, 1, Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE))
    await store.set_tenant_status(TENANT, TenantStatus.SUSPENDED)
    begun = await begin(store, 2, Lookup(Kind.RESPONSE, H1), open_until_s=5)
    assert begun == Begun(2, 2, False, True, None, ())
    finished = await finish(store, 3, Write(Kind.RESPONSE, H2, ROOT, None, Mode.CREATE), generation=2)
    assert finished == Finished(3, False, ())
    await store.set_tenant_status(TENANT, TenantStatus.ACTIVE)
    assert await store.take_overdue(TENANT, 10**10, 1, 10) == ()
    found = (await begin(store, 4, Lookup(Kind.RESPONSE, H1), Lookup(Kind.RESPONSE, H2))).found
    assert found == (Found(ROOT, None), Found(None, None))


async def test_writes_of_an_earlier_generation_are_refused_and_their_event_is_appended(store: Store) -> None:
    begun = await begin(store, 1)
    await store.set_tenant_status(TENANT, TenantStatus.SUSPENDED)
    await store.set_tenant_status(TENANT, TenantStatus.ACTIVE)
    write = Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE)
    assert await finish(store, 2, write, generation=begun.generation) == Finished(2, False, ())
    again = await begin(store, 3, Lookup(Kind.RESPONSE, H1))
    assert again.found == (Found(None, None),)
    assert await finish(store, 4, write, generation=again.generation) == Finished(4, True, (None,))


@pytest.mark.parametrize(
    "key",
    [None, ApiKey(b"data", None, revoked=True), ApiKey(b"data", int(time.time()) - 1, revoked=False)],
    ids=["unknown", "revoked", "expired"],
)
async def test_a_dead_credential_gets_the_event_and_nothing_else(store: Store, key: ApiKey | None) -> None:
    await finish(store, 1, Write(Kind.RESPONSE, H1, ROOT, None, Mode.CREATE))
    if key is not None:
        await store.put_api_key(TENANT, "tag1", key)
    begun = await begin(store, 2, Lookup(Kind.RESPONSE, H1), credential="tag1", open_until_s=5)
    assert begun == Begun(2, 1, True, False, key.data if key else None, ())
    assert await store.take_overdue(TENANT, 10**10, 1, 10) == ()


async def test_a_live_credential_comes_with_its_record(store: Store) -> None:
    key = ApiKey(b"\x00data", int(time.time()) + 60, revoked=False)
    await store.put_api_key(TENANT, "tag1", key)
    begun = await begin(store, 1, Lookup(Kind.RESPONSE, H1), credential="tag1")
    assert begun == Begun(1, 1, True, True, key.data, (Found(None, None),))
    assert await store.api_key(TENANT, "tag1") == key
    assert await store.api_key(TENANT, "tag2") is None
    assert await store.api_keys(TENANT) == {"tag1": key}


async def test_create_takes_the_same_bytes_again_and_reports_others(store: Store) -> None:
    write = Write(Kind.RESPONSE, H1, ROOT, 100, Mode.CREATE)
    assert (await finish(store, 1, write)).conflicts == (None,)
    assert (await finish(store, 2, write)).conflicts == (None,)
    other = Write(Kind.RESPONSE, H1, ROOT + b"!", 100, Mode.CREATE)
    beside = Write(Kind.ITEM, H2, child_of(Kind.RESPONSE, H1), 100, Mode.PUT)
    assert await finish(store, 3, beside, other) == Finished(3, True, (None, ROOT))
    begun = await begin(store, 4, Lookup(Kind.RESPONSE, H1), Lookup(Kind.ITEM, H2))
    assert begun.found == (Found(ROOT, None), Found(None, None)), "one conflict, and none of the writes is done"


async def test_put_never_changes_what_is_there(store: Store) -> None:
    await finish(store, 1, Write(Kind.RESPONSE, H1, ROOT, 100, Mode.TOMBSTONE))
    finished = await finish(store, 2, Write(Kind.RESPONSE, H1, b"other", 100, Mode.PUT))
    assert finished.conflicts == (None,)
    assert (await begin(store, 3, Lookup(Kind.RESPONSE, H1))).found == (Found(ROOT, None),)


@pytest.mark.parametrize(
    ("first", "mode", "second", "left"),
    [
        (100, Mode.PUT, 500, 500),
        (500, Mode.PUT, 100, 500),
        (100, Mode.PUT, None, -1),
        (None, Mode.PUT, 100, -1),
        (100, Mode.CREATE, 500, 500),
        (100, Mode.TOMBSTONE, 500, 500),
        (500, Mode.TOMBSTONE, 100, 500),
        (100, Mode.TOMBSTONE, None, -1),
        (None, Mode.TOMBSTONE, 100, -1),
    ],
)
async def test_a_record_keeps_the_longer_of_both_lives(
    store: Store, link: AnyLink, first: int | None, mode: Mode, second: int | None, left: int
) -> None:
    await finish(store, 1, Write(Kind.RESPONSE, H1, ROOT, first, Mode.CREATE))
    await finish(store, 2, Write(Kind.RESPONSE, H1, ROOT, second, mode))
    names = tenant_keys(TENANT)
    ttl = await link.call(names.slot, ("TTL", names.record(Kind.RESPONSE, H1)))
    assert left - 2 <= ttl <= left


async def test_an_overdue_intent_is_handed_out_once_a_lease_until_it_is_closed(store: Store) -> None:
    now = 1_000_000
    first = await begin(store, 1, open_until_s=now - 5)
    await begin(store, 2, open_until_s=now + 500)
    closed = await begin(store, 3, open_until_s=now - 9)
    await finish(store, 4, closes=closed.seq)
    assert [(event.seq, event.body) for event in await store.take_overdue(TENANT, now, 60, 10)] == [
        (first.seq, b"event 1")
    ]
    assert await store.take_overdue(TENANT, now + 59, 60, 10) == ()
    assert [event.seq for event in await store.take_overdue(TENANT, now + 60, 60, 10)] == [first.seq]
    await finish(store, 5, closes=first.seq)
    assert await store.take_overdue(TENANT, now + 499, 60, 10) == ()


async def test_a_tenant_id_is_used_once(store: Store) -> None:
    assert await store.create_tenant(TENANT, b"directory record"), "the same call again"
    assert not await store.create_tenant(TENANT, b"another")
    assert await store.tenant_record(TENANT) == b"directory record"
    assert await store.tenant_record(OTHER) is None
    await store.create_tenant(OTHER, b"other")
    assert {tenant: record async for tenant, record in store.tenants()} == {
        TENANT: b"directory record",
        OTHER: b"other",
    }


async def test_a_status_that_changes_raises_the_generation(store: Store) -> None:
    before = await store.tenant_state(TENANT)
    assert await store.set_tenant_status(TENANT, TenantStatus.SUSPENDED)
    after = await store.tenant_state(TENANT)
    assert before is not None
    assert after is not None
    assert (after.status, after.generation) == (TenantStatus.SUSPENDED, before.generation + 1)
    assert await store.tenant_state(OTHER) is None
    assert not await store.set_tenant_status(OTHER, TenantStatus.ACTIVE)


async def test_keys_and_secrets_are_put_only_where_none_is(store: Store) -> None:
    assert await store.put_wrapped_key(TENANT, "identity.1", b"one") == b"one"
    assert await store.put_wrapped_key(TENANT, "identity.1", b"two") == b"one"
    assert await store.wrapped_keys(TENANT) == {"identity.1": b"one"}
    await store.delete_wrapped_keys(TENANT)
    assert await store.wrapped_keys(TENANT) == {}
    assert await store.deployment_secret("tag") is None
    assert await store.put_deployment_secret("tag", b"one") == b"one"
    assert await store.put_deployment_secret("tag", b"two") == b"one"
    assert await store.deployment_secret("tag") == b"one"


async def test_an_idempotency_slot_belongs_to_the_first_of_many(store: Store) -> None:
    answers = await asyncio.gather(*(store.reserve_slot(TENANT, "tok", b"r%d" % n, 60) for n in range(5)))
    assert answers == [None, b"r0", b"r0", b"r0", b"r0"]
    assert await store.reserve_slot(TENANT, "tok", b"r0", 60) is None, "the same call again"
    assert not await store.fill_slot(TENANT, "tok", b"r1", b"stolen", 60)
    assert await store.fill_slot(TENANT, "tok", b"r0", b"done", 60)
    assert await store.fill_slot(TENANT, "tok", b"r0", b"done", 60), "the same call again"
    assert await store.reserve_slot(TENANT, "tok", b"r7", 60) == b"done"
    assert not await store.release_slot(TENANT, "tok", b"r0")
    assert await store.release_slot(TENANT, "tok", b"done")
    assert await store.reserve_slot(TENANT, "tok", b"r7", 60) is None


async def test_a_raw_root_belongs_to_its_first_claim(store: Store, link: AnyLink) -> None:
    assert await store.claim(b"digest", b"tenant A", 100) == b"tenant A"
    assert await store.claim(b"digest", b"tenant B", 500) == b"tenant A"
    assert 490 < await link.call(0, ("TTL", b"own:digest")) <= 500
    await store.claim(b"digest", b"tenant A", None)
    assert await link.call(0, ("TTL", b"own:digest")) == -1


async def test_the_operators_log_is_read_in_order(store: Store) -> None:
    for n in range(3):
        await store.append_operator_event(b"line %d" % n)
    first, *rest = await store.read_operator_events("0", 10)
    assert [body for _, body in (first, *rest)] == [b"line 0", b"line 1", b"line 2"]
    assert [body for _, body in await store.read_operator_events(first[0], 1)] == [b"line 1"]


@pytest.mark.parametrize("name", ["", "a}:b", "a b", "{x", "é"])
async def test_what_is_no_tenant_id_names_no_key(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="tenant ID"):
        await store.tenant_state(TenantId(name))
