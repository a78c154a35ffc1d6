"""What an export holds, and that one that breaks off goes on."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.export import export
from gateway.audit.layout import EARLIER, HEAD, MANIFEST, SIGNATURE, UNFINISHED, Manifest
from gateway.audit.offline import verify_folder
from gateway.audit.search.query import Query, write_moment
from gateway.audit.search.terms import terms_of
from gateway.audit.source import EvidenceRefused
from gateway.audit.tree import leaf
from tests.audit.forge import rechained
from tests.audit.written_log import ACME, MADE_US, START_US, STEP_US, WrittenLog, write

COUNT = 100
LOG = write(COUNT)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def events_in(folder: Path) -> list[tuple[int, bytes]]:
    """Numbers and bytes, read as the format's page says."""
    found = []
    for path in sorted(folder.glob("events-*.jsonl")):
        for line in path.read_bytes().splitlines():
            found.append((json.loads(line)["seq"], line[line.index(b',"event":') + len(b',"event":') : -1]))
    return found


def is_whole(folder: Path, log: WrittenLog = LOG) -> bool:
    return not verify_folder(folder, (VerifierKey.parse(log.key_line),)).findings


def test_a_range_holds_every_event_with_its_very_bytes(tmp_path: Path) -> None:
    manifest = LOG.export(tmp_path / "export")
    assert events_in(tmp_path / "export") == list(enumerate(LOG.bodies, start=1))
    assert sorted(contents(tmp_path / "export")) == [
        HEAD,
        EARLIER,
        *(one.name for one in manifest.segments),
        MANIFEST,
        SIGNATURE,
    ]
    assert [one.count for one in manifest.segments] == [16] * 6 + [4]
    assert (tmp_path / "export" / HEAD).read_text() == LOG.note()
    assert Manifest.from_bytes((tmp_path / "export" / MANIFEST).read_bytes()) == manifest


def test_a_line_is_what_the_page_says(tmp_path: Path) -> None:
    LOG.export(tmp_path / "export")
    line = json.loads((tmp_path / "export" / "events-000000000001.jsonl").read_bytes().splitlines()[6])
    assert list(line) == ["seq", "leaf", "event"]
    assert line["leaf"] == base64.b64encode(leaf(ACME, 7, LOG.bodies[6])).decode()


@pytest.mark.parametrize(
    "query",
    [
        [("result", "deny")],
        [("result", "deny"), ("result", "allow"), ("type!", "responses.get")],
        [("actor", "a" * 24), ("reason", "not_owned")],
        [("target", f"resp_{40:034d}")],
        [("q", "gpt")],
        [("type", "writer.opened")],
        [("result!", "allow"), ("since", write_moment(START_US + 20 * STEP_US))],
        [("result!", "allow"), ("until", write_moment(START_US + 61 * STEP_US))],
    ],
)
def test_a_selection_holds_what_the_query_finds_and_nothing_else(tmp_path: Path, query: list[tuple[str, str]]) -> None:
    asked = Query.parse(query)
    wanted = []
    for seq, body in enumerate(LOG.bodies, start=1):
        terms = terms_of(body)
        if asked.matches(terms.ts_us, terms.sets()):
            wanted.append((seq, body))
    assert wanted
    manifest = LOG.export(tmp_path / "export", *query)
    assert events_in(tmp_path / "export") == wanted
    assert manifest.query == asked.items()
    assert is_whole(tmp_path / "export")


def test_times_that_do_not_rise_leave_no_event_of_the_span_out(tmp_path: Path) -> None:
    """Clocks differ: 50 came late, 61 early."""
    log = WrittenLog(bodies=list(LOG.bodies))
    for number, shown in ((50, 10), (61, 45)):
        log.bodies[number - 1] = log.bodies[number - 1].replace(
            str(START_US + number * STEP_US).encode(), str(START_US + shown * STEP_US).encode()
        )
    log.bodies = rechained(log.bodies)
    since, until = write_moment(START_US + 40 * STEP_US), write_moment(START_US + 56 * STEP_US)
    log.export(tmp_path / "export", ("since", since), ("until", until))
    assert [seq for seq, _ in events_in(tmp_path / "export")] == list(range(40, 62))
    assert is_whole(tmp_path / "export", log)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.data())
def test_every_span_of_every_log_is_whole(
    tmp_path_factory: pytest.TempPathFactory, count: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, count))
    last = data.draw(st.integers(first, count))
    trimmed, step = data.draw(st.integers(0, first - 1)), data.draw(st.integers(1, 50))
    signed = data.draw(st.sampled_from(["", *(LOG_OF[count].note(size) for size in range(1, count + 1))]))
    folder, log = tmp_path_factory.mktemp("span"), LOG_OF[count]
    query = [
        ("since", write_moment(START_US + first * STEP_US)),
        ("until", write_moment(START_US + (last + 1) * STEP_US)),
    ]
    if data.draw(st.booleans()):
        query.append(("result!", "allow"))
    manifest = log.export(folder / "export", *query, step=step, note=signed, trimmed=trimmed)
    assert (manifest.first, manifest.last) == (first, last)
    assert is_whole(folder / "export", log)


LOG_OF = {count: write(count) for count in range(1, 41)}


# Breaking off


class Killed(BaseException):
    """Nothing in the gateway catches it."""


@pytest.mark.parametrize("query", [(), (("result!", "allow"),), (("until", write_moment(START_US + 50 * STEP_US)),)])
@pytest.mark.parametrize("after", range(8))
def test_an_export_that_was_killed_goes_on_where_it_stood(
    tmp_path: Path, query: tuple[tuple[str, str], ...], after: int
) -> None:
    def killed(done: int, of: int) -> None:
        if done >= min(after * 16, COUNT):
            raise Killed

    asked, log = Query.parse(query), LOG.log()
    with pytest.raises(Killed):
        asyncio.run(export(log, asked, tmp_path / "broken", made_us=MADE_US, step=16, progress=killed))
    assert (tmp_path / "broken" / UNFINISHED).exists()
    seen: list[int] = []
    asyncio.run(
        export(
            LOG.log(), asked, tmp_path / "broken", made_us=MADE_US, step=16, progress=lambda done, of: seen.append(done)
        )
    )
    assert seen[0] == min(after * 16, COUNT)
    LOG.export(tmp_path / "whole", *query)
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


@pytest.mark.parametrize("query", [(), (("result!", "allow"),)])
@pytest.mark.parametrize("torn", [1, 31, 33, 5 * 32 + 7])
def test_a_step_that_was_torn_is_taken_again(tmp_path: Path, query: tuple[tuple[str, str], ...], torn: int) -> None:
    def killed(done: int, of: int) -> None:
        if done >= 48:
            raise Killed

    with pytest.raises(Killed):
        asyncio.run(
            export(LOG.log(), Query.parse(query), tmp_path / "broken", made_us=MADE_US, step=16, progress=killed)
        )
    for path, data in (
        (tmp_path / "broken" / "leaves.part", b"x" * torn),
        (tmp_path / "broken" / "found.part", b"51 7b"),
    ):
        if path.exists():
            with path.open("ab") as file:
                file.write(data)
    asyncio.run(export(LOG.log(), Query.parse(query), tmp_path / "broken", made_us=MADE_US, step=16))
    LOG.export(tmp_path / "whole", *query)
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_an_export_that_goes_on_shows_the_log_as_it_was_when_it_was_begun(tmp_path: Path) -> None:
    def killed(done: int, of: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        asyncio.run(
            export(
                WrittenLog(bodies=LOG.bodies[:60]).log(),
                Query(),
                tmp_path / "broken",
                made_us=MADE_US,
                step=16,
                progress=killed,
            )
        )
    manifest = LOG.export(tmp_path / "broken", note=LOG.note(90))
    assert (manifest.last, is_whole(tmp_path / "broken")) == (60, True)
    assert (tmp_path / "broken" / HEAD).read_text() == LOG.note(60)


def test_a_log_that_was_changed_while_its_export_lay_unfinished_is_not_signed_anew(tmp_path: Path) -> None:
    def killed(done: int, of: int) -> None:
        raise Killed

    log = LOG.log(note=LOG.note())
    with pytest.raises(Killed):
        asyncio.run(export(log, Query(), tmp_path / "export", made_us=MADE_US, step=16, progress=killed))
    other = WrittenLog(bodies=[*LOG.bodies[:60], *write(COUNT, chooses=3).bodies[60:], *LOG.bodies[:10]])
    refused(lambda: other.export(tmp_path / "export", note=other.note()), "not the one that was signed when it had 100")


# Refused


def refused(work: Callable[[], object], said: str) -> None:
    with pytest.raises(EvidenceRefused, match=said):
        work()


def test_what_cannot_be_exported_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    LOG.export(folder)
    refused(lambda: LOG.export(folder), "a finished export")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    refused(lambda: LOG.export(tmp_path / "other"), "not empty")
    late = write_moment(START_US + 1000 * STEP_US)
    refused(lambda: LOG.export(tmp_path / "late", ("since", late)), "no event in this time")
    refused(lambda: WrittenLog().export(tmp_path / "empty"), "no event in this time")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / UNFINISHED).write_text("{")
    refused(lambda: LOG.export(tmp_path / "begun"), "cannot be read")


def test_another_query_does_not_go_on_with_an_export(tmp_path: Path) -> None:
    def killed(done: int, of: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        asyncio.run(export(LOG.log(), Query(), tmp_path / "one", made_us=MADE_US, progress=killed))
    refused(lambda: LOG.export(tmp_path / "one", ("result", "deny")), "another export")
    other = WrittenLog(bodies=LOG.bodies, epoch=1)
    refused(lambda: other.export(tmp_path / "one"), "another export")
    refused(lambda: LOG.export(tmp_path / "one", trimmed=5), "no longer in the log")


def test_a_log_that_is_not_the_one_that_was_signed_is_not_signed_again(tmp_path: Path) -> None:
    other = write(COUNT, chooses=3)
    refused(
        lambda: LOG.export(tmp_path / "export", note=other.note(50)),
        "not the one that was signed when it had 50",
    )
    assert not (tmp_path / "export" / MANIFEST).exists()


# Work


def test_each_event_is_read_hashed_and_looked_at_once(tmp_path: Path) -> None:
    """So a million take a thousand times as long as a thousand."""
    log = write(3000)
    log.export(tmp_path / "export", step=500)
    calls: dict[str, int] = {}

    def count(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_name if event == "call" else getattr(argument, "__qualname__", "")
        if event in ("call", "c_call") and name in ("leaf", "loads", "read_bytes"):
            calls[name] = calls.get(name, 0) + 1

    sys.setprofile(count)
    try:
        verdict = verify_folder(tmp_path / "export", (VerifierKey.parse(log.key_line),))
    finally:
        sys.setprofile(None)
    assert verdict.findings == ()
    # One more value is the manifest; six segments, and the five files around them.
    assert calls["leaf"] == 3000
    assert calls["loads"] == 3001
    assert calls["read_bytes"] == 6 + 4
