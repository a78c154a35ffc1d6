"""Verifying what whoever signs manifests could have done, but for signing another history."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import orjson
import pytest

from gateway.audit.chain import Writer
from gateway.audit.faults import Fault, Finding
from gateway.audit.layout import EARLIER, HEAD, MANIFEST, SIGNATURE, Manifest
from tests.audit.bench import COUNT, Bench, moment
from tests.audit.forge import Forger, rechained
from tests.audit.written_log import OTHER, WrittenLog, event, write


def test_an_event_changed_with_its_hash_is_found_between_two_checkpoints(bench: Bench) -> None:
    """Where no later event of its writer shows it."""
    forger = Forger(bench.export(), bench.log)
    last = bench.log.bodies[-1]
    forger.bodies[-1] = last.replace(b"responses", b"responsez")
    forger.rewrite()
    assert bench.first() == Finding(Fault.ROOT, 97, 100, "the checkpoint of 100 events")


def test_an_event_changed_with_its_hash_breaks_its_writers_chain(bench: Bench) -> None:
    forger = Forger(bench.export(), bench.log)
    forger.bodies[20] = forger.bodies[20].replace(b"responses", b"responsez")
    forger.rewrite()
    found = bench.first()
    assert found.fault is Fault.CHAIN
    assert found.seq is not None
    assert found.seq > 21


def test_a_chain_made_anew_from_there_on_is_found_by_the_next_checkpoint(bench: Bench) -> None:
    forger = Forger(bench.export(), bench.log)
    forger.bodies[20] = forger.bodies[20].replace(b"responses", b"responsez")
    forger.bodies = rechained(forger.bodies)
    forger.rewrite()
    # The export's own checkpoints are of 16, 32, ... events.
    assert bench.first() == Finding(Fault.ROOT, 17, 32, "the checkpoint of 32 events")


def test_a_range_that_ends_early_must_lead_to_the_checkpoint(bench: Bench) -> None:
    manifest = bench.log.export(bench.folder, ("until", moment(61)), step=200)
    (bench.folder / EARLIER).unlink()
    sign_manifest(bench, replace(manifest, earlier=""))
    assert bench.verify(anchored=False).findings == ()
    wrong = (manifest.consistency[0][::-1], *manifest.consistency[1:])
    for proof in (wrong, manifest.consistency[1:], ()):
        sign_manifest(bench, replace(manifest, earlier="", consistency=proof))
        assert bench.first(anchored=False) == Finding(Fault.ROOT, 1, 60, "the checkpoint of 100 events")


def test_a_file_whose_digest_is_not_the_manifests_is_found(bench: Bench) -> None:
    manifest = bench.log.export(bench.folder, step=200)
    sign_manifest(bench, replace(manifest, segments=(replace(manifest.segments[0], sha256="0" * 64),)))
    assert bench.faults(anchored=False) == [Fault.SEGMENT]


def sign_manifest(bench: Bench, manifest: Manifest) -> None:
    (bench.folder / MANIFEST).write_bytes(manifest.to_bytes())
    (bench.folder / SIGNATURE).write_text(manifest.sign(bench.log.seed))


def test_a_cut_tail_is_found_by_the_checkpoint(bench: Bench) -> None:
    forger = Forger(bench.export(), bench.log)
    forger.bodies = forger.bodies[:90]
    forger.rewrite()
    assert bench.first() == Finding(Fault.TAIL, 91, 100)


def test_a_missing_event_is_found_from_a_later_one_of_its_writer(bench: Bench) -> None:
    """Even where whoever cut it out signed all again, and no anchor tells."""
    del bench.log.bodies[89]
    bench.export()
    found = bench.first(anchored=False)
    assert (found.fault, found.seq is not None and found.seq >= 90) == (Fault.CHAIN, True)


def test_a_successor_that_names_more_than_there_is_shows_what_was_cut(bench: Bench) -> None:
    opened = next(at for at, body in enumerate(bench.log.bodies) if b"writer.opened" in body)
    predecessor = orjson.loads(bench.log.bodies[opened])["changes"]["predecessor"]
    its_last = max(
        at for at, body in enumerate(bench.log.bodies[:opened]) if orjson.loads(body)["writer"] == predecessor
    )
    del bench.log.bodies[its_last]
    bench.export()
    assert bench.first(anchored=False) == Finding(Fault.SUCCESSION, opened)


@pytest.mark.parametrize("step", [16, 200])
def test_an_ended_writer_takes_no_further_entry(bench: Bench, step: int) -> None:
    opened = next(at for at, body in enumerate(bench.log.bodies) if b"writer.opened" in body)
    ended = orjson.loads(bench.log.bodies[opened])["changes"]["predecessor"]
    forged = [body for body in bench.log.bodies if orjson.loads(body)["writer"] == ended]
    digest = hashlib.sha256(forged[-1]).hexdigest()
    _, entry = Writer(ended, len(forged), digest).next(event(999))
    bench.log.bodies.append(entry.body)
    bench.export(step=step)
    assert bench.first(anchored=False) == Finding(Fault.ENDED, COUNT + 1)


def test_a_writer_begins_with_its_first_entry(bench: Bench) -> None:
    first = orjson.loads(bench.log.bodies[0])
    del bench.log.bodies[0]
    bench.export()
    found = bench.first(anchored=False)
    assert (found.fault, found.seq) == (Fault.CHAIN, writers_of(bench).index(first["writer"]) + 1)


def writers_of(bench: Bench) -> list[str]:
    return [orjson.loads(body)["writer"] for body in bench.log.bodies]


@pytest.mark.parametrize(("wseq", "digest"), [(1, "a" * 64), (7, "0" * 64)])
def test_the_first_entry_and_no_other_names_no_event_before_it(bench: Bench, wseq: int, digest: str) -> None:
    _, entry = Writer("f" * 24, wseq - 1, digest).next(event(1))
    bench.log.bodies.append(entry.body)
    bench.export(trimmed=50)
    assert bench.first(anchored=False) == Finding(Fault.CHAIN, COUNT + 1)


def test_a_head_of_another_epoch_than_the_manifests_is_not_its_head(bench: Bench) -> None:
    bench.export()
    (bench.folder / HEAD).write_text(WrittenLog(bodies=bench.log.bodies, epoch=1).note())
    assert bench.faults(anchored=False) == [Fault.CHECKPOINT]


def test_a_key_of_another_tenant_in_the_key_file_opens_nothing_of_this_one(bench: Bench) -> None:
    bench.export()
    other = write(16, tenant=OTHER, seed=b"x" * 32)
    bench.key.write_text(f"{bench.log.key_line}\n{other.key_line}\n")
    assert bench.verify().findings == ()
    notes = (bench.folder / EARLIER).read_text()
    (bench.folder / EARLIER).write_text(other.note(16) + notes[notes.index("\n\ncoatcheck") + 1 :])
    assert Fault.CHECKPOINT in bench.faults()


def test_an_event_of_another_tenant_is_found(bench: Bench) -> None:
    bench.log.bodies.append(write(1, tenant=OTHER, writers=1).bodies[0])
    bench.export()
    assert bench.first(anchored=False) == Finding(Fault.TENANT, COUNT + 1)


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"[]",
        b'{"v":1}',
        b'{"v": 1}',
        b"\xff\n\n",
        b'"' * 5000,
    ],
)
def test_what_is_no_event_is_exported_as_it_is_and_found(bench: Bench, body: bytes) -> None:
    bench.log.bodies.append(body)
    bench.export()
    assert bench.first(anchored=False) == Finding(Fault.EVENT, COUNT + 1)


def test_two_spellings_of_one_event_are_not_the_same(bench: Bench) -> None:
    _, entry = Writer("f" * 24).next(event(1))
    for spelled in (entry.body.replace(b',"v":1', b',"v":2,"v":1'), entry.body.replace(b'"v":1', b'"v": 1')):
        bench.log.bodies[COUNT:] = [spelled]
        folder = bench.folder = bench.folder.with_name(f"export{len(spelled)}")
        bench.log.export(folder)
        assert bench.first(anchored=False) == Finding(Fault.EVENT, COUNT + 1)


def test_an_event_with_a_proof_of_another_log_is_found(bench: Bench) -> None:
    other = write(COUNT, chooses=7)
    bench.export(("result", "deny"))
    Forger(bench.folder, other).replace_selection(other, "deny")
    found = bench.first(anchored=False)
    assert found.fault is Fault.PROOF
