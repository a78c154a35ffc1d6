"""What was done upstream and could not be recorded: deleted there at once, or else kept on a local spool until it is.

A spool entry is a root's record, sealed as it would have stood in the store, under the name it would have had: who reads the
folder learns how many there are. An entry leaves only when its object is gone upstream.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gateway.ids.keys import KeyRefused
from gateway.names import Kind, TenantId
from gateway.pipeline.provider import Provider
from gateway.pipeline.routing import Routing
from gateway.stores.contract import StoreError, Write
from gateway.stores.keyring import Keyring, KeysMissing
from gateway.stores.records import Root, open_record, record_key
from gateway.upstreams import UpstreamError

LOG = logging.getLogger(__name__)

_DELETE: Final = {
    Kind.RESPONSE: "/responses/",
    Kind.CONVERSATION: "/conversations/",
    Kind.CHAT_COMPLETION: "/chat/completions/",
    Kind.FILE: "/files/",
    Kind.VECTOR_STORE: "/vector_stores/",
    Kind.CONTAINER: "/containers/",
    Kind.SKILL: "/skills/",
}
"""Where an object of a kind is deleted. Whatever else a route makes goes with one of these."""

_GONE: Final = frozenset({200, 202, 204, 404, 410})


@dataclass(frozen=True, slots=True)
class Salvage:
    routing: Routing
    keyring: Keyring
    folder: Path
    sweep_every_s: float = 30.0

    async def undo(self, tenant: TenantId, write: Write, raw: str, provider: Provider) -> None:
        """Deletes the object upstream; where that fails, spools it (fsynced before this returns)."""
        if write.kind not in _DELETE:
            return
        if not await _delete(provider, write.kind, raw):
            await asyncio.to_thread(self._spool, record_key(tenant, write.kind, write.h), tenant, write)
            LOG.error("salvage.spooled", extra={"fields": {"kind": write.kind.value}})

    async def sweep_forever(self) -> None:
        """Deletes what is spooled, as soon as the upstream and the tenant's keys are there again."""
        while True:
            await self.sweep()
            await asyncio.sleep(self.sweep_every_s)

    async def sweep(self) -> int:
        """One round; how many entries are left."""
        left = 0
        for path in await asyncio.to_thread(lambda: sorted(self.folder.glob("*.undo"))):
            try:
                done = await self._sweep_one(path)
            except (KeysMissing, KeyRefused, StoreError, ValueError, OSError):
                LOG.exception("salvage.unreadable")
                done = False
            if done:
                await asyncio.to_thread(path.unlink, missing_ok=True)
            else:
                left += 1
        return left

    async def _sweep_one(self, path: Path) -> bool:
        text = await asyncio.to_thread(path.read_text)
        tenant, name, data = text.split()
        unlocked = await self.keyring.tenant(TenantId(tenant))
        root = open_record(unlocked.keys.storage, base64.b64decode(name), base64.b64decode(data))
        if not isinstance(root, Root):
            raise ValueError("a spool entry does not open")
        return await self.delete(root)

    def deletes(self, kind: Kind) -> bool:
        """Whether objects of the kind can be deleted upstream by themselves."""
        return kind in _DELETE

    async def delete(self, root: Root) -> bool:
        """Whether the object is gone upstream."""
        provider = self.routing.of(root)
        return provider is not None and await _delete(provider, root.kind, root.raw.text)

    def _spool(self, name: bytes, tenant: TenantId, write: Write) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / f"{secrets.token_hex(8)}.undo"
        text = f"{tenant} {base64.b64encode(name).decode()} {base64.b64encode(write.data).decode()}\n"
        partial = path.with_suffix(".part")
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


async def _delete(provider: Provider, kind: Kind, raw: str) -> bool:
    target = (_DELETE[kind] + quote(raw, safe="")).encode()
    try:
        async with await provider.upstream.send(provider.fetch("DELETE", target)) as answer:
            return answer.status in _GONE
    except UpstreamError:
        return False
