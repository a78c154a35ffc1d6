"""A tenant's log on a real Redis with a checkpointer as the gateway has it, and hands to spoil it from outside."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.audit.anchors.contract import Anchor
from gateway.audit.anchors.file import FileAnchor
from gateway.audit.chain import Writer
from gateway.audit.checkpoint import Checkpoint, VerifierKey, log_origin, open_note, public_key
from gateway.audit.checkpoints import Checkpointer, CheckpointSettings
from gateway.audit.event import Actor, Event, Outcome, Phase, RequestFacts, Result
from gateway.audit.genuine import event_key
from gateway.audit.log import AuditLog
from gateway.audit.tree import Frontier, leaf
from gateway.ids.keys import LocalRoot
from gateway.names import TenantId
from gateway.stores.address import parse_target
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.contract import Finish
from gateway.stores.keyring import Keyring
from gateway.stores.link import Link
from gateway.stores.log import LogState
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from gateway.tasks import Tasks
from tests.patience import PATIENT_LOG
from tests.redis_fixture import RedisServer

TENANT, OTHER = TenantId("aaaabbbbccccdddd"), TenantId("zzzzyyyyxxxxwwww")
ROOT = LocalRoot(b"r" * 32)
ALICE = Actor("user", "alice", "https://idp.example", "jwt")


def event(number: int, tenant: TenantId = TENANT, ts_us: int | None = None) -> Event:
    when = number if ts_us is None else ts_us
    facts = RequestFacts(f"req_{number}")
    return Event(tenant, when, "responses.get", Phase.SINGLE, ALICE, facts, Outcome(Result.ALLOW, "", 200))


@dataclass
class Replica:
    """One process: its own connections, its own memory, its own anchors."""

    store: RedisStore
    keyring: Keyring
    audit_keys: AuditKeyring
    log: AuditLog
    checkpointer: Checkpointer
    anchors: tuple[Anchor, ...]
    tasks: Tasks = field(default_factory=Tasks)

    async def write(self, count: int, tenant: TenantId = TENANT, ts_us: int | None = None) -> None:
        for number in range(count):
            await self.log.record(tenant, event(number, tenant, ts_us))

    async def append(self, count: int, tenant: TenantId = TENANT) -> None:
        """As `write`, by another writer, many at once."""
        writer, key = Writer(secrets.token_hex(12)), event_key(await self.audit_keys.tenant(tenant))
        for first in range(0, count, 500):
            entries = []
            for number in range(first, min(first + 500, count)):
                writer, entry = writer.next(event(number, tenant), key)
                entries.append(entry)
            await self.store.finish(tenant, Finish(tuple(entries)))
        self.checkpointer.appended(tenant)

    async def signed(self, count: int = 0, tenant: TenantId = TENANT) -> LogState:
        """Writes so many events, and has all of the log signed and anchored."""
        await self.write(count, tenant)
        await self.checkpointer.flush()
        return await self.state(tenant)

    async def state(self, tenant: TenantId = TENANT) -> LogState:
        state = await self.store.log.state(tenant)
        assert state is not None
        return state

    async def keys(self, tenant: TenantId = TENANT) -> tuple[VerifierKey, ...]:
        name = log_origin((await self.audit_keys.deployment()).deployment, tenant)
        audit = await self.audit_keys.tenant(tenant)
        return tuple(public_key(name, one.seed) for one in audit.keys.values())

    async def opened(self, note: str, tenant: TenantId = TENANT) -> Checkpoint:
        checkpoint = open_note(note, await self.keys(tenant))
        assert checkpoint is not None
        return checkpoint

    async def root(self, size: int, tenant: TenantId = TENANT) -> bytes:
        """Of the log's first events as they stand in Redis."""
        frontier, at = Frontier(), 0
        while at < size:
            page = await self.store.read_events(tenant, at, min(500, size - at))
            assert page, f"the log ends at {at}"
            for one in page:
                frontier = frontier.append(leaf(tenant, one.seq, one.body))
                at = one.seq
        return frontier.root()


@contextlib.asynccontextmanager
async def replica(
    server: RedisServer, folder: Path, *more: Anchor, settings: CheckpointSettings | None = None, url: str = ""
) -> AsyncIterator[Replica]:
    """`folder`: the data folder; replicas on one machine share it."""
    store = RedisStore(await Link.open(LinkSettings(parse_target(url or server.url)), SCRIPTS))
    keyring = Keyring(store, ROOT, ROOT.audit_root(), folder / "erasures")
    await keyring.create_deployment(new_list=not (folder / "erasures").exists())
    for tenant in (TENANT, OTHER):
        await keyring.create_tenant(tenant)
        await store.create_tenant(tenant, b"record")
    audit_keys = AuditKeyring(store, ROOT.audit_root(), folder / "erasures")
    anchors: tuple[Anchor, ...] = (FileAnchor(folder / "anchors"), *more)
    log, checkpointer = AuditLog(store, audit_keys, PATIENT_LOG), Checkpointer(store, audit_keys, anchors, settings)
    log.watch = checkpointer
    made = Replica(store, keyring, audit_keys, log, checkpointer, anchors)
    try:
        yield made
    finally:
        await made.tasks.aclose()
        await log.aclose()
        await checkpointer.aclose()
        await store.aclose()


def cut(server: RedisServer, keep: int, tenant: TenantId = TENANT) -> None:
    """Takes the newest events away, as a failover to a replica that lagged does: the counters go back with them."""
    key = f"{{t:{tenant}}}"
    rows = server.command("XRANGE", f"{key}:aud", "-", "+")[:keep]
    server.command("DEL", f"{key}:aud")
    for row_id, fields in rows:
        server.command("XADD", f"{key}:aud", row_id, *[part for pair in fields.items() for part in pair])
    server.command("HSET", f"{key}:meta", "seq", keep)


def change_bodies(server: RedisServer, tenant: TenantId | str, change: Callable[[int, bytes], bytes]) -> None:
    """Somebody who can write to Redis puts other events in the place of those there: `change` gets number and bytes of each."""
    log = f"{{t:{tenant}}}:aud"
    rows = server.command("XRANGE", log, "-", "+")
    server.command("DEL", log)
    for seq, (row_id, fields) in enumerate(rows, start=1):
        server.command("XADD", log, row_id, "e", change(seq, fields[b"e"]), "m", fields[b"m"])


def saved(server: RedisServer, tenant: TenantId = TENANT) -> dict[str, bytes]:
    """All of a tenant's keys, as a backup has them."""
    keys = server.command("KEYS", f"{{t:{tenant}}}*")
    return {key.decode(): server.command("DUMP", key) for key in keys}


def restored(server: RedisServer, backup: dict[str, bytes], tenant: TenantId = TENANT) -> None:
    for key in server.command("KEYS", f"{{t:{tenant}}}*"):
        server.command("DEL", key)
    for key, data in backup.items():
        server.command("RESTORE", key, 0, data)


async def until(true: Any, timeout_s: float = 5.0) -> None:
    """Until the coroutine function gives something true."""
    async with asyncio.timeout(timeout_s):
        while not await true():  # noqa: ASYNC110 - it is another process that changes
            await asyncio.sleep(0.02)
