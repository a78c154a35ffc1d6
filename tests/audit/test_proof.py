from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.faults import Fault
from gateway.audit.layout import Unusable
from gateway.audit.offline import verify_proof
from gateway.audit.proof import MAGIC, ProofRefused, open_proof, write_proof
from gateway.audit.prove import prove
from gateway.audit.source import EvidenceRefused
from gateway.audit.tree import Tree
from tests.audit.written_log import ACME, OTHER, WrittenLog, write

LOG = write(50)
KEY = VerifierKey.parse(LOG.key_line)


def proof_of(event: str | int, log: WrittenLog = LOG, note: str = "", trimmed: int = 0) -> str:
    return asyncio.run(prove(log.log(note=note, trimmed=trimmed), str(event)))


PROOF = proof_of(23)


@pytest.mark.parametrize("seq", [1, 2, 31, 32, 33, 50])
def test_an_event_is_proven_with_the_public_key_alone(seq: int) -> None:
    proven = open_proof(proof_of(seq), (KEY,))
    assert (proven.seq, proven.body, proven.event) == (seq, LOG.bodies[seq - 1], json.loads(LOG.bodies[seq - 1]))
    assert (proven.checkpoint.tenant, proven.checkpoint.size) == (ACME, 50)


def test_an_event_is_found_by_its_id() -> None:
    assert proof_of(json.loads(LOG.bodies[22])["id"]) == PROOF
    with pytest.raises(EvidenceRefused, match="no such event"):
        proof_of("f" * 24 + ".1")
    with pytest.raises(EvidenceRefused, match="no such event"):
        proof_of(51)


def test_the_checkpoint_that_was_signed_before_is_taken_where_it_covers_the_event() -> None:
    assert open_proof(proof_of(23, note=LOG.note(40)), (KEY,)).checkpoint.size == 40
    assert open_proof(proof_of(45, note=LOG.note(40)), (KEY,)).checkpoint.size == 50


def test_an_event_of_a_trimmed_log_is_proven_and_an_archived_one_is_not_there() -> None:
    assert proof_of(23, trimmed=20) == PROOF
    with pytest.raises(EvidenceRefused, match="no such event in the log; those up to 20 are in the archive"):
        proof_of(19, trimmed=20)


def test_a_log_with_a_gap_proves_nothing() -> None:
    log = WrittenLog(bodies=LOG.bodies)
    source = log.log(trimmed=3)
    object.__setattr__(source, "base", type(source.base)())
    with pytest.raises(EvidenceRefused, match="event 1 is missing"):
        asyncio.run(prove(source, "23"))


def test_the_file_is_a_tlog_proof(tmp_path: Path) -> None:
    lines = PROOF.split("\n")
    assert lines[0] == "c2sp.org/tlog-proof@v1"
    assert base64.b64decode(lines[1].removeprefix("extra ")) == LOG.bodies[22]
    assert lines[2] == "index 22"
    tree = Tree()
    tree.extend(LOG.leaves())
    assert [base64.b64decode(line) for line in lines[3:9]] == list(tree.inclusion(22, 50))
    assert "\n".join(lines[9:]) == f"\n{LOG.note()}"
    (tmp_path / "x.tlog-proof").write_text(PROOF)
    assert verify_proof(tmp_path / "x.tlog-proof", (KEY,)).seq == 23


@settings(max_examples=300)
@given(st.data())
def test_no_change_of_a_character_leaves_a_proof(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(PROOF) - 1))
    other = data.draw(st.characters(codec="ascii") | st.sampled_from("AB/+=\n9")).replace(PROOF[at], "")
    changed = data.draw(st.sampled_from((PROOF[:at] + PROOF[at + 1 :], PROOF[:at] + other + PROOF[at + 1 :])))
    with pytest.raises((Unusable, ProofRefused)):
        open_proof(changed, (KEY,))


def test_a_proof_of_another_tenant_key_or_place_is_refused() -> None:
    other = write(50, tenant=OTHER)
    with pytest.raises(ProofRefused) as refused:
        open_proof(proof_of(23, other), (KEY,))
    assert refused.value.finding.fault is Fault.CHECKPOINT
    tree = Tree()
    tree.extend(LOG.leaves())
    for seq, body in ((24, LOG.bodies[22]), (23, LOG.bodies[23]), (23, other.bodies[22])):
        with pytest.raises(ProofRefused) as refused:
            open_proof(write_proof(seq, body, tree.inclusion(22, 50), LOG.note()), (KEY,))
        assert refused.value.finding.fault is Fault.PROOF


def test_what_is_in_the_log_and_no_event_is_no_proof_of_one() -> None:
    log = WrittenLog(bodies=[*LOG.bodies, b'{"no":"event"}'])
    with pytest.raises(ProofRefused) as refused:
        open_proof(proof_of(51, log), (KEY,))
    assert refused.value.finding.fault is Fault.EVENT


def test_an_anchor_of_another_history_refuses_the_proof(tmp_path: Path) -> None:
    path, anchor = tmp_path / "proof", tmp_path / "anchor"
    path.write_text(PROOF)
    anchor.write_text(LOG.note(50))
    assert verify_proof(path, (KEY,), anchor).seq == 23
    anchor.write_text(write(50, chooses=1).note(50))
    with pytest.raises(ProofRefused) as refused:
        verify_proof(path, (KEY,), anchor)
    assert refused.value.finding.fault is Fault.FORK


@pytest.mark.parametrize("text", ["", "x", MAGIC, PROOF.replace("extra", "extro"), PROOF + "x" * 100_000])
def test_another_form_is_unusable(text: str) -> None:
    with pytest.raises(Unusable):
        open_proof(text, (KEY,))
