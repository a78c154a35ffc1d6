"""The `StreamStore` on Redis or Valkey."""

from __future__ import annotations

from typing import Final

from gateway.clock import now_ms
from gateway.names import TenantId
from gateway.stores import keyspace
from gateway.stores.keyspace import tenant_keys
from gateway.stores.link import AnyLink
from gateway.stores.redis_receivers import RedisReceivers
from gateway.stores.script import Script
from gateway.stores.streams import StreamState
from gateway.stores.wire import Argument, Reply

_ADD: Final = Script.load("stream_add.lua")
_LEASE: Final = Script.load("stream_lease.lua")
_SETTLE: Final = Script.load("stream_settle.lua")
SCRIPTS: Final = tuple(script.source for script in (_ADD, _LEASE, _SETTLE))

_FIELDS: Final = ("cursor", "digest", "upto", "failures", "error", "stopped")


class RedisStreams(RedisReceivers):
    """The `StreamStore` contract. A cursor or lease that is lost in a failover costs that a batch is sent twice."""

    def __init__(self, link: AnyLink) -> None:
        super().__init__(link, keyspace.STREAMING, lambda names: names.streams)

    async def add(self, tenant: TenantId, stream: str, record: bytes, most: int, *, from_start: bool) -> bool:
        await self.enlist(tenant)
        names = tenant_keys(tenant)
        keys = (names.meta, names.streams, names.stream(stream))
        return bool(await self._run(tenant, _ADD, keys, stream, record, most, 0 if from_start else b"", durable=True))

    async def remove(self, tenant: TenantId, stream: str) -> bool:
        names = tenant_keys(tenant)
        removed = await self._on(tenant, "HDEL", names.streams, stream, durable=True)
        await self._on(tenant, "DEL", names.stream(stream), durable=True)
        return bool(removed)

    async def state(self, tenant: TenantId, stream: str) -> StreamState:
        names = tenant_keys(tenant)
        meta = self._on(tenant, "HMGET", names.meta, "seq")
        seq, (retry, *fields) = await meta, await self._on(tenant, "HMGET", names.stream(stream), "retry", *_FIELDS)
        return _state([seq[0], int(retry or 0) - now_ms(), *fields])

    async def lease(
        self, tenant: TenantId, stream: str, owner: str, lease_s: float, *, upto: int = 0
    ) -> StreamState | None:
        names = tenant_keys(tenant)
        keys = (names.meta, names.streams, names.stream(stream))
        reply = await self._run(tenant, _LEASE, keys, stream, owner, round(lease_s * 1000), upto)
        return _state(reply) if reply else None

    async def delivered(self, tenant: TenantId, stream: str, owner: str, cursor: int, digest: str) -> bool:
        fields = ("cursor", cursor, "digest", digest, "upto", 0, "failures", 0, "error", b"")
        return await self._settle(tenant, stream, owner, 0, 0, *fields)

    async def failed(
        self, tenant: TenantId, stream: str, owner: str, failures: int, error: str, retry_in_s: float, *, stop: bool
    ) -> bool:
        retry = round(retry_in_s * 1000)
        return await self._settle(tenant, stream, owner, retry, int(stop), "failures", failures, "error", error)

    async def wake(self, tenant: TenantId, stream: str) -> None:
        await self._on(tenant, "HDEL", tenant_keys(tenant).stream(stream), "retry", "stopped", "failures", "error")

    async def _settle(self, tenant: TenantId, stream: str, *values: Argument) -> bool:
        names = tenant_keys(tenant)
        return bool(await self._run(tenant, _SETTLE, (names.streams, names.stream(stream)), stream, *values))


def _state(reply: Reply) -> StreamState:
    seq, retry_ms, cursor, digest, upto, failures, error, stopped = reply
    return StreamState(
        int(cursor or 0),
        int(seq or 0),
        (digest or b"").decode(),
        int(upto or 0),
        int(failures or 0),
        (error or b"").decode("utf-8", "replace"),
        max(0.0, retry_ms / 1000),
        stopped is not None,
    )
