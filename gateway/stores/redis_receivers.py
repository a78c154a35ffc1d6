"""What streams and webhooks have in common in Redis: a hash of a tenant's receivers, and the set of tenants that may have any."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Collection, Mapping
from typing import Any

from gateway.names import TenantId
from gateway.stores import keyspace
from gateway.stores.keyspace import TenantKeys, tenant_keys
from gateway.stores.link import AnyLink
from gateway.stores.script import Script
from gateway.stores.wire import Argument


class RedisReceivers:
    """`tenants_key`: the set outside the tenants' slots; `held_in`: the tenant's hash, name → sealed record."""

    def __init__(self, link: AnyLink, tenants_key: bytes, held_in: Callable[[TenantKeys], bytes]) -> None:
        self._link = link
        self._tenants_key = tenants_key
        self._held_in = held_in

    async def tenants(self) -> frozenset[TenantId]:
        return frozenset(TenantId(name.decode()) for name in await self._outside("SMEMBERS"))

    async def forget(self, tenant: TenantId) -> None:
        await self._outside("SREM", tenant)

    async def enlist(self, tenant: TenantId) -> None:
        """Done before its first receiver is entered, so that none is ever overlooked."""
        await self._outside("SADD", tenant)

    async def records(self, tenant: TenantId) -> Mapping[str, bytes]:
        flat = await self._on(tenant, "HGETALL", self._held_in(tenant_keys(tenant)))
        return {name.decode(): record for name, record in zip(flat[::2], flat[1::2], strict=True)}

    async def names(self, tenant: TenantId) -> Collection[str]:
        return [name.decode() for name in await self._on(tenant, "HKEYS", self._held_in(tenant_keys(tenant)))]

    def _on(self, tenant: TenantId, *arguments: Argument, durable: bool = False) -> Future[Any]:
        names = tenant_keys(tenant)
        return self._link.call(names.slot, arguments, tag=names.tag, durable=durable)

    def _run(
        self, tenant: TenantId, script: Script, keys: tuple[bytes, ...], *values: Argument, durable: bool = False
    ) -> Future[Any]:
        return self._on(tenant, "EVALSHA", script.sha, len(keys), *keys, *values, durable=durable)

    def _outside(self, command: str, *values: Argument) -> Future[Any]:
        key = self._tenants_key
        return self._link.call(keyspace.slot_of(key), (command, key, *values), tag=key)
