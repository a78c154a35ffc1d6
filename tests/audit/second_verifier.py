"""A second verifier of exported audit logs, written from docs/audit-format.md alone.

It shares no code with the gateway, so that the two, and the page, check each other. The numbers in the comments are the page's
sections. By hand:

    python -m tests.audit.second_verifier FOLDER|FILE --key FILE [--anchor FILE] [--accept-loss]

It exits with 0 (whole), 1 (not whole) or 2 (unusable), and says which event is the first bad one.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, TypeGuard

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MOST = 2**63 - 1
NUMBER = "(0|[1-9][0-9]{0,18})"
HASH = "[A-Za-z0-9+/]{43}="
LOG = "coatcheck/[0-9a-f]{16}/[a-z2-7]{16}"
ORIGIN = re.compile(f"({LOG})(?:/([1-9][0-9]{{0,8}}))?")
HEX_HASH = re.compile("[0-9a-f]{64}")
KEY_LINE = re.compile(rf"({LOG})\+([0-9a-f]{{8}})\+([A-Za-z0-9+/]+=*)")
SIGNATURE_LINE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+=*)")
SEGMENT_NAME = re.compile(r"events-[0-9]{12}\.jsonl")
PROOF_HEAD = re.compile(rf"c2sp\.org/tlog-proof@v1\nextra ([A-Za-z0-9+/]+=*)\nindex {NUMBER}\n((?:{HASH}\n){{0,63}})\n")
PROOF = rf'\[((?:"{HASH}"(?:,"{HASH}")*)?)\]'
CONTENT = r'(?:"event":(\{.*\})|"bytes":"([A-Za-z0-9+/]*=*)")'
LINE = re.compile(rf'\{{"seq":{NUMBER},"leaf":"({HASH})"(?:,"proof":{PROOF})?,{CONTENT}\}}'.encode())


class Unusable(Exception):
    """What was given cannot be verified at all: the answer is 2."""


@dataclass(slots=True)
class Findings:
    """All that fails, each with the number of its event if it has one."""

    failures: list[tuple[int | None, str]] = field(default_factory=list)
    losses: list[int] = field(default_factory=list)
    """Numbers of declared losses that were not accepted. They are told only where no other number is."""

    def fail(self, reason: str, number: int | None = None) -> None:
        self.failures.append((number, reason))

    @property
    def code(self) -> int:
        return 1 if self.failures or self.losses else 0

    @property
    def first_bad(self) -> int | None:
        numbers = [number for number, _ in self.failures if number is not None]
        return min(numbers or self.losses, default=None)


# 1 Words and encodings


def unbase64(text: str) -> bytes:
    """The bytes of the one canonical spelling, or ValueError."""
    value = base64.b64decode(text, validate=True)
    if base64.b64encode(value).decode() != text:
        raise ValueError("not canonical base64")
    return value


def unbase64_hash(text: str) -> bytes:
    if len(value := unbase64(text)) != 32:
        raise ValueError("not a hash")
    return value


def number_of(text: str) -> int:
    if not re.fullmatch(NUMBER, text) or int(text) > MOST:
        raise ValueError("not a number")
    return int(text)


def is_number(value: Any, least: int = 0) -> TypeGuard[int]:
    return type(value) is int and least <= value <= MOST


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def without_doubles(members: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(members)) != len(members):
        raise ValueError("a name twice")
    return found


# 2 Events


@dataclass(frozen=True, slots=True)
class Event:
    data: bytes
    type: str
    writer: str
    wseq: int
    wprev: str
    changes: dict[str, Any]


def integers(value: Any, depth: int = 1) -> Iterator[int]:
    """All integers in it; ValueError where it is nested too deeply."""
    if type(value) is int:
        yield value
    elif isinstance(value, dict | list):
        if depth > 254:
            raise ValueError("nested too deeply")
        for inner in value.values() if isinstance(value, dict) else value:
            yield from integers(inner, depth + 1)


def event_of(data: bytes, seq: int, tenant: str) -> Event:
    """The event that these bytes are; ValueError if it is bad by section 2 or of another tenant."""
    if len(data) > 4096:
        raise ValueError("longer than 4096 bytes")
    try:
        value = json.loads(data.decode(), object_pairs_hook=without_doubles)
        canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        in_range = all(-(2**63) <= one <= MOST for one in integers(value))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if canonical != data or not in_range or not isinstance(value, dict):
        raise ValueError("not of the form of an event")
    v, writer, wseq, wprev, changes = (value.get(name) for name in ("v", "writer", "wseq", "wprev", "changes"))
    if type(v) is not int or v != 1 or type(value.get("ts")) is not int or not isinstance(value.get("type"), str):
        raise ValueError("v, ts or type")
    if value.get("tenant") != tenant:
        raise ValueError("of another tenant")
    if not isinstance(writer, str) or not is_number(wseq, 1) or value.get("id") != f"{writer}.{wseq}":
        raise ValueError("writer, wseq or id")
    if not isinstance(wprev, str) or not HEX_HASH.fullmatch(wprev) or (wprev == "0" * 64) is not (wseq == 1):
        raise ValueError("wprev")
    if not isinstance(changes, dict):
        raise ValueError("changes")
    if value["type"] == "writer.opened":
        predecessor = changes.get("predecessor")
        if (
            wseq != 1
            or not isinstance(predecessor, str)
            or predecessor == writer
            or not is_number(changes.get("confirmed"), 1)
        ):
            raise ValueError("writer.opened")
    if value["type"] == "log.resealed":
        first, last = changes.get("lost_first"), changes.get("lost_last")
        if (
            not is_number(changes.get("epoch"), 1)
            or not is_number(first)
            or first != seq
            or not is_number(last, seq - 1)
        ):
            raise ValueError("log.resealed")
    return Event(data, value["type"], writer, wseq, wprev, changes)


# 3 Writers' chains


@dataclass(slots=True)
class Chains:
    """The writers of a range (whole: it begins with number 1) or of a selection."""

    selection: bool
    whole: bool
    last: dict[str, tuple[int, Event]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    resealed_at: int = 0

    def follow(self, seq: int, event: Event) -> str | None:
        """What is wrong with the event after those before it, and keep it."""
        wrong = self._wrong(event)
        if event.type == "writer.opened":
            self.ended.add(event.changes["predecessor"])
        if event.type == "log.resealed":
            self.resealed_at = seq
        self.last[event.writer] = seq, event
        return wrong

    def _wrong(self, event: Event) -> str | None:
        if event.writer in self.ended:
            return "its writer was ended"
        if event.writer in self.last:
            before = self.last[event.writer][1]
            if event.wseq <= before.wseq or (event.wseq > before.wseq + 1 and not self.selection):
                return "out of its writer's order"
            if event.wseq == before.wseq + 1 and event.wprev != sha256(before.data).hex():
                return "not chained to its writer's event before"
        elif self.whole and event.wseq != 1:
            return "its writer's events before are missing"
        if event.type == "writer.opened" and not self.selection:
            at, ended = self.last.get(event.changes["predecessor"], (0, None))
            short = (ended.wseq if ended else 0) < event.changes["confirmed"]
            if short and (self.whole or ended) and self.resealed_at <= at:
                return "events of its predecessor are missing"
        return None


# 4 Tree

EMPTY = sha256(b"")


def leaf_hash(tenant: str, seq: int, data: bytes) -> bytes:
    parts = (tenant.encode(), seq.to_bytes(8, "big"), data)
    return sha256(b"\0" + b"".join(len(part).to_bytes(4, "big") + part for part in parts))


def node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right)


@dataclass(slots=True)
class Tree:
    size: int
    frontier: list[bytes]

    def add(self, leaf: bytes) -> None:
        size = self.size
        while size & 1:
            leaf, size = node(self.frontier.pop(), leaf), size >> 1
        self.frontier.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        if not self.frontier:
            return EMPTY
        root = self.frontier[-1]
        for left in reversed(self.frontier[:-1]):
            root = node(left, root)
        return root


def included(leaf: bytes, index: int, proof: Sequence[bytes], size: int, root: bytes) -> bool:
    """RFC 9162 section 2.1.3.2."""
    if index >= size:
        return False
    fn, sn, r = index, size - 1, leaf
    for p in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = node(p, r)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node(r, p)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and r == root


def consistent(first: int, first_root: bytes, second: int, second_root: bytes, proof: Sequence[bytes]) -> bool:
    """RFC 9162 section 2.1.4.2."""
    if first == second:
        return not proof and first_root == second_root
    if first == 0:
        return not proof and first_root == EMPTY
    if first > second or not proof:
        return False
    path = [first_root, *proof] if first & (first - 1) == 0 else list(proof)
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = path[0]
    for c in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = node(c, fr), node(c, sr)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node(sr, c)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and fr == first_root and sr == second_root


# 5 Keys, notes and checkpoints

Keys = dict[tuple[str, bytes], Ed25519PublicKey]


def read_keys(path: Path) -> Keys:
    keys: Keys = {}
    try:
        for line in path.read_bytes().decode().split("\n"):
            if not line:
                continue
            if not (parts := KEY_LINE.fullmatch(line)):
                raise ValueError("not a line of a key")
            name, public = parts[1], unbase64(parts[3])
            key_id = sha256(name.encode() + b"\n" + public)[:4]
            if len(public) != 33 or public[0] != 1 or key_id.hex() != parts[2]:
                raise ValueError("not an Ed25519 key of this ID")
            keys[name, key_id] = Ed25519PublicKey.from_public_bytes(public[1:])
    except (OSError, ValueError) as error:
        raise Unusable(f"key file: {error}") from error
    if not keys:
        raise Unusable("key file: no key")
    return keys


@dataclass(frozen=True, slots=True)
class Note:
    text: str
    signatures: tuple[tuple[str, bytes], ...]

    def signed(self, keys: Keys, log: str | None) -> bool:
        """Whether a key of the log's name signed it, and no given key is belied."""
        good = False
        for name, value in self.signatures:
            if (key := keys.get((name, value[:4]))) is not None:
                try:
                    key.verify(value[4:], self.text.encode())
                except InvalidSignature:
                    return False
                good = good or name == log
        return good


def note_of(data: bytes | str) -> Note:
    whole = data if isinstance(data, str) else data.decode()
    end = whole.rfind("\n\n") + 1
    lines = whole[end + 1 :].split("\n")
    if not end or lines.pop() or not lines or len(whole) > 65536 or any(one < " " and one != "\n" for one in whole):
        raise ValueError("not a note")
    signatures = []
    for line in lines:
        if not (parts := SIGNATURE_LINE.fullmatch(line)):
            raise ValueError("not a line of a signature")
        signatures.append((parts[1], unbase64(parts[2])))
    return Note(whole[:end], tuple(signatures))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    origin: str
    size: int
    root: bytes
    note: Note

    @property
    def log(self) -> str | None:
        parts = ORIGIN.fullmatch(self.origin)
        return parts[1] if parts else None

    @property
    def epoch(self) -> int:
        parts = ORIGIN.fullmatch(self.origin)
        return int(parts[2] or 0) if parts else 0

    def counts(self, keys: Keys) -> bool:
        return self.log is not None and self.note.signed(keys, self.log)


def checkpoint_of(data: bytes | str) -> Checkpoint:
    note = note_of(data)
    lines = note.text.split("\n")
    if len(lines) != 4 or not lines[0]:
        raise ValueError("not a checkpoint")
    return Checkpoint(lines[0], number_of(lines[1]), unbase64_hash(lines[2]), note)


def split_notes(data: bytes) -> list[str]:
    """Three lines of text, an empty one and lines of signatures, again and again, with or without empty lines between."""
    lines = data.decode().split("\n")
    if lines.pop():
        raise ValueError("the last line does not end")
    notes, at = [], 0
    while at < len(lines):
        if not lines[at]:
            at += 1
            continue
        end = at + 4
        while end < len(lines) and lines[end].startswith("— "):
            end += 1
        if "" in lines[at : at + 3] or lines[at + 3 : at + 4] != [""] or end == at + 4:
            raise ValueError("not a note")
        notes.append("\n".join(lines[at:end]) + "\n")
        at = end
    return notes


def read_anchor(path: Path | None, log: str | None, keys: Keys) -> list[Checkpoint]:
    """The anchor's checkpoints of the log."""
    if path is None:
        return []
    found = []
    try:
        for note in split_notes(path.read_bytes()):
            origin, size, root = note.split("\n")[:3]
            if not (parts := ORIGIN.fullmatch(origin)):
                raise ValueError("an origin")
            number_of(size), unbase64_hash(root)
            if parts[1] == log:
                found.append(checkpoint_of(note))
    except (OSError, ValueError) as error:
        raise Unusable(f"anchor: {error}") from error
    if not found or not all(one.counts(keys) for one in found):
        raise Unusable("anchor: none of this log, or one that no given key signed")
    return found


# 6 An export


@dataclass(frozen=True, slots=True)
class Segment:
    name: str
    first: int
    last: int
    count: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    data: bytes
    origin: str
    log: str
    tenant: str
    epoch: int
    selection: bool
    first: int
    last: int
    count: int
    until: bool
    before: tuple[bytes, ...]
    consistency: tuple[bytes, ...]
    checkpoints: str
    segments: tuple[Segment, ...]


def read_manifest(path: Path) -> Manifest:
    try:
        data = path.read_bytes()
        return manifest_of(data, json.loads(data.decode()))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unusable(f"manifest.json: {error!r}") from error


def manifest_of(data: bytes, value: Any) -> Manifest:
    """ValueError, KeyError or TypeError where a member is missing or not of its type."""
    origin = ORIGIN.fullmatch(value["origin"])
    first, last = value["first"], value["last"]
    if value["format"] != "coatcheck-audit-export/1" or value["kind"] not in ("range", "selection") or not origin:
        raise ValueError("format, kind or origin")
    if (
        not is_number(first, 1)
        or not is_number(last, first - 1)
        or not is_number(value["count"])
        or not is_number(value["made"])
    ):
        raise ValueError("a number")
    query = value["query"]
    if not isinstance(query, list) or not all(
        isinstance(one, list) and [type(two) for two in one] == [str, str] for one in query
    ):
        raise ValueError("query")
    selection = value["kind"] == "selection"
    before, consistency = [] if selection else value["before"], value["consistency"]
    if not isinstance(consistency, list) or not isinstance(before, list):
        raise ValueError("before or consistency")
    if not selection and len(before) != (first - 1).bit_count():
        raise ValueError("before is not the frontier")
    if value["checkpoints"] != "" and not HEX_HASH.fullmatch(value["checkpoints"]):
        raise ValueError("checkpoints")
    segments = []
    for one in value["segments"]:
        segment = Segment(*(one[name] for name in ("name", "first", "last", "count", "sha256")))
        if not SEGMENT_NAME.fullmatch(segment.name) or not HEX_HASH.fullmatch(segment.sha256):
            raise ValueError("a segment's name or hash")
        if not all(is_number(each) for each in (segment.first, segment.last, segment.count)):
            raise ValueError("a segment's numbers")
        segments.append(segment)
    return Manifest(
        data=data,
        origin=origin[0],
        log=origin[1],
        tenant=origin[1].split("/")[2],
        epoch=int(origin[2] or 0),
        selection=selection,
        first=first,
        last=last,
        count=value["count"],
        until=any(name == "until" for name, _ in query),
        before=tuple(map(unbase64_hash, before)),
        consistency=tuple(map(unbase64_hash, consistency)),
        checkpoints=value["checkpoints"],
        segments=tuple(segments),
    )


@dataclass(frozen=True, slots=True)
class Line:
    seq: int
    leaf: bytes
    proof: tuple[bytes, ...]
    data: bytes
    """The event's bytes."""
    is_event: bool


def line_of(data: bytes, selection: bool) -> Line:
    parts = LINE.fullmatch(data)
    if not parts or len(data) > 16384 or (parts[3] is not None) is not selection:
        raise ValueError("not a line of an event")
    seq, leaf, proof, event, other = parts.groups()
    proofs = tuple(unbase64_hash(one.strip('"')) for one in (proof or b"").decode().split(",") if one)
    content = event if event is not None else unbase64(other.decode())
    return Line(number_of(seq.decode()), unbase64_hash(leaf.decode()), proofs, content, event is not None)


# 7 To verify an export


@dataclass(slots=True)
class Export:
    """A folder in the course of being verified."""

    folder: Path
    manifest: Manifest
    keys: Keys
    anchor: list[Checkpoint]
    found: Findings = field(default_factory=Findings)
    head: Checkpoint | None = None
    kept: list[Checkpoint] = field(default_factory=list)
    """Those of the file `checkpoints`."""
    resealed: list[tuple[int, Event]] = field(default_factory=list)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except OSError:
            return None

    def verify(self, accept_loss: bool) -> Findings:
        if not self.verify_manifest():
            return self.found
        self.read_checkpoints()
        lines = list(self.read_events())
        self.verify_events(lines)
        if self.head:
            if self.manifest.selection:
                self.verify_selection(self.head)
            else:
                self.verify_range(self.head, lines)
            self.verify_forks_and_anchor(self.head)
        self.verify_epochs(accept_loss)
        return self.found

    def verify_manifest(self) -> bool:
        """7.2."""
        manifest, fail = self.manifest, self.found.fail
        text = f"coatcheck audit export\n{sha256(manifest.data).hex()}\n"
        try:
            note = note_of(self.read("manifest.sig") or b"")
            if note.text != text or not note.signed(self.keys, manifest.log):
                fail("manifest.sig is not of manifest.json and a given key")
        except ValueError as error:
            fail(f"manifest.sig: {error}")
        end = manifest.first - 1
        for one in manifest.segments:
            ordered = one.name == f"events-{one.first:012}.jsonl" and end < one.first <= one.last <= manifest.last
            if not manifest.selection:
                ordered = ordered and one.first == end + 1 and one.count == one.last - one.first + 1
            if not ordered:
                fail(f"manifest: {one.name} is not where it should be")
                return False
            end = one.last
        all_there = manifest.selection or end == manifest.last
        if not all_there or sum(one.count for one in manifest.segments) != manifest.count:
            fail("manifest: the segments do not hold all events")
            return False
        return True

    def read_checkpoints(self) -> None:
        """7.3."""
        fail, data = self.found.fail, self.read("checkpoints")
        try:
            head = checkpoint_of(self.read("checkpoint") or b"")
            if head.origin == self.manifest.origin and head.counts(self.keys):
                self.head = head
            else:
                fail("checkpoint is not the log's, signed by a given key")
        except ValueError as error:
            fail(f"checkpoint: {error}")
        if (sha256(data).hex() if data else "") != self.manifest.checkpoints:
            fail("checkpoints is not the manifest's")
        try:
            for one in map(checkpoint_of, split_notes(data or b"")):
                if one.log == self.manifest.log and one.counts(self.keys):
                    self.kept.append(one)
                else:
                    fail("checkpoints: one that is not the log's, signed by a given key")
        except ValueError as error:
            fail(f"checkpoints: {error}")
        if data is not None and b"\n\n\n" in data:
            fail("checkpoints: more than one empty line")

    def read_events(self) -> Iterator[Line]:
        """7.4, the lines and their numbers, up to the first line or file that is not in order."""
        manifest, fail = self.manifest, self.found.fail
        for segment in manifest.segments:
            data, least = self.read(segment.name) or b"", segment.first
            if sha256(data).hex() != segment.sha256:
                fail(f"{segment.name} is not the manifest's")
            *rows, rest = data.split(b"\n")
            for row in [*rows, rest] if rest else rows:
                try:
                    line = line_of(row, manifest.selection)
                    if not least <= line.seq <= (segment.last if manifest.selection else least):
                        raise ValueError(f"number {line.seq} out of order")
                    if row is rest or line.seq > segment.last:
                        raise ValueError("more than the manifest says")
                except ValueError as error:
                    return fail(f"{segment.name}: {error}", least)
                least = line.seq + 1
                yield line
            if least <= segment.last:
                return fail(f"{segment.name}: it does not end with {segment.last}", least)
            if len(rows) != segment.count:
                return fail(f"{segment.name}: not as many lines as the manifest says")

    def verify_events(self, lines: list[Line]) -> None:
        """7.4 and the proofs of 7.6, up to the first event that fails."""
        manifest = self.manifest
        chains = Chains(manifest.selection, whole=manifest.first == 1 and not manifest.selection)
        for line in lines:
            try:
                self.verify_event(line, chains)
            except ValueError as error:
                return self.found.fail(str(error), line.seq)

    def verify_event(self, line: Line, chains: Chains) -> None:
        manifest, head = self.manifest, self.head
        if leaf_hash(manifest.tenant, line.seq, line.data) != line.leaf:
            raise ValueError("not the event of its leaf hash")
        proven = head and included(line.leaf, line.seq - 1, line.proof, head.size, head.root)
        if manifest.selection and not proven:
            raise ValueError("not in the tree of the checkpoint")
        if not line.is_event:
            raise ValueError("not an event")
        event = event_of(line.data, line.seq, manifest.tenant)
        if wrong := chains.follow(line.seq, event):
            raise ValueError(wrong)
        if event.type == "log.resealed":
            epoch = event.changes["epoch"]
            if not manifest.selection and epoch != self.epoch_before(epoch) + 1:
                raise ValueError("its epoch does not follow the one before")
            self.resealed.append((line.seq, event))

    def verify_range(self, head: Checkpoint, lines: list[Line]) -> None:
        """7.5. A tree that holds an event that failed is not compared."""
        manifest = self.manifest
        sound = (self.found.first_bad or manifest.last + 1) - 1
        tree = Tree(manifest.first - 1, list(manifest.before))
        wanted = {manifest.last, *(one.size for one in (head, *self.kept, *self.anchor))}
        roots = {tree.size: tree.root()}
        for line in lines[: max(sound - tree.size, 0)]:
            tree.add(line.leaf)
            if tree.size in wanted:
                roots[tree.size] = tree.root()
        if head.size in roots:
            leads = roots[head.size] == head.root
        else:
            leads = tree.size == manifest.last and consistent(
                tree.size, tree.root(), head.size, head.root, manifest.consistency
            )
        ends = self.verify_size(head)
        own = [head, *self.kept]
        for group in (own, self.anchor) if leads else ([*own, *self.anchor],):
            good = {one.size: True for one in group if self.comparable(one) and one.size in roots}
            for one in group:
                if one.size in good and self.comparable(one):
                    good[one.size] &= one.root == roots[one.size]
            if not leads and ends and tree.size == manifest.last < head.size:
                good[head.size] = False
            for size in (size for size in good if not good[size]):
                last = max((one for one in good if good[one] and one < size), default=manifest.first - 1)
                self.found.fail(f"the tree of {size} has not the signed root", last + 1)

    def verify_size(self, head: Checkpoint) -> bool:
        last = self.manifest.last
        if head.size < last or (head.size > last and not self.manifest.until):
            self.found.fail("the export does not end where its checkpoint does", min(head.size, last) + 1)
            return False
        return True

    def verify_selection(self, head: Checkpoint) -> None:
        """7.6, but for the proofs."""
        self.verify_size(head)
        for one in self.kept:
            is_head = (one.origin, one.size, one.root) == (head.origin, head.size, head.root)
            if not is_head and not consistent(one.size, one.root, head.size, head.root, self.manifest.consistency):
                self.found.fail(f"the checkpoint of {one.size} does not lead to the export's")

    def verify_forks_and_anchor(self, head: Checkpoint) -> None:
        """7.7 and 7.8."""
        fail = self.found.fail
        for a, b in combinations((head, *self.kept, *self.anchor), 2):
            same = a.origin == b.origin or (self.comparable(a) and self.comparable(b))
            if same and a.size == b.size and a.root != b.root:
                fail(f"two trees of {a.size} were signed")
        for one in self.anchor:
            if not self.manifest.until and (one.epoch, one.size) > (head.epoch, head.size):
                fail("more is anchored than the export holds", head.size + 1 if one.size > head.size else None)

    # 8 Lost events

    def loss_of(self, one: Checkpoint) -> tuple[int, Event] | None:
        """The log.resealed by which the checkpoint is lost."""
        later = (each for each in self.resealed if each[1].changes["epoch"] > one.epoch)
        first = next(later, None)
        return first if first and first[0] <= one.size else None

    def comparable(self, one: Checkpoint) -> bool:
        return not self.loss_of(one) and self.begin_epoch <= one.epoch <= self.manifest.epoch

    @property
    def begin_epoch(self) -> int:
        if self.manifest.first == 1 and not self.manifest.selection:
            return 0
        return self.resealed[0][1].changes["epoch"] - 1 if self.resealed else self.manifest.epoch

    def epoch_before(self, epoch: int) -> int:
        """Of the newest `log.resealed` so far; of the log's beginning 0; else nobody knows, and what follows is right."""
        if self.resealed:
            return int(self.resealed[-1][1].changes["epoch"])
        return 0 if self.manifest.first == 1 else epoch - 1

    def verify_epochs(self, accept_loss: bool) -> None:
        manifest, head = self.manifest, self.head
        if not accept_loss:
            self.found.losses += [seq for seq, _ in self.resealed]
        if head and not manifest.selection and (self.resealed or manifest.first == 1):
            last = self.epoch_before(0)
            if head.epoch < last or (head.epoch > last and head.size <= manifest.last):
                self.found.fail("the checkpoint is not of the last epoch")
        for one in self.anchor if head else ():
            if (loss := self.loss_of(one)) and one.size > loss[1].changes["lost_last"]:
                self.found.fail("more was anchored than was declared to be lost", loss[0])


# 9 A proof of one event


def verify_proof(path: Path, keys: Keys, anchor: Path | None) -> Findings:
    try:
        whole = path.read_bytes().decode()
        if not (parts := PROOF_HEAD.match(whole)) or whole[parts.end() :][:1] in ("", "\n") or len(whole) > 81920:
            raise ValueError("not a tlog-proof")
        data, seq = unbase64(parts[1]), number_of(parts[2]) + 1
        proof = [unbase64_hash(one) for one in parts[3].split("\n") if one]
    except (OSError, ValueError) as error:
        raise Unusable(f"{path.name}: {error}") from error
    found = Findings()
    try:
        head = checkpoint_of(whole[parts.end() :])
        if not head.counts(keys):
            raise ValueError("not a log's, signed by a given key of its name")
    except ValueError as error:
        found.fail(f"the checkpoint: {error}")
        return found
    tenant = (head.log or "").split("/")[2]
    if not included(leaf_hash(tenant, seq, data), seq - 1, proof, head.size, head.root):
        found.fail("not in the tree of the checkpoint", seq)
    try:
        event_of(data, seq, tenant)
    except ValueError as error:
        found.fail(str(error), seq)
    for one in () if found.code else read_anchor(anchor, head.log, keys):
        if (one.origin, one.size) == (head.origin, head.size) and one.root != head.root:
            found.fail(f"two trees of {head.size} were signed")
    return found


def verify(path: Path, key: Path, anchor: Path | None = None, accept_loss: bool = False) -> Findings:
    """What fails in an export or a proof; Unusable where the answer is 2."""
    keys = read_keys(key)
    if not path.is_dir():
        return verify_proof(path, keys, anchor)
    manifest = read_manifest(path / "manifest.json")
    return Export(path, manifest, keys, read_anchor(anchor, manifest.log, keys)).verify(accept_loss)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="second_verifier", description="Verify an export of the audit log, or a proof of an event."
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--anchor", type=Path)
    parser.add_argument("--accept-loss", action="store_true")
    given = parser.parse_args(arguments)
    try:
        found = verify(given.path, given.key, given.anchor, given.accept_loss)
    except Unusable as error:
        print(f"unusable: {error}")
        return 2
    for number, reason in found.failures:
        print(f"event {number}: {reason}" if number else reason)
    for number in found.losses:
        print(f"event {number}: a loss of events that is not accepted")
    print(f"not whole; first bad event: {found.first_bad or 'none'}" if found.code else "whole")
    return found.code


if __name__ == "__main__":
    sys.exit(main())
