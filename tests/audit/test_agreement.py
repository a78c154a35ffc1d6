"""Logs of every kind, and what every verifier must say of each: 0 whole, 1 not, 2 unusable."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gateway.audit.chain import Ended, Writer, succeed
from gateway.audit.layout import EARLIER, HEAD, MANIFEST, SIGNATURE, Manifest
from gateway.audit.prove import prove
from gateway.audit.search.query import write_moment
from gateway.audit.tree import Frontier
from tests.audit.verifiers import VERIFIERS, codes
from tests.audit.written_log import ACME, OTHER, START_US, STEP_US, WrittenLog, event, resealed, write

COUNT = 60
LOG = write(COUNT)
LOST = resealed(LOG, 40, lost_last=50)


@dataclass
class Desk:
    """What a verifier is given. `say` runs all of them."""

    folder: Path
    key: Path
    anchor: Path
    uses_anchor: bool = True
    accepts_loss: bool = False

    def export(self, *query: tuple[str, str], log: WrittenLog = LOG, **options: int | str) -> Manifest:
        return log.export(self.folder, *query, **options)  # type: ignore[arg-type]

    def sign(self, manifest: Manifest) -> None:
        (self.folder / MANIFEST).write_bytes(manifest.to_bytes())
        (self.folder / SIGNATURE).write_text(manifest.sign(LOG.seed))

    def say(self) -> list[int]:
        return codes(self.folder, self.key, self.anchor if self.uses_anchor else None, accept_loss=self.accepts_loss)


def moment(number: int) -> str:
    return write_moment(START_US + number * STEP_US)


def whole(desk: Desk) -> None:
    desk.export()


def whole_without_anchor(desk: Desk) -> None:
    desk.uses_anchor = False
    desk.anchor.unlink()
    desk.export()


def in_one_segment(desk: Desk) -> None:
    desk.export(step=1000)


def one_event(desk: Desk) -> None:
    desk.anchor.write_text(LOG.note(1))
    desk.export(log=WrittenLog(bodies=LOG.bodies[:1]))


def since(desk: Desk) -> None:
    desk.export(("since", moment(30)))


def until(desk: Desk) -> None:
    desk.export(("until", moment(30)))


def a_span(desk: Desk) -> None:
    desk.export(("since", moment(17)), ("until", moment(47)))


def trimmed(desk: Desk) -> None:
    desk.export(trimmed=33)


def a_selection(desk: Desk) -> None:
    desk.export(("result", "deny"), note=LOG.note(40))


def a_selection_that_found_nothing(desk: Desk) -> None:
    desk.export(("type", "no.such"))


def a_selection_of_a_span(desk: Desk) -> None:
    desk.export(("result", "deny"), ("until", moment(30)), note=LOG.note(40))


def several_keys(desk: Desk) -> None:
    desk.key.write_text(f"{WrittenLog(ACME, b'n' * 32).key_line}\n\n{WrittenLog(OTHER).key_line}\n{LOG.key_line}\n")
    desk.export()


def an_anchor_of_many(desk: Desk) -> None:
    foreign = write(9, tenant=OTHER, seed=b"x" * 32).note()
    desk.anchor.write_text(f"\n{foreign}\n\n{LOG.note(40)}— witness.example/w AAAABBBB\n{foreign}\n\n")
    desk.export()


def a_cosigned_head(desk: Desk) -> None:
    desk.export()
    (desk.folder / HEAD).write_text(LOG.note() + "— witness.example/w AAAABBBB\n")


def two_successors_of_one_writer(desk: Desk) -> None:
    _, first = succeed(Ended(f"{2:024x}", 3), "e" * 24, ACME, START_US)
    _, second = succeed(Ended(f"{2:024x}", 3), "f" * 24, ACME, START_US)
    desk.uses_anchor = False
    desk.export(log=WrittenLog(bodies=[*LOG.bodies, first.body, second.body]))


def a_loss_that_is_accepted(desk: Desk) -> None:
    desk.accepts_loss = True
    desk.export(log=LOST)


def a_span_after_a_loss(desk: Desk) -> None:
    desk.export(("since", moment(45)), log=LOST)


def a_span_up_to_a_loss(desk: Desk) -> None:
    desk.export(("until", moment(40)), log=LOST)


def a_successor_after_an_accepted_loss(desk: Desk) -> None:
    desk.accepts_loss = True
    _, entry = succeed(Ended(f"{2:024x}", 99), "e" * 24, ACME, START_US)
    desk.export(log=replace(LOST, bodies=[*LOST.bodies, entry.body]))


def asked_to_end_before_what_was_anchored(desk: Desk) -> None:
    desk.export(("until", moment(30)), log=WrittenLog(bodies=LOG.bodies[:45]))


WHOLE = (
    whole, whole_without_anchor, in_one_segment, one_event, since, until, a_span, trimmed, a_selection,
    a_selection_that_found_nothing, a_selection_of_a_span, several_keys, an_anchor_of_many, a_cosigned_head,
    two_successors_of_one_writer, a_loss_that_is_accepted, a_span_after_a_loss, a_span_up_to_a_loss,
    a_successor_after_an_accepted_loss, asked_to_end_before_what_was_anchored,
)  # fmt: skip


def a_loss_that_is_not_accepted(desk: Desk) -> None:
    desk.export(log=LOST)


def a_selection_with_a_loss(desk: Desk) -> None:
    desk.export(("type", "log.resealed"), log=LOST)


def more_lost_than_declared(desk: Desk) -> None:
    desk.accepts_loss = True
    desk.export(log=resealed(LOG, 30, lost_last=35))


def an_epoch_without_its_event(desk: Desk) -> None:
    desk.uses_anchor = False
    desk.export(log=WrittenLog(bodies=LOG.bodies, epoch=1))


def an_epoch_left_out(desk: Desk) -> None:
    desk.uses_anchor, desk.accepts_loss = False, True
    desk.export(log=resealed(WrittenLog(bodies=LOG.bodies, epoch=1), 40, lost_last=50))


def an_export_of_before_the_loss(desk: Desk) -> None:
    desk.anchor.write_text(LOST.note(45))
    desk.export()


def an_old_export(desk: Desk) -> None:
    desk.export(log=WrittenLog(bodies=LOG.bodies[:45]))


def a_successor_that_names_too_much(desk: Desk) -> None:
    desk.uses_anchor = False
    _, entry = succeed(Ended(f"{2:024x}", 99), "e" * 24, ACME, START_US)
    desk.export(log=WrittenLog(bodies=[*LOG.bodies, entry.body]))


def a_successor_of_nobody(desk: Desk) -> None:
    desk.uses_anchor = False
    _, entry = succeed(Ended("d" * 24, 1), "e" * 24, ACME, START_US)
    desk.export(log=WrittenLog(bodies=[*LOG.bodies, entry.body]))


def a_writer_that_begins_in_the_middle(desk: Desk) -> None:
    desk.uses_anchor = False
    _, entry = Writer("e" * 24, 4, "a" * 64).next(event(1))
    desk.export(log=WrittenLog(bodies=[*LOG.bodies, entry.body]))


def no_event(desk: Desk) -> None:
    desk.uses_anchor = False
    desk.export(log=WrittenLog(bodies=[*LOG.bodies, b"no event"]))


def a_second_spelling(desk: Desk) -> None:
    desk.uses_anchor = False
    _, entry = Writer("e" * 24).next(event(1))
    desk.export(log=WrittenLog(bodies=[*LOG.bodies, entry.body.replace(b'"v":1', b'"v": 1')]))


def a_version_that_is_a_truth(desk: Desk) -> None:
    desk.uses_anchor = False
    _, entry = Writer("e" * 24).next(event(1))
    desk.export(log=WrittenLog(bodies=[*LOG.bodies, entry.body.replace(b'"v":1', b'"v":true')]))


def an_event_too_long(desk: Desk) -> None:
    desk.uses_anchor = False
    _, entry = Writer("e" * 24).next(event(1))
    desk.export(log=WrittenLog(bodies=[*LOG.bodies, entry.body.replace(b'"gpt-x"', b'"' + b"x" * 4096 + b'"')]))


def an_event_too_deep(desk: Desk) -> None:
    desk.uses_anchor = False
    _, entry = Writer("e" * 24).next(event(1))
    deep = b"[" * 300 + b"]" * 300
    desk.export(log=WrittenLog(bodies=[*LOG.bodies, entry.body.replace(b'"gpt-x"', deep)]))


def a_writer_that_follows_no_hash(desk: Desk) -> None:
    desk.uses_anchor = False
    _, entry = Writer("e" * 24, 4, "no hash").next(event(70))
    desk.export(("since", moment(30)), log=WrittenLog(bodies=[*LOG.bodies, entry.body]))


def a_checkpoint_of_another_log(desk: Desk) -> None:
    manifest = desk.export()
    foreign = write(9, tenant=OTHER)
    desk.key.write_text(f"{LOG.key_line}\n{foreign.key_line}\n")
    (desk.folder / EARLIER).write_text(foreign.note())
    desk.sign(replace(manifest, earlier=hashlib.sha256(foreign.note().encode()).hexdigest()))


def a_fork_outside_the_span(desk: Desk) -> None:
    desk.anchor.write_text(LOG.note(16) + "\n" + write(COUNT, chooses=5).note(16))
    desk.export(("since", moment(30)))


def no_checkpoint(desk: Desk) -> None:
    desk.export()
    (desk.folder / HEAD).unlink()


def no_signature(desk: Desk) -> None:
    desk.export()
    (desk.folder / SIGNATURE).unlink()


def a_frontier_of_another_log(desk: Desk) -> None:
    manifest = desk.export(("since", moment(30)))
    first, *rest = manifest.before.hashes
    desk.sign(replace(manifest, before=replace(manifest.before, hashes=(first[::-1], *rest))))


def a_range_without_its_proof(desk: Desk) -> None:
    manifest = desk.export(("until", moment(30)))
    (desk.folder / EARLIER).unlink()
    desk.anchor.write_text(LOG.note(60))
    desk.sign(replace(manifest, earlier="", consistency=()))


def a_gap_between_files(desk: Desk) -> None:
    manifest = desk.export()
    desk.sign(replace(manifest, segments=manifest.segments[1:], count=44))


NOT_WHOLE = (
    a_loss_that_is_not_accepted, a_selection_with_a_loss, more_lost_than_declared, an_epoch_without_its_event,
    an_epoch_left_out, an_export_of_before_the_loss, an_old_export, a_successor_that_names_too_much,
    a_successor_of_nobody, a_writer_that_begins_in_the_middle, no_event, a_second_spelling, a_version_that_is_a_truth,
    an_event_too_long, an_event_too_deep, a_writer_that_follows_no_hash,
    a_checkpoint_of_another_log, a_fork_outside_the_span, no_checkpoint, no_signature, a_frontier_of_another_log,
    a_range_without_its_proof, a_gap_between_files,
)  # fmt: skip


def no_folder(desk: Desk) -> None:
    pass


def no_manifest(desk: Desk) -> None:
    desk.export()
    (desk.folder / MANIFEST).unlink()


def another_format(desk: Desk) -> None:
    desk.export()
    path = desk.folder / MANIFEST
    path.write_bytes(path.read_bytes().replace(b"export/1", b"export/2"))


def a_count_that_is_text(desk: Desk) -> None:
    desk.export()
    path = desk.folder / MANIFEST
    path.write_bytes(path.read_bytes().replace(b'"count": 60', b'"count": "60"'))


def a_hash_that_is_too_short(desk: Desk) -> None:
    manifest = desk.export()
    first, *rest = manifest.segments
    desk.sign(replace(manifest, segments=(replace(first, sha256=first.sha256[1:]), *rest)))


def a_range_that_ends_before_its_beginning(desk: Desk) -> None:
    manifest = desk.export()
    desk.sign(replace(manifest, first=61, last=59, before=Frontier().extend(LOG.leaves()), segments=(), count=0))


def no_key(desk: Desk) -> None:
    desk.export()
    desk.key.write_text("\n")


def a_key_of_another_form(desk: Desk) -> None:
    desk.export()
    desk.key.write_text(LOG.key_line.replace("+", "-", 1))


def no_anchor(desk: Desk) -> None:
    desk.export()
    desk.anchor.write_text("")


def an_anchor_of_others_alone(desk: Desk) -> None:
    desk.export()
    desk.anchor.write_text(write(9, tenant=OTHER).note())


def an_anchor_of_no_log(desk: Desk) -> None:
    desk.export()
    other = LOG.note(16).replace("coatcheck/", "example.org/log/")
    desk.anchor.write_text(f"{LOG.note(16)}\n{other}")


def an_anchor_that_the_key_did_not_sign(desk: Desk) -> None:
    desk.export()
    desk.anchor.write_text(LOG.note(16) + "\n" + write(COUNT, seed=b"x" * 32).note(40))


UNUSABLE = (
    no_folder, no_manifest, another_format, a_count_that_is_text, a_hash_that_is_too_short,
    a_range_that_ends_before_its_beginning, an_anchor_of_no_log, no_key, a_key_of_another_form, no_anchor,
    an_anchor_of_others_alone, an_anchor_that_the_key_did_not_sign,
)  # fmt: skip

CASES: tuple[tuple[Callable[[Desk], object], int], ...] = (
    *((case, 0) for case in WHOLE),
    *((case, 1) for case in NOT_WHOLE),
    *((case, 2) for case in UNUSABLE),
)


@pytest.mark.parametrize(("case", "code"), CASES, ids=[f"{code}-{case.__name__}" for case, code in CASES])
def test_every_verifier_says_the_same(tmp_path: Path, case: Callable[[Desk], object], code: int) -> None:
    desk = Desk(tmp_path / "export", tmp_path / "key", tmp_path / "anchor")
    desk.key.write_text(LOG.key_line)
    desk.anchor.write_text(LOG.note(16) + "\n" + LOG.note(50))
    case(desk)
    assert desk.say() == [code] * len(VERIFIERS)


BAD = {
    "wprev": LOG.bodies[6].replace(b'"wprev":"', b'"wprev":"x'),
    "opened": LOG.bodies[6].replace(b'"type":"responses.create"', b'"type":"writer.opened"'),
}


@pytest.mark.parametrize("name", BAD)
def test_a_proof_of_a_bad_event_proves_nothing(tmp_path: Path, name: str) -> None:
    log = WrittenLog(bodies=[*LOG.bodies[:6], BAD[name]])
    path, key = tmp_path / "event.tlog-proof", tmp_path / "key"
    key.write_text(log.key_line)
    path.write_text(asyncio.run(prove(log.log(note=log.note()), "7")))
    assert BAD[name] != LOG.bodies[6]
    assert codes(path, key) == [1] * len(VERIFIERS)


def test_a_proof_has_one_spelling(tmp_path: Path) -> None:
    path, key = tmp_path / "event.tlog-proof", tmp_path / "key"
    key.write_text(LOG.key_line)
    seq = next(seq for seq, body in enumerate(LOG.bodies, start=1) if len(body) % 3)
    proof = asyncio.run(prove(LOG.log(note=LOG.note()), str(seq)))
    body = base64.b64encode(LOG.bodies[seq - 1]).decode()
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    at = len(body.rstrip("=")) - 1
    other = body[:at] + letters[letters.index(body[at]) + 1] + body[at + 1 :]
    path.write_text(proof.replace(body, other))
    assert base64.b64decode(other) == LOG.bodies[seq - 1]
    assert codes(path, key) == [2] * len(VERIFIERS)


def test_a_proof_is_held_against_an_anchor(tmp_path: Path) -> None:
    path, key, anchor = (tmp_path / name for name in ("event.tlog-proof", "key", "anchor"))
    key.write_text(LOG.key_line)
    path.write_text(asyncio.run(prove(LOG.log(note=LOG.note()), "7")))
    for notes, code in ((LOG.note(40), 0), (write(COUNT, chooses=5).note(), 1), ("", 2)):
        anchor.write_text(notes)
        assert codes(path, key, anchor) == [code] * len(VERIFIERS)
