"""A tenant's webhooks: receivers of what the service tells, with a secret that can be replaced; what was given up, sent again."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import orjson

from gateway.audit.receivers import NewReceiver, ReceiverMissing, ReceiverRefused, Receivers
from gateway.audit.sinks import Sink, seal
from gateway.clock import now_ms
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.standard_webhooks import SECRET_BYTES, message_id, show_secret
from gateway.stores.webhooks import DeadLetter, Put, WebhookState, WebhookStore
from gateway.webhooks import message
from gateway.webhooks.intake import MOST_WAITING

MOST: Final = 4
"""Webhooks of a tenant."""
TEST: Final = "webhook.test"
"""The type of the event by which a receiver is tried; none of the service's."""


@dataclass(frozen=True, slots=True)
class Dead:
    letter: DeadLetter
    content: message.Content | None
    """None: it cannot be opened."""


@dataclass(frozen=True)
class Webhooks(Receivers[WebhookState]):
    store: WebhookStore
    noun: ClassVar = "webhook"
    prefix: ClassVar = "hook_"
    most: ClassVar = MOST

    async def add(self, tenant: TenantId, keys: Versions[AuditKeys], url: str) -> NewReceiver:
        """Raises ReceiverRefused, and what the store raises."""
        made, record = self.new(tenant, keys, url)
        if not await self.store.add(tenant, made.id, record, MOST):
            raise self.too_many()
        return made

    async def rotate(self, tenant: TenantId, keys: Versions[AuditKeys], name: str) -> NewReceiver:
        """A new secret; for a day, what is sent is signed with the old one as well. Raises ReceiverRefused."""
        held, sink = await self.sink(tenant, keys, name)
        secret = secrets.token_bytes(SECRET_BYTES)
        changed = replace(sink, secret=secret, former=sink.secret, replaced_s=int(time.time()))
        if not await self.store.replace(tenant, name, held, seal(keys, tenant, self.what(name), changed)):
            raise ReceiverRefused("somebody else changed it at the same moment; do it again")
        return NewReceiver(name, show_secret(secret))

    def trial(self, tenant: TenantId, name: str, sink: Sink) -> tuple[str, bytes]:
        """A signed event that is about nothing."""
        body = orjson.dumps({"object": "event", "type": TEST, "created_at": int(time.time()), "data": {}})
        return message_id(name, secrets.token_bytes(16)), body

    async def dead(self, tenant: TenantId, keys: Versions[AuditKeys], name: str) -> Sequence[Dead]:
        """The oldest first. Raises ReceiverMissing."""
        letters = await self._dead(tenant, name)
        return [Dead(letter, message.unseal(keys, tenant, name, letter.message)) for letter in letters]

    async def replay(self, tenant: TenantId, name: str, id_: str = "") -> int:
        """Puts dead letters (all, or one by its message's ID) behind what waits, as if they had come just now; how many.
        Raises ReceiverRefused."""
        letters = [one for one in await self._dead(tenant, name) if not id_ or one.message.id == id_]
        if id_ and not letters:
            raise ReceiverMissing("the webhook has no such dead letter")
        for letter in letters:
            again = replace(letter.message, put_ms=now_ms())
            put = await self.store.put(tenant, name, again, MOST_WAITING, again=True)
            if put is not Put.TAKEN:
                raise ReceiverRefused("too many messages wait already") if put is Put.FULL else self.missing()
            # In this order: whoever is interrupted between the two has it sent twice, not never.
            await self.store.exhume(tenant, name, again.id)
        return len(letters)

    async def _dead(self, tenant: TenantId, name: str) -> Sequence[DeadLetter]:
        if name not in await self.store.records(tenant):
            raise self.missing()
        return await self.store.dead(tenant, name)
