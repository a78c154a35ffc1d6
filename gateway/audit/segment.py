"""One segment of an export, checked by itself. Pure.

Segments can be checked at once, in several processes: what a segment cannot know alone (where each writer stood before it) it
says in its `Part`, and `verify.py` joins the parts in order.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from binascii import Error as Base64Error
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import orjson

from gateway.audit.chain import NO_EVENT
from gateway.audit.checkpoint import Checkpoint
from gateway.audit.event import MAX_BYTES, VERSION, EventType
from gateway.audit.faults import Fault, Finding
from gateway.audit.layout import LINE, MAX_LINE_BYTES, Segment, read_hashes
from gateway.audit.tree import leaf, verify_inclusion
from gateway.names import TenantId

_sha256 = hashlib.sha256
_DIGEST: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known of the export that a segment belongs to."""

    tenant: TenantId
    head: Checkpoint | None
    """Of a selection: what each event is proven against. None: a range, whose events follow each other without a gap."""

    def follows(self, last: Standing, wseq: int, wprev: str) -> bool:
        """Whether a writer's entry can be the next one in the export."""
        if wseq == last.wseq + 1:
            return wprev == last.digest
        return self.head is not None and wseq > last.wseq


@dataclass(slots=True)
class Standing:
    """Where a writer stands."""

    wseq: int
    digest: str
    """SHA-256 of its entry `wseq`, in hexadecimal."""
    seq: int


@dataclass(frozen=True, slots=True)
class First:
    """A writer's first entry in a segment: it must follow what came before the segment."""

    writer: str
    seq: int
    wseq: int
    wprev: str


@dataclass(frozen=True, slots=True)
class Opening:
    """A `writer.opened`. `seen`: where the predecessor stood then; None: it has no entry in this segment before."""

    seq: int
    predecessor: str
    confirmed: int
    seen: Standing | None


@dataclass(frozen=True, slots=True)
class Reseal:
    """A `log.resealed`: numbers from its own up to `lost_last` were given before, to events that are gone."""

    seq: int
    epoch: int
    lost_last: int


@dataclass(slots=True)
class Part:
    """What a segment says: its leaves, and of the writers what the segments before and after must be held against."""

    finding: Finding | None = None
    """The first fault; all else is what was read before it."""
    is_listed: bool = True
    """Whether the file's digest is the manifest's."""
    leaves: bytearray = field(default_factory=bytearray)
    """Of a range, 32 bytes each."""
    firsts: list[First] = field(default_factory=list)
    lasts: dict[str, Standing] = field(default_factory=dict)
    openings: list[Opening] = field(default_factory=list)
    reseals: list[Reseal] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)


class EventRefused(Exception):
    """The first bad event of what is being read."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


def check_segment(data: bytes, segment: Segment, scope: Scope) -> Part:
    """Everything that the file's bytes show by themselves, event by event, up to the first bad one."""
    part, seq = Part(), segment.first - 1
    *lines, rest = data.split(b"\n")
    try:
        for line in lines:
            seq = _check_line(line, seq, segment.last, scope, part)
        if rest:
            _fail(Fault.LINE, seq + 1)
        if seq != segment.last:
            _fail(Fault.COUNT, seq + 1, segment.last)
        if len(lines) != segment.count:
            # Of a selection nobody can say which events are not there.
            _fail(Fault.COUNT, None)
    except EventRefused as broken:
        part.finding = broken.finding
    part.is_listed = _sha256(data).hexdigest() == segment.sha256
    return part


def check_event(seq: int, body: bytes, tenant: TenantId) -> dict[str, Any]:
    """The event's fields. Raises EventRefused where the bytes are none of the log's events, or another tenant's."""
    try:
        event = orjson.loads(body)
        # One spelling: another reader of the same bytes cannot see something else in them.
        plain = isinstance(event, dict) and orjson.dumps(event, option=orjson.OPT_SORT_KEYS) == body
        if not plain or len(body) > MAX_BYTES or not _has_form(event):
            _fail(Fault.EVENT, seq)
    except (ValueError, TypeError):  # orjson refuses to write what is nested more than 254 deep with a TypeError
        _fail(Fault.EVENT, seq)
    if event["tenant"] != tenant:
        _fail(Fault.TENANT, seq)
    if (event["wseq"] == 1) != (event["wprev"] == NO_EVENT):
        _fail(Fault.CHAIN, seq)
    if check := _SPECIAL.get(event["type"]):
        check(event, seq)
    fields: dict[str, Any] = event
    return fields


def _check_line(line: bytes, before: int, last: int, scope: Scope, part: Part) -> int:
    """The line's sequence number."""
    found = LINE.match(line)
    if found is None or line[-1] != 0x7D or len(line) > MAX_LINE_BYTES or (found[3] is None) != (scope.head is None):
        _fail(Fault.LINE, before + 1)
    seq = int(found[1])
    if (seq != before + 1) if scope.head is None else (seq <= before):
        _fail(Fault.SEQUENCE, before + 1, seq - 1)
    if seq > last:
        _fail(Fault.COUNT, before + 1)
    body = line[found.end() : -1]
    if found[4] == b"bytes":
        body = _decode(body, seq)
    leaf_hash = leaf(scope.tenant, seq, body)
    if b2a_base64(leaf_hash, newline=False) != found[2][1:-1]:
        _fail(Fault.LEAF, seq)
    if scope.head is None:
        part.leaves += leaf_hash
    else:
        proof = read_hashes(found[3])
        if proof is None or not verify_inclusion(leaf_hash, seq - 1, scope.head.size, proof, scope.head.root):
            _fail(Fault.PROOF, seq)
    event = check_event(seq, body, scope.tenant)
    if found[4] == b"bytes":
        _fail(Fault.LINE, seq)
    _check_chain(event, seq, _sha256(body).hexdigest(), scope, part)
    return seq


def _check_chain(event: Mapping[str, Any], seq: int, digest: str, scope: Scope, part: Part) -> None:
    writer, wseq, wprev = event["writer"], event["wseq"], event["wprev"]
    if writer in part.ended:
        _fail(Fault.ENDED, seq)
    last = part.lasts.get(writer)
    if last is None:
        part.firsts.append(First(writer, seq, wseq, wprev))
        part.lasts[writer] = Standing(wseq, digest, seq)
    elif scope.follows(last, wseq, wprev):
        last.wseq, last.digest, last.seq = wseq, digest, seq
    else:
        _fail(Fault.CHAIN, seq)
    if event["type"] == EventType.LOG_RESEALED:
        part.reseals.append(Reseal(seq, event["changes"]["epoch"], event["changes"]["lost_last"]))
    elif event["type"] == EventType.WRITER_OPENED:
        _note_opening(event, seq, part)


def _note_opening(event: Mapping[str, Any], seq: int, part: Part) -> None:
    predecessor = event["changes"]["predecessor"]
    seen = part.lasts.get(predecessor)
    part.openings.append(
        Opening(
            seq,
            predecessor,
            event["changes"]["confirmed"],
            Standing(seen.wseq, seen.digest, seen.seq) if seen else None,
        )
    )
    part.ended.add(predecessor)


def _check_resealed(event: Mapping[str, Any], seq: int) -> None:
    epoch, first, last = (event["changes"].get(name) for name in ("epoch", "lost_first", "lost_last"))
    if not _is_number(epoch, 1) or not _is_number(first, 1) or first != seq or not _is_number(last, seq - 1):
        _fail(Fault.EVENT, seq)


def _check_opened(event: Mapping[str, Any], seq: int) -> None:
    predecessor, confirmed = (event["changes"].get(name) for name in ("predecessor", "confirmed"))
    if event["wseq"] != 1 or not isinstance(predecessor, str) or not _is_number(confirmed, 1):
        _fail(Fault.EVENT, seq)
    if predecessor == event["writer"]:
        _fail(Fault.SUCCESSION, seq)


_SPECIAL: Final[Mapping[str, Callable[[Mapping[str, Any], int], None]]] = {
    EventType.LOG_RESEALED: _check_resealed,
    EventType.WRITER_OPENED: _check_opened,
}


def _has_form(event: Mapping[str, Any]) -> bool:
    """What every event has, as far as the log's order rests on it."""
    writer, wseq = event.get("writer"), event.get("wseq")
    return (
        type(event.get("v")) is int
        and event["v"] == VERSION
        and isinstance(writer, str)
        and _is_number(wseq, 1)
        and event.get("id") == f"{writer}.{wseq}"
        and isinstance(event.get("wprev"), str)
        and _DIGEST.fullmatch(event["wprev"]) is not None
        and isinstance(event.get("type"), str)
        and isinstance(event.get("tenant"), str)
        and isinstance(event.get("changes"), dict)
        and type(event.get("ts")) is int
    )


def _is_number(value: object, least: int) -> bool:
    return type(value) is int and value >= least


def _decode(quoted: bytes, seq: int) -> bytes:
    try:
        body = b64decode(quoted[1:-1], validate=True)
    except Base64Error:
        _fail(Fault.LINE, seq)
    if b'"%b"' % b2a_base64(body, newline=False) != quoted:
        _fail(Fault.LINE, seq)
    return body


def _fail(fault: Fault, seq: int | None, last: int | None = None) -> NoReturn:
    raise EventRefused(Finding(fault, seq, last))
