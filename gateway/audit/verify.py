"""Whether an export is whole: what its events show, held against signed and anchored checkpoints. Pure.

Trust goes from the key to a checkpoint, from its root to every leaf, and from a leaf to an event's bytes. The manifest is
believed in nothing that a checkpoint can show; its signature covers what only it says (what was asked for).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from gateway.audit.checkpoint import Checkpoint, VerifierKey, log_name, open_note, read_unverified, split_notes
from gateway.audit.faults import Fault, Finding
from gateway.audit.join import Join
from gateway.audit.layout import EARLIER, Manifest, Unusable, segment_name
from gateway.audit.segment import Part, Reseal, Scope
from gateway.audit.tree import EMPTY_ROOT, verify_consistency


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is given besides the events."""

    manifest: Manifest
    manifest_bytes: bytes
    manifest_note: str
    head_note: str
    earlier_notes: str
    keys: tuple[VerifierKey, ...]
    anchors: tuple[Checkpoint, ...] | None = None
    """As `read_anchor` gives them; None: no anchor was given."""

    @property
    def head(self) -> Checkpoint | None:
        head = open_note(self.head_note, self.keys)
        return head if head and head.origin == self.manifest.origin else None

    @property
    def scope(self) -> Scope:
        """What the segments are to be checked against."""
        # A head that is not the log's proves nothing, and so says every proof that is held against this.
        nothing = Checkpoint(self.manifest.origin, 0, EMPTY_ROOT)
        return Scope(nothing.tenant, (self.head or nothing) if self.manifest.selection else None)


@dataclass(frozen=True, slots=True)
class Verdict:
    manifest: Manifest
    head: Checkpoint | None
    findings: tuple[Finding, ...]
    """The first bad event first. Empty: whole."""
    anchored: int | None = None
    """The newest event that is covered by an anchored checkpoint of this history; None: no anchor was given."""
    uncompared: int = 0
    """Anchored checkpoints of sizes that the export does not reach, so that they say nothing about it."""
    reseals: tuple[Reseal, ...] = ()

    @property
    def not_anchored(self) -> int:
        """Events of the export above the newest anchored checkpoint."""
        return max(0, self.manifest.last - max(self.anchored or 0, self.manifest.first - 1))


def read_anchor(text: str, keys: tuple[VerifierKey, ...], name: str) -> tuple[Checkpoint, ...]:
    """The checkpoints of the log `name` in an anchor, which may hold those of others. Raises Unusable where something in it
    is no checkpoint, none is of this log, or one says so and none of the keys signed it."""
    opened = []
    for note in split_notes(text) or [""]:
        claimed = read_unverified(note)
        if claimed is None:
            raise Unusable("the anchor is not a file of checkpoints")
        if claimed.name == name:
            checkpoint = open_note(note, keys)
            if checkpoint is None:
                raise Unusable(f"the anchor's checkpoint of {claimed.size:,} events is not signed by the given key")
            opened.append(checkpoint)
    if not opened:
        raise Unusable("the anchor holds no checkpoint of this log")
    return tuple(opened)


def verify(evidence: Evidence, parts: Iterable[Part], *, accept_loss: bool = False) -> Verdict:
    """Takes the segments' parts in order, and no more of them than are needed to name the first bad event."""
    manifest, head, anchors = evidence.manifest, evidence.head, evidence.anchors or ()
    findings: list[Finding] = []
    if not manifest.is_signed(evidence.manifest_bytes, evidence.manifest_note, evidence.keys):
        findings.append(Finding(Fault.MANIFEST))
    if not _is_orderly(manifest):
        findings.append(Finding(Fault.MANIFEST, detail="its files do not follow each other"))
        return Verdict(manifest, head, tuple(findings))
    if head is None:
        findings.append(Finding(Fault.CHECKPOINT))
    opened = (open_note(note, evidence.keys) for note in split_notes(evidence.earlier_notes) or [""])
    earlier = [one if one and one.name == log_name(manifest.origin) else None for one in opened]
    own = [one for one in (*earlier, head) if one is not None]
    if head and None in earlier and evidence.earlier_notes:
        findings.append(Finding(Fault.CHECKPOINT, detail="one of the earlier ones"))
    if not manifest.lists_earlier(evidence.earlier_notes):
        findings.append(Finding(Fault.SEGMENT, detail=EARLIER))

    join = Join(evidence.scope, manifest, (one.size for one in (*own, *anchors)))
    join.take(parts)
    findings += [join.finding] if join.finding else []
    if head is not None:
        findings += _reach(manifest, head, anchors, join)
        findings += _history(manifest, head, own, anchors, join)
    if not findings:
        findings += [Finding(Fault.SEGMENT, detail=name) for name in join.unlisted[:1]]
    losses = [] if accept_loss else [Finding(Fault.LOSS, one.seq, detail=_lost(one)) for one in join.reseals]
    compared = [
        one
        for one in anchors
        if head is not None and join.is_comparable(one, head) and (one.size in join.roots or one in own)
    ]
    return Verdict(
        manifest,
        head,
        (*sorted(findings, key=lambda one: one.seq or 2**63), *losses),
        None if evidence.anchors is None else max((one.size for one in compared), default=0),
        len(anchors) - len(compared),
        tuple(join.reseals),
    )


def _reach(manifest: Manifest, head: Checkpoint, anchors: Iterable[Checkpoint], join: Join) -> Iterator[Finding]:
    """That nothing is missing at the end: neither before the head nor before the newest anchored checkpoint."""
    yield from _reach_of(manifest, head)
    ahead = [one for one in anchors if (one.epoch, one.size) > (head.epoch, head.size)]
    if ahead and not manifest.ends_by_choice:
        most = max(ahead, key=lambda one: (one.size, one.epoch))
        # Of a later epoch that is no larger nobody can say here with which event it began.
        missing = head.size + 1 if most.size > head.size else None
        yield Finding(Fault.ANCHOR_AHEAD, missing, most.size, _against(most, head))
    for one in anchors:
        if (ended := join.lost(one)) and one.size > ended.lost_last:
            yield Finding(Fault.UNDECLARED, ended.seq, detail=f"{one.size:,} against {ended.lost_last:,}")
            break
    if join.finding is None:
        opened = join.reseals[-1].epoch if join.reseals else 0
        is_known = bool(join.reseals) or manifest.first == 1
        reaches = manifest.last == head.size
        if not manifest.selection and is_known and (head.epoch < opened or (reaches and head.epoch != opened)):
            yield Finding(Fault.EPOCH, detail=f"{head.epoch} against {opened}")


def _reach_of(manifest: Manifest, head: Checkpoint) -> Iterator[Finding]:
    if manifest.last > head.size:
        yield Finding(Fault.UNCOVERED, head.size + 1, manifest.last)
    elif manifest.last < head.size and not manifest.ends_by_choice:
        yield Finding(Fault.TAIL, manifest.last + 1, head.size)


def _history(
    manifest: Manifest, head: Checkpoint, own: Iterable[Checkpoint], anchors: Iterable[Checkpoint], join: Join
) -> Iterator[Finding]:
    """That all signed checkpoints, and the events, are of one history."""
    every = sorted({*own, *anchors}, key=lambda one: (one.size, one.epoch))
    comparable = [one for one in every if join.is_comparable(one, head)]
    for one, other in (*pairwise(every), *pairwise(comparable)):
        alike = one.origin == other.origin or (join.is_comparable(one, head) and join.is_comparable(other, head))
        if one.size == other.size and one.root != other.root and alike:
            yield Finding(Fault.FORK, detail=f"two checkpoints of {one.size:,} events")
            break
    if manifest.selection:
        yield from _continues(manifest, head, own)
        return
    leads = _leads_to(head, manifest, join)
    wrong = False
    # Of a fork, the export's own say nothing on where it parts from what was anchored.
    for some in (set(anchors), set(own)) if leads else (set(comparable),):
        ranked = [one for one in comparable if one in some and one.size in join.roots]
        bad = next((one.size for one in ranked if one.root != join.roots[one.size]), None)
        if bad is not None:
            wrong, good = True, max((one.size for one in ranked if one.size < bad), default=manifest.first - 1)
            yield Finding(Fault.FORK if leads else Fault.ROOT, good + 1, bad, f"the checkpoint of {bad:,} events")
    if not leads and not wrong and join.finding is None and not any(_reach_of(manifest, head)):
        good = max((one.size for one in comparable if one.size in join.roots), default=manifest.first - 1)
        yield Finding(Fault.ROOT, good + 1, manifest.last, f"the checkpoint of {head.size:,} events")


def _continues(manifest: Manifest, head: Checkpoint, own: Iterable[Checkpoint]) -> Iterator[Finding]:
    """That the head of a selection continues the checkpoint that came with it."""
    for one in own:
        if one != head and not verify_consistency(one.size, head.size, one.root, head.root, manifest.consistency):
            yield Finding(Fault.ROOT, detail=f"from the checkpoint of {one.size:,} events to that of {head.size:,}")


def _leads_to(head: Checkpoint, manifest: Manifest, join: Join) -> bool:
    """Whether the events of a range, in their order, are the ones that the head was signed over."""
    if head.size in join.roots:
        return join.roots[head.size] == head.root
    root = join.roots.get(manifest.last)
    return root is not None and verify_consistency(manifest.last, head.size, root, head.root, manifest.consistency)


def _is_orderly(manifest: Manifest) -> bool:
    """Whether what the manifest says of its files can be."""
    before = manifest.first - 1
    for one in manifest.segments:
        if one.name != segment_name(one.first) or not before < one.first <= one.last <= manifest.last:
            return False
        if not manifest.selection and (one.first != before + 1 or one.count != one.last - one.first + 1):
            return False
        before = one.last
    return sum(one.count for one in manifest.segments) == manifest.count and (
        manifest.selection or before == manifest.last
    )


def _against(one: Checkpoint, head: Checkpoint) -> str:
    if one.epoch != head.epoch:
        return f"{one.size:,} in epoch {one.epoch} against {head.size:,} in epoch {head.epoch}"
    return f"{one.size:,} against {head.size:,}"


def _lost(one: Reseal) -> str:
    lost = one.lost_last - one.seq + 1
    return f"at least {lost:,} events from {one.seq:,} on" if lost else "how many is not known"
