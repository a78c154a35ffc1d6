"""Sessions: they end by themselves, by their owner and by an admin, and what is over stays over."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gateway.audit.search.engine import IndexedSearch
from gateway.console.desk import EXPORTS, FEEDS
from gateway.console.reviewer import Reviewer, Role
from gateway.console.seats import Seats
from gateway.console.session import COOKIE, Box, Session, Sessions
from gateway.names import Owner, TenantId
from gateway.stores.fake import FakeLink
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.console.house import ACME, ADAS_SUBJECT, RIVAL, House, house
from tests.console.plot import Plot
from tests.redis_fixture import RedisServer

ADA = Reviewer(ACME, Owner("https://id.example.com", ADAS_SUBJECT), Role.AUDITOR, "acme")
IDLE_S, ABSOLUTE_S = 1_800, 28_800


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store() -> RedisStore:
    return RedisStore(await FakeLink.open(SCRIPTS))


@pytest.fixture
def sessions(store: RedisStore, clock: Clock) -> Sessions:
    return Sessions(store, Box(b"k" * 32), IDLE_S, ABSOLUTE_S, clock)


async def test_a_session_ends_after_half_an_hour_without_a_page(sessions: Sessions, clock: Clock) -> None:
    _, cookie = await sessions.start(ADA)
    for _ in range(3):
        clock.now += IDLE_S - 1
        found = await sessions.find(cookie)
        assert found is not None
        assert found.reviewer == ADA
    clock.now += IDLE_S
    assert await sessions.find(cookie) is None
    assert await sessions.all_of(ACME) == ()


async def test_a_session_that_is_only_watched_is_not_kept_alive(sessions: Sessions, clock: Clock) -> None:
    _, cookie = await sessions.start(ADA)
    clock.now += IDLE_S - 1
    assert await sessions.peek(cookie) is not None
    clock.now += 1
    assert await sessions.peek(cookie) is None


async def test_a_session_ends_after_eight_hours_however_busy(sessions: Sessions, clock: Clock) -> None:
    _, cookie = await sessions.start(ADA)
    for _ in range(ABSOLUTE_S // 600 - 1):
        clock.now += 600
        assert await sessions.find(cookie) is not None
    clock.now += 600
    assert await sessions.find(cookie) is None


async def test_a_page_that_was_underway_does_not_bring_an_ended_session_back(
    sessions: Sessions, store: RedisStore, clock: Clock
) -> None:
    session, cookie = await sessions.start(ADA)
    clock.now += 600
    held = store.session

    async def ended_meanwhile(tenant: TenantId, name: str) -> bytes | None:
        data = await held(tenant, name)
        assert await sessions.end(tenant, name)
        return data

    store.session = ended_meanwhile  # type: ignore[method-assign]
    assert await sessions.find(cookie) is None
    store.session = held  # type: ignore[method-assign]
    assert await sessions.find(cookie) is None
    assert not await sessions.end(ACME, session.name)


async def test_the_store_holds_neither_the_cookie_nor_who_it_is(redis_server: RedisServer, tmp_path: Path) -> None:
    async with house(redis_server.url, tmp_path) as home:
        auditor = await home.signed_in("ada")
        secret = auditor.cookies[COOKIE].partition(".")[2]
        names = redis_server.command("KEYS", "*session*") + redis_server.command("KEYS", "signin:*")
        dump = b"".join(names)
        for name in names:
            if redis_server.command("TYPE", name) == b"string":
                dump += redis_server.command("GET", name)
                assert 0 < redis_server.command("TTL", name) <= IDLE_S
        assert names
        assert secret.encode() not in dump
        assert ADAS_SUBJECT.encode() not in dump
        assert all(name.startswith(b"{t:" + ACME.encode() + b"}") for name in names)


async def test_a_session_of_one_tenant_is_none_of_another(sessions: Sessions, store: RedisStore) -> None:
    session, cookie = await sessions.start(ADA)
    moved = await store.session(ACME, session.name)
    assert moved is not None
    await store.put_session(RIVAL, session.name, moved, 600)
    assert await sessions.find(cookie.replace(ACME, RIVAL)) is None
    assert await sessions.all_of(RIVAL) == ()
    assert not await sessions.end(RIVAL, "0" * 64)


async def test_who_signs_out_is_out(home: House) -> None:
    auditor = await home.signed_in("ada")
    cookie = auditor.cookies[COOKIE]
    answer = await auditor.post("/sign-out", {})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?out")
    assert COOKIE not in auditor.cookies
    auditor.cookies[COOKIE] = cookie
    assert (await auditor.get("/log")).status_code == 303
    assert [event["type"] for event in await home.events()] == ["console.sign_in", "console.sign_out"]


async def test_an_admin_ends_a_session_of_the_tenant_and_nobody_elses(home: House) -> None:
    admin, auditor, rival = [await home.signed_in(name) for name in ("max", "ada", "rita")]
    page = await admin.get("/sessions")
    assert "2 reviewers" in page.text
    assert "rita" not in page.text
    [name] = {one for one in _values(page.text) if one != "others"}
    assert (await admin.post("/sessions", {"session": name})).status_code == 303
    assert (await auditor.get("/log")).status_code == 303
    assert (await rival.get("/log")).status_code == 200
    assert (await admin.get("/log")).status_code == 200
    for wrong in (name, "", "0" * 64, "../x"):
        assert (await admin.post("/sessions", {"session": wrong})).status_code == 404
    [revoked] = [event for event in await home.events() if event["type"] == "console.revoke"]
    assert revoked["changes"] == {"page": "sessions", "sessions": 1}


async def test_an_auditor_neither_sees_nor_ends_sessions(home: House) -> None:
    auditor, admin = await home.signed_in("ada"), await home.signed_in("max")
    assert (await auditor.get("/sessions")).status_code == 403
    assert (await auditor.post("/sessions", {"session": "others"})).status_code == 403
    assert (await admin.get("/log")).status_code == 200
    reasons = [event["outcome"]["reason"] for event in await home.events() if event["type"] == "console.refused"]
    assert reasons == ["role_missing", "role_missing"]


async def test_the_live_tail_ends_with_the_session_that_opened_it(home: House) -> None:
    auditor = await home.signed_in("ada")
    url = f"{home.origin}/tail/feed?after=0"
    cookie = f"{COOKIE}={auditor.cookies[COOKIE]}"
    headers = {"cookie": cookie, "sec-fetch-site": "same-origin", "accept": "text/event-stream"}
    async with asyncio.timeout(10), home.http.stream("GET", url, headers=headers) as answer:
        lines = answer.aiter_lines()
        assert [await anext(lines) for _ in range(3)] == ["retry: 2000", "", "id: 1"]
        await auditor.post("/sign-out", {})
        rest = [line async for line in lines]
    assert rest[-3:] == ["event: over", "data: {}", ""]


async def test_an_export_ends_with_its_session_and_is_not_whole(
    home: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gateway.console.export.AT_ONCE", 5)
    await home.write(*Plot(ACME, await home.keys(), 1).story())
    auditor = await home.signed_in("ada")
    [session] = await home.store.sessions(ACME)
    search, asked = IndexedSearch.search, 0

    async def ends_the_session(self: IndexedSearch, *given: Any, **more: Any) -> object:
        nonlocal asked
        asked += 1
        if asked == 2:
            await home.store.drop_session(ACME, session)
        return await search(self, *given, **more)

    monkeypatch.setattr(IndexedSearch, "search", ends_the_session)
    with pytest.raises(httpx2.RemoteProtocolError):
        await auditor.get("/export?format=jsonl")
    assert asked == 2
    assert "SessionOver" in caplog.text


async def test_a_session_opens_so_many_live_tails_and_no_more(home: House) -> None:
    auditor = await home.signed_in("ada")
    url = f"{home.origin}/tail/feed?after=0"
    headers = {"cookie": f"{COOKIE}={auditor.cookies[COOKIE]}", "sec-fetch-site": "same-origin"}
    async with asyncio.timeout(20), contextlib.AsyncExitStack() as stack:
        open_ones = []
        for _ in range(FEEDS[0]):
            feed = await stack.enter_async_context(home.http.stream("GET", url, headers=headers))
            # Kept: a reading that nobody holds closes its answer.
            open_ones.append(feed.aiter_lines())
            assert await anext(open_ones[-1]) == "retry: 2000"
        assert (await auditor.get("/tail/feed?after=0")).status_code == 429
        await auditor.post("/sign-out", {})


@pytest.mark.parametrize(("path", "most"), [("/tail/feed?after=0", FEEDS[0]), ("/export?format=csv", EXPORTS[0])])
async def test_many_at_the_same_moment_are_no_more_than_so_many(home: House, path: str, most: int) -> None:
    auditor = await home.signed_in("ada")
    # More than what fits between the console and who does not read on.
    await home.write(*Plot(ACME, await home.keys(), 1).day(400))
    headers = {"cookie": f"{COOKIE}={auditor.cookies[COOKIE]}", "sec-fetch-site": "same-origin"}
    asked = 3 * most
    everybody = asyncio.Event()
    statuses: list[int] = []

    async def one() -> None:
        async with home.http.stream("GET", home.origin + path, headers=headers) as answer:
            statuses.append(answer.status_code)
            if len(statuses) == asked:
                everybody.set()
            await everybody.wait()

    async with asyncio.timeout(20):
        await asyncio.gather(*(one() for _ in range(asked)))
    assert sorted(set(statuses)) == [200, 429]

    assert statuses.count(200) == most
    # They are over now, and so another one is let in.
    async with asyncio.timeout(10):
        while True:
            async with home.http.stream("GET", home.origin + path, headers=headers) as answer:
                if answer.status_code == 200:
                    break
            await asyncio.sleep(0.1)


def test_one_tenants_people_leave_room_for_others_however_often_they_sign_in() -> None:
    seats = Seats(2, 3, 5)
    ours = [Session(f"{number}", ADA, 0, 0) for number in range(3)]
    other = Session("other", replace(ADA, tenant=RIVAL), 0, 0)
    with contextlib.ExitStack() as held:
        for session in ours:
            assert not seats.are_full(session)
            held.enter_context(seats.taken(session))
        assert seats.are_full(ours[0])
        assert not seats.are_full(other)
        held.enter_context(seats.taken(other))
        held.enter_context(seats.taken(other))
        assert seats.are_full(other)
        assert seats.are_full(Session("third", replace(ADA, tenant=TenantId("third")), 0, 0))
    assert not seats.are_full(ours[0])


def _values(page: str) -> list[str]:
    return [part.partition('"')[0] for part in page.split('name="session" value="')[1:]]
