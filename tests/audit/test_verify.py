"""What the verifier says of whole logs, and of logs to which one thing was done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from gateway.audit.checkpoint import VerifierKey, log_origin, public_key
from gateway.audit.faults import MEANING, Fault, Finding
from gateway.audit.layout import EARLIER, HEAD, MANIFEST, SIGNATURE, UNFINISHED, Unusable
from gateway.audit.offline import read_keys, verify_folder
from gateway.audit.report import describe
from tests.audit.bench import COUNT, Bench, moment
from tests.audit.forge import Forger
from tests.audit.written_log import ACME, DEPLOYMENT, OTHER, WrittenLog, write

# Whole


def test_a_whole_log_is_whole_and_says_what_is_not_yet_anchored(bench: Bench) -> None:
    bench.export()
    verdict = bench.verify()
    assert verdict.findings == ()
    assert (verdict.manifest.first, verdict.manifest.last, verdict.manifest.count) == (1, COUNT, COUNT)
    assert (verdict.anchored, verdict.not_anchored, verdict.uncompared) == (80, 20, 0)
    assert bench.verify(anchored=False).anchored is None


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 32, 33])
def test_logs_of_every_small_size_are_whole(tmp_path: Path, count: int) -> None:
    log = write(count)
    log.export(tmp_path / "export")
    verdict = verify_folder(tmp_path / "export", (VerifierKey.parse(log.key_line),))
    assert (verdict.findings, verdict.manifest.count) == ((), count)


def test_a_range_of_time_is_proven_by_the_checkpoint_of_the_whole_log(bench: Bench) -> None:
    bench.export(("since", moment(30)), ("until", moment(61)))
    verdict = bench.verify()
    assert verdict.findings == ()
    assert (verdict.manifest.first, verdict.manifest.last, verdict.manifest.count) == (30, 60, 31)
    assert verdict.head is not None
    assert verdict.head.size == COUNT
    # 40 lies in the range, 80 above it.
    assert (verdict.anchored, verdict.uncompared) == (40, 1)
    assert "begins with" not in "".join(describe(verdict))


def test_a_selection_proves_each_event_by_itself(bench: Bench) -> None:
    bench.export(("result", "deny"), ("type!", "responses.get"))
    verdict = bench.verify()
    assert verdict.findings == ()
    assert verdict.manifest.selection
    assert 10 < verdict.manifest.count < 20
    lines = b"".join(path.read_bytes() for path in sorted(bench.folder.glob("events-*"))).splitlines()
    assert {orjson.loads(line)["event"]["outcome"]["result"] for line in lines} == {"deny"}


def test_a_selection_shows_that_its_head_continues_what_was_signed_before(bench: Bench) -> None:
    bench.log.export(bench.folder, ("result", "deny"), note=bench.log.note(80))
    verdict = bench.verify()
    assert verdict.findings == ()
    assert (verdict.anchored, verdict.not_anchored, verdict.uncompared) == (80, 20, 1)
    (bench.folder / EARLIER).write_text(write(COUNT, chooses=5).note(80))
    assert Fault.ROOT in bench.faults(anchored=False)
    assert Fault.FORK in bench.faults()


def test_a_selection_may_find_nothing(bench: Bench) -> None:
    bench.export(("type", "no.such"))
    verdict = bench.verify()
    assert (verdict.findings, verdict.manifest.count) == ((), 0)


def test_a_log_whose_oldest_events_were_archived_is_whole_from_there_on(bench: Bench) -> None:
    bench.export(trimmed=37)
    verdict = bench.verify()
    assert (verdict.findings, verdict.manifest.first) == ((), 38)
    assert verdict.anchored == 80
    assert "  It begins with event 38: what was before must be in the archive, or it was taken away." in describe(
        verdict
    )


def test_an_older_key_of_the_tenant_opens_what_it_signed(bench: Bench) -> None:
    bench.export()
    newer = WrittenLog(ACME, b"n" * 32)
    bench.key.write_text(f"{newer.key_line}\n{bench.log.key_line}\n")
    assert bench.verify().findings == ()


def test_segments_are_checked_in_several_processes_with_the_same_result(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.export()
    monkeypatch.setattr("gateway.audit.offline.MANY_EVENTS", 1)
    keys = read_keys(bench.key)
    assert verify_folder(bench.folder, keys, bench.anchor, processes=2).findings == ()
    Forger(bench.folder, bench.log).change_bytes(50, b'"allow"', b'"ALLOW"')
    assert verify_folder(bench.folder, keys, processes=2) == verify_folder(bench.folder, keys, processes=1)


# Not whole: what somebody without the key can do to the files


def test_a_changed_byte_names_its_event(bench: Bench) -> None:
    bench.export()
    Forger(bench.folder, bench.log).change_bytes(73, b"responses", b"responsez")
    assert bench.first() == Finding(Fault.LEAF, 73)
    assert "event 73: its bytes are not" in bench.first().text


def test_a_left_out_line_names_the_number_that_is_missing(bench: Bench) -> None:
    forger = Forger(bench.export(), bench.log)
    forger.lines[2:4] = []
    forger.save()
    assert bench.first() == Finding(Fault.SEQUENCE, 3, 4)


def test_a_doubled_and_a_moved_line_are_found_where_they_stand(bench: Bench) -> None:
    forger = Forger(bench.export(), bench.log)
    forger.lines.insert(10, forger.lines[9])
    forger.save()
    assert (bench.first().fault, bench.first().seq) == (Fault.SEQUENCE, 11)


def test_a_file_that_is_cut_or_gone_names_its_first_missing_event(bench: Bench) -> None:
    bench.export()
    last = bench.folder / "events-000000000097.jsonl"
    last.write_bytes(b"".join(last.read_bytes().splitlines(keepends=True)[:2]))
    assert bench.first() == Finding(Fault.COUNT, 99, 100)
    last.unlink()
    assert bench.first() == Finding(Fault.COUNT, 97, 100)


def test_another_key_opens_nothing(bench: Bench) -> None:
    bench.export()
    bench.key.write_text(WrittenLog(ACME, b"x" * 32).key_line)
    assert bench.faults(anchored=False) == [Fault.MANIFEST, Fault.CHECKPOINT]
    bench.key.write_text(WrittenLog(OTHER).key_line)
    assert bench.faults(anchored=False) == [Fault.MANIFEST, Fault.CHECKPOINT]


def test_the_checkpoint_of_an_earlier_export_does_not_reach_the_newer_events(bench: Bench) -> None:
    bench.export()
    (bench.folder / HEAD).write_text(bench.log.note(60))
    assert bench.first() == Finding(Fault.UNCOVERED, 61, COUNT)


def test_a_manifest_that_says_something_else_is_not_signed(bench: Bench) -> None:
    bench.export(("since", moment(30)))
    manifest = bench.folder / MANIFEST
    manifest.write_bytes(manifest.read_bytes().replace(moment(30).encode(), moment(10).encode()))
    assert bench.faults() == [Fault.MANIFEST]
    (bench.folder / SIGNATURE).unlink()
    assert bench.faults() == [Fault.MANIFEST]


def test_earlier_checkpoints_cannot_be_taken_away_or_changed(bench: Bench) -> None:
    bench.export()
    notes = (bench.folder / EARLIER).read_text()
    (bench.folder / EARLIER).write_text(notes + "\n")
    assert bench.faults() == [Fault.SEGMENT]
    (bench.folder / EARLIER).write_text(notes.replace("coatcheck", "goatcheck", 1))
    assert bench.faults() == [Fault.CHECKPOINT, Fault.SEGMENT]
    (bench.folder / EARLIER).unlink()
    assert bench.faults() == [Fault.SEGMENT]


# Unusable


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda bench: (bench.folder / MANIFEST).unlink(), "there is no export"),
        (lambda bench: (bench.folder / MANIFEST).write_text("{}"), "the manifest cannot be read"),
        (lambda bench: (bench.folder / MANIFEST).write_text('{"format":"x"}'), "not of the format"),
        (lambda bench: bench.key.write_text(""), "no public key"),
        (lambda bench: bench.key.write_text("key"), "not the public key"),
        (lambda bench: bench.key.unlink(), "No such file"),
        (lambda bench: bench.anchor.write_text(""), "not a file of checkpoints"),
        (lambda bench: bench.anchor.write_text("x\n" * 9), "not a file of checkpoints"),
        (lambda bench: bench.anchor.write_text(write(9, tenant=OTHER).note()), "no checkpoint of this log"),
        (lambda bench: bench.anchor.write_text(write(9, seed=b"x" * 32).note()), "is not signed by the given key"),
        (lambda bench: bench.anchor.write_bytes(b"\xff"), "not a text"),
    ],
)
def test_what_cannot_be_used_says_so(bench: Bench, spoil: Callable[[Bench], object], said: str) -> None:
    bench.export()
    spoil(bench)
    with pytest.raises(Unusable, match=said):
        bench.verify()


def test_an_unfinished_export_is_not_one(bench: Bench) -> None:
    bench.folder.mkdir()
    (bench.folder / UNFINISHED).write_text("{}")
    with pytest.raises(Unusable, match="was not finished"):
        bench.verify()


def test_an_anchor_may_hold_checkpoints_of_other_logs_and_of_witnesses(bench: Bench) -> None:
    bench.export()
    other = write(9, tenant=OTHER, seed=b"x" * 32).note()
    bench.anchor.write_text(f"{other}\n\n{bench.log.note(80)}— witness.example/w AAAABBBB\n{other}")
    assert bench.verify().anchored == 80


def test_every_fault_says_what_it_means() -> None:
    assert set(MEANING) == set(Fault)
    assert [*Fault] == sorted(Fault)
    assert (
        Finding(Fault.ROOT, 257, 512, "d").text
        == "events 257 to 512: the events do not give the root that was signed (d)"
    )
    assert Finding(Fault.MANIFEST).text.startswith("the manifest is not signed")


def test_a_log_is_named_by_deployment_and_tenant() -> None:
    assert public_key(log_origin(DEPLOYMENT, ACME), b"k" * 32).name == f"coatcheck/{DEPLOYMENT}/{ACME}"
