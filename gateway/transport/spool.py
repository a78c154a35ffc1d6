"""Bytes that must wait: the newest in memory, the others on disk, in a file without a name under a key that is nowhere else.

Who reads the disk, or finds the file after a crash, has noise. The key is the spool's own, so the numbers of the pieces serve as
nonces (RFC 5116 section 3.2).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.names import TenantId
from gateway.transport.budget import FREE_BYTES, Budget

PIECE_BYTES: Final = FREE_BYTES
"""What stays in memory of one spool: as much as any small body may. A smaller file never touches the disk."""
_NONCE_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Spools:
    """Where spools are, and how much all of them together may hold."""

    folder: Path
    budget: Budget

    def open(self, tenant: TenantId | None) -> Spool:
        """`tenant`: whose share it counts against."""
        return Spool(self, tenant)


class Spool:
    """Written first, then read in order, once. `close` frees it at any time, and may be called again."""

    __slots__ = ("_disk", "_folder", "_lease", "_read", "_taken", "_waiting", "_work", "size")

    def __init__(self, spools: Spools, tenant: TenantId | None) -> None:
        self._folder = spools.folder
        self._lease = spools.budget.lease(tenant)
        self._disk: _Disk | None = None
        self._waiting = bytearray()
        self._taken = b""
        self._read = 0
        self._work: asyncio.Future[bytes] | None = None
        self.size = 0

    async def write(self, piece: bytes) -> None:
        """Raises Problem where the tenant's spools, or all together, are full, and OSError."""
        self.size += len(piece)
        self._lease.hold(self.size)
        self._waiting += piece
        if len(self._waiting) >= PIECE_BYTES:
            full, self._waiting = bytes(self._waiting), bytearray()
            await self._in_thread(full)

    async def read(self, size: int) -> AsyncIterator[bytes]:
        """The next `size` bytes. There must be as many."""
        while size:
            if not self._taken:
                on_disk = self._disk is not None and self._read < self._disk.pieces
                self._taken = await self._in_thread() if on_disk else bytes(self._waiting)
                self._read += 1
            piece, self._taken = self._taken[:size], self._taken[size:]
            size -= len(piece)
            yield piece

    def close(self) -> None:
        self._lease.give_back()
        self._waiting, self._taken = bytearray(), b""
        disk, self._disk = self._disk, None
        if disk is None:
            return
        if self._work is not None and not self._work.done():
            # Its thread still has the file's number, which must not become another file's meanwhile.
            self._work.add_done_callback(lambda _: disk.close())
        else:
            disk.close()

    async def _in_thread(self, piece: bytes | None = None) -> bytes:
        """Puts a piece on disk, or takes the next one from there."""
        disk = self._disk = self._disk or _Disk(self._folder)
        work = asyncio.get_running_loop().run_in_executor(None, disk.step, piece)
        work.add_done_callback(lambda done: done.exception())  # where nobody waits for it any more
        self._work = work
        return await asyncio.shield(work)


class _Disk:
    """The file and its key. All calls but `close` block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._aead = AESGCM(AESGCM.generate_key(256))
        self._sizes: list[int] = []
        self._at = 0

    @property
    def pieces(self) -> int:
        return len(self._sizes)

    def step(self, piece: bytes | None) -> bytes:
        """Writes `piece` at the end, or reads the next one from the start on."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - `close` closes it
        if piece is not None:
            sealed = self._aead.encrypt(_nonce(len(self._sizes)), piece, None)
            self._file.write(sealed)
            self._sizes.append(len(sealed))
            return b""
        if self._at == 0:
            self._file.seek(0)
        sealed = self._file.read(self._sizes[self._at])
        self._at += 1
        return self._aead.decrypt(_nonce(self._at - 1), sealed, None)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _nonce(number: int) -> bytes:
    return number.to_bytes(_NONCE_BYTES, "big")
