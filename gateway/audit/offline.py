"""Verifies what lies in files: an export's folder or a proof. No store, no settings, no network.

Large exports are read by several processes, a segment each; a process holds one segment of at most 10,000 events at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from gateway.audit.checkpoint import VerifierKey, log_name
from gateway.audit.faults import Fault, Finding
from gateway.audit.layout import (
    EARLIER,
    HEAD,
    MANIFEST,
    MAX_LINE_BYTES,
    SIGNATURE,
    UNFINISHED,
    Manifest,
    Segment,
    Unusable,
)
from gateway.audit.proof import ProofRefused, Proven, open_proof
from gateway.audit.segment import Part, Scope, check_segment
from gateway.audit.verify import Evidence, Verdict, read_anchor, verify

MANY_EVENTS: Final = 50_000
"""From here on a second process takes less time than it costs to start."""
MAX_TEXT_BYTES: Final = 256 * 1024 * 1024
"""Of a manifest, a file of checkpoints or an anchor: some 800,000 checkpoints."""

Progress = Callable[[int, int], None]
"""Is told of how many events were read, and of how many there are."""


def read_keys(path: Path) -> tuple[VerifierKey, ...]:
    """The public keys in a file, a line each, as `audit key` prints them. Raises Unusable where there is none or another line."""
    try:
        keys = tuple(VerifierKey.parse(line.strip()) for line in _text(path).splitlines() if line.strip())
    except Unusable:
        raise
    except ValueError as error:
        raise Unusable(f"{path}: {error}") from None
    if not keys:
        raise Unusable(f"{path}: there is no public key in it")
    return keys


def verify_folder(
    folder: Path,
    keys: tuple[VerifierKey, ...],
    anchor: Path | None = None,
    *,
    accept_loss: bool = False,
    processes: int | None = None,
    progress: Progress = lambda done, of: None,
) -> Verdict:
    """Whether the export in `folder` is whole. `processes`: None takes as many as there are cores, 1 none besides this one.

    Raises Unusable where there is no finished export, or the anchor or the keys cannot be used.
    """
    if not (folder / MANIFEST).is_file():
        unfinished = (folder / UNFINISHED).exists()
        raise Unusable(
            f"{folder}: the export was not finished; the same command goes on with it"
            if unfinished
            else f"{folder}: there is no export in it"
        )
    data = _bytes(folder / MANIFEST)
    manifest = Manifest.from_bytes(data)
    name = log_name(manifest.origin)
    keys = tuple(key for key in keys if key.name == name)
    anchors = None if anchor is None else read_anchor(_text(anchor), keys, name)
    evidence = Evidence(
        manifest,
        data,
        _text_or_nothing(folder / SIGNATURE),
        _text_or_nothing(folder / HEAD),
        _text_or_nothing(folder / EARLIER),
        keys,
        anchors,
    )
    with _checked(folder, manifest, evidence.scope, processes or os.cpu_count() or 1) as parts:
        return verify(evidence, _told(parts, manifest, progress), accept_loss=accept_loss)


def verify_proof(path: Path, keys: tuple[VerifierKey, ...], anchor: Path | None = None) -> Proven:
    """What a proof file proves. Raises Unusable where it is none of this format, ProofRefused where it proves nothing, or the
    anchor holds another history."""
    proven = open_proof(_text(path), keys)
    for one in read_anchor(_text(anchor), keys, proven.checkpoint.name) if anchor else ():
        if (one.origin, one.size) == (proven.checkpoint.origin, proven.checkpoint.size) and one != proven.checkpoint:
            raise ProofRefused(Finding(Fault.FORK, detail=f"two checkpoints of {one.size:,} events"))
    return proven


@contextmanager
def _checked(folder: Path, manifest: Manifest, scope: Scope, processes: int) -> Iterator[Iterator[Part]]:
    check = partial(_check_file, folder, scope)
    workers = min(processes, len(manifest.segments))
    if workers < 2 or manifest.count < MANY_EVENTS:
        yield map(check, manifest.segments)
        return
    # Not by fork, which is not safe in a process that has threads.
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        try:
            yield _in_order(pool, check, manifest.segments, workers)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _in_order(
    pool: ProcessPoolExecutor, check: Callable[[Segment], Part], segments: Sequence[Segment], workers: int
) -> Iterator[Part]:
    """The parts in order, with only so many segments ahead that no process waits: parts are not small."""
    waiting = [pool.submit(check, one) for one in segments[: workers * 2]]
    for at in range(len(segments)):
        part = waiting.pop(0).result()
        if at + workers * 2 < len(segments):
            waiting.append(pool.submit(check, segments[at + workers * 2]))
        yield part


def _check_file(folder: Path, scope: Scope, segment: Segment) -> Part:
    path = folder / segment.name
    try:
        too_large = path.stat().st_size > (segment.count + 1) * MAX_LINE_BYTES
        data = b"" if too_large else path.read_bytes()
    except OSError:
        data = b""
    return check_segment(data, segment, scope)


def _told(parts: Iterator[Part], manifest: Manifest, progress: Progress) -> Iterator[Part]:
    done = 0
    for part, segment in zip(parts, manifest.segments, strict=True):
        done += segment.count
        progress(done, manifest.count)
        yield part


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise Unusable(f"{path}: larger than any that the gateway writes")
        return path.read_bytes()
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror or 'cannot be read'}") from None


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode()
    except UnicodeDecodeError:
        raise Unusable(f"{path}: not a text") from None


def _text_or_nothing(path: Path) -> str:
    """What is missing or no text reads as empty, which no signature is good for."""
    try:
        return _text(path)
    except Unusable:
        return ""
