"""500 falsified exports, each found by every verifier; and whole ones, of which each says that they are whole."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from gateway.audit.prove import prove
from tests.audit.mutations import ANCHORED, COUNT, EVERY, KEYS, MANIFESTS, Case, Mutation
from tests.audit.verifiers import VERIFIERS, codes
from tests.audit.written_log import OTHER, WrittenLog, write

ROUNDS = 17
"""Of each mutation: 510 in all."""
LOG = write(COUNT)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole exports, to be copied."""
    shelf = tmp_path_factory.mktemp("shelf")
    LOG.export(shelf / "range", note=LOG.note(ANCHORED[-1]))
    LOG.export(shelf / "selection", ("result!", "allow"))
    WrittenLog(bodies=LOG.bodies[: ANCHORED[-1] - 8]).export(shelf / "old")
    write(COUNT, tenant=OTHER).export(shelf / "other")
    return shelf


def case_of(shelf: Path, folder: Path, seed: str, kind: str = "range") -> Case:
    log = LOG
    key, anchor = folder / "key", folder / "anchor"
    shutil.copytree(shelf / kind, folder / "export")
    key.write_text(log.key_line + "\n")
    anchor.write_text("\n".join(log.note(size) for size in ANCHORED))
    return Case(folder / "export", key, anchor, log, shelf / "other", shelf / "old", random.Random(seed))


def test_there_are_500_mutations() -> None:
    assert len(EVERY) * ROUNDS >= 500
    assert len({one.__name__ for one in EVERY}) == len(EVERY)


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("mutation", EVERY, ids=lambda mutation: mutation.__name__)
def test_what_was_falsified_is_found(shelf: Path, tmp_path: Path, mutation: Mutation, round_: int) -> None:
    case = case_of(shelf, tmp_path, f"{mutation.__name__} {round_}")
    before = contents(case)
    mutation(case)
    if contents(case) == before:
        pytest.fail("the mutation changed nothing")
    # Files of the export alone are found without an anchor; a new history of the key's owner needs it.
    anchor = case.anchor if mutation in KEYS or round_ % 2 else None
    said = set(codes(case.folder, case.key, anchor))
    assert said <= {1, 2}
    if mutation in KEYS or mutation in MANIFESTS:
        assert said == {1}


@pytest.mark.parametrize("round_", range(3))
@pytest.mark.parametrize("mutation", EVERY[:8], ids=lambda mutation: mutation.__name__)
def test_a_falsified_selection_is_found(shelf: Path, tmp_path: Path, mutation: Mutation, round_: int) -> None:
    case = case_of(shelf, tmp_path, f"{mutation.__name__} {round_}", "selection")
    mutation(case)
    assert set(codes(case.folder, case.key, case.anchor)) <= {1, 2}


@pytest.mark.parametrize("round_", range(40))
def test_a_falsified_proof_is_found(tmp_path: Path, round_: int) -> None:
    choose = random.Random(round_)
    seq = choose.randint(1, COUNT)
    proof = bytearray(asyncio.run(prove(LOG.log(note=LOG.note(ANCHORED[-1])), str(seq))).encode())
    path, key = tmp_path / "event.tlog-proof", tmp_path / "key"
    key.write_text(LOG.key_line)
    path.write_bytes(proof)
    assert set(codes(path, key)) == {0}
    at = choose.randrange(len(proof))
    changed = [
        proof[:at] + bytes([proof[at] ^ 1 << choose.randrange(8)]) + proof[at + 1 :],
        proof[:at] + proof[at + 1 :],
        proof[:at] + b"A" + proof[at:],
        proof[:at],
    ][round_ % 4]
    if changed != proof:
        path.write_bytes(changed)
        assert set(codes(path, key)) <= {1, 2}


@pytest.mark.parametrize("kind", ["range", "selection"])
def test_what_is_whole_is_said_to_be_whole(shelf: Path, tmp_path: Path, kind: str) -> None:
    case = case_of(shelf, tmp_path, "", kind)
    for anchor in (None, case.anchor):
        assert codes(case.folder, case.key, anchor) == [0] * len(VERIFIERS)


def contents(case: Case) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in sorted(case.folder.iterdir())}
    return files | {"key": case.key.read_bytes()}
