"""What the filter finds as evidence: the folder that `audit export` writes, in a zip.

It is made in the data folder, since what proves an event is known only when the last one was read, and then sent; the zip's first
file, which says how it is verified, goes out at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from gateway.audit.export import export
from gateway.audit.search.query import Query
from gateway.audit.source import EvidenceRefused, Log, log_of
from gateway.clock import now_us
from gateway.console.desk import Visit
from gateway.console.sending import Pieces, ensure_session
from gateway.stores.keyring import KeysMissing

SIGNED_WITHIN_S: Final = 3.0
"""How long the event of this export itself is waited for to be signed."""
_PAUSE_S: Final = 0.1
_PIECE: Final = 1 << 16
LEFT_S: Final = 86_400.0
README: Final = """\
This is a part of tenant {tenant}'s audit log, with what proves it. To verify it:

1. Unzip it into a folder of its own.
2. Get the log's public key from the console ("Public key"), or better from somebody who kept it since the log began: a key
   that came together with the evidence proves nothing.
3. python -m gateway audit verify FOLDER --key KEYFILE
   With --anchor FILE it is held against checkpoints that were kept elsewhere. Needs no settings, no network and no server.

The format's page, docs/audit-format.md, says all that is needed to write another verifier.
"""


async def evidence(visit: Visit, query: Query) -> AsyncIterator[bytes]:
    """The zip. Where the log cannot be proven, it ends in `REFUSED.txt`, which says why, and holds no evidence."""
    sink = Pieces()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.txt", README.format(tenant=visit.tenant))
        yield sink.take()
        folder = await asyncio.to_thread(_folder, visit.desk.folder)
        try:
            made = Path(folder.name) / "export"
            try:
                await export(await _signed_log(visit), query, made, made_us=now_us())
                # What follows may be less than a piece, and making it may have taken long.
                await ensure_session(visit)
            except EvidenceRefused as refused:
                archive.writestr("REFUSED.txt", f"{refused}\n")
            else:
                for name in sorted(await asyncio.to_thread(os.listdir, made)):
                    async for piece in _sent(visit, archive, sink, made / name):
                        yield piece
        finally:
            await asyncio.shield(asyncio.to_thread(folder.cleanup))
    await ensure_session(visit)
    yield sink.take()


async def _signed_log(visit: Visit) -> Log:
    """The log up to its newest checkpoint, which covers the event of this export if that is signed soon. Nothing is signed
    here that was not signed before: what was changed in the store is not made genuine by being exported."""
    desk, wanted, until = visit.desk, 0, time.monotonic() + SIGNED_WITHIN_S
    while True:
        state = await desk.logs.state(visit.tenant)
        if state is None:
            raise KeysMissing("the tenant is erased")
        wanted = wanted or state.seq
        if state.size >= wanted or time.monotonic() > until:
            break
        await asyncio.sleep(_PAUSE_S)
    if state.size <= state.trimmed:
        raise EvidenceRefused("nothing of the log is signed yet: try again in a moment")
    return log_of(desk.store, visit.tenant, desk.deployment, visit.keys, state, state.size)


async def _sent(visit: Visit, archive: zipfile.ZipFile, sink: Pieces, path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file, archive.open(path.name, "w", force_zip64=True) as entry:
        while data := await asyncio.to_thread(file.read, _PIECE):
            entry.write(data)
            if len(sink.waiting) >= _PIECE:
                await ensure_session(visit)
                yield sink.take()


def _folder(within: Path) -> tempfile.TemporaryDirectory[str]:
    """A new folder, beside which nothing stays that a process which died left there."""
    within.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in within.iterdir():
        with contextlib.suppress(FileNotFoundError):  # an export that has just ended took it away
            if time.time() - other.stat().st_mtime > LEFT_S:
                shutil.rmtree(other, ignore_errors=True)
    return tempfile.TemporaryDirectory(dir=within, ignore_cleanup_errors=True)
