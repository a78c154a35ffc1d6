"""The `WebhookStore` on Redis or Valkey."""

from __future__ import annotations

import time
from typing import Final

import orjson

from gateway.names import Kind, TenantId
from gateway.stores import keyspace
from gateway.stores.keyspace import tenant_keys
from gateway.stores.link import AnyLink
from gateway.stores.redis_receivers import RedisReceivers
from gateway.stores.script import FIELD_SWAP, Script
from gateway.stores.webhooks import DeadLetter, Leased, Message, Put, WebhookState

_ADD: Final = Script.load("stream_add.lua")
_PUT: Final = Script.load("webhook_put.lua")
_LEASE: Final = Script.load("webhook_lease.lua")
_SETTLE: Final = Script.load("webhook_settle.lua")
_REMOVE: Final = Script.load("webhook_remove.lua")
_WAKE: Final = Script.load("webhook_wake.lua")
SCRIPTS: Final = tuple(script.source for script in (_PUT, _LEASE, _SETTLE, _REMOVE, _WAKE))

_PUTS: Final = {0: Put.GONE, 1: Put.TAKEN, 2: Put.KNOWN, 3: Put.FULL}
_KNOWN_MS: Final = 4 * 86_400_000
"""Longer than the service goes on sending a webhook that was not taken
(https://platform.openai.com/docs/guides/webhooks: 72 hours)."""


class RedisWebhooks(RedisReceivers):
    """The `WebhookStore` contract."""

    def __init__(self, link: AnyLink) -> None:
        super().__init__(link, keyspace.HOOKED, lambda names: names.webhooks)

    async def claimed(self, own_key: bytes) -> bytes | None:
        key = keyspace.own(own_key)
        sealed: bytes | None = await self._link.call(keyspace.slot_of(key), ("GET", key), tag=key)
        return sealed

    async def record(self, tenant: TenantId, kind: Kind, h: bytes) -> bytes | None:
        data: bytes | None = await self._on(tenant, "GET", tenant_keys(tenant).record(kind, h))
        return data

    async def add(self, tenant: TenantId, name: str, record: bytes, most: int) -> bool:
        await self.enlist(tenant)
        names = tenant_keys(tenant)
        keys = (names.meta, names.webhooks, names.webhook(name))
        return bool(await self._run(tenant, _ADD, keys, name, record, most, 0, durable=True))

    async def replace(self, tenant: TenantId, name: str, held: bytes, record: bytes) -> bool:
        keys = (tenant_keys(tenant).webhooks,)
        return bool(await self._run(tenant, FIELD_SWAP, keys, name, held, record, durable=True))

    async def remove(self, tenant: TenantId, name: str) -> bool:
        names = tenant_keys(tenant)
        base = names.webhook(name)
        keys = (names.webhooks, base, base + b":due", base + b":seen", base + b":dead")
        return bool(await self._run(tenant, _REMOVE, keys, name, durable=True))

    async def state(self, tenant: TenantId, name: str) -> WebhookState:
        base = tenant_keys(tenant).webhook(name)
        fields = self._on(tenant, "HMGET", base, "waiting", "failures", "error", "retry", "stopped")
        dead = self._on(tenant, "HLEN", base + b":dead")
        waiting, failures, error, retry, stopped = await fields
        return WebhookState(
            int(waiting or 0),
            await dead,
            int(failures or 0),
            (error or b"").decode("utf-8", "replace"),
            max(0.0, int(retry or 0) / 1000 - time.time()),
            stopped is not None,
        )

    async def put(self, tenant: TenantId, name: str, message: Message, most: int, *, again: bool = False) -> Put:
        names = tenant_keys(tenant)
        base = names.webhook(name)
        keys = (names.meta, names.webhooks, base, base + b":due", _queue(base, message.lane), base + b":seen")
        values = (name, message.id, message.lane, _packed(message), most, _KNOWN_MS, int(again))
        return _PUTS[await self._run(tenant, _PUT, keys, *values, durable=True)]

    async def lease(self, tenant: TenantId, name: str, owner: str, lease_s: float) -> Leased | None:
        names = tenant_keys(tenant)
        base = names.webhook(name)
        keys = (names.meta, names.webhooks, base, base + b":due")
        reply = await self._run(tenant, _LEASE, keys, name, owner, round(lease_s * 1000))
        if not reply:
            return None
        lane, packed, attempts, failures = reply
        return Leased(_unpacked(lane.decode(), packed), int(attempts), int(failures))

    async def delivered(self, tenant: TenantId, name: str, owner: str, lane: str) -> bool:
        return await self._settle(tenant, name, lane, owner, "delivered")

    async def failed(
        self,
        tenant: TenantId,
        name: str,
        owner: str,
        lane: str,
        error: str,
        pauses_s: tuple[float, float],
        *,
        stop: bool,
    ) -> bool:
        return await self._settle(tenant, name, lane, owner, "failed", error, pauses_s, stop=stop)

    async def bury(self, tenant: TenantId, name: str, owner: str, dead: DeadLetter, most: int, pause_s: float) -> bool:
        message = dead.message
        letter = orjson.dumps(
            {
                "attempts": dead.attempts,
                "died": dead.died_ms,
                "error": dead.error,
                "lane": message.lane,
                "message": _packed(message).decode(),
            }
        )
        values = (message.id, letter, most)
        return await self._settle(tenant, name, message.lane, owner, "dead", dead.error, (0.0, pause_s), *values)

    async def dead(self, tenant: TenantId, name: str) -> tuple[DeadLetter, ...]:
        letters = await self._on(tenant, "HVALS", tenant_keys(tenant).webhook(name) + b":dead")
        return tuple(sorted(map(_letter, letters), key=lambda letter: (letter.message.put_ms, letter.died_ms)))

    async def exhume(self, tenant: TenantId, name: str, id_: str) -> None:
        await self._on(tenant, "HDEL", tenant_keys(tenant).webhook(name) + b":dead", id_, durable=True)

    async def wake(self, tenant: TenantId, name: str) -> None:
        base = tenant_keys(tenant).webhook(name)
        await self._run(tenant, _WAKE, (base, base + b":due"))

    async def _settle(
        self,
        tenant: TenantId,
        name: str,
        lane: str,
        owner: str,
        what: str,
        error: str = "",
        pauses_s: tuple[float, float] = (0.0, 0.0),
        *letter: str | bytes | int,
        stop: bool = False,
    ) -> bool:
        base = tenant_keys(tenant).webhook(name)
        keys = (base, base + b":due", base + b":dead", _queue(base, lane))
        lane_ms, receiver_ms = (round(pause * 1000) for pause in pauses_s)
        values = (lane, owner, what, error, lane_ms, receiver_ms, int(stop), *letter)
        return bool(await self._run(tenant, _SETTLE, keys, *values, durable=what == "dead"))


def _queue(base: bytes, lane: str) -> bytes:
    return b"%b:q:%b" % (base, lane.encode())


def _packed(message: Message) -> bytes:
    return f"{message.id} {message.put_ms} {message.sealed}".encode()


def _unpacked(lane: str, packed: bytes) -> Message:
    """Whatever stands there: what is no message of ours does not open."""
    id_, _, rest = packed.decode("utf-8", "replace").partition(" ")
    put_ms, _, sealed = rest.partition(" ")
    return Message(id_, lane, int(put_ms) if put_ms.isdecimal() and put_ms.isascii() else 0, sealed)


def _letter(stored: bytes) -> DeadLetter:
    held = orjson.loads(stored)
    message = _unpacked(held["lane"], held["message"].encode())
    return DeadLetter(message, held["died"], held["attempts"], held["error"])
