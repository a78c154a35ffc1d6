"""Joins the segments of an export: each writer's chain over all of them, and the tree that grows through them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.audit.chain import NO_EVENT
from gateway.audit.checkpoint import Checkpoint
from gateway.audit.faults import Fault, Finding
from gateway.audit.layout import Manifest
from gateway.audit.segment import First, Opening, Part, Reseal, Scope, Standing
from gateway.audit.tree import HASH_BYTES, MAX_SIZE


class Join:
    """`finding` is the first bad event that the events show by themselves; what follows it is not read."""

    def __init__(self, scope: Scope, manifest: Manifest, sizes: Iterable[int]) -> None:
        """`sizes`: of which trees the root is wanted, as far as the export reaches."""
        self._scope = scope
        self._manifest = manifest
        self._from_start = manifest.first == 1 and not manifest.selection
        self._writers: dict[str, Standing] = {}
        self._ended: set[str] = set()
        self._frontier = manifest.before
        first, last = manifest.first - 1, manifest.last
        wanted = set() if manifest.selection else {last, *(size for size in sizes if first <= size <= last)}
        self._sizes = sorted(wanted, reverse=True)
        self.finding: Finding | None = None
        self.unlisted: list[str] = []
        """Files whose digest is not the manifest's."""
        self.reseals: list[Reseal] = []
        self.roots: dict[int, bytes] = {}
        """Of a range: by size, as far as it was read."""

    def take(self, parts: Iterable[Part]) -> None:
        """Takes the parts in order, and none after the first bad event."""
        self._note_roots()
        for part, segment in zip(parts, self._manifest.segments, strict=False):
            found = [*self._crossing(part), *([part.finding] if part.finding else [])]
            bad = min((finding.seq or MAX_SIZE for finding in found), default=None)
            if bad is not None:
                # A tree that holds a bad event has nothing to say: the event itself is named, not where its tree began.
                del part.leaves[max(0, bad - 1 - self._frontier.size) * HASH_BYTES :]
                self.reseals = [one for one in self.reseals if one.seq < bad]
            self._grow(part)
            if not part.is_listed:
                self.unlisted.append(segment.name)
            if found:
                self.finding = min(found, key=lambda finding: finding.seq or MAX_SIZE)
                return

    def is_comparable(self, checkpoint: Checkpoint, head: Checkpoint) -> bool:
        """Whether the checkpoint's events are those of the export: not where a break took some of them away, nor where one
        may have, before the export begins."""
        if self.lost(checkpoint):
            return False
        at_start = 0 if self._from_start else self.reseals[0].epoch - 1 if self.reseals else head.epoch
        return at_start <= checkpoint.epoch <= head.epoch

    def lost(self, checkpoint: Checkpoint) -> Reseal | None:
        """The break by which the newest events of the checkpoint's epoch were lost, if it covers some of them."""
        later = (one for one in self.reseals if one.epoch > checkpoint.epoch)
        ended = min(later, key=lambda one: one.seq, default=None)
        return ended if ended and checkpoint.size >= ended.seq else None

    def _grow(self, part: Part) -> None:
        leaves, at = part.leaves, 0
        while self._sizes and (wanted := (self._sizes[-1] - self._frontier.size) * HASH_BYTES) <= len(leaves) - at:
            self._frontier = self._frontier.extend(_hashes(leaves, at, at + wanted))
            at += wanted
            self._note_roots()
        self._frontier = self._frontier.extend(_hashes(leaves, at, len(leaves)))

    def _note_roots(self) -> None:
        if self._sizes and self._sizes[-1] == self._frontier.size:
            self.roots[self._sizes.pop()] = self._frontier.root()

    def _crossing(self, part: Part) -> Iterator[Finding]:
        """What is wrong between this part and those before it."""
        for first in part.firsts:
            if fault := self._first_fault(first):
                yield Finding(fault, first.seq)
        for one in part.reseals:
            before = self.reseals[-1].epoch if self.reseals else 0 if self._from_start else one.epoch - 1
            if one.epoch != before + 1 and self._scope.head is None:
                yield Finding(Fault.EPOCH, one.seq)
            self.reseals.append(one)
        for opening in part.openings:
            if not self._is_whole(opening):
                yield Finding(Fault.SUCCESSION, opening.seq)
        self._ended |= part.ended
        self._writers |= part.lasts

    def _first_fault(self, first: First) -> Fault | None:
        if first.writer in self._ended:
            return Fault.ENDED
        last = self._writers.get(first.writer)
        if last is None:
            # Of a log that is not shown from its beginning nobody can say where its writers stood.
            return Fault.CHAIN if self._from_start and first.wprev != NO_EVENT else None
        return None if self._scope.follows(last, first.wseq, first.wprev) else Fault.CHAIN

    def _is_whole(self, opening: Opening) -> bool:
        """Whether all events are there that the predecessor had been told of, but for those that a break names as lost."""
        last = opening.seen or self._writers.get(opening.predecessor)
        if not self._from_start and (last is None or self._scope.head):
            return True
        if last is not None and last.wseq >= opening.confirmed:
            return True
        return any((last.seq if last else 0) < one.seq < opening.seq for one in self.reseals)


def _hashes(leaves: bytearray, first: int, end: int) -> Iterator[bytes]:
    return (bytes(leaves[at : at + HASH_BYTES]) for at in range(first, end, HASH_BYTES))
