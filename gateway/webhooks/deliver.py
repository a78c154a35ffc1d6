"""Delivers what waits for tenants' receivers: at least once, one message of an object at a time, each by one replica.

What fails is tried again, later each time, and after days it is a dead letter, which stays until somebody has it sent again. A
receiver that fails is left alone for a while, whatever waits for it. Nobody else's waits meanwhile: each has few connections.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from gateway.audit.event import Change, EventType, Outcome, Result
from gateway.audit.log import AuditLog
from gateway.audit.sinks import Sink
from gateway.clock import now_ms
from gateway.errors import Problem
from gateway.followers import Followers, pause_s
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.standard_webhooks import GONE
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.contract import Store, StoreError
from gateway.stores.webhooks import DeadLetter, Leased
from gateway.webhooks import message
from gateway.webhooks.registry import Webhooks

LOG = logging.getLogger(__name__)

SLACK_S: Final = 5.0
"""What a lease is longer than an attempt may take: for the store and the log, before and after it."""
_RESTS: Final = 5
"""A receiver's first pause is that much shorter than that of the message that failed, for others may be taken."""


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    lease_s: float = 20.0
    """The next replica begins only after it."""
    poll_s: float = 1.0
    discover_s: float = 2.0
    first_pause_s: float = 5.0
    longest_pause_s: float = 6 * 3600.0
    """Of one object's messages."""
    longest_rest_s: float = 60.0
    """Of a receiver that failed, whatever else waits for it."""
    give_up_s: float = 3 * 86_400.0
    """A message that is older becomes a dead letter with its next failure."""
    most_dead: int = 10_000
    """Dead letters of one receiver."""
    at_once: int = 4
    """Messages on their way to one receiver."""
    at_once_in_all: int = 256


class Deliverer:
    def __init__(
        self,
        store: Store,
        webhooks: Webhooks,
        keys: AuditKeyring,
        log: AuditLog,
        settings: DeliverySettings | None = None,
    ) -> None:
        self.tally: Counter[str] = Counter()
        """Attempts by what became of them, since the process began."""
        self._webhooks = webhooks
        self._queue = webhooks.store
        self._keys = keys
        self._log = log
        self._settings = settings or DeliverySettings()
        poll_s, discover_s = self._settings.poll_s, self._settings.discover_s
        self._followers = Followers("webhooks", store, webhooks.store, self._turn, poll_s=poll_s, discover_s=discover_s)
        self._room = asyncio.Semaphore(self._settings.at_once_in_all)

    async def run_forever(self) -> None:
        """Looks for webhooks and gives each a task. Ends when cancelled, and its tasks with it."""
        await self._followers.run_forever()

    async def _turn(self, tenant: TenantId, name: str) -> bool:
        """Delivers what is due, several at once where one went well."""
        if not await self.deliver(tenant, name):
            return False
        async with asyncio.TaskGroup() as group:
            for _ in range(self._settings.at_once):
                group.create_task(self._deliver_on(tenant, name))
        return True

    async def _deliver_on(self, tenant: TenantId, name: str) -> None:
        try:
            while await self.deliver(tenant, name):
                pass
        except StoreError as error:
            # Each by itself: what the others send arrives all the same.
            LOG.warning("webhooks.store_failed", extra={"fields": {"receiver": name, "reason": str(error)}})

    async def deliver(self, tenant: TenantId, name: str) -> bool:
        """Sends one message, if one is due and nobody else has it. Whether it was delivered. Raises StoreError."""
        async with self._room:
            owner = secrets.token_hex(8)
            leased = await self._queue.lease(tenant, name, owner, self._settings.lease_s)
            if leased is None:
                return False
            opened = await self._webhooks.open(tenant, self._keys, name)
            if opened is None:
                return False
            try:
                return await self._attempt(tenant, name, owner, *opened, leased)
            except Problem:
                # It is in no log that it was delivered: it goes again once the lease is over.
                LOG.warning("webhooks.not_recorded", extra={"fields": {"webhook": name}})
                return False

    async def _attempt(
        self, tenant: TenantId, name: str, owner: str, keys: Versions[AuditKeys], sink: Sink, leased: Leased
    ) -> bool:
        ours, attempts = leased.message, leased.attempts + 1
        content = message.unseal(keys, tenant, name, ours)
        if content is None:
            # Nobody of ours wrote it, or its key is gone: no attempt will change that.
            await self._bury(tenant, name, owner, leased, content, "it cannot be opened", 0)
            return True
        status, error = await self._webhooks.attempt(tenant, sink, ours.id, content.body)
        if not error:
            await self._record(tenant, name, leased, content, Outcome(Result.ALLOW, status=status))
            self.tally["delivered"] += 1
            return await self._queue.delivered(tenant, name, owner, ours.lane)
        self.tally["failed"] += 1
        told = {"webhook": name, "attempts": attempts, "reason": error}
        LOG.warning("webhooks.not_delivered", extra={"fields": told})
        settings = self._settings
        if status != GONE and time.time() - ours.put_ms / 1000 > settings.give_up_s:
            await self._bury(tenant, name, owner, leased, content, error, status)
            return False
        lane = pause_s(attempts, settings.first_pause_s, settings.longest_pause_s)
        rest = self._rest_s(leased)
        await self._queue.failed(tenant, name, owner, ours.lane, error, (lane, rest), stop=status == GONE)
        return False

    async def _bury(
        self,
        tenant: TenantId,
        name: str,
        owner: str,
        leased: Leased,
        content: message.Content | None,
        error: str,
        status: int,
    ) -> None:
        await self._record(tenant, name, leased, content, Outcome(Result.ERROR, "webhook_given_up", status))
        self.tally["given_up"] += 1
        dead = DeadLetter(leased.message, now_ms(), leased.attempts + 1, error)
        await self._queue.bury(tenant, name, owner, dead, self._settings.most_dead, self._rest_s(leased))

    async def _record(
        self, tenant: TenantId, name: str, leased: Leased, content: message.Content | None, outcome: Outcome
    ) -> None:
        changes: dict[str, Change] = {
            "attempts": leased.attempts + 1,
            "message": leased.message.id,
            "webhook": name,
        }
        await self._log.record(tenant, message.event(tenant, EventType.WEBHOOK_DELIVER, outcome, content, changes))

    def _rest_s(self, leased: Leased) -> float:
        settings = self._settings
        return pause_s(leased.failures + 1, settings.first_pause_s / _RESTS, settings.longest_rest_s)
