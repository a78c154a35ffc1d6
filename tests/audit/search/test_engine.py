"""Search on a real Redis: what it finds is what a reading of the whole log finds, whatever happens to index or log."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator

import pytest

from gateway.audit.event import Actor, Change, Event, EventType, Outcome, Phase, RequestFacts, Result, Target, decode
from gateway.audit.search.contract import SearchUnavailable
from gateway.audit.search.engine import IndexedSearch
from gateway.audit.search.index import Index
from gateway.audit.search.query import Field, Filter, Query
from gateway.audit.search.terms import terms_of
from gateway.names import TenantId
from gateway.stores.contract import StoredEvent, TenantStatus
from gateway.stores.keyspace import tenant_keys
from tests.audit.search.conftest import OTHER, TENANT, Logs
from tests.redis_fixture import until

BEGAN_US = 1_790_000_000_000_000
TYPES = ("responses.create", "responses.get", "conversations.create", "files.list")
MODELS = ("", "gpt-5", "gpt-5-mini", "100%_off'; DROP TABLE event; --", "Ärger")
REASONS = ("not_owned", "policy", "rate_limited")
IDS = ("resp_" + "A" * 34, "resp_" + "B" * 34, "resp_" + "C" * 34, "conv_" + "Q" * 34)


def made_up(number: int, seed: int = 1, tenant: TenantId = TENANT) -> Iterator[Event]:
    """Events of all kinds, a minute apart and a little out of order."""
    rng = random.Random(seed)
    for at in range(number):
        chain = ("c" * 24,) if rng.random() < 0.2 else ()
        actor = Actor("user", rng.choice("ab") * 24, "https://idp.example", "jwt", chain=chain)
        facts = RequestFacts(
            f"req_{at // 2:032x}", "GET", rng.choice(("/responses", "/files")), model=rng.choice(MODELS)
        )
        ending = None
        if at % 2:
            result = rng.choice(list(Result))
            ending = Outcome(result, rng.choice(REASONS) if result is Result.DENY else "", 200)
        yield Event(
            tenant,
            BEGAN_US + at * 60_000_000 + rng.randrange(90_000_000),
            rng.choice(TYPES),
            Phase.OUTCOME if ending else Phase.INTENT,
            actor,
            facts if rng.random() < 0.9 else None,
            ending,
            tuple(Target("response", one) for one in rng.sample(IDS, rng.randrange(3))),
        )


async def whole_log(logs: Logs, tenant: TenantId = TENANT) -> list[StoredEvent]:
    rows: list[StoredEvent] = []
    while page := await logs.store.read_events(tenant, rows[-1].seq if rows else 0, 1000):
        rows += page
    return rows


def found_in(rows: list[StoredEvent], query: Query) -> list[int]:
    """By reading all of them; newest first."""
    read = [(row.seq, terms_of(row.body)) for row in rows]
    return [seq for seq, terms in reversed(read) if query.matches(terms.ts_us, terms.sets())]


def made_up_query(rng: random.Random, minutes: int) -> Query:
    values = {
        Field.ACTOR: ("a" * 24, "b" * 24, "d" * 24),
        Field.MODEL: MODELS[1:],
        Field.PHASE: ("intent", "outcome"),
        Field.REASON: REASONS,
        Field.REQUEST: tuple(f"req_{at:032x}" for at in range(20)),
        Field.RESULT: tuple(Result),
        Field.TARGET: IDS,
        Field.TYPE: TYPES,
        Field.VIA: ("c" * 24,),
    }
    fields = [rng.choice(list(values)) for _ in range(rng.randrange(4))]
    filters = dict.fromkeys(Filter(field, rng.choice(values[field]), rng.random() < 0.5) for field in fields)
    bounds = sorted(BEGAN_US + rng.randrange(minutes * 60_000_000) for _ in range(2))
    since, until = (bounds[0] if rng.random() < 0.3 else None), (bounds[1] if rng.random() < 0.3 else None)
    text = rng.choice(("", "", "", "GPT-5", "100%_", "';", "resp_AAAAAA", "respons not_ow", "resp_A", "req_00000000"))
    return Query(tuple(filters), since, until, text=text)


async def test_any_query_finds_what_a_reading_of_the_whole_log_finds(logs: Logs) -> None:
    await logs.append(made_up(600))
    await logs.append([Event(TENANT, BEGAN_US, "", Phase.SINGLE, Actor("system"))])
    logs.server.command("XADD", tenant_keys(TENANT).log, "0-602", "e", b"not an event")
    logs.server.command("HSET", tenant_keys(TENANT).meta, "seq", 602)
    rows, rng, some = await whole_log(logs), random.Random(5), 0
    for _ in range(250):
        query = made_up_query(rng, 600)
        expected = found_in(rows, query)
        some += bool(expected)
        page = await logs.search.search(TENANT, query, limit=20)
        assert [row.seq for row in page.rows] == expected[:20], query
        assert await logs.search.count(TENANT, query) == len(expected), query
        middle = await logs.search.search(TENANT, query, before_seq=300, limit=20)
        assert [row.seq for row in middle.rows] == [seq for seq in expected if seq < 300][:20], query
    assert some > 100


async def test_pages_lead_back_and_forth_without_a_gap_or_a_repetition(logs: Logs) -> None:
    await logs.append(made_up(203))
    query = Query((Filter(Field.RESULT, "deny", negated=True),))
    expected = found_in(await whole_log(logs), query)
    page = await logs.search.search(TENANT, query, limit=10)
    assert page.newer is None
    back = [row.seq for row in page.rows]
    while page.older is not None:
        page = await logs.search.search(TENANT, query, before_seq=page.older, limit=10)
        assert page.newer is not None
        back += [row.seq for row in page.rows]
    assert back == expected
    forth = [[row.seq for row in page.rows]]
    while page.newer is not None:
        page = await logs.search.search(TENANT, query, after_seq=page.newer, limit=10)
        assert page.older is not None
        forth.append([row.seq for row in page.rows])
    assert [seq for rows in reversed(forth) for seq in rows] == expected


async def test_a_page_beyond_either_end_leads_back(logs: Logs) -> None:
    await logs.append(made_up(5))
    below = await logs.search.search(TENANT, Query(), before_seq=1)
    assert (below.rows, below.older, below.newer) == ((), None, 0)
    above = await logs.search.search(TENANT, Query(), after_seq=5)
    assert (above.rows, above.older, above.newer) == ((), 6, None)


async def test_an_event_is_found_as_soon_as_it_is_in_the_log(logs: Logs) -> None:
    await logs.append(made_up(3))
    seen = (await logs.search.search(TENANT, Query())).upto_seq
    await logs.append(made_up(2, seed=2))
    page = await logs.search.search(TENANT, Query(), after_seq=seen)
    assert [row.seq for row in page.rows] == [5, 4]


async def test_bars_have_one_width_and_hold_all_that_was_found(logs: Logs) -> None:
    await logs.append(made_up(300))
    rows = [decode(row.body) for row in await whole_log(logs)]
    query = Query(since_us=BEGAN_US + 3_600_000_000, until_us=BEGAN_US + 3 * 3_600_000_000)
    for asked in (Query(), query):
        shown = await logs.search.histogram(TENANT, asked, 7)
        starts = [bar.start_us for bar in shown.bars]
        assert len({b - a for a, b in zip(starts, [*starts[1:], shown.until_us], strict=True)}) == 1
        for bar, end in zip(shown.bars, [*starts[1:], shown.until_us], strict=True):
            here = [e for e in rows if bar.start_us <= e.ts_us < end and asked.matches(e.ts_us, {})]
            assert bar.total == len(here)
            assert bar.counts == Counter(e.outcome.result for e in here if e.outcome)
        assert sum(bar.total for bar in shown.bars) == await logs.search.count(TENANT, asked)


async def test_bars_of_an_empty_log_are_empty(logs: Logs) -> None:
    assert sum(bar.total for bar in (await logs.search.histogram(TENANT, Query(), 5)).bars) == 0


@pytest.mark.parametrize("field", [field for field in Field if field is not Field.REQUEST])
async def test_the_top_values_are_those_of_most_events(logs: Logs, field: Field) -> None:
    await logs.append(made_up(300))
    query = Query((Filter(Field.PHASE, "outcome"),))
    counted: Counter[str] = Counter()
    for row in await whole_log(logs):
        terms = terms_of(row.body)
        if query.matches(terms.ts_us, terms.sets()):
            counted.update(terms.sets().get(field, ()))
    top = await logs.search.top(TENANT, query, field, 3)
    assert [number for _, number in top] == [number for _, number in counted.most_common(3)]
    assert all(counted[value] == number for value, number in top)


async def test_a_sum_of_refusals_is_found_by_whose_refusals_they_are(logs: Logs) -> None:
    facts = Outcome(Result.DENY, "not_owned", 429)
    changes: dict[str, Change] = {"actor": "f" * 24, "count": 900}
    event = Event(TENANT, 1, EventType.REFUSALS_SUMMED, Phase.SINGLE, Actor("system"), None, facts, (), changes)
    await logs.append([event])
    assert await logs.search.count(TENANT, Query((Filter(Field.ACTOR, "f" * 24),))) == 1


@pytest.mark.parametrize(
    ("count", "counted"), [(900, 900), (1, 1), (0, 1), (-5, 1), (True, 1), ("900", 1), (10**12, 1)]
)
async def test_a_sum_of_refusals_counts_as_often_as_it_says(logs: Logs, count: Change, counted: int) -> None:
    flooded, quiet = "f" * 24, "e" * 24
    outcome, one = Outcome(Result.DENY, "not_owned", 429), (Target("conversation", IDS[0]),)
    said: dict[str, Change] = {"actor": flooded, "count": count}
    await logs.append([
        *[Event(TENANT, ts, "x.y", Phase.SINGLE, Actor("user", quiet), None, outcome, one) for ts in (10, 20)],
        Event(TENANT, 30, EventType.REFUSALS_SUMMED, Phase.SINGLE, Actor("system"), None, outcome, one, said),
    ])  # fmt: skip
    for query, alone in ((Query(), False), (Query((Filter(Field.ACTOR, flooded),)), True)):
        people = dict(await logs.search.top(TENANT, query, Field.ACTOR, 5))
        assert people == ({flooded: counted} if alone else {flooded: counted, quiet: 2})
        total = sum(people.values())
        assert await logs.search.top(TENANT, query, Field.REASON, 5) == (("not_owned", total),)
        assert await logs.search.top(TENANT, query, Field.TARGET, 5) == ((IDS[0], 1 if alone else 3),)
        for bars in (1, 7):
            histogram = await logs.search.histogram(TENANT, query, bars)
            assert sum(bar.counts.get("deny", 0) for bar in histogram.bars) == total
            assert sum(bar.total for bar in histogram.bars) == total
    quietly = await logs.search.histogram(TENANT, Query((Filter(Field.ACTOR, quiet),)), 7)
    assert sum(bar.total for bar in quietly.bars) == 2


async def test_a_sum_that_was_trimmed_or_replaced_counts_no_more(logs: Logs) -> None:
    index = Index(logs.folder / f"{TENANT}.sqlite", 5.0)
    said: dict[str, Change] = {"actor": "f" * 24, "count": 9}
    summed = Event(TENANT, 30, EventType.REFUSALS_SUMMED, Phase.SINGLE, Actor("system"), None, None, (), said)
    await logs.append([summed, summed])
    assert await logs.search.top(TENANT, Query(), Field.ACTOR, 1) == (("f" * 24, 18),)
    await asyncio.to_thread(index.trim, 2)
    assert await asyncio.to_thread(_sums, index) == [(2, 8)]
    await asyncio.to_thread(index.clear)
    assert await asyncio.to_thread(_sums, index) == []


def _sums(index: Index) -> list[tuple[int, int]]:
    with index.reading() as connection:
        return connection.execute("SELECT seq, more FROM summed").fetchall()


async def test_nothing_of_another_tenant_is_found_or_counted(logs: Logs) -> None:
    await logs.append(made_up(40))
    await logs.append(made_up(10, seed=3, tenant=OTHER))
    for query in (Query(), Query(text="responses"), Query((Filter(Field.TARGET, IDS[0], negated=True),))):
        page = await logs.search.search(OTHER, query, limit=50)
        assert {decode(row.body).tenant for row in page.rows} == {OTHER}
        assert await logs.search.count(OTHER, query) <= 10
    beyond = await logs.search.search(OTHER, Query(), before_seq=41)
    assert [row.seq for row in beyond.rows] == list(range(10, 0, -1))


@pytest.mark.parametrize("tenant", ["", "../../etc/passwd", "nobody0000000000", "a/b", "."])
async def test_a_tenant_that_never_was_has_an_empty_log_and_no_file(logs: Logs, tenant: str) -> None:
    page = await logs.search.search(TenantId(tenant), Query())
    assert (page.rows, page.older, page.newer) == ((), None, None)
    assert not logs.folder.exists() or not list(logs.folder.iterdir())


async def test_a_lost_index_is_built_anew_from_the_log(logs: Logs) -> None:
    await logs.append(made_up(30))
    await logs.search.search(TENANT, Query())
    for path in logs.folder.iterdir():
        path.unlink()
    assert await logs.search.count(TENANT, Query()) == 30


async def test_a_damaged_index_is_built_anew_from_the_log(logs: Logs) -> None:
    await logs.append(made_up(30))
    await logs.search.search(TENANT, Query())
    for path in logs.folder.glob("*.sqlite"):
        path.write_bytes(b"no database at all" * 1000)
    assert await logs.search.count(TENANT, Query()) == 30


async def test_an_index_of_another_form_is_built_anew(logs: Logs) -> None:
    await logs.append(made_up(30))
    await logs.search.search(TENANT, Query())
    altered(logs, "PRAGMA user_version = 999")
    assert await logs.search.count(TENANT, Query()) == 30


async def test_a_log_that_was_rolled_back_and_went_on_otherwise_is_indexed_anew(logs: Logs) -> None:
    await logs.append(made_up(30))
    await logs.search.search(TENANT, Query())
    logs.server.command("DEL", tenant_keys(TENANT).log)
    logs.server.command("HSET", tenant_keys(TENANT).meta, "seq", 0)
    await logs.append(made_up(10, seed=9))
    assert await logs.search.count(TENANT, Query()) == 10
    await logs.append(made_up(50, seed=10))
    rows = await whole_log(logs)
    query = Query((Filter(Field.TYPE, TYPES[0]),))
    page = await logs.search.search(TENANT, query)
    assert [row.seq for row in page.rows] == found_in(rows, query)[:50]


async def test_a_log_that_was_replaced_and_grew_longer_before_anybody_looked_is_indexed_anew(logs: Logs) -> None:
    await logs.append(made_up(30))
    await logs.search.search(TENANT, Query())
    logs.server.command("DEL", tenant_keys(TENANT).log)
    logs.server.command("HSET", tenant_keys(TENANT).meta, "seq", 0)
    await logs.append(made_up(50, seed=11))
    rows = await whole_log(logs)
    for value in TYPES:
        query = Query((Filter(Field.TYPE, value),))
        assert await logs.search.count(TENANT, query) == len(found_in(rows, query))


async def test_events_that_another_process_has_added_are_not_added_twice(logs: Logs) -> None:
    await logs.append(made_up(30))
    await logs.search.search(TENANT, Query())
    counted = await logs.search.top(TENANT, Query(), Field.TYPE, 10)
    index = Index(logs.folder / f"{TENANT}.sqlite", 5.0)
    late = await logs.store.read_events(TENANT, 20, 10)
    assert await asyncio.to_thread(index.append, 20, late) == 30
    assert await logs.search.top(TENANT, Query(), Field.TYPE, 10) == counted


async def test_an_event_without_a_time_is_in_no_range(logs: Logs) -> None:
    await logs.append(made_up(10))
    logs.server.command("XADD", tenant_keys(TENANT).log, "0-11", "e", b"not an event")
    logs.server.command("HSET", tenant_keys(TENANT).meta, "seq", 11)
    assert await logs.search.count(TENANT, Query()) == 11
    assert await logs.search.count(TENANT, Query(since_us=1)) == 10
    assert await logs.search.count(TENANT, Query(until_us=BEGAN_US * 2)) == 10
    assert sum(bar.total for bar in (await logs.search.histogram(TENANT, Query(), 1)).bars) == 10


async def test_an_event_that_was_taken_out_of_the_log_is_found_by_nothing(logs: Logs) -> None:
    await logs.append(made_up(20))
    logs.server.command("XDEL", tenant_keys(TENANT).log, "0-9")
    rows = await whole_log(logs)
    for query in (Query(), Query(since_us=1), Query((Filter(Field.REASON, "nobody's", negated=True),))):
        page = await logs.search.search(TENANT, query)
        assert [row.seq for row in page.rows] == found_in(rows, query)
        assert await logs.search.count(TENANT, query) == 19
        assert sum(bar.total for bar in (await logs.search.histogram(TENANT, query, 7)).bars) == 19


async def test_what_was_trimmed_off_the_log_is_nowhere_in_the_index(logs: Logs) -> None:
    gone = Event(
        TENANT, BEGAN_US, "files.list", Phase.SINGLE, Actor("user", "9" * 24), targets=(Target("file", "file-gone"),)
    )
    await logs.append([gone])
    await logs.append(made_up(20))
    assert await logs.search.count(TENANT, Query((Filter(Field.ACTOR, "9" * 24),))) == 1
    assert any(b"file-gone" in path.read_bytes() for path in logs.folder.iterdir())
    logs.server.command("XTRIM", tenant_keys(TENANT).log, "MINID", "0-6")
    assert await logs.search.count(TENANT, Query()) == 16
    assert await logs.search.count(TENANT, Query((Filter(Field.ACTOR, "9" * 24, negated=True),))) == 16
    assert not any(
        b"file-gone" in path.read_bytes() or b"9" * 24 in path.read_bytes() for path in logs.folder.iterdir()
    )


async def test_a_log_that_was_trimmed_beyond_what_was_indexed_is_indexed_on(logs: Logs) -> None:
    await logs.append(made_up(5))
    assert await logs.search.count(TENANT, Query()) == 5
    await logs.append(made_up(20))
    logs.server.command("XTRIM", tenant_keys(TENANT).log, "MINID", "0-11")
    assert [row.seq for row in (await logs.search.search(TENANT, Query())).rows] == list(range(25, 10, -1))


async def test_an_erased_tenant_has_no_index_and_no_events(logs: Logs) -> None:
    await logs.append(made_up(5))
    assert await logs.search.count(TENANT, Query()) == 5
    await logs.store.set_tenant_status(TENANT, TenantStatus.ERASED)
    assert (await logs.search.search(TENANT, Query())).rows == ()
    assert await logs.search.count(TENANT, Query()) == 0
    assert await logs.search.top(TENANT, Query(), Field.TYPE, 3) == ()
    assert not list(logs.folder.iterdir())


async def test_the_follower_removes_the_index_of_an_erased_tenant_that_nobody_asks_for(logs: Logs) -> None:
    await logs.append(made_up(5))
    await logs.append(made_up(5, tenant=OTHER))
    await logs.search.search(TENANT, Query())
    await logs.search.search(OTHER, Query())
    await logs.store.set_tenant_status(TENANT, TenantStatus.ERASED)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(logs.another().follow_forever())
        await until(lambda: not any(path.name.startswith(TENANT) for path in logs.folder.iterdir()))
        task.cancel()
    assert any(path.name.startswith(OTHER) for path in logs.folder.iterdir())


async def test_one_tenant_whose_log_cannot_be_read_holds_up_no_other(logs: Logs) -> None:
    for tenant in (TENANT, OTHER):
        await logs.append(made_up(5, tenant=tenant))
        await logs.search.search(tenant, Query())
    logs.server.command("SET", tenant_keys(TENANT).log, "no stream")
    await logs.append(made_up(5, seed=2, tenant=OTHER))
    position = Index(logs.folder / f"{OTHER}.sqlite", 5.0).position
    async with asyncio.TaskGroup() as group:
        task = group.create_task(logs.another().follow_forever())
        async with asyncio.timeout(5):
            while (await asyncio.to_thread(position)).last < 10:  # noqa: ASYNC110 - another task gets there
                await asyncio.sleep(0.02)
        task.cancel()


async def test_a_tampered_index_hides_an_event_but_shows_none_that_does_not_match(logs: Logs) -> None:
    await logs.append(made_up(40))
    query = Query((Filter(Field.RESULT, "deny"),))
    true = await logs.search.search(TENANT, query)
    altered(
        logs,
        """UPDATE bits SET bits = (SELECT every.bits FROM bits AS every WHERE every.value = 0)
            WHERE value = (SELECT id FROM value WHERE field = 'result' AND text = 'deny')""",
    )
    assert await logs.search.count(TENANT, query) == 40
    shown = await logs.search.search(TENANT, query)
    assert shown.rows == true.rows


async def test_processes_that_share_a_folder_build_one_index(logs: Logs) -> None:
    await logs.append(made_up(2_500))
    searches = [logs.search, logs.another(), logs.another()]
    counted = await asyncio.gather(*(search.count(TENANT, Query()) for search in searches))
    assert max(counted) == 2_500
    assert [await search.count(TENANT, Query()) for search in searches] == [2_500] * 3


async def test_a_search_that_takes_too_long_is_given_up(logs: Logs) -> None:
    await logs.append(made_up(1_500))
    await logs.search.search(TENANT, Query())
    hurried = IndexedSearch(logs.store, logs.folder, limit_s=0.0)
    with pytest.raises(SearchUnavailable):
        await hurried.count(TENANT, Query(text="req_000000"))


async def test_one_tenants_searches_leave_others_their_turn(logs: Logs) -> None:
    await logs.append(made_up(3000))
    await logs.append(made_up(10, tenant=OTHER))
    await asyncio.gather(logs.search.follow(TENANT), logs.search.follow(OTHER))
    ended: list[TenantId] = []

    async def search(tenant: TenantId) -> None:
        await logs.search.count(tenant, Query(text="a b c d e f g h"))
        ended.append(tenant)

    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(search(TENANT))
        await asyncio.sleep(0)
        group.create_task(search(OTHER))
    assert ended.index(OTHER) < 50


async def test_a_span_is_counted_back_from_now(logs: Logs) -> None:
    await logs.append(made_up(60))
    search = IndexedSearch(logs.store, logs.folder, clock=lambda: BEGAN_US / 1e6 + 3_600)
    expected = found_in(await whole_log(logs), Query(since_us=BEGAN_US + 1_800_000_000))
    assert await search.count(TENANT, Query.parse([("last", "30m")])) == len(expected)


def altered(logs: Logs, statement: str) -> None:
    """The tenant's index, changed by somebody else."""
    with sqlite3.connect(logs.folder / f"{TENANT}.sqlite") as connection:
        connection.execute(statement)
    connection.close()
