"""The store's contract, on the in-process Redis and on every real server at hand: PATH's, the oldest supported, Valkey."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.ids.kinds import KINDS
from gateway.names import Kind, TenantId
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
    Rows,
    Store,
    Stretch,
    TenantStatus,
    Write,
    WriterRefused,
)
from gateway.stores.keyspace import tenant_keys
from gateway.stores.link import AnyLink
from gateway.stores.redis import RedisStore

TENANT = TenantId("aaaabbbbccccdddd")
OTHER = TenantId("zzzzyyyyxxxxwwww")
H1, H2, H3 = b"\x01" * 16, b"\xfe" * 16, b"\x00" * 16
ROOT = b"\x01\x01\x00" + b"sealed root"


def child_of(kind: Kind, h: bytes) -> bytes:
    return b"\x01\x01" + bytes([KINDS[kind].code]) + h + b"sealed child"


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


async def test_a_log_that_lost_confirmed_events_is_halted(store: Store) -> None:
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


async def test_an_erased_tenant_gets_no_event_and_no_record(store: Store) -> None:
    await begin(store, 1, open_until_s=1)
    await store.set_tenant_status(TENANT, TenantStatus.ERASED)
    assert await begin(store, 2, Lookup(Kind.RESPONSE, H1)) == Begun(0, 2, False, False, ())
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
    assert begun == Begun(2, 2, False, True, ())
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
    assert begun == Begun(2, 1, True, False, ())
    assert await store.take_overdue(TENANT, 10**10, 1, 10) == ()


async def test_a_live_credential_comes_with_its_record(store: Store) -> None:
    key = ApiKey(b"\x00data", int(time.time()) + 60, revoked=False)
    await store.put_api_key(TENANT, "tag1", key)
    begun = await begin(store, 1, Lookup(Kind.RESPONSE, H1), credential="tag1")
    assert begun == Begun(1, 1, True, True, (Found(None, None),))
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
    assert not await store.replace_wrapped_key(TENANT, "identity.1", b"two", b"three"), "another one is there"
    assert await store.replace_wrapped_key(TENANT, "identity.1", b"one", b"three")
    assert await store.wrapped_keys(TENANT) == {"identity.1": b"three"}
    await store.delete_wrapped_keys(TENANT)
    assert not await store.replace_wrapped_key(TENANT, "identity.1", b"three", b"one"), "what is deleted stays so"
    assert await store.wrapped_keys(TENANT) == {}
    assert await store.deployment_secret("tag") is None
    assert await store.put_deployment_secret("tag", b"one") == b"one"
    assert await store.put_deployment_secret("tag", b"two") == b"one"
    assert not await store.replace_deployment_secret("tag", b"two", b"three")
    assert await store.replace_deployment_secret("tag", b"one", b"three")
    assert await store.deployment_secret("tag") == b"three"


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


async def test_a_slot_whose_holder_died_is_free_when_its_time_is_over(store: Store) -> None:
    assert await store.reserve_slot(TENANT, "left", b"dead", 1) is None
    assert await store.reserve_slot(TENANT, "left", b"next", 60) == b"dead"
    await asyncio.sleep(1.1)
    assert await store.reserve_slot(TENANT, "left", b"next", 60) is None
    assert not await store.fill_slot(TENANT, "left", b"dead", b"too late", 60)


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


async def test_a_session_that_was_dropped_is_not_brought_back_by_keeping_it(store: Store) -> None:
    await store.put_session(TENANT, "one", b"1", 60)
    assert await store.keep_session(TENANT, "one", b"2", 60)
    assert await store.session(TENANT, "one") == b"2"
    assert await store.drop_session(TENANT, "one")
    assert not await store.keep_session(TENANT, "one", b"3", 60)
    assert not await store.drop_session(TENANT, "one")
    assert await store.session(TENANT, "one") is None


async def test_sessions_are_those_that_are_there(store: Store, link: AnyLink) -> None:
    for name in ("one", "two"):
        await store.put_session(TENANT, name, name.encode(), 60)
    await link.call(tenant_keys(TENANT).slot, ("DEL", tenant_keys(TENANT).session("one")))
    assert await store.sessions(TENANT) == {"two": b"two"}
    assert await store.sessions(TenantId("zzzzzzzzzzzzzzzz")) == {}


async def test_a_sign_in_is_handed_out_once(store: Store) -> None:
    await store.put_sign_in("state", b"verifier", 60)
    assert [await store.take_sign_in("state") for _ in range(2)] == [b"verifier", None]


# --- lists

FILE = b"\x01\x01\x00sealed file "
PLACE_LIFE_S = 86_400


def entry(n: int, scope: str = "alice", mode: Mode = Mode.CREATE, life: int | None = None) -> Write:
    return Write(Kind.FILE, b"%016d" % n, FILE + b"%d" % n, life, mode, scope)


def numbers(rows: Rows) -> list[int]:
    assert all(row.record == FILE + b"%d" % int(row.h) for row in rows.rows)
    return [int(row.h) for row in rows.rows]


async def listed(
    store: Store, *scopes: str, count: int = 100, oldest_first: bool = False, behind: int = -1
) -> list[int]:
    after = b"" if behind < 0 else b"%016d" % behind
    return numbers(await store.read_rows(TENANT, Stretch(Kind.FILE, scopes, count, not oldest_first, after)))


async def test_a_list_shows_in_the_order_of_their_making_what_is_in_its_scopes(store: Store) -> None:
    for n in range(6):
        await finish(store, n + 1, entry(n, "alice" if n % 2 else "tenant"), entry(n + 10, "bob"))
    assert await listed(store, "alice", oldest_first=True) == [1, 3, 5]
    assert await listed(store, "alice", "tenant") == [5, 4, 3, 2, 1, 0]
    assert await listed(store, "alice", "tenant", count=2, behind=4) == [3, 2]
    assert await listed(store, "alice", "tenant", oldest_first=True, behind=3) == [4, 5]
    assert await listed(store, "carol") == []
    assert await store.read_rows(OTHER, Stretch(Kind.FILE, ("alice", "tenant"), 9, True)) == Rows(True, (), 0)


async def test_a_list_is_read_stretch_by_stretch_to_its_end(store: Store) -> None:
    await finish(store, 1, *[entry(n, "alice" if n % 3 else "tenant") for n in range(500)])
    for newest_first in (True, False):
        shown, position = [], 0
        while True:
            stretch = Stretch(Kind.FILE, ("alice", "tenant"), 33, newest_first, position=position)
            rows = await store.read_rows(TENANT, stretch)
            shown += numbers(rows)
            if rows.position == 0:
                break
            position = rows.position
        assert shown == (list(range(500))[::-1] if newest_first else list(range(500)))


async def test_a_list_comes_with_the_intent(store: Store) -> None:
    await finish(store, 1, entry(1), entry(2))
    call = Begin(
        Entry("w1", 2, b"event 2"), "", (Lookup(Kind.FILE, b"%016d" % 1),), 0, Stretch(Kind.FILE, ("alice",), 1, True)
    )
    for _ in range(2):
        begun = await store.begin(TENANT, call)
        assert begun.found == (Found(FILE + b"1", None),)
        assert begun.rows is not None
        assert numbers(begun.rows) == [2]
    await store.set_tenant_status(TENANT, TenantStatus.SUSPENDED)
    assert (await store.begin(TENANT, Begin(Entry("w1", 3, b"x"), stretch=call.stretch))).rows is None


async def test_what_is_seen_again_keeps_its_place_and_enters_no_list_twice(store: Store) -> None:
    await finish(store, 1, entry(1), entry(2))
    await finish(store, 2, entry(1, mode=Mode.PUT), entry(2, "tenant", Mode.PUT))
    await finish(store, 3, entry(1))
    assert await listed(store, "alice", "tenant") == [2, 1]


async def test_what_a_conflict_stopped_enters_no_list(store: Store) -> None:
    await finish(store, 1, entry(1))
    met = Write(Kind.FILE, b"%016d" % 1, b"other", None, Mode.CREATE, "bob")
    assert (await finish(store, 2, entry(3), met)).conflicts == (None, FILE + b"1")
    assert await listed(store, "alice", "bob") == [1]


async def test_what_has_no_scope_is_in_no_list(store: Store, link: AnyLink) -> None:
    await finish(store, 1, entry(1, ""))
    assert await link.call(tenant_keys(TENANT).slot, ("KEYS", b"*:idx:*")) == []


async def test_a_deleted_entry_leaves_the_list_and_is_a_place_in_it_for_a_day(store: Store, link: AnyLink) -> None:
    for n in range(5):
        await finish(store, n + 1, entry(n, "tenant" if n == 2 else "alice"))
    await finish(store, 6, entry(2, "tenant", Mode.TOMBSTONE), entry(3, mode=Mode.TOMBSTONE))
    assert await listed(store, "alice", "tenant") == [4, 1, 0]
    assert await listed(store, "alice", "tenant", behind=2) == [1, 0]
    assert await listed(store, "alice", "tenant", oldest_first=True, behind=3) == [4]
    place = tenant_keys(TENANT).listed(Kind.FILE, "alice") + b":" + (b"%016d" % 3).hex().encode()
    assert PLACE_LIFE_S - 9 < await link.call(tenant_keys(TENANT).slot, ("TTL", place)) <= PLACE_LIFE_S
    await link.call(tenant_keys(TENANT).slot, ("DEL", place))
    stretch = Stretch(Kind.FILE, ("alice", "tenant"), 9, True, b"%016d" % 3)
    assert await store.read_rows(TENANT, stretch) == Rows(False, (), 0)


async def test_a_place_in_another_list_is_none_in_this(store: Store) -> None:
    await finish(store, 1, entry(1, "bob"), entry(2, "bob"), entry(3))
    await finish(store, 2, entry(2, "bob", Mode.TOMBSTONE))
    for behind in (1, 2, 9):
        stretch = Stretch(Kind.FILE, ("alice", "tenant"), 9, True, b"%016d" % behind)
        assert await store.read_rows(TENANT, stretch) == Rows(False, (), 0)


async def test_expired_entries_are_passed_over_and_taken_out(store: Store, link: AnyLink) -> None:
    names = tenant_keys(TENANT)
    await finish(store, 1, *[entry(n) for n in range(300)])
    gone = [names.record(Kind.FILE, b"%016d" % n) for n in range(300) if n % 100]
    await link.call(names.slot, ("DEL", *gone))
    assert await listed(store, "alice") == [200, 100, 0]
    assert await link.call(names.slot, ("ZCARD", names.listed(Kind.FILE, "alice"))) == 3


async def test_a_list_that_nobody_reads_stays_about_as_long_as_what_it_shows(store: Store, link: AnyLink) -> None:
    names = tenant_keys(TENANT)
    for n in range(300):
        await finish(store, n + 1, entry(n, life=60))
        if n >= 10:
            await link.call(names.slot, ("DEL", names.record(Kind.FILE, b"%016d" % (n - 10))))
    assert await link.call(names.slot, ("ZCARD", names.listed(Kind.FILE, "alice"))) < 60


async def test_what_the_service_does_not_know_is_passed_over_for_a_while(store: Store, link: AnyLink) -> None:
    names = tenant_keys(TENANT)
    await finish(store, 1, *[entry(n) for n in range(3)])
    gone = [Write(Kind.FILE, b"%016d" % n, b"", 50, Mode.GONE) for n in (1, 7)]
    assert (await finish(store, 2, *gone)).conflicts == (None, None)
    assert await listed(store, "alice") == [2, 0]
    assert (await begin(store, 3, Lookup(Kind.FILE, b"%016d" % 1))).found == (Found(FILE + b"1", None),)
    marks = await link.call(names.slot, ("KEYS", b"*:gone"))
    assert marks == [names.record(Kind.FILE, b"%016d" % 1) + b":gone"]
    assert 40 < await link.call(names.slot, ("TTL", marks[0])) <= 50
    await link.call(names.slot, ("DEL", marks[0]))
    assert await listed(store, "alice") == [2, 1, 0]


async def test_one_call_goes_through_no_more_of_a_list_than_a_moment_allows(store: Store, link: AnyLink) -> None:
    await finish(store, 1, *[entry(n) for n in range(2500)])
    await finish(store, 2, *[Write(Kind.FILE, b"%016d" % n, b"", 50, Mode.GONE) for n in range(1, 2500)])
    stretch, calls = Stretch(Kind.FILE, ("alice",), 5, True), 0
    while (rows := await store.read_rows(TENANT, stretch)).position:
        assert not rows.rows
        stretch.position, calls = rows.position, calls + 1
    assert numbers(rows) == [0]
    assert calls == 2
