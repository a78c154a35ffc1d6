"""Delivers the streams: each by one replica at a time, batch by batch, until its receiver has what the log has.

At least once. A batch is noted before it goes out, so whoever takes over sends the very same one, which its receiver knows by
its `webhook-id`. What fails is tried again, later each time. Requests wait for none of this: a stream is a task of its own,
reads what is in the log already, and holds nothing but its batch.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from dataclasses import dataclass
from itertools import takewhile
from operator import itemgetter

from gateway.audit.genuine import is_genuine, version_of
from gateway.audit.search.terms import terms_of
from gateway.audit.streams.batch import Batch, Notice, Told
from gateway.audit.streams.registry import Streams
from gateway.clock import now_us
from gateway.followers import Followers, pause_s
from gateway.names import TenantId
from gateway.standard_webhooks import GONE
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.contract import Store, StoredEvent
from gateway.stores.streams import StreamState

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    batch_events: int = 100
    """At most 400 KB."""
    lease_s: float = 60.0
    """Longer than an attempt may take: the next replica begins only after it."""
    poll_s: float = 1.0
    discover_s: float = 5.0
    first_pause_s: float = 2.0
    longest_pause_s: float = 3600.0
    at_once: int = 64
    """Batches on their way at once."""


class Deliverer:
    def __init__(
        self,
        store: Store,
        streams: Streams,
        keys: AuditKeyring,
        settings: DeliverySettings | None = None,
    ) -> None:
        self._store = store
        self._streams = streams
        self._states = streams.store
        self._keys = keys
        self._settings = settings or DeliverySettings()
        self._owner = secrets.token_hex(8)
        poll_s, discover_s = self._settings.poll_s, self._settings.discover_s
        self._followers = Followers("streams", store, streams.store, self.deliver, poll_s=poll_s, discover_s=discover_s)
        self._room = asyncio.Semaphore(self._settings.at_once)

    async def run_forever(self) -> None:
        """Looks for streams and gives each a task. Ends when cancelled, and its tasks with it."""
        await self._followers.run_forever()

    async def deliver(self, tenant: TenantId, name: str) -> bool:
        """Sends one batch, if there is one and this replica has the stream. Whether there may be more. Raises StoreError."""
        state = await self._states.lease(tenant, name, self._owner, self._settings.lease_s)
        if state is None:
            return False
        before = state.cursor
        batch, cursor = await self._batch(tenant, state)
        if not batch.told and not batch.rows:
            return False
        opened = await self._streams.open(tenant, self._keys, name)
        if opened is None:
            return False
        async with self._room:
            # Also so that the lease outlasts the attempt, however long it waited for its turn.
            state = await self._states.lease(tenant, name, self._owner, self._settings.lease_s, upto=cursor)
            if state is None or state.cursor != before:
                # Somebody else had it while this batch waited for its turn.
                return state is not None
            status, error = await self._streams.send(tenant, name, opened[1], batch)
        if error:
            await self._failed(tenant, name, state, error, stop=status == GONE)
            return False
        digest = _digest(batch.rows[-1]) if batch.rows else ""
        return await self._states.delivered(tenant, name, self._owner, cursor, digest)

    async def _batch(self, tenant: TenantId, state: StreamState) -> tuple[Batch, int]:
        """What goes next, and the cursor once it is delivered."""
        cursor, most = state.cursor, self._settings.batch_events
        if state.seq == cursor:
            return Batch((), ()), cursor
        if state.seq < cursor:
            # Told at once: once the log has grown again, nothing tells where the old part ends.
            return Batch((Told(Notice.CUT, now_us(), state.seq + 1, cursor),), ()), state.seq
        rows = await self._store.read_events(tenant, max(0, cursor - 1), most + 1)
        replaced = False
        if cursor and rows and rows[0].seq == cursor:
            replaced = bool(state.digest) and _digest(rows[0]) != state.digest
            rows = await self._store.read_events(tenant, 0, most) if replaced else rows[1:]
        # What may be on its way already goes as it was, though more has come.
        rows = tuple(row for row in rows if row.seq <= state.upto) or rows[:most]
        first = rows[0].seq if rows else 0
        invented, rows = await self._genuine(tenant, rows)
        if not invented and not rows:
            return Batch((), ()), cursor
        # By an event, so that the batch is the same if it goes again; rows that nobody of ours wrote have no say.
        ts_us = terms_of(rows[0].body).ts_us if rows else now_us()
        told: list[Told] = []
        if replaced:
            told.append(Told(Notice.REPLACED, ts_us, cursor, cursor))
        elif first > cursor + 1:
            told.append(Told(Notice.GAP, ts_us, cursor + 1, first - 1))
        if invented:
            told.append(Told(Notice.INVENTED, ts_us, first, invented))
        return Batch(told, rows), rows[-1].seq if rows else invented

    async def _genuine(self, tenant: TenantId, rows: tuple[StoredEvent, ...]) -> tuple[int, tuple[StoredEvent, ...]]:
        """The number of the last row that no gateway wrote of those that the others follow (0: none), and the rows from there
        to the next such one.

        No row without a MAC of the tenant's ever goes out, whatever the store says of checkpoints: who can write a row can write
        that. It only decides when such a row is passed over: once it is under one, an operator has resealed the log.
        """
        keys = await self._keys.tenant(tenant, having=max(map(version_of, rows), default=0))
        genuine = [is_genuine(row, keys) for row in rows]
        if all(genuine):
            return 0, rows
        state = await self._store.log.state(tenant)
        signed_to = state.size if state is not None and not state.halted else 0
        at = 0
        while at < len(rows) and not genuine[at] and rows[at].seq <= signed_to:
            at += 1
        kept = tuple(row for row, _ in takewhile(itemgetter(1), zip(rows[at:], genuine[at:], strict=True)))
        return rows[at - 1].seq if at else 0, kept

    async def _failed(self, tenant: TenantId, name: str, state: StreamState, error: str, *, stop: bool) -> None:
        failures = state.failures + 1
        pause = pause_s(failures, self._settings.first_pause_s, self._settings.longest_pause_s)
        await self._states.failed(tenant, name, self._owner, failures, error, pause, stop=stop)
        LOG.warning("streams.not_delivered", extra={"fields": {"stream": name, "failures": failures, "reason": error}})


def _digest(row: StoredEvent) -> str:
    return hashlib.sha256(row.body).hexdigest()
