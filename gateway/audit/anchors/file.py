"""The anchor of everybody: one file per tenant in the data folder, to which notes are only ever appended.

The file is what `audit verify --anchor` reads: signed notes, an empty line after each. A copy of it elsewhere is an anchor too.
Beside it lies the newest note's tree, so that a start need not read the whole log to compare it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.audit.anchors.contract import AnchorFailed, AnchorForked, Kept, age
from gateway.audit.checkpoint import Checkpoint, read_unverified
from gateway.audit.tree import Frontier

_END: Final = b"\n\n"
_ONE_NOTE: Final = re.compile(rb"\n\n(coatcheck/[^\n]*\n[^\n]*\n[^\n]*\n\n(?:\xe2\x80\x94 [^\n]*\n)+)\n")
"""With the empty line before it and the one behind."""
_PIECE_BYTES: Final = 4096
_TAIL_BYTES: Final = 64 * 1024
"""More than two of the longest notes that the gateway writes, by far."""


class FileAnchor:
    """Processes that share the folder may share the files."""

    name = "file"
    required = True
    pause_s = 0.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def append(self, checkpoint: Checkpoint, note: str, tree: Frontier) -> None:
        try:
            await asyncio.to_thread(self._append, checkpoint, note.encode(), tree.to_bytes())
        except OSError as error:
            raise AnchorFailed(f"the anchor file cannot be written: {error.strerror}") from error

    async def newest(self, log: str) -> Kept | None:
        try:
            return await asyncio.to_thread(self._newest, log)
        except OSError as error:
            raise AnchorFailed(f"the anchor file cannot be read: {error.strerror}") from error

    async def aclose(self) -> None: ...

    async def first_from(self, log: str, epoch: int, size: int) -> str | None:
        """The first note of at least this epoch and size. Raises AnchorFailed."""
        try:
            return await asyncio.to_thread(self._first_from, log, (epoch, size))
        except OSError as error:
            raise AnchorFailed(f"the anchor file cannot be read: {error.strerror}") from error

    def path(self, log: str) -> Path:
        """Of the tenant that is the last part of the log's name."""
        return self._folder / f"{log.rpartition('/')[2]}.notes"

    def _append(self, checkpoint: Checkpoint, note: bytes, tree: bytes) -> None:
        path = self.path(checkpoint.name)
        is_new = not path.exists()
        if is_new:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            whole = _whole(file)
            if os.fstat(file).st_size != whole:
                # A process ended in the middle of a note, which was confirmed to nobody.
                os.ftruncate(file, whole)
            held = _last(file, whole)
            there = read_unverified(held) if held is not None else None
            if there is not None and age(there) >= age(checkpoint):
                if age(there) == age(checkpoint) and there.root != checkpoint.root:
                    raise AnchorForked("the anchor file holds another tree of this size")
                return
            os.write(file, note + b"\n")
            os.fsync(file)
            # Not synced: an older tree does as well, and one that cannot be read is as none.
            partial = path.with_suffix(".part")
            partial.write_bytes(tree)
            partial.rename(path.with_suffix(".tree"))
        finally:
            os.close(file)
        if is_new:
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _newest(self, log: str) -> Kept | None:
        try:
            file = os.open(self.path(log), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH)
            note, tree = _last(file, _whole(file)), None
            with contextlib.suppress(FileNotFoundError, ValueError):
                tree = Frontier.from_bytes(self.path(log).with_suffix(".tree").read_bytes())
            return Kept(note, tree) if note is not None else None
        finally:
            os.close(file)

    def _first_from(self, log: str, least: tuple[int, int]) -> str | None:
        """By halves: notes only get newer."""
        try:
            file = os.open(self.path(log), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH)
            low, high = 0, _whole(file)
            while high - low > _PIECE_BYTES:
                middle = (low + high) // 2
                found = next(_notes(file, middle, high), None)
                if found is not None and _age(found) < least:
                    low = middle
                else:
                    high = middle
            # The note that `high` cuts through, and the one behind it, may be the one.
            return next((one for one in _notes(file, low, _whole(file)) if _age(one) >= least), None)
        finally:
            os.close(file)


def _notes(file: int, start: int, end: int) -> Iterator[str]:
    """The notes that begin behind `start`, up to `end`; behind the first byte of the file, all."""
    text, at = b"\n\n" if start == 0 else b"", start
    while True:
        while found := _ONE_NOTE.search(text):
            yield found[1].decode("utf-8", "replace")
            text = text[found.end() - len(_END) :]
        piece = os.pread(file, min(_PIECE_BYTES, end - at), at)
        if not piece:
            return
        text, at = text + piece, at + len(piece)


def _age(note: str) -> tuple[int, int]:
    checkpoint = read_unverified(note)
    return age(checkpoint) if checkpoint is not None else (0, 0)


def _whole(file: int) -> int:
    """Where the last whole note ends."""
    size = os.fstat(file).st_size
    start = max(0, size - _TAIL_BYTES)
    tail = os.pread(file, size - start, start)
    found = tail.rfind(b"\xe2\x80\x94 ")
    while found >= 0:
        end = tail.find(_END, found)
        if end >= 0:
            return start + end + len(_END)
        # Cut in its signature: the note before it is the last one.
        found = tail.rfind(b"\xe2\x80\x94 ", 0, found)
    if start:
        raise AnchorFailed("the anchor file's end holds no note")
    return 0


def _last(file: int, whole: int) -> str | None:
    """The note that ends there."""
    start = max(0, whole - _TAIL_BYTES)
    parts = os.pread(file, whole - start, start).decode("utf-8", "replace").split("\n\n")
    # text, signatures, text, signatures, and nothing after the last empty line
    if len(parts) < 3:
        return None
    return f"{parts[-3]}\n\n{parts[-2]}\n"
