"""The `LogStore` on Redis or Valkey."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator
from typing import Any, Final

from gateway.names import TenantId
from gateway.stores.contract import Entry, TenantStatus
from gateway.stores.keyspace import tenant_keys
from gateway.stores.link import AnyLink
from gateway.stores.log import LogState, Rules, Signed
from gateway.stores.script import Script
from gateway.stores.wire import Argument

SCANNED: Final = 1000
"""Keys that the server looks at in one step."""
_CHECKPOINT: Final = Script.load("checkpoint.lua")
_ANCHORED: Final = Script.load("anchored.lua")
_RESEAL: Final = Script.load("reseal.lua")
_HALT: Final = Script.load("halt.lua")
_TRIM: Final = Script.load("trim.lua")
SCRIPTS: Final = tuple(script.source for script in (_CHECKPOINT, _ANCHORED, _RESEAL, _HALT, _TRIM))

_LONGEST_REASON: Final = 500
_STATE: Final = ("epoch", "size", "note", "frontier", "leaf", "anchored", "trimmed", "base", "keys")


class RedisLog:
    """The `LogStore` contract."""

    def __init__(self, link: AnyLink) -> None:
        self._link = link

    @property
    def connections(self) -> int:
        return self._link.connections

    async def state(self, tenant: TenantId) -> LogState | None:
        names = tenant_keys(tenant)
        calls = (
            self._on(tenant, "HMGET", names.meta, "status", "seq", "halted"),
            self._on(tenant, "HMGET", names.checkpoint, *_STATE),
        )
        # Both on their way at once, and both awaited: a failure that nobody looks at is told by the event loop.
        await asyncio.wait(calls)
        status, seq, halted = calls[0].result()
        epoch, size, note, frontier, leaf, anchored, trimmed, base, keys = calls[1].result()
        if status is None:
            return None
        return LogState(
            TenantStatus.read(status),
            number_of(seq),
            _reason(halted),
            number_of(epoch),
            number_of(size),
            (note or b"").decode("utf-8", "replace"),
            frontier or b"",
            leaf or b"",
            number_of(anchored),
            number_of(trimmed),
            base or b"",
            (keys or b"").decode("utf-8", "replace"),
        )

    async def put_checkpoint(self, tenant: TenantId, signed: Signed) -> bool:
        names = tenant_keys(tenant)
        values = (
            signed.epoch, signed.before, signed.size, signed.note, signed.frontier, signed.keys, signed.last, signed.leaf,
        )  # fmt: skip
        return bool(await self._run(tenant, _CHECKPOINT, (names.meta, names.log, names.checkpoint), *values))

    async def set_anchored(self, tenant: TenantId, epoch: int, size: int) -> bool:
        return bool(await self._run(tenant, _ANCHORED, (tenant_keys(tenant).checkpoint,), epoch, size))

    async def halt(self, tenant: TenantId, why: str) -> None:
        await self._run(tenant, _HALT, (tenant_keys(tenant).meta,), why)

    async def reseal(self, tenant: TenantId, entry: Entry, signed: Signed) -> bool:
        names = tenant_keys(tenant)
        keys = (names.meta, names.log, names.checkpoint, names.writer(entry.writer))
        values = (
            signed.epoch, signed.size, entry.body, signed.note, signed.frontier, signed.keys, signed.before,
            signed.leaf, entry.mac,
        )  # fmt: skip
        return bool(await self._run(tenant, _RESEAL, keys, *values))

    async def trim(self, tenant: TenantId, last: int, base: bytes) -> bool:
        names = tenant_keys(tenant)
        return bool(await self._run(tenant, _TRIM, (names.log, names.checkpoint, names.rules), last, base))

    async def rules(self, tenant: TenantId) -> Rules:
        days, hold, webhook = await self._on(tenant, "HMGET", tenant_keys(tenant).rules, "days", "hold", "webhook")
        kept = int(days) if days is not None else -1
        return Rules(kept if kept >= 0 else None, hold == b"1", (webhook or b"").decode("utf-8", "replace"))

    async def set_rules(self, tenant: TenantId, **changes: str | int) -> None:
        flat: list[Argument] = [part for pair in changes.items() for part in pair]
        await self._on(tenant, "HSET", tenant_keys(tenant).rules, *flat, durable=True)

    async def records(self, tenant: TenantId) -> AsyncIterator[tuple[bytes, bytes]]:
        async for key in self._scan(tenant, b":id:*"):
            if key.endswith(b":gone"):
                continue
            data = await self._on(tenant, "GET", key)
            if data is not None:
                yield key, data

    async def drop(self, tenant: TenantId, key: bytes) -> None:
        await self._on(tenant, "DEL", key, durable=True)

    async def purge(self, tenant: TenantId) -> int:
        names, dropped = tenant_keys(tenant), 0
        kept = {names.meta, names.log, names.checkpoint, names.rules, names.keys}
        async for key in self._scan(tenant, b":*"):
            if key not in kept:
                dropped += await self._on(tenant, "DEL", key, durable=True)
        return dropped

    async def _scan(self, tenant: TenantId, pattern: bytes) -> AsyncIterator[bytes]:
        tag, cursor = tenant_keys(tenant).tag, b"0"
        while True:
            # The server walks all of its keys: this is for what an operator does once.
            cursor, keys = await self._on(tenant, "SCAN", cursor, "MATCH", tag + pattern, "COUNT", SCANNED)
            for key in keys:
                yield key
            if cursor == b"0":
                return

    def _on(self, tenant: TenantId, *arguments: Argument, durable: bool = False) -> Future[Any]:
        names = tenant_keys(tenant)
        return self._link.call(names.slot, arguments, tag=names.tag, durable=durable)

    def _run(self, tenant: TenantId, script: Script, keys: tuple[bytes, ...], *values: Argument) -> Future[Any]:
        return self._on(tenant, "EVALSHA", script.sha, len(keys), *keys, *values, durable=True)


def _reason(halted: bytes | None) -> str:
    """The scripts ask whether the field is there: an empty one halts the log, too."""
    return "" if halted is None else halted[:_LONGEST_REASON].decode("utf-8", "replace") or "no reason is given"


def number_of(text: bytes | None) -> int:
    """-1 for what none of our scripts writes: nothing that was signed says so, and its log is halted as any that was changed."""
    if text is None:
        return 0
    return int(text) if text.isdigit() and len(text) <= 16 else -1
