"""Writes an export: a folder that shows, without the gateway, what is in a tenant's log and that it is whole.

The work goes in steps of 10,000 events. A step is on disk whole before it counts, so an export that was killed goes on where it
stood when the same command is given again. Memory: 64 bytes for each event from the export's first to the log's end.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from gateway.audit.checkpoint import Checkpoint, sign
from gateway.audit.layout import (
    EARLIER,
    HEAD,
    MANIFEST,
    SEGMENT_EVENTS,
    SIGNATURE,
    UNFINISHED,
    Manifest,
    Segment,
    segment_name,
    write_line,
)
from gateway.audit.search.query import Query
from gateway.audit.search.terms import terms_of
from gateway.audit.source import PAGE, EvidenceRefused, Log, events, signed_before
from gateway.audit.tree import HASH_BYTES, Frontier, Tree, leaf
from gateway.stores.contract import StoredEvent

_LEAVES: Final = "leaves.part"
"""The leaves of all events that were read, from the export's first on."""
_FOUND: Final = "found.part"
"""Of a selection: number and bytes of each event that was found, as lines without proofs."""


class ExportRefused(EvidenceRefused):
    """Nothing was exported, or the export stands where it stood. The text says why."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What an export will hold: fixed when it is begun, and the same when it goes on."""

    step: int
    """How many events are taken at once, and stand in a segment."""
    origin: str
    query: tuple[tuple[str, str], ...]
    first: int
    last: int
    end: int
    """Of the log at the beginning. Later events are not in the tree that the export is proven by."""
    before: Frontier
    """Of the events below `first`."""
    note: str
    """The newest checkpoint that was signed before."""

    def to_bytes(self) -> bytes:
        fields = {
            "step": self.step,
            "origin": self.origin,
            "query": self.query,
            "first": self.first,
            "last": self.last,
            "end": self.end,
            "before": self.before.to_bytes().hex(),
            "note": self.note,
        }
        return orjson.dumps(fields)

    @classmethod
    def from_bytes(cls, data: bytes) -> _Plan:
        try:
            fields: dict[str, Any] = orjson.loads(data)
            query = tuple((str(name), str(value)) for name, value in fields.pop("query"))
            before = Frontier.from_bytes(bytes.fromhex(fields.pop("before")))
            return cls(**fields, query=query, before=before)
        except (KeyError, TypeError, ValueError):
            raise ExportRefused(
                "the folder holds an unfinished export that cannot be read; take another folder"
            ) from None


async def export(
    log: Log,
    query: Query,
    folder: Path,
    *,
    made_us: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
    step: int = SEGMENT_EVENTS,
) -> Manifest:
    """Writes the export, or goes on with the one that the same query began in `folder`.

    Without filters and text it is a range: every event from the first to the last whose time is within `since` and `until`.
    Otherwise it is a selection: the events that the query finds, each with a proof of its own. Raises ExportRefused, what
    the store raises, and OSError.
    """
    plan = await asyncio.to_thread(_resume, folder, log, query)
    if plan is None:
        plan = await _plan(log, query, step)
        await asyncio.to_thread(_begin, folder, plan)
    work = _Work(log, query, plan, folder)
    await asyncio.to_thread(work.resume)
    progress(work.tree.size - plan.before.size, plan.end - plan.before.size)
    async for taken in _steps(log, work.tree.size, plan):
        await asyncio.to_thread(work.step, taken)
        progress(work.tree.size - plan.before.size, plan.end - plan.before.size)
    return await asyncio.to_thread(work.finish, made_us)


async def _plan(log: Log, query: Query, step: int) -> _Plan:
    """Finds the numbers between which the query's times lie; as clocks differ a little, times need not rise with numbers."""
    last, frontier = log.end, log.base
    if query.until_us is not None:
        last = await _last_before(log, query.until_us)
    if query.since_us is not None:
        async for event in events(log, log.base.size, last):
            if terms_of(event.body).ts_us >= query.since_us:
                break
            frontier = frontier.append(leaf(log.tenant, event.seq, event.body))
    if frontier.size >= last:
        raise ExportRefused("there is no event in this time")
    return _Plan(step, log.origin, query.items(), frontier.size + 1, last, log.end, frontier, log.note)


async def _last_before(log: Log, until_us: int) -> int:
    above = log.end + 1
    while page := await log.before(above, PAGE):
        for event in page:
            if terms_of(event.body).ts_us < until_us:
                return event.seq
        above = page[-1].seq
    return log.base.size


async def _steps(log: Log, after: int, plan: _Plan) -> AsyncIterator[list[StoredEvent]]:
    taken: list[StoredEvent] = []
    async for event in events(log, after, plan.end):
        taken.append(event)
        if len(taken) == plan.step:
            yield taken
            taken = []
    if taken:
        yield taken


def _resume(folder: Path, log: Log, query: Query) -> _Plan | None:
    """The plan of the export that was begun in `folder`; None where there is none."""
    if (folder / MANIFEST).exists():
        raise ExportRefused("the folder holds a finished export; take another folder")
    if not (folder / UNFINISHED).exists():
        if folder.exists() and any(folder.iterdir()):
            raise ExportRefused("the folder is not empty; take another folder")
        return None
    plan = _Plan.from_bytes((folder / UNFINISHED).read_bytes())
    if (plan.origin, plan.query) != (log.origin, query.items()):
        raise ExportRefused("the folder holds another export that is not finished; take another folder")
    if plan.before.size < log.base.size:
        raise ExportRefused("events of the export that was begun here are no longer in the log; take another folder")
    return plan


def _begin(folder: Path, plan: _Plan) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(folder / UNFINISHED, plan.to_bytes())


class _Work:
    """An export under way. All of it blocks on files."""

    def __init__(self, log: Log, query: Query, plan: _Plan, folder: Path) -> None:
        self.tree = Tree(plan.before)
        self._log = log
        self._query = query
        self._plan = plan
        self._folder = folder
        self._selects = bool(query.filters or query.text)
        self._segments: list[Segment] = []

    def resume(self) -> None:
        """Takes up the steps that are on disk whole."""
        self.tree.extend(_read_leaves(self._path(_LEAVES), self._plan))
        done = self.tree.size
        if self._selects:
            _cut_found(self._path(_FOUND), done)
            return
        for first in range(self._plan.first, min(done, self._plan.last) + 1, self._plan.step):
            last = min(first + self._plan.step - 1, self._plan.last)
            self._segments.append(_describe(self._path(segment_name(first)), first, last, last - first + 1))

    def step(self, events: list[StoredEvent]) -> None:
        """Takes the next events. What belongs to the export is on disk before the leaves, which make the step count."""
        leaves = [leaf(self._log.tenant, event.seq, event.body) for event in events]
        inside = [(event, one) for event, one in zip(events, leaves, strict=True) if event.seq <= self._plan.last]
        if self._selects:
            lines = [b"%d %b\n" % (event.seq, event.body.hex().encode()) for event, _ in inside if self._finds(event)]
            _append(self._path(_FOUND), b"".join(lines))
        elif inside:
            lines = [write_line(event.seq, one, event.body) for event, one in inside]
            self._write_segment(inside[0][0].seq, inside[-1][0].seq, lines)
        _append(self._path(_LEAVES), b"".join(leaves))
        self.tree.extend(leaves)

    def finish(self, made_us: int) -> Manifest:
        """Proofs, checkpoints and the manifest, which is written last and makes the export one."""
        plan, log = self._plan, self._log
        head, trees, notes = self._sign()
        earlier = "\n".join(notes).encode()
        proven = plan.last if not self._selects else trees[0].size if trees else plan.end
        if self._selects:
            self._write_found()
        manifest = Manifest(
            origin=plan.origin,
            selection=self._selects,
            first=plan.first,
            last=plan.last,
            count=sum(one.count for one in self._segments),
            made_us=made_us,
            query=plan.query,
            before=Frontier() if self._selects else plan.before,
            consistency=self.tree.consistency(proven, plan.end),
            segments=tuple(self._segments),
            earlier=hashlib.sha256(earlier).hexdigest() if earlier else "",
        )
        _write(self._path(HEAD), head.encode())
        if earlier:
            _write(self._path(EARLIER), earlier)
        _write(self._path(SIGNATURE), manifest.sign(log.seed).encode())
        _write(self._path(MANIFEST), manifest.to_bytes())
        for name in (_LEAVES, _FOUND, UNFINISHED):
            self._path(name).unlink(missing_ok=True)
        return manifest

    def _sign(self) -> tuple[str, list[Checkpoint], list[str]]:
        """The note of the head, and checkpoints of smaller trees with their notes: the one that was signed before, and of a
        range each file's, by which a verifier can say where a log was changed. Nothing is signed that contradicts another."""
        plan, log, tree = self._plan, self._log, self.tree
        ends = () if self._selects else (one.last for one in self._segments)
        trees = {size: Checkpoint(log.origin, size, tree.root(size)) for size in {plan.end, *ends}}
        notes = {size: sign(one, log.seed) for size, one in trees.items()}
        if (signed := signed_before(log, plan.note, tree)) and plan.first <= signed.size <= plan.end:
            trees[signed.size], notes[signed.size] = signed, plan.note
        sizes = sorted(trees.keys() - {plan.end})
        return notes[plan.end], [trees[size] for size in sizes], [notes[size] for size in sizes]

    def _write_found(self) -> None:
        """The selection's segments, each event with its proof."""
        path = self._path(_FOUND)
        if not path.exists():
            return
        with path.open("rb") as file:
            while lines := list(islice(file, self._plan.step)):
                self._write_selected(
                    [(int(seq), bytes.fromhex(body.decode())) for seq, body in map(bytes.split, lines)]
                )

    def _write_selected(self, events: list[tuple[int, bytes]]) -> None:
        lines = (
            write_line(seq, leaf(self._log.tenant, seq, body), body, self.tree.inclusion(seq - 1, self._plan.end))
            for seq, body in events
        )
        self._write_segment(events[0][0], events[-1][0], lines, len(events))

    def _write_segment(self, first: int, last: int, lines: Iterator[bytes] | list[bytes], count: int = 0) -> None:
        path = self._path(segment_name(first))
        _write(path, b"".join(lines))
        self._segments.append(_describe(path, first, last, count or last - first + 1))

    def _finds(self, event: StoredEvent) -> bool:
        terms = terms_of(event.body)
        return self._query.matches(terms.ts_us, terms.sets())

    def _path(self, name: str) -> Path:
        return self._folder / name


def _read_leaves(path: Path, plan: _Plan) -> Iterator[bytes]:
    """The leaves of whole steps; what a step that broke off has left behind is cut away."""
    count = path.stat().st_size // HASH_BYTES if path.exists() else 0
    if not count:
        return iter(())
    most = plan.end - plan.before.size
    count = most if count >= most else count - count % plan.step
    os.truncate(path, count * HASH_BYTES)
    data = path.read_bytes()
    return (data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES))


def _cut_found(path: Path, done: int) -> None:
    """Cuts away what was found above `done`."""
    if path.exists():
        with path.open("r+b") as file:
            end = 0
            while (line := file.readline()).endswith(b"\n") and int(line.partition(b" ")[0]) <= done:
                end += len(line)
            file.truncate(end)


def _describe(path: Path, first: int, last: int, count: int) -> Segment:
    return Segment(path.name, first, last, count, hashlib.sha256(path.read_bytes()).hexdigest())


def _write(path: Path, data: bytes) -> None:
    """The file is there whole or not at all."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
