"""What was done upstream and could not be recorded: deleted or cancelled there at once, or else kept in a folder until it is.

An entry of the folder is a root's record, sealed as it would have stood in the store, under the name it would have had: who
reads the folder learns how many there are. An entry leaves only when its object is gone upstream, or will do no more.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import secrets
from dataclasses import dataclass
from enum import StrEnum
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


class Way(StrEnum):
    """How an object comes to its end upstream."""

    DELETE = "delete"
    CANCEL = "cancel"
    """It does no more and costs no more, and what is known of it stays there: its kind has no deletion."""


_WAYS: Final = {
    Kind.RESPONSE: (Way.DELETE, "/responses/%s"),
    Kind.CONVERSATION: (Way.DELETE, "/conversations/%s"),
    Kind.CHAT_COMPLETION: (Way.DELETE, "/chat/completions/%s"),
    Kind.FILE: (Way.DELETE, "/files/%s"),
    Kind.UPLOAD: (Way.CANCEL, "/uploads/%s/cancel"),
    Kind.VECTOR_STORE: (Way.DELETE, "/vector_stores/%s"),
    Kind.BATCH: (Way.CANCEL, "/batches/%s/cancel"),
    Kind.CONTAINER: (Way.DELETE, "/containers/%s"),
    Kind.SKILL: (Way.DELETE, "/skills/%s"),
    Kind.FINE_TUNING_JOB: (Way.CANCEL, "/fine_tuning/jobs/%s/cancel"),
    Kind.FINE_TUNED_MODEL: (Way.DELETE, "/models/%s"),
}
"""Every kind that a route makes has one. Audio of a chat, and calls, end by themselves within an hour."""

_METHOD: Final = {Way.DELETE: "DELETE", Way.CANCEL: "POST"}
_ENDED: Final = {
    Way.DELETE: frozenset({200, 202, 204, 404, 410}),
    Way.CANCEL: frozenset({200, 202, 204, 400, 404, 409, 410}),
}
"""400 and 409: it is over already."""


@dataclass(frozen=True, slots=True)
class Salvage:
    routing: Routing
    keyring: Keyring
    folder: Path
    sweep_every_s: float = 30.0

    async def undo(self, tenant: TenantId, write: Write, raw: str, provider: Provider) -> None:
        """Ends the object upstream; where that fails, an entry is kept (fsynced before this returns)."""
        if write.kind in _WAYS and not await _end(provider, write.kind, raw):
            await asyncio.to_thread(self._keep, record_key(tenant, write.kind, write.h), tenant, write)
            LOG.error("salvage.kept", extra={"fields": {"kind": write.kind.value}})

    async def sweep_forever(self) -> None:
        """Ends what is kept, as soon as the upstream and the tenant's keys are there again."""
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
            raise ValueError("an entry does not open")
        return await self.end(root)

    def ends(self, kind: Kind) -> bool:
        """Whether objects of the kind can be deleted or cancelled upstream."""
        return kind in _WAYS

    def deletes(self, kind: Kind) -> bool:
        return kind in _WAYS and _WAYS[kind][0] is Way.DELETE

    async def end(self, root: Root) -> bool:
        """Whether the object has come to its end upstream. Its kind can."""
        provider = self.routing.of(root)
        return provider is not None and await _end(provider, root.kind, root.raw.text)

    def _keep(self, name: bytes, tenant: TenantId, write: Write) -> None:
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


async def _end(provider: Provider, kind: Kind, raw: str) -> bool:
    way, path = _WAYS[kind]
    target = (path % quote(raw, safe="")).encode()
    try:
        async with await provider.upstream.send(provider.fetch(_METHOD[way], target)) as answer:
            return answer.status in _ENDED[way]
    except UpstreamError:
        return False
