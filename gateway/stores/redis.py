"""The store on Redis or Valkey, over any link.

Who reads this Redis learns counts, times and names of kinds: records, keys and directory entries are ciphertext, subjects in
events are pseudonyms. Who writes it can delete records and roll the log back (the audit anchor tells); a record cannot be
forged or moved, for it is bound to its key. Scripts run in one call each, so what they read and write is one moment.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from gateway.ids.kinds import KIND_OF_CODE
from gateway.names import TenantId
from gateway.stores import keyspace
from gateway.stores.contract import (
    ApiKey,
    Begin,
    Begun,
    Entry,
    Finish,
    Finished,
    Found,
    Row,
    Rows,
    Sink,
    StoredEvent,
    Stretch,
    TenantState,
    TenantStatus,
)
from gateway.stores.keyspace import TenantKeys, tenant_keys
from gateway.stores.link import AnyLink
from gateway.stores.redis_log import SCRIPTS as LOG_SCRIPTS
from gateway.stores.redis_log import RedisLog, number_of
from gateway.stores.redis_streams import SCRIPTS as STREAM_SCRIPTS
from gateway.stores.redis_streams import RedisStreams
from gateway.stores.redis_webhooks import SCRIPTS as WEBHOOK_SCRIPTS
from gateway.stores.redis_webhooks import RedisWebhooks
from gateway.stores.script import FIELD_SWAP, Script
from gateway.stores.wire import Argument, Reply

OPERATOR_EVENTS: Final = 100_000
"""The operator's log is cut to about so many."""
PAGE: Final = 1000
"""Rows that one read brings at most."""


def _names() -> str:
    """Lua: what a record's pointer byte stands for in key names, and hexadecimal."""
    rows = ", ".join(f"[{code}] = 'id:{kind.value}:'" for code, kind in sorted(KIND_OF_CODE.items()))
    return (
        f"local KIND_OF_CODE = {{{rows}}}\n"
        f"local NO_RECORD, NO_H = '{keyspace.NO_RECORD.decode()}', string.rep('\\0', 16)\n"
        "local function hex(s) return (string.gsub(s, '.', function(c) return string.format('%02x', string.byte(c)) end)) end\n"
    )


_BEGIN: Final = Script.load("append.lua", "rows.lua", "begin.lua", before=_names())
_FINISH: Final = Script.load("append.lua", "finish.lua")
_LIST: Final = Script.load("rows.lua", "list.lua")
_OVERDUE: Final = Script.load("overdue.lua")
_STATUS: Final = Script.load("status.lua")
_CLAIM: Final = Script.load("claim.lua")
_SWAP: Final = Script.load("swap.lua")
SCRIPTS: Final = (
    *(script.source for script in (_BEGIN, _FINISH, _LIST, _OVERDUE, _STATUS, _CLAIM, _SWAP, FIELD_SWAP)),
    *LOG_SCRIPTS,
    *STREAM_SCRIPTS,
    *WEBHOOK_SCRIPTS,
)
"""What a link loads at each connection."""


class RedisStore:
    """The `Store` contract."""

    def __init__(self, link: AnyLink) -> None:
        self._link = link
        self.log = RedisLog(link)
        self.streams = RedisStreams(link)
        self.webhooks = RedisWebhooks(link)

    def ready(self, tenant: TenantId) -> bool:
        return self._link.ready(tenant_keys(tenant).slot)

    def begin(self, tenant: TenantId, call: Begin) -> Future[Begun]:
        future: Future[Begun] = asyncio.get_running_loop().create_future()
        self.send_begin(tenant, call, future)
        return future

    def finish(self, tenant: TenantId, call: Finish) -> Future[Finished]:
        future: Future[Finished] = asyncio.get_running_loop().create_future()
        self.send_finish(tenant, call, future)
        return future

    def send_begin(self, tenant: TenantId, call: Begin, sink: Sink[Begun]) -> None:
        names, entry = tenant_keys(tenant), call.entry
        keys = [names.meta, names.log, names.writer(entry.writer), names.open]
        if call.credential:
            keys.append(names.api_key(call.credential))
        for lookup in call.lookups:
            keys.append(names.record(lookup.kind, lookup.h))
        arguments = (
            "EVALSHA", _BEGIN.sha, len(keys), *keys,
            names.tag, entry.wseq, entry.body, entry.mac, call.open_until_s, 1 if call.credential else 0,
            names.writer(entry.ends) if entry.ends else b"", entry.ends_after,
        )  # fmt: skip
        if call.stretch is None:
            self._link.send(names.slot, arguments, sink, _begun, names.tag, durable=True)
        else:
            arguments += _stretch(names, call.stretch)
            self._link.send(names.slot, arguments, sink, _begun_with_rows, names.tag, durable=True)

    def send_finish(self, tenant: TenantId, call: Finish, sink: Sink[Finished]) -> None:
        names, first = tenant_keys(tenant), call.entries[0]
        keys = [names.meta, names.log, names.writer(first.writer), names.open]
        values: list[Argument] = [call.generation, call.closes, first.wseq, len(call.entries)]
        values.extend(_rows_of(call.entries))
        for write in call.writes:
            keys.append(names.record(write.kind, write.h))
            list_key = names.listed(write.kind, write.scope) if write.scope else b""
            values += (write.mode, write.lifetime_s or 0, write.data, list_key)
        arguments = ("EVALSHA", _FINISH.sha, len(keys), *keys, *values)
        self._link.send(names.slot, arguments, sink, _finished, names.tag, durable=True)

    async def read_rows(self, tenant: TenantId, stretch: Stretch) -> Rows:
        names = tenant_keys(tenant)
        sets = _stretch(names, stretch)
        return _rows(await self._on(tenant, "EVALSHA", _LIST.sha, 1, sets[-1], *sets))

    async def read_events(self, tenant: TenantId, after_seq: int, count: int) -> tuple[StoredEvent, ...]:
        start = f"0-{after_seq + 1}"
        return _events(await self._on(tenant, "XRANGE", tenant_keys(tenant).log, start, "+", "COUNT", min(count, PAGE)))

    async def read_events_before(self, tenant: TenantId, before_seq: int, count: int) -> tuple[StoredEvent, ...]:
        if before_seq <= 1:
            return ()
        end = f"0-{before_seq - 1}"
        return _events(
            await self._on(tenant, "XREVRANGE", tenant_keys(tenant).log, end, "-", "COUNT", min(count, PAGE))
        )

    async def take_overdue(self, tenant: TenantId, now_s: int, lease_s: int, count: int) -> tuple[StoredEvent, ...]:
        names = tenant_keys(tenant)
        reply = await self._run(tenant, _OVERDUE, (names.meta, names.log, names.open), now_s, lease_s, min(count, PAGE))
        return tuple(StoredEvent(int(seq), body) for seq, body in zip(reply[::2], reply[1::2], strict=True))

    # Tenants

    async def create_tenant(self, tenant: TenantId, record: bytes) -> bool:
        names, key = tenant_keys(tenant), keyspace.TENANTS
        await self._outside(key, "HSETNX", key, tenant, record)
        if await self._outside(key, "HGET", key, tenant) != record:
            return False
        await self._on(tenant, "HSETNX", names.meta, "generation", 1)
        await self._on(tenant, "HSETNX", names.meta, "status", TenantStatus.ACTIVE.value, durable=True)
        return True

    async def tenants(self) -> AsyncIterator[tuple[TenantId, bytes]]:
        cursor = b"0"
        while True:
            cursor, flat = await self._outside(keyspace.TENANTS, "HSCAN", keyspace.TENANTS, cursor, "COUNT", PAGE)
            for tenant, record in zip(flat[::2], flat[1::2], strict=True):
                yield TenantId(tenant.decode()), record
            if cursor == b"0":
                return

    async def tenant_record(self, tenant: TenantId) -> bytes | None:
        record: bytes | None = await self._outside(keyspace.TENANTS, "HGET", keyspace.TENANTS, tenant)
        return record

    async def tenant_state(self, tenant: TenantId) -> TenantState | None:
        reply = await self._on(tenant, "HMGET", tenant_keys(tenant).meta, "status", "generation", "seq", "halted")
        status, generation, seq, halted = reply
        if status is None:
            return None
        return TenantState(TenantStatus.read(status), number_of(generation), number_of(seq), halted is not None)

    async def set_tenant_status(self, tenant: TenantId, status: TenantStatus, *, at: int | None = None) -> bool:
        still = () if at is None else (at,)
        return bool(await self._run(tenant, _STATUS, (tenant_keys(tenant).meta,), status.value, *still))

    # API keys and wrapped keys

    async def put_api_key(self, tenant: TenantId, tag: str, key: ApiKey) -> None:
        names = tenant_keys(tenant)
        fields = ("data", key.data, "expires", key.expires or "", "revoked", int(key.revoked))
        await self._on(tenant, "SADD", names.key_tags, tag)
        await self._on(tenant, "HSET", names.api_key(tag), *fields, durable=True)

    async def api_key(self, tenant: TenantId, tag: str) -> ApiKey | None:
        data, expires, revoked = await self._on(
            tenant, "HMGET", tenant_keys(tenant).api_key(tag), "data", "expires", "revoked"
        )
        return None if data is None else ApiKey(data, int(expires) if expires else None, revoked != b"0")

    async def api_keys(self, tenant: TenantId) -> Mapping[str, ApiKey]:
        tags = [tag.decode() for tag in await self._on(tenant, "SMEMBERS", tenant_keys(tenant).key_tags)]
        found = {tag: await self.api_key(tenant, tag) for tag in sorted(tags)}
        return {tag: key for tag, key in found.items() if key is not None}

    async def wrapped_keys(self, tenant: TenantId) -> Mapping[str, bytes]:
        flat = await self._on(tenant, "HGETALL", tenant_keys(tenant).keys)
        return {name.decode(): blob for name, blob in zip(flat[::2], flat[1::2], strict=True)}

    async def put_wrapped_key(self, tenant: TenantId, name: str, blob: bytes) -> bytes:
        key = tenant_keys(tenant).keys
        await self._on(tenant, "HSETNX", key, name, blob, durable=True)
        stored: bytes = await self._on(tenant, "HGET", key, name)
        return stored

    async def replace_wrapped_key(self, tenant: TenantId, name: str, held: bytes, blob: bytes) -> bool:
        keys = (tenant_keys(tenant).keys,)
        return bool(await self._run(tenant, FIELD_SWAP, keys, name, held, blob))

    async def delete_wrapped_keys(self, tenant: TenantId) -> None:
        await self._on(tenant, "DEL", tenant_keys(tenant).keys, durable=True)

    # Idempotency slots

    async def reserve_slot(self, tenant: TenantId, token: str, value: bytes, lifetime_s: int) -> bytes | None:
        key = tenant_keys(tenant).idempotency(token)
        held = await self._run(tenant, _CLAIM, (key,), value, lifetime_s, "hold")
        return None if held == value else held

    async def fill_slot(self, tenant: TenantId, token: str, held: bytes, value: bytes, lifetime_s: int) -> bool:
        key = tenant_keys(tenant).idempotency(token)
        return bool(await self._run(tenant, _SWAP, (key,), held, lifetime_s, value))

    async def release_slot(self, tenant: TenantId, token: str, held: bytes) -> bool:
        return bool(await self._run(tenant, _SWAP, (tenant_keys(tenant).idempotency(token),), held, 0, b""))

    # Console sessions

    async def put_session(self, tenant: TenantId, name: str, data: bytes, lifetime_s: int) -> None:
        names = tenant_keys(tenant)
        await self._on(tenant, "SADD", names.session_names, name)
        await self._on(tenant, "SET", names.session(name), data, "EX", lifetime_s, durable=True)

    async def keep_session(self, tenant: TenantId, name: str, data: bytes, lifetime_s: int) -> bool:
        key = tenant_keys(tenant).session(name)
        return await self._on(tenant, "SET", key, data, "EX", lifetime_s, "XX") is not None

    async def session(self, tenant: TenantId, name: str) -> bytes | None:
        data: bytes | None = await self._on(tenant, "GET", tenant_keys(tenant).session(name))
        return data

    async def sessions(self, tenant: TenantId) -> Mapping[str, bytes]:
        names = tenant_keys(tenant)
        known = [name.decode() for name in await self._on(tenant, "SMEMBERS", names.session_names)]
        found = {name: await self.session(tenant, name) for name in sorted(known)}
        if over := [name for name, data in found.items() if data is None]:
            await self._on(tenant, "SREM", names.session_names, *over)
        return {name: data for name, data in found.items() if data is not None}

    async def drop_session(self, tenant: TenantId, name: str) -> bool:
        names = tenant_keys(tenant)
        dropped = await self._on(tenant, "DEL", names.session(name), durable=True)
        await self._on(tenant, "SREM", names.session_names, name)
        return bool(dropped)

    # Outside the tenants' slots

    async def put_sign_in(self, name: str, data: bytes, lifetime_s: int) -> None:
        key = keyspace.sign_in(name)
        await self._outside(key, "SET", key, data, "EX", lifetime_s)

    async def take_sign_in(self, name: str) -> bytes | None:
        key = keyspace.sign_in(name)
        data: bytes | None = await self._outside(key, "GETDEL", key)
        return data

    def claim(self, own_key: bytes, sealed_tenant: bytes, lifetime_s: int | None) -> Future[bytes]:
        key = keyspace.own(own_key)
        return self._outside(key, "EVALSHA", _CLAIM.sha, 1, key, sealed_tenant, lifetime_s or 0, durable=True)

    async def deployment_secret(self, name: str) -> bytes | None:
        blob: bytes | None = await self._outside(keyspace.DEPLOYMENT, "HGET", keyspace.DEPLOYMENT, name)
        return blob

    async def put_deployment_secret(self, name: str, blob: bytes) -> bytes:
        key = keyspace.DEPLOYMENT
        await self._outside(key, "HSETNX", key, name, blob, durable=True)
        stored: bytes = await self._outside(key, "HGET", key, name)
        return stored

    async def replace_deployment_secret(self, name: str, held: bytes, blob: bytes) -> bool:
        key = keyspace.DEPLOYMENT
        return bool(await self._outside(key, "EVALSHA", FIELD_SWAP.sha, 1, key, name, held, blob, durable=True))

    async def append_operator_event(self, body: bytes) -> None:
        key = keyspace.OPERATOR_LOG
        await self._outside(key, "XADD", key, "MAXLEN", "~", OPERATOR_EVENTS, "*", "e", body)

    async def read_operator_events(self, after_id: str, count: int) -> tuple[tuple[str, bytes], ...]:
        key = keyspace.OPERATOR_LOG
        rows = await self._outside(key, "XRANGE", key, f"({after_id}", "+", "COUNT", min(count, PAGE))
        return tuple((row.decode(), fields[1]) for row, fields in rows)

    async def aclose(self) -> None:
        await self._link.aclose()

    def _on(self, tenant: TenantId, *arguments: Argument, durable: bool = False) -> Future[Any]:
        names = tenant_keys(tenant)
        return self._link.call(names.slot, arguments, tag=names.tag, durable=durable)

    def _run(self, tenant: TenantId, script: Script, keys: tuple[bytes, ...], *values: Argument) -> Future[Any]:
        return self._on(tenant, "EVALSHA", script.sha, len(keys), *keys, *values, durable=True)

    def _outside(self, key: bytes, *arguments: Argument, durable: bool = False) -> Future[Any]:
        return self._link.call(keyspace.slot_of(key), arguments, tag=key, durable=durable)


def _rows_of(entries: tuple[Entry, ...]) -> list[bytes]:
    first = entries[0]
    if len(entries) == 1 and not first.ends:
        return [first.body, first.mac]
    if any(
        (entry.writer, entry.wseq) != (first.writer, first.wseq + i) or entry.ends for i, entry in enumerate(entries)
    ):
        raise ValueError("the entries of one call follow each other in one writer")
    return [part for entry in entries for part in (entry.body, entry.mac)]


def _begun(reply: Reply) -> Begun:
    seq, generation, active, live, *read = reply
    found = tuple([Found(record, root) for record, root in zip(read[::2], read[1::2], strict=True)])
    return Begun(seq, generation, active == 1, live == 1, found)


def _stretch(names: TenantKeys, stretch: Stretch) -> tuple[Argument, ...]:
    """As `rows.lua` takes it."""
    return (
        names.record(stretch.kind, b""), stretch.after.hex(), stretch.position, int(stretch.newest_first), stretch.count,
        *(names.listed(stretch.kind, scope) for scope in stretch.scopes),
    )  # fmt: skip


def _begun_with_rows(reply: Reply) -> Begun:
    if not isinstance(reply[-1], list):
        return _begun(reply)
    *rest, rows = reply
    begun = _begun(rest)
    begun.rows = _rows(rows)
    return begun


def _rows(reply: Reply) -> Rows:
    known, position, *flat = reply
    rows = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return Rows(known == 1, tuple([Row(bytes.fromhex(h.decode()), record, at) for h, record, at in rows]), position)


def _finished(reply: Reply) -> Finished:
    return Finished(reply[0], reply[1] == 1, tuple(reply[2:]))


def _events(rows: Reply) -> tuple[StoredEvent, ...]:
    """Rows as `append.lua` writes them; whatever else is there is somebody else's."""
    return tuple(StoredEvent(int(id_[2:]), row[1], row[3] if len(row) > 3 else b"") for id_, row in rows)
