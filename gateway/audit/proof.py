"""A proof of one event, in one file that verifies with the public key alone: C2SP tlog-proof (c2sp.org/tlog-proof). Pure.

    c2sp.org/tlog-proof@v1
    extra <base64 of the event's stored bytes>
    index <sequence number - 1>
    <base64 of a hash>                       for each step of the inclusion proof
                                             an empty line
    <the checkpoint, a signed note>

The extra data is not trusted: the leaf is made from it, and only then does the proof lead to the signed root.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from gateway.audit.checkpoint import MAX_NOTE_CHARACTERS, Checkpoint, VerifierKey, open_note
from gateway.audit.event import MAX_BYTES
from gateway.audit.faults import Fault, Finding
from gateway.audit.layout import Unusable, read_hashes
from gateway.audit.segment import EventRefused, check_event
from gateway.audit.tree import MAX_SIZE, Proof, leaf, verify_inclusion

MAGIC: Final = "c2sp.org/tlog-proof@v1\n"
_FORM: Final = re.compile(
    re.escape(MAGIC)
    + r"extra ([A-Za-z0-9+/]+={0,2})\nindex (0|[1-9][0-9]{0,18})\n((?:[A-Za-z0-9+/]{43}=\n){0,63})\n([^\n].*)",
    re.DOTALL,
)
_MAX_CHARACTERS: Final = MAX_NOTE_CHARACTERS + 4 * MAX_BYTES


class ProofRefused(Exception):
    """It has a proof's form and proves nothing. `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


@dataclass(frozen=True, slots=True)
class Proven:
    """An event that is in the log of the checkpoint's tenant, at `seq`."""

    seq: int
    body: bytes
    event: dict[str, Any]
    checkpoint: Checkpoint


def write_proof(seq: int, body: bytes, proof: Proof, note: str) -> str:
    path = "".join(f"{base64.b64encode(one).decode()}\n" for one in proof)
    return f"{MAGIC}extra {base64.b64encode(body).decode()}\nindex {seq - 1}\n{path}\n{note}"


def open_proof(text: str, keys: Iterable[VerifierKey]) -> Proven:
    """What the file proves. Raises Unusable for another form, ProofRefused where it does not hold."""
    found = _FORM.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    hashes = b",".join(b'"%b"' % one.encode() for one in found[3].split("\n") if one) if found else b""
    path, body = read_hashes(hashes), _decode(found[1]) if found else None
    if found is None or path is None or body is None or int(found[2]) > MAX_SIZE:
        raise Unusable("not a proof of the form c2sp.org/tlog-proof@v1 with the event in it")
    seq, checkpoint = int(found[2]) + 1, open_note(found[4], tuple(keys))
    if checkpoint is None:
        raise ProofRefused(Finding(Fault.CHECKPOINT))
    if not verify_inclusion(leaf(checkpoint.tenant, seq, body), seq - 1, checkpoint.size, path, checkpoint.root):
        raise ProofRefused(Finding(Fault.PROOF, seq))
    try:
        return Proven(seq, body, check_event(seq, body, checkpoint.tenant), checkpoint)
    except EventRefused as refused:
        raise ProofRefused(refused.finding) from None


def _decode(text: str) -> bytes | None:
    """The bytes that `text` is the one spelling of."""
    try:
        body = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return body if base64.b64encode(body).decode() == text else None
