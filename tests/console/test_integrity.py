"""The console says whether the log is whole, and which record is the first that does not match."""

from __future__ import annotations

import asyncio
import io
import json
import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.audit.checkpoint import VerifierKey, open_note, read_unverified
from gateway.audit.event import SYSTEM, Change, Event, EventType, Outcome, Phase, Result
from gateway.audit.proof import open_proof
from gateway.audit.tree import Frontier, leaf
from gateway.console.integrity import Integrity, State
from gateway.tasks import Tasks
from tests.console.house import ACME, Browser, House, house
from tests.console.plot import Plot
from tests.console.words import words_of
from tests.redis_fixture import RedisServer

Rows = list[tuple[bytes, bytes]]


@pytest.fixture
async def auditor(home: House) -> Browser:
    """Of a log of 20 signed events."""
    await home.write(*Plot(ACME, await home.keys(), int(time.time() * 1e6)).story())
    await home.sign()
    assert len(await home.stored()) == 20
    return await home.signed_in("ada")


def rewrite(server: RedisServer, change: Callable[[Rows], Rows]) -> None:
    """Puts another log in the place of the tenant's."""
    key = b"{t:%b}:aud" % ACME.encode()
    rows = [(id_, fields[b"e"]) for id_, fields in server.command("XRANGE", key, "-", "+")]
    server.command("DEL", key)
    for id_, body in change(rows):
        server.command("XADD", key, id_, "e", body)


def altered(seq: int, old: bytes, new: bytes) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        assert old in rows[seq - 1][1]
        rows[seq - 1] = rows[seq - 1][0], rows[seq - 1][1].replace(old, new)
        return rows

    return change


async def test_a_whole_log_is_said_to_be_whole(auditor: Browser) -> None:
    page = (await auditor.get("/")).text
    assert "All 20 records up to checkpoint 20 match what was signed." in words_of(page)


async def test_an_event_is_verified_to_its_checkpoint_and_proven_by_a_file(home: House, auditor: Browser) -> None:
    page = (await auditor.get(f"/event/{ACME}/8")).text
    assert "Verified to checkpoint 20." in words_of(page)
    proof = await auditor.get(f"/event/{ACME}/8/proof")
    keys = _keys((await auditor.get("/key")).text)
    proven = open_proof(proof.text, keys)
    assert (proven.seq, proven.body) == (8, (await home.stored())[7].body)
    note = (await auditor.get("/checkpoint")).text
    checkpoint = open_note(note, keys)
    assert checkpoint is not None
    assert checkpoint.size == 20


async def test_nothing_is_promised_of_a_log_that_has_no_checkpoint_yet(home: House) -> None:
    await home.write(*Plot(ACME, await home.keys(), int(time.time() * 1e6)).story())
    words = words_of((await (await home.signed_in("ada")).get(f"/event/{ACME}/8")).text)
    assert "No checkpoint vouches for it yet. None can be compared so far." in words
    assert "within" not in words


async def test_an_event_that_is_not_signed_yet_is_said_to_be_pending(home: House, auditor: Browser) -> None:
    last = (await home.stored())[-1].seq
    page = (await auditor.get(f"/event/{ACME}/{last}")).text
    assert "No checkpoint vouches for it yet." in words_of(page)
    assert (await auditor.get(f"/event/{ACME}/{last}/proof")).status_code == 404


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (altered(12, b'"not_owned"', b'"not_0wned"'), "Record 12 does not match: record 13 holds another hash of it."),
        (altered(20, b'"result":"allow"', b'"result":"a11ow"'), "Record 20 does not match: record 21 holds"),
        (altered(1, b"conversations.create", b"conversations.crEate"), "Record 1 does not match"),
        (lambda rows: rows[:8] + rows[9:], "Record 9 is missing."),
        (lambda rows: rows[:15], "Record 16 is missing, and so is everything after it."),
        (lambda rows: [*rows[:4], (rows[4][0], rows[5][1]), (rows[5][0], rows[4][1]), *rows[6:]], "Record 5 does not match"),
        (lambda rows: [*rows[:4], (rows[4][0], b"{}"), *rows[5:]], "Record 5 does not match"),
        (lambda rows: [*rows[:4], (rows[4][0], b"\xff\x00"), *rows[5:]], "Record 5 does not match"),
    ],
)  # fmt: skip
async def test_a_tampered_log_shows_its_first_bad_record(
    redis_server: RedisServer, home: House, auditor: Browser, change: Callable[[Rows], Rows], said: str
) -> None:
    rewrite(redis_server, change)
    page = words_of((await auditor.get("/")).text)
    assert "No." in page
    assert said in page


@pytest.mark.parametrize("forged", [
    (rb'"ts":\d+', b'"ts":9000000000000000000'),
    (rb'"changes":{}', b'"changes":{"a":' + b"[" * 900 + b"]" * 900 + b"}"),
])  # fmt: skip
async def test_no_record_that_somebody_wrote_into_the_store_keeps_a_page_from_being_shown(
    redis_server: RedisServer, home: House, auditor: Browser, forged: tuple[bytes, bytes]
) -> None:
    await asyncio.to_thread(rewrite, redis_server, lambda rows: [
        (place, re.sub(*forged, body) if place == b"0-10" else body) for place, body in rows
    ])  # fmt: skip
    pages = ("/", "/log", "/tail", f"/event/{ACME}/10", "/export?format=csv", "/export?format=jsonl")
    assert {page: (await auditor.get(page)).status_code for page in pages} == dict.fromkeys(pages, 200)


async def test_an_altered_event_is_found_when_it_is_opened_though_the_log_was_read_before(
    redis_server: RedisServer, auditor: Browser
) -> None:
    assert "match what was signed" in (await auditor.get("/")).text
    rewrite(redis_server, altered(12, b'"not_owned"', b'"not_0wned"'))
    page = words_of((await auditor.get(f"/event/{ACME}/12")).text)
    assert "Record 12 does not match." in page
    assert (await auditor.get(f"/event/{ACME}/12/proof")).status_code == 404
    words = words_of((await auditor.get("/")).text)
    assert "No. Record 12 does not match: it is not the one that was signed." in words
    exported = await auditor.get("/export?format=jsonl")
    with zipfile.ZipFile(io.BytesIO(exported.content)) as archive:
        assert json.loads(archive.read("manifest.json"))["log"] == "broken"


async def test_the_log_is_read_from_its_first_event_once_an_hour_and_the_page_says_when(
    redis_server: RedisServer, home: House, auditor: Browser
) -> None:
    now = [1_000.0]
    deployment = (await home.keyring.deployment()).deployment
    tasks = Tasks()
    keys = await home.keys()
    integrity = Integrity(
        home.store, home.store.log, deployment, tasks, clock=lambda: 1e9 + now[0], monotonic=lambda: now[0]
    )
    assert (await integrity.look(ACME, keys)).state is State.WHOLE
    rewrite(redis_server, altered(12, b'"not_owned"', b'"not_0wned"'))
    now[0] += 3_599
    known = await integrity.look(ACME, keys)
    now[0] += 2
    anew = await integrity.look(ACME, keys)
    assert (known.state, known.at_s - 1e9) == (State.WHOLE, 1_000.0)
    assert (anew.state, anew.bad, anew.at_s - 1e9) == (State.BROKEN, 12, 4_601.0)
    await tasks.aclose()
    day = time.strftime("%Y-%m-%d", time.gmtime())
    assert re.search(rf"Read at {day}", words_of((await auditor.get("/")).text))


async def test_a_forged_checkpoint_is_none(redis_server: RedisServer, home: House, auditor: Browser) -> None:
    key = b"{t:%b}:ckpt" % ACME.encode()
    note = redis_server.command("HGET", key, "note").decode()
    checkpoint = read_unverified(note)
    assert checkpoint is not None
    redis_server.command("HSET", key, "note", note.replace("\n20\n", "\n19\n"))
    page = words_of((await auditor.get("/")).text)
    assert "The newest checkpoint is not signed with the log’s key." in page


async def test_a_log_that_grows_is_read_on(home: House, auditor: Browser) -> None:
    await auditor.get("/")
    await home.write(*Plot(ACME, await home.keys(), int(time.time() * 1e6), seed=9).day(50))
    await home.sign()
    size = len(await home.stored())
    assert f"All {size} records up to checkpoint {size} match" in words_of((await auditor.get("/")).text)


async def test_a_long_log_is_read_in_helpings(home: House, auditor: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.console.integrity.AT_ONCE", 5)
    monkeypatch.setattr("gateway.console.integrity._BATCH", 3)
    assert re.search(r"So far, yes\. 5 of \d+ records are read", words_of((await auditor.get("/")).text))
    async with asyncio.timeout(10):
        while "All 20 records" not in words_of((await auditor.get("/")).text):  # noqa: ASYNC110 - it is read behind
            await asyncio.sleep(0.05)


async def test_a_log_whose_oldest_part_is_in_the_archive_is_whole_from_there_on(
    redis_server: RedisServer, home: House, auditor: Browser
) -> None:
    base = Frontier().extend(leaf(ACME, one.seq, one.body) for one in (await home.stored())[:8])
    assert await home.store.log.trim(ACME, 8, base.to_bytes())
    words = words_of((await auditor.get("/")).text)
    assert "Records 1 to 8 are not here, and no record says that they went to the archive." in words
    for last in (7, 8):
        said: dict[str, Change] = {"first": 1, "last": last}
        archived = Event(ACME, 1, EventType.LOG_ARCHIVED, Phase.SINGLE, SYSTEM, None, Outcome(Result.ALLOW), (), said)
        assert "Records 1 to 8 are not here" in words_of((await auditor.get("/")).text)
        await home.write(archived)
    words = words_of((await auditor.get("/")).text)
    assert "Yes. Records 9 to 20 match what was signed; those before are in the archive." in words
    assert (await auditor.get(f"/event/{ACME}/8")).status_code == 404
    assert "Verified to checkpoint 20." in words_of((await auditor.get(f"/event/{ACME}/9")).text)
    rewrite(redis_server, altered(4, b'"not_owned"', b'"not_0wned"'))  # the fourth that is left
    await auditor.post("/verify", {})
    assert "Record 12 does not match" in words_of((await auditor.get("/")).text)


@pytest.mark.parametrize("base", [b"", b"no tree", b"\xff" * 40])
async def test_a_log_whose_beginning_was_taken_away_by_somebody_else_is_not_whole(
    redis_server: RedisServer, auditor: Browser, base: bytes
) -> None:
    redis_server.command("XTRIM", f"{{t:{ACME}}}:aud", "MINID", "0-4")
    redis_server.command("HSET", f"{{t:{ACME}}}:ckpt", "trimmed", 3, "base", base)
    assert "Record 1 is missing" in words_of((await auditor.get("/")).text)


async def test_one_writer_of_many_is_told_apart(redis_server: RedisServer, tmp_path: Path) -> None:
    """Two processes write; the altered event is found by its own writer's next one."""
    async with house(redis_server.url, tmp_path) as first:
        await first.write(*Plot(ACME, await first.keys(), 1).story())
    async with house(redis_server.url, tmp_path) as home:
        await home.write(*Plot(ACME, await home.keys(), 2, seed=3).story())
        await home.sign()
        assert len({json.loads(one.body)["writer"] for one in await home.stored()}) == 2
        rewrite(redis_server, altered(20, b'"result":"allow"', b'"result":"a11ow"'))
        auditor = await home.signed_in("ada")
        assert "between 1 and 40 is not the one that was signed" in words_of((await auditor.get("/")).text)


def _keys(text: str) -> tuple[VerifierKey, ...]:
    return tuple(VerifierKey.parse(line) for line in text.splitlines())
