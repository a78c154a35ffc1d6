"""Takes old events out of Redis by the tenant's rule: archived, read back, and only below an anchored checkpoint.

A legal hold stops it, also between the steps of one round: the script that trims asks for it. What was archived is not deleted
by the gateway; when the archive's stretches may go is the operator's and the tenant's to say.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import Final

from gateway.audit.anchors.bucket import BucketFailed
from gateway.audit.anchors.contract import AnchorFailed
from gateway.audit.anchors.file import FileAnchor
from gateway.audit.archive import MOST_EVENTS, Archive, ArchiveDamaged, Head, Stretch
from gateway.audit.checkpoint import Checkpoint, VerifierKey, log_origin, open_note
from gateway.audit.consistency import LogMismatch
from gateway.audit.event import SYSTEM, Event, EventType, Outcome, Phase, Result, decode
from gateway.audit.known import verifier_keys
from gateway.audit.log import AuditLog
from gateway.audit.tree import Frontier, Tree, leaf
from gateway.errors import Problem
from gateway.ids.keys import AuditKeys, KeyRefused, Versions
from gateway.names import TenantId
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.contract import Store, StoredEvent, StoreError, TenantStatus
from gateway.stores.keyring import KeysMissing
from gateway.stores.keyspace import is_safe_name
from gateway.stores.log import LogState

LOG = logging.getLogger(__name__)

DAY_US: Final = 86_400_000_000
_PAGE: Final = 500
_TRIMMED_AT_ONCE: Final = 1000
"""Redis does nothing else meanwhile."""
_LEASE_S: Final = 3600
_LEASE: Final = "retention"


class Retention:
    """`days`: of tenants without a rule of their own; 0: nothing goes."""

    def __init__(
        self,
        store: Store,
        keyring: AuditKeyring,
        log: AuditLog,
        anchor: FileAnchor,
        archive: Archive,
        days: int,
        *,
        every_s: float = 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._log = log
        self._anchor = anchor
        self._archive = archive
        self._days = days
        self._every_s = every_s
        self._clock = clock

    async def run(self) -> None:
        while True:
            try:
                async for tenant, _ in self._store.tenants():
                    if is_safe_name(tenant):
                        await self.try_retire(tenant)
            except StoreError as error:
                LOG.warning("audit.retention_failed", extra={"fields": {"reason": str(error)}})
            await asyncio.sleep(self._every_s)

    async def try_retire(self, tenant: TenantId) -> None:
        """`retire` for one tenant of many: what fails is logged, and tried again in the next round."""
        try:
            gone = await self.retire(tenant)
            if gone:
                LOG.info("audit.trimmed", extra={"fields": {"tenant": tenant, "events": gone}})
        except KeysMissing:
            return
        except LogMismatch as mismatch:
            LOG.critical("audit.log_mismatch", extra={"fields": {"tenant": tenant, "reason": str(mismatch)}})
            await self._store.log.halt(tenant, str(mismatch))
        except (StoreError, AnchorFailed, ArchiveDamaged, BucketFailed, KeyRefused, Problem, OSError) as error:
            LOG.error("audit.not_archived", extra={"fields": {"tenant": tenant, "reason": str(error)}})
        except Exception:  # others' logs are looked after whatever one log holds
            LOG.exception("audit.not_archived")

    async def retire(self, tenant: TenantId) -> int:
        """Archives and trims what is older than the rule says; how many events. One replica at a time does it.

        Raises LogMismatch where the events are not the ones that were signed, ArchiveDamaged, AnchorFailed, KeysMissing,
        OSError, and what the store and the log raise.
        """
        mine = secrets.token_hex(8).encode()
        if await self._store.reserve_slot(tenant, _LEASE, mine, _LEASE_S) is not None:
            return 0
        try:
            gone = 0
            while count := await self._retire_some(tenant):
                gone += count
            return gone
        finally:
            await self._store.release_slot(tenant, _LEASE, mine)

    async def _retire_some(self, tenant: TenantId) -> int:
        """One stretch."""
        rules, state = await self._store.log.rules(tenant), await self._store.log.state(tenant)
        days = self._days if rules.days is None else rules.days
        if not days or rules.hold or state is None or state.halted or state.status is TenantStatus.ERASED:
            return 0
        name = log_origin((await self._keyring.deployment()).deployment, tenant)
        audit = await self._keyring.tenant(tenant)
        keys = verifier_keys(name, audit)
        known = await asyncio.to_thread(self._archive.stretches, tenant)
        # A round that broke off after its stretch was written goes on with it.
        stretch = next((one for one in known if one.first == state.trimmed + 1 and one.last <= state.anchored), None)
        if stretch is None:
            events = await self._old(tenant, state, int(self._clock() * 1e6) - days * DAY_US)
            if not events:
                return 0
            stretch = await self._write(tenant, state, events, name, audit)
        await asyncio.to_thread(self._archive.check, stretch, keys)
        await self._archive.copy(stretch)
        await self._record(tenant, stretch)
        return await self._trim(tenant, state, stretch)

    async def _old(self, tenant: TenantId, state: LogState, before_us: int) -> list[StoredEvent]:
        """The log's first events, as many as are old, anchored and fit into a stretch. As clocks differ a little, one that
        is not old ends them, whatever follows."""
        events: list[StoredEvent] = []
        at = state.trimmed
        while at < state.anchored and len(events) < MOST_EVENTS:
            page = await self._store.read_events(tenant, at, min(_PAGE, state.anchored - at))
            for event in page:
                if event.seq != at + 1:
                    raise LogMismatch(f"event {at + 1} is missing in the middle of the log", state.size)
                if not _is_older(event, before_us) or len(events) == MOST_EVENTS:
                    return events
                events.append(event)
                at = event.seq
            if not page:
                raise LogMismatch(f"event {at + 1} is missing in the middle of the log", state.size)
        return events

    async def _write(
        self, tenant: TenantId, state: LogState, events: list[StoredEvent], name: str, audit: Versions[AuditKeys]
    ) -> Stretch:
        """Proven by the first anchored checkpoint that covers all of them."""
        tree = Tree(_base(state))
        tree.extend(leaf(tenant, event.seq, event.body) for event in events)
        head, note = await self._head(state, events[-1].seq, name, verifier_keys(name, audit))
        while tree.size < head.size:
            page = await self._store.read_events(tenant, tree.size, min(_PAGE, head.size - tree.size))
            if not page or page[0].seq != tree.size + 1 or page[-1].seq != tree.size + len(page):
                raise LogMismatch(f"event {tree.size + 1} is missing in the middle of the log", head.size)
            tree.extend(leaf(tenant, event.seq, event.body) for event in page)
        if tree.root() != head.root:
            raise LogMismatch(f"the events up to {head.size} are not the ones that were signed", head.size)
        proven = Head(head.origin, note, tree)
        made_us = int(self._clock() * 1e6)
        return await asyncio.to_thread(self._archive.write, tenant, events, proven, audit.newest.seed, made_us)

    async def _head(
        self, state: LogState, last: int, name: str, keys: tuple[VerifierKey, ...]
    ) -> tuple[Checkpoint, str]:
        note = await self._anchor.first_from(name, state.epoch, last)
        for one in (note, state.note):
            checkpoint = open_note(one, keys) if one else None
            if checkpoint is not None and checkpoint.epoch == state.epoch and last <= checkpoint.size <= state.anchored:
                return checkpoint, one or ""
        raise AnchorFailed("no anchored checkpoint covers the events yet")

    async def _record(self, tenant: TenantId, stretch: Stretch) -> None:
        changes = {"first": stretch.first, "last": stretch.last}
        now_us = int(self._clock() * 1e6)
        outcome = Outcome(Result.ALLOW)
        await self._log.record(
            tenant, Event(tenant, now_us, EventType.LOG_ARCHIVED, Phase.SINGLE, SYSTEM, None, outcome, (), changes)
        )

    async def _trim(self, tenant: TenantId, state: LogState, stretch: Stretch) -> int:
        frontier, at = _base(state), state.trimmed
        while at < stretch.last:
            page = await self._store.read_events(tenant, at, min(_TRIMMED_AT_ONCE, stretch.last - at))
            frontier = frontier.extend(leaf(tenant, event.seq, event.body) for event in page)
            if not page or frontier.size != page[-1].seq:
                raise LogMismatch(f"event {at + 1} is missing in the middle of the log", state.size)
            if not await self._store.log.trim(tenant, frontier.size, frontier.to_bytes()):
                break  # a hold came meanwhile
            at = frontier.size
        return at - state.trimmed


def _base(state: LogState) -> Frontier:
    return Frontier.from_bytes(state.base) if state.trimmed else Frontier()


def _is_older(event: StoredEvent, before_us: int) -> bool:
    try:
        return decode(event.body).ts_us < before_us
    except ValueError:
        return True
