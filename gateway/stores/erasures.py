"""The list of erased tenants: a signed file outside the shared store, so that a restored backup of the store stays unread.

One line a tenant, `<tenant> <UTC second> <MAC>`, below a head line; each MAC covers the one before it, so no line can be
changed, moved or taken from the middle. Who can write the file can cut its end off, or delete it: a list that is missing
or broken opens no tenant. Copy it with every backup, and to every machine that runs the gateway.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import tempfile
from pathlib import Path
from typing import BinaryIO, Final, Literal

from gateway.ids.encoding import lp
from gateway.names import TenantId

_HEAD: Final = "coatcheck-erasures"
_FORMAT: Final = "1"


class ErasuresUnreadable(Exception):
    """The list is missing or was changed. Its text says which and where; no tenant's keys are unwrapped."""


class ErasureList:
    """All calls block on the file; on the event loop they run in a thread. `key`: the deployment's K_erasures."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.path = path
        self._key = key

    def create(self) -> None:
        """Writes an empty list, readable by its owner only, and makes its folder. Leaves one that is there as it is."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Linked into place when it is whole, so that a crash leaves no list rather than half of one.
        file, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            _write(file, self._line("", _HEAD, _FORMAT))
            with contextlib.suppress(FileExistsError):
                os.link(name, self.path)
        finally:
            os.close(file)
            os.unlink(name)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def add(self, tenant: TenantId, now_s: int) -> None:
        """Puts the tenant on the list for good, on the disk before it returns. Raises ErasuresUnreadable."""
        with self._open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            tenants, last = self._checked(file.read())
            if tenant not in tenants:
                _write(file.fileno(), self._line(last, tenant, str(now_s)))

    def tenants(self) -> frozenset[TenantId]:
        """Every erased tenant. Raises ErasuresUnreadable."""
        with self._open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return self._checked(file.read())[0]

    def _open(self, mode: Literal["rb", "r+b"]) -> BinaryIO:
        try:
            return self.path.open(mode)
        except OSError as error:
            raise ErasuresUnreadable(f"the erasure list {self.path} cannot be opened: {error.strerror}") from error

    def _checked(self, data: bytes) -> tuple[frozenset[TenantId], str]:
        """The tenants, and the MAC of the last line."""
        lines = data.decode("ascii", "replace").split("\n")
        tenants, last = set(), ""
        for number, line in enumerate(lines[:-1], 1):
            name, _, rest = line.partition(" ")
            value = rest.partition(" ")[0]
            good = self._line(last, name, value).decode()[:-1]
            if not hmac.compare_digest(line.encode(), good.encode()) or (number == 1) != (name == _HEAD):
                raise ErasuresUnreadable(f"line {number} of the erasure list {self.path} was changed")
            last = line.rpartition(" ")[2]
            tenants.add(TenantId(name))
        if not last or lines[-1]:
            raise ErasuresUnreadable(f"the erasure list {self.path} ends in the middle of a line")
        return frozenset(tenants - {TenantId(_HEAD)}), last

    def _line(self, before: str, name: str, value: str) -> bytes:
        mac = hmac.digest(self._key, lp("coatcheck erasure 1", before, name, value), "sha256").hex()
        return f"{name} {value} {mac}\n".encode()


def _write(file: int, line: bytes) -> None:
    os.write(file, line)
    os.fsync(file)
