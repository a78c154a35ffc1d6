"""Verifying what the owner of the key could have done, which only an anchor tells, and losses that were accepted."""

from __future__ import annotations

from gateway.audit.chain import Ended, succeed
from gateway.audit.faults import Fault, Finding
from tests.audit.bench import COUNT, Bench, moment
from tests.audit.forge import rechained
from tests.audit.written_log import ACME, START_US, WrittenLog, resealed, write


def test_a_rewritten_and_signed_log_is_a_fork_that_the_anchor_shows(bench: Bench) -> None:
    bench.log.bodies[59] = bench.log.bodies[59].replace(b"responses", b"responsez")
    bench.log.bodies = rechained(bench.log.bodies)
    bench.export()
    assert bench.faults(anchored=False) == []
    assert bench.first() == Finding(Fault.FORK, 41, 80, "the checkpoint of 80 events")


def test_a_tail_cut_across_an_anchored_checkpoint_is_found(bench: Bench) -> None:
    bench.log.bodies = bench.log.bodies[:70]
    bench.export()
    assert bench.faults(anchored=False) == []
    assert bench.first() == Finding(Fault.ANCHOR_AHEAD, 71, 80, "80 against 70")


def test_an_older_export_is_found_by_a_newer_anchor(bench: Bench) -> None:
    bench.export()
    assert bench.verify().findings == ()
    grown = write(120)
    bench.anchor_notes(bench.log.note(40), WrittenLog(bodies=[*bench.log.bodies, *grown.bodies[100:]]).note(110))
    assert bench.first() == Finding(Fault.ANCHOR_AHEAD, 101, 110, "110 against 100")


def test_an_export_that_was_asked_to_end_is_not_held_against_what_came_later(bench: Bench) -> None:
    bench.export(("until", moment(61)))
    bench.anchor_notes(bench.log.note(40), WrittenLog(bodies=[*bench.log.bodies, *bench.log.bodies[:20]]).note(110))
    verdict = bench.verify()
    assert (verdict.findings, verdict.anchored, verdict.uncompared) == ((), 40, 1)


def test_two_anchored_checkpoints_of_one_size_are_a_fork_wherever_the_export_lies(bench: Bench) -> None:
    bench.export(("since", moment(95)))
    bench.anchor_notes(bench.log.note(40), write(COUNT, chooses=5).note(40))
    assert Fault.FORK in bench.faults()


def test_a_checkpoint_that_contradicts_the_head_of_a_selection_is_a_fork(bench: Bench) -> None:
    bench.export(("result", "deny"))
    bench.anchor_notes(write(COUNT, chooses=5).note(100))
    assert bench.faults() == [Fault.FORK]


def test_a_declared_loss_is_told_and_can_be_accepted(bench: Bench) -> None:
    log = resealed(bench.log, 60, lost_last=80)
    bench.export(log=log)
    assert bench.verify().findings == (Finding(Fault.LOSS, 61, detail="at least 20 events from 61 on"),)
    verdict = bench.verify(accept_loss=True)
    assert verdict.findings == ()
    assert (verdict.anchored, verdict.uncompared) == (40, 1)
    bench.anchor_notes(bench.log.note(80), log.note(75))
    assert bench.verify(accept_loss=True).anchored == 75


def test_more_lost_than_was_declared_is_found(bench: Bench) -> None:
    bench.export(log=resealed(bench.log, 60, lost_last=70))
    assert Fault.UNDECLARED in bench.faults(accept_loss=True)


def test_a_new_epoch_without_the_event_that_opens_it_is_found(bench: Bench) -> None:
    bench.export(log=WrittenLog(bodies=bench.log.bodies, epoch=1))
    assert Fault.EPOCH in bench.faults(anchored=False)


def test_epochs_rise_by_one(bench: Bench) -> None:
    bench.export(log=resealed(WrittenLog(bodies=bench.log.bodies, epoch=1), 60, lost_last=80))
    assert bench.first(anchored=False) == Finding(Fault.EPOCH, 61)


def test_an_export_of_before_the_loss_is_found_by_an_anchor_of_after(bench: Bench) -> None:
    bench.export()
    bench.anchor_notes(resealed(bench.log, 60, lost_last=80).note(75))
    assert bench.first() == Finding(Fault.ANCHOR_AHEAD, None, 75, "75 in epoch 1 against 100 in epoch 0")


def test_a_successor_after_a_loss_may_name_lost_events(bench: Bench) -> None:
    log = resealed(bench.log, 60, lost_last=100)
    _, entry = succeed(Ended(f"{2:024x}", 99), "e" * 24, ACME, START_US)
    log.bodies.append(entry.body)
    bench.export(log=log)
    assert bench.faults(anchored=False, accept_loss=True) == []


def test_a_range_after_a_loss_is_not_held_against_lost_checkpoints(bench: Bench) -> None:
    log = resealed(bench.log, 60, lost_last=80, then=60)
    bench.export(("since", moment(70)), log=log)
    verdict = bench.verify()
    assert verdict.findings == ()
    assert (verdict.anchored, verdict.uncompared) == (0, 2)
