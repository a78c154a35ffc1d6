"""The pages: what each shows, that its address holds the whole question, and that each visit is on record before it is shown."""

from __future__ import annotations

import asyncio
import csv
import html
import io
import json
import os
import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from gateway.audit.checkpoint import VerifierKey, open_note
from gateway.audit.event import Outcome, Result, Target
from gateway.audit.export import export
from gateway.console import evidence
from gateway.console.pages import Pages, took, whole_second
from tests.audit.logbook import change_bodies
from tests.audit.verifiers import codes
from tests.console.house import ACME, ADAS_SUBJECT, Browser, House, house
from tests.console.plot import HOSTILE, Plot
from tests.console.words import words_of
from tests.redis_fixture import RedisServer

NOW_US = int(time.time() * 1e6)


@pytest.fixture
async def plot(home: House) -> Plot:
    plot = Plot(ACME, await home.keys(), int(time.time() * 1e6))
    await home.write(*plot.day(80), *plot.story())
    await home.sign()
    return plot


@pytest.fixture
async def auditor(home: House, plot: Plot) -> Browser:
    return await home.signed_in("ada")


def rows(page: str) -> list[int]:
    """The numbers of the records in the log's table."""
    table = page.partition('id="events"')[2]
    return [int(number.replace(",", "")) for number in re.findall(r'aria-label="Record ([0-9,]+)"', table)]


async def shown(browser: Browser, url: str) -> str:
    answer = await browser.get(url)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_the_overview_answers_three_questions(auditor: Browser, plot: Plot) -> None:
    page = await shown(auditor, "/")
    words = words_of(page)
    assert re.search(r"Is the log whole\? Yes\. All 180 records up to checkpoint 180 match", words)
    assert re.search(r"What was refused\? \d+ of 90 answers in the last 24 hours", words)
    assert "Who touched this conversation?" in words
    assert "carol" in words


async def test_a_filter_and_its_negation_part_the_log(auditor: Browser, home: House) -> None:
    events = await home.events()
    cases: tuple[tuple[str, str, Callable[[dict[str, Any]], object]], ...] = (
        ("result", "deny", lambda e: (e["outcome"] or {}).get("result")),
        ("type", "responses.create", lambda e: e["type"]),
        ("reason", "not_owned", lambda e: (e["outcome"] or {}).get("reason")),
        ("route", "/v1/responses", lambda e: e["request"]["route"]),
        ("phase", "intent", lambda e: e["phase"]),
        ("model", "gpt-5", lambda e: e["request"]["model"]),
        ("actor", events[0]["actor"]["pseudonym"], lambda e: e["actor"]["pseudonym"]),
    )
    for name, value, of in cases:
        with_it = {e["seq"] for e in events if of(e) == value}
        without = {e["seq"] for e in events} - with_it
        assert {
            one for one in await _all(auditor, f"{name}={value}&until=2999-01-01") if one <= events[-1]["seq"]
        } == with_it
        assert {one for one in await _all(auditor, f"{name}!={value}") if one <= events[-1]["seq"]} == without


async def _all(browser: Browser, query: str) -> set[int]:
    """The records on all pages of a query, read from the newest to the oldest."""
    found: list[int] = []
    url: str | None = f"/log?{query}"
    while url:
        page = await shown(browser, url)
        found += rows(page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        url = older[1].replace("&amp;", "&") if older else None
    assert found == sorted(set(found), reverse=True)
    return set(found)


async def test_pages_lead_back_to_where_one_was(auditor: Browser) -> None:
    first = await shown(auditor, "/log?type!=console.view")
    older = re.search(r'href="([^"]+)" rel="next"', first)
    assert older
    second = await shown(auditor, older[1].replace("&amp;", "&"))
    newer = re.search(r'href="([^"]+)" rel="prev"', second)
    assert newer
    assert rows(await shown(auditor, newer[1].replace("&amp;", "&"))) == rows(first)


async def test_the_form_for_a_filter_leads_to_an_address_that_holds_it(auditor: Browser) -> None:
    answer = await auditor.get("/log?result=deny&q=&add=reason&add_how=not&add_value=not_owned")
    assert (answer.status_code, answer.headers["location"]) == (303, "/log?result=deny&reason%21=not_owned")
    answer = await auditor.get("/log?result=deny&since=2026-01-01T00:00&until=")
    assert answer.headers["location"] == "/log?result=deny&since=2026-01-01T00%3A00%3A00Z"
    page = await shown(auditor, "/log?result=deny&reason!=not_owned&last=24h&q=resp")
    for chip in ("result is deny", "reason is not not_owned", "holds resp"):
        assert chip in words_of(page)
    assert 'name="q" type="search" value="resp"' in page


async def test_a_question_that_cannot_be_meant_is_answered_400_and_on_record(auditor: Browser, home: House) -> None:
    for query in ("nonsense=1", "last=soon", "since=x", "before=-1", "before=1&after=2", "add=nothing&add_value=x",
                  "until=2020-01-01&since=2021-01-01", "q=" + "a" * 300):  # fmt: skip
        assert (await auditor.get("/log?" + query)).status_code == 400, query
    assert (await auditor.get("/export?format=exe")).status_code == 400
    assert (await auditor.get("/tail/feed")).status_code == 400
    reasons = [one["outcome"]["reason"] for one in await home.events() if one["type"] == "console.refused"]
    assert reasons == ["bad_request"] * 10


async def test_an_event_shows_who_what_and_what_belongs_to_it(auditor: Browser, home: House, plot: Plot) -> None:
    event = next(one for one in await home.events() if one["outcome"] and one["outcome"]["reason"] == "not_owned"
                 and plot.conversation in str(one))  # fmt: skip
    words = words_of(page := await shown(auditor, f"/event/{ACME}/{event['seq']}"))
    for fact in ("carol", event["actor"]["pseudonym"], "conversations.retrieve", "not_owned", event["request"]["id"],
                 "192.0.2.", plot.conversation, "Verified to checkpoint 180", "Of the same request",
                 "On the same conversation", "By the same person"):  # fmt: skip
        assert fact in words, fact
    raw = page.partition('class="raw"')[2].partition(">")[2].partition("</pre>")[0].replace("&#34;", '"')
    assert json.loads(raw) == {name: value for name, value in event.items() if name != "seq"}


async def test_a_conversations_story_is_told_in_order(auditor: Browser, plot: Plot) -> None:
    words = words_of(await shown(auditor, f"/story?id={plot.conversation}"))
    assert re.search(
        r"Created by alice .* Continued by alice 3 × Read by alice Refused to carol 3 × Ended by alice", words
    )
    steps = re.findall(
        r"(alice|carol) (created|continued|was refused|read|tried|ended)", words.partition("10 steps")[2]
    )
    assert [verb for _, verb in steps] == ["created"] + ["continued"] * 3 + ["was refused"] * 3 + [
        "read",
        "tried",
        "ended",
    ]
    assert "Nothing is known of it." in words_of(await shown(auditor, "/story?id=conv_nobody"))


async def _exported(browser: Browser, query: str) -> dict[str, bytes]:
    answer = await browser.get(f"/export?{query}")
    assert answer.status_code == 200
    assert re.fullmatch(
        rf'attachment; filename="coatcheck-{ACME}-[0-9TZ]+\.zip"', answer.headers["content-disposition"]
    )
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


async def test_an_export_holds_what_the_filter_finds_as_it_is_stored(auditor: Browser, home: House) -> None:
    files = await _exported(auditor, "format=jsonl&result=deny")
    stored = {one.seq: one.body for one in await home.stored()}
    lines = [re.fullmatch(rb'\{"seq":([0-9]+),"event":(.*)\}', line) for line in files["events.jsonl"].splitlines()]
    found = {int(line[1]): line[2] for line in lines if line}
    wanted = {one["seq"] for one in await home.events() if (one["outcome"] or {}).get("result") == "deny"}
    assert found == {seq: stored[seq] for seq in wanted}
    assert list(found) == sorted(found)
    manifest = json.loads(files["manifest.json"])
    assert (manifest["events"], manifest["tenant"], manifest["query"]) == (len(found), ACME, [["result", "deny"]])
    keys = tuple(map(VerifierKey.parse, (await auditor.get("/key")).text.splitlines()))
    assert open_note(files["checkpoint"].decode(), keys) is not None


async def test_an_export_of_many_events_comes_whole_and_oldest_first(auditor: Browser, home: House, plot: Plot) -> None:
    await home.write(*plot.day(600))
    files = await _exported(auditor, "format=csv")
    table = list(csv.DictReader(io.StringIO(files["events.csv"].decode(), newline="")))
    assert [int(row["seq"]) for row in table] == list(range(1, len(table) + 1))
    assert len(table) > 1_380
    assert {row["person"] for row in table} >= {"alice", "carol", "billing-worker"}


@pytest.mark.parametrize("query", ["", "&result=deny"], ids=["all", "selection"])
async def test_evidence_is_verified_without_the_console_and_shows_a_change(
    auditor: Browser, home: House, tmp_path: Path, query: str
) -> None:
    await home.sign()
    left = home.settings.data / "exports" / "left by a process that died"
    left.mkdir(parents=True)
    os.utime(left, (1, 1))
    files = await _exported(auditor, f"format=evidence{query}")
    assert "audit verify" in files.pop("README.txt").decode()
    folder, key = tmp_path / "unzipped", tmp_path / "key"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    key.write_text((await auditor.get("/key")).text)
    assert await asyncio.to_thread(codes, folder, key) == [0, 0]
    denied = [one["seq"] for one in await home.events() if (one["outcome"] or {}).get("result") == "deny"]
    segment = folder / "events-000000000001.jsonl" if not query else next(folder.glob("events-*.jsonl"))
    held = [json.loads(line)["seq"] for line in segment.read_bytes().splitlines()]
    assert held == denied if query else held[0] == 1 and len(held) > len(denied)
    segment.write_bytes(segment.read_bytes().replace(b"deny", b"dEny", 1))
    assert await asyncio.to_thread(codes, folder, key) == [1, 1]
    assert list((home.settings.data / "exports").iterdir()) == []


async def test_evidence_makes_nothing_genuine_that_was_changed_in_the_store(
    auditor: Browser, home: House, redis_server: RedisServer
) -> None:
    await home.sign()
    change_bodies(redis_server, ACME, lambda _, body: body.replace(b'"deny"', b'"allow"'))
    files = await _exported(auditor, "format=evidence")
    assert set(files) == {"README.txt", "REFUSED.txt"}
    assert b"the log is not the one that was signed" in files["REFUSED.txt"]


async def test_evidence_of_a_session_that_ends_meanwhile_does_not_open(
    auditor: Browser, home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.sign()

    async def long(*args: Any, **more: Any) -> Any:
        made = await export(*args, **more)
        assert (await auditor.post("/sign-out", {})).status_code == 303
        return made

    monkeypatch.setattr(evidence, "export", long)
    with pytest.raises(httpx2.RemoteProtocolError):
        await auditor.get("/export?format=evidence")
    assert list((home.settings.data / "exports").iterdir()) == []


async def test_an_export_that_ends_beside_another_does_not_end_it(
    auditor: Browser, home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.sign()
    listed = Path.iterdir

    def with_one_that_is_gone(folder: Path) -> list[Path]:
        return [*listed(folder), folder / "gone"]

    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", with_one_that_is_gone)
        files = await _exported(auditor, "format=evidence")
    assert "manifest.json" in files


async def test_no_cell_of_an_export_is_a_formula(home: House, auditor: Browser, plot: Plot) -> None:
    await home.write(*plot.hostile())
    files = await _exported(auditor, "format=csv")
    for row in csv.reader(io.StringIO(files["events.csv"].decode(), newline="")):
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)
    assert b"'=HYPERLINK" in files["events.csv"]


async def test_hostile_text_is_text_on_every_page(home: House, auditor: Browser, plot: Plot) -> None:
    await home.write(*plot.hostile())
    await home.sign()
    last = (await home.stored())[-1].seq
    pages = ["/", "/log", "/tail", "/log?q=script", *(f"/event/{ACME}/{seq}" for seq in range(last - 20, last + 1))]
    for page in pages:
        text = await shown(auditor, page)
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert not set(text) & set("\u202e\u202c\u200b\u2060\x1b\x07\u3164\u2800"), page
        assert "49" not in re.findall(r"<bdi>(\d+)</bdi>", text)
    for text in HOSTILE:
        answer = await auditor.get("/story?" + urlencode({"id": text}))
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text


@pytest.mark.parametrize("page", ["/log", "/tail", "/export?format=csv"])
async def test_a_span_of_any_length_is_a_question(auditor: Browser, page: str) -> None:
    for span in ("last=999999d", "since=0001-01-01", "until=9999-12-30"):
        answer = await auditor.get(page + ("&" if "?" in page else "?") + span)
        assert answer.status_code == 200, span
    assert (await auditor.get(page + ("&" if "?" in page else "?") + "since=9999-12-31T23:59:59")).status_code == 400


async def test_every_visit_is_on_record_and_an_id_that_was_typed_in_is_not(
    auditor: Browser, home: House, plot: Plot
) -> None:
    raw = "resp_68b1c2d3e4f5a6b700681234567890abcdef1234567890ab"
    before = len(await home.stored())
    await shown(auditor, f"/log?q={raw}&target={raw}")
    await shown(auditor, f"/story?id={plot.conversation}")
    await auditor.get("/export?format=csv&last=1h")
    await auditor.get("/key")
    await auditor.get("/nowhere")
    looked, told, exported, key = (await home.events())[before:]
    assert raw not in str(looked)
    assert looked["changes"]["page"] == "log"
    assert re.fullmatch(r"q=\?[0-9a-f]{24} target=\?[0-9a-f]{24}", looked["changes"]["query"])
    assert told["targets"] == [{"id": plot.conversation, "kind": "conversation"}]
    assert (exported["type"], exported["changes"]["what"]) == ("console.export", "csv")
    assert (key["type"], key["changes"]["what"]) == ("console.export", "key")
    for event in (looked, told, exported, key):
        assert event["actor"]["pseudonym"] == key["actor"]["pseudonym"]
        assert event["request"]["network"]
        assert event["outcome"]["result"] == "allow"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/checkpoint", "checkpoint"),
        (f"/event/{ACME}/8/proof", "proof"),
        ("/key", "key"),
        ("/export?format=evidence", "evidence"),
        ("/export?format=jsonl", "jsonl"),
        ("/export?format=csv", "csv"),
    ],
)
async def test_whatever_is_taken_away_is_on_record(auditor: Browser, home: House, path: str, what: str) -> None:
    before = len(await home.stored())
    assert (await auditor.get(path)).status_code == 200
    (taken,) = (await home.events())[before:]
    assert (taken["type"], taken["changes"]["what"]) == ("console.export", what)


async def test_reading_it_all_again_is_on_record(auditor: Browser, home: House) -> None:
    before = len(await home.stored())
    assert (await auditor.post("/verify", {})).status_code == 303
    (asked,) = (await home.events())[before:]
    assert (asked["type"], asked["changes"]["page"]) == ("console.view", "verify")


async def test_what_cannot_be_put_on_record_is_not_shown(own_redis_server: RedisServer, tmp_path: Path) -> None:
    async with house(own_redis_server.url, tmp_path) as home:
        auditor = await home.signed_in("ada")
        plot = Plot(ACME, await home.keys(), NOW_US)
        await home.write(*plot.story())
        await home.sign()
        signed = len(await home.stored())
        why = f"the log ends at event {signed} and was signed to <99>"
        await home.store.log.halt(ACME, why)
        address = await home.answered("max", newcomer := home.browser())
        pages = ("/", "/log", f"/event/{ACME}/3", "/export?format=csv", "/key", "/tail/feed?after=0")
        answers = [await auditor.get(page) for page in pages]
        answers += [await auditor.post("/verify", {}), await newcomer.get(address)]
        for answer in answers:
            assert answer.status_code == 503, answer.url
            words = words_of(answer.text)
            assert "The log is halted" in words
            assert "Is the log whole? Not any more." in words
            assert f"Halted because {why} " in html.unescape(words)
            assert f"Last signed checkpoint {signed}, kept outside the store up to {signed}" in words
            assert re.search(rf"Recorded up to record {signed}; the newest that is here is of \d", words)
            assert "audit reseal" in words
            assert "shortly" not in words
            assert "on record" not in words
            for held in ("alice", plot.conversation, "conversations.create"):
                assert held not in answer.text
        assert ADAS_SUBJECT in answers[0].text
        assert (await auditor.post("/sign-out", {})).status_code == 503
        assert (await auditor.get("/log")).status_code == 303


async def test_a_halted_log_that_lost_events_says_which(own_redis_server: RedisServer, tmp_path: Path) -> None:
    async with house(own_redis_server.url, tmp_path) as home:
        await home.write(*Plot(ACME, await home.keys(), NOW_US).story())
        await home.sign()
        auditor = await home.signed_in("ada")
        own_redis_server.command("XTRIM", b"{t:%b}:aud" % ACME.encode(), "MAXLEN", 0)
        await home.store.log.halt(ACME, "somebody cut it")
        words = words_of((await auditor.get("/")).text)
        assert "Is the log whole? No. Record 1 is missing, and so is everything after it." in words
        assert "Halted because somebody cut it" in words
        assert re.search(r"Recorded up to record \d+; none is here", words)


async def test_a_page_that_is_not_there_keeps_the_name_and_the_ways_of_who_is_signed_in(
    auditor: Browser, home: House
) -> None:
    page = (await auditor.get("/nowhere")).text
    assert ADAS_SUBJECT in page
    assert 'href="/log"' in page
    assert "on record" not in page
    assert 'href="/log"' not in (await home.browser().get("/nowhere")).text
    assert "on record" in (await auditor.get(f"/event/{ACME}/999999")).text


async def test_pages_say_so_where_the_store_is_away(own_redis_server: RedisServer, tmp_path: Path) -> None:
    async with house(
        own_redis_server.url, tmp_path, COATCHECK_REDIS_REPLY_TIMEOUT_S="0.3", COATCHECK_REDIS_UNCONFIRMED_S="0.6"
    ) as home:
        auditor = await home.signed_in("ada")
        own_redis_server.kill()
        answer = await auditor.get("/log")
        assert (answer.status_code, "cannot be read right now" in answer.text) == (503, True)
        assert (await auditor.get("/sign-in/start?provider=1")).status_code == 503
        own_redis_server.start()


async def test_a_page_that_fails_says_so_and_shows_nothing_of_why(
    home: House, auditor: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("the reason")

    monkeypatch.setattr("gateway.console.log.draw", fails)
    answer = await auditor.get("/log")
    assert (answer.status_code, "This page failed." in answer.text, "the reason" in answer.text) == (500, True, False)
    assert "console.page_failed" in caplog.text


async def test_an_erased_tenants_log_is_closed(home: House, auditor: Browser, redis_server: RedisServer) -> None:
    redis_server.command("DEL", b"{t:%b}:keys" % ACME.encode())
    home.keyring._tenants.clear()
    answer = await auditor.get("/log")
    assert (answer.status_code, "This log is closed." in answer.text) == (403, True)


async def test_the_picture_of_the_log_counts_reviewers_visits_only_where_they_are_asked_for(auditor: Browser) -> None:
    for _ in range(3):
        await shown(auditor, "/")
    everything = await shown(auditor, "/log")
    assert re.search(r"Answers over time allowed (\d+)refused", words_of(everything))
    total = re.search(r"Answers over time: (\d+) answers", everything)
    overview = re.search(r"of (\d+) answers in the last 24 hours", words_of(await shown(auditor, "/")))
    assert total
    assert overview
    assert total[1] == overview[1] == "90"
    assert "Answers over time: 5 answers" in await shown(auditor, "/log?type=console.view")


async def test_an_object_that_was_only_ever_refused_has_no_end_in_the_log(
    home: House, auditor: Browser, plot: Plot
) -> None:
    forged = Target("conversation", plot.opaque("conv_"))
    denied = Outcome(Result.DENY, "foreign_or_retired", 404)
    await home.write(
        *plot.request(plot.actor("x"), "conversations.retrieve", "/v1/c", 5, named=(forged,), ending=denied)
    )
    words = words_of(await shown(auditor, f"/story?id={forged.id}"))
    assert "Created by not in this log" in words
    assert "Ended by no end in this log" in words


async def test_a_quiet_tenants_overview_says_once_that_nothing_was_asked(home: House) -> None:
    words = words_of(await shown(await home.signed_in("rita"), "/"))
    assert words.count("the last 24 hours") == 1
    assert "Refused last" not in words


@pytest.mark.parametrize(
    ("us", "text"),
    [(1_890_958, "1.89 s"), (180_000, "180 ms"), (9_499, "9.5 ms"), (0, "0.0 ms"), (3_600_000_000, "3,600.00 s")],
)
def test_a_duration_is_written_as_people_read_it(us: int, text: str) -> None:
    assert took(us) == text


def test_a_field_for_a_time_takes_whole_seconds_within_which_the_question_lies() -> None:
    assert (whole_second(None), whole_second(None, up=True)) == ("", "")
    assert whole_second(1_500_000) == "1970-01-01T00:00:01"
    assert whole_second(1_500_000, up=True) == "1970-01-01T00:00:02"
    assert whole_second(2_000_000, up=True) == "1970-01-01T00:00:02"
    # The year 1 is written with four digits, or the field would be empty.
    assert whole_second(-62_135_596_800_000_000) == "0001-01-01T00:00:00"


async def test_only_admins_are_offered_what_only_they_may_do(home: House, auditor: Browser) -> None:
    admin = await home.signed_in("max")
    assert 'href="/sessions"' not in await shown(auditor, "/")
    assert 'href="/sessions"' in await shown(admin, "/")


def test_every_icon_of_every_page_is_there() -> None:
    pages: Any = Pages.load()
    assert pages.static("console.css") is not None
    assert pages.static("../app.py") is None
