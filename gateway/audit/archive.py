"""The archive: what was taken out of a log, each stretch as an export of its own in the data folder.

A stretch is a folder of the format of exports (docs/audit-format.md). Its head is an anchored checkpoint at or above its end,
and it holds the proof of consistency with it: `audit verify` reads it years later, with the public key alone. Nothing leaves
Redis before the folder was read back and found whole.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from gateway.audit.anchors.bucket import Bucket
from gateway.audit.checkpoint import VerifierKey
from gateway.audit.layout import HEAD, LINE, MANIFEST, SIGNATURE, Manifest, Segment, segment_name, write_line
from gateway.audit.offline import verify_folder
from gateway.audit.tree import Tree, leaf
from gateway.names import TenantId
from gateway.stores.contract import StoredEvent

MOST_EVENTS: Final = 10_000
"""In a stretch."""


class ArchiveDamaged(Exception):
    """A stretch that was written does not read back as what it was. Nothing is trimmed."""


@dataclass(frozen=True, slots=True)
class Stretch:
    first: int
    last: int
    path: Path


@dataclass(frozen=True, slots=True)
class Head:
    """The checkpoint that a stretch is proven by, and the tree that reaches from before the stretch to it."""

    origin: str
    note: str
    tree: Tree


class Archive:
    """All calls but `copy` block on files; on the event loop they run in a thread."""

    def __init__(self, folder: Path, bucket: Bucket | None = None) -> None:
        self._folder = folder
        self._bucket = bucket

    def stretches(self, tenant: TenantId) -> list[Stretch]:
        """What is there of the tenant's log, in order."""
        found = []
        for path in (self._folder / tenant).glob("[0-9]*-[0-9]*"):
            first, _, last = path.name.partition("-")
            if first.isdecimal() and last.isdecimal() and (path / MANIFEST).is_file():
                found.append(Stretch(int(first), int(last), path))
        return sorted(found, key=lambda one: one.first)

    def write(self, tenant: TenantId, events: Sequence[StoredEvent], head: Head, seed: bytes, made_us: int) -> Stretch:
        """On disk whole before it returns, or not there at all."""
        first, last = events[0].seq, events[-1].seq
        lines = b"".join(write_line(one.seq, leaf(tenant, one.seq, one.body), one.body) for one in events)
        name = segment_name(first)
        manifest = Manifest(
            origin=head.origin,
            selection=False,
            first=first,
            last=last,
            count=len(events),
            made_us=made_us,
            query=(("until", datetime.fromtimestamp(made_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")),),
            before=head.tree.frontier(first - 1),
            consistency=head.tree.consistency(last, head.tree.size),
            segments=(Segment(name, first, last, len(events), sha256(lines).hexdigest()),),
        )
        path = self._folder / tenant / f"{first:012}-{last:012}"
        partial = path.with_suffix(".part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700, parents=True)
        for file, data in (
            (name, lines),
            (HEAD, head.note.encode()),
            (SIGNATURE, manifest.sign(seed).encode()),
            (MANIFEST, manifest.to_bytes()),
        ):
            _write(partial / file, data)
        _sync(partial)
        partial.rename(path)
        _sync(path.parent)
        return Stretch(first, last, path)

    def check(self, stretch: Stretch, keys: tuple[VerifierKey, ...]) -> None:
        """Reads it back. Raises ArchiveDamaged."""
        verdict = verify_folder(stretch.path, keys, accept_loss=True, processes=1)
        if verdict.findings or (verdict.manifest.first, verdict.manifest.last) != (stretch.first, stretch.last):
            raise ArchiveDamaged(verdict.findings[0].text if verdict.findings else "it holds other events")

    async def copy(self, stretch: Stretch) -> None:
        """Puts the stretch into the bucket, if there is one, file by file, and reads each back. Raises ArchiveDamaged,
        BucketFailed and OSError."""
        bucket = self._bucket
        if bucket is None:
            return
        for path in await asyncio.to_thread(lambda: sorted(stretch.path.iterdir())):
            data = await asyncio.to_thread(path.read_bytes)
            name = f"archive/{stretch.path.parent.name}/{stretch.path.name}/{path.name}"
            met = await bucket.create(name, data)
            if (met if met is not None else await bucket.read(name)) != data:
                raise ArchiveDamaged(f"the bucket holds another {path.name} of the stretch")

    def read(self, tenant: TenantId, after_seq: int, count: int) -> tuple[StoredEvent, ...]:
        """At most `count` archived events above `after_seq`, oldest first, of one stretch. Proven by nothing but their
        place: who needs the proof verifies the folder."""
        for stretch in self.stretches(tenant):
            if stretch.last > after_seq:
                found = []
                with (stretch.path / segment_name(stretch.first)).open("rb") as file:
                    for line in file:
                        event = _event(line)
                        if event is not None and event.seq > after_seq:
                            found.append(event)
                            if len(found) == count:
                                break
                return tuple(found)
        return ()


def _event(line: bytes) -> StoredEvent | None:
    found = LINE.match(line)
    if found is None:
        return None
    body = line[found.end() : -2]
    return StoredEvent(int(found[1]), base64.b64decode(body[1:-1]) if found[4] == b"bytes" else body)


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
