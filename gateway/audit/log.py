"""The audit log: nothing is done before its intent is in the log, and what was done is in the log before it is told.

`begin` and `finish` chain their events and put them on the wire before they return (a tenant's first ones wait until its audit
key is open, under which each event gets its MAC); what they return is awaited for at most `limit_s`. A caller who gives up, or
is cancelled, changes nothing of that: a call on its way is never taken back, and an intent that is confirmed after its caller
was refused gets its outcome from here.

Not in the log: requests that are refused before a tenant is known (they are summed in the operator's log), and what a flooding
principal sends while it is turned away (one summed event a second).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from gateway.audit.chain import Ended, Writer, succeed
from gateway.audit.event import SYSTEM, Event, EventType, Outcome, Phase, Result, decode
from gateway.audit.flood import SHOWN, Floods, Sum
from gateway.audit.lanes import Keys, Lane, Lanes
from gateway.audit.strangers import Strangers
from gateway.errors import TABLE, Problem, Reason
from gateway.names import TenantId
from gateway.stores.contract import (
    Begin,
    Begun,
    Entry,
    EventsLost,
    Finish,
    Finished,
    Lookup,
    NotDurable,
    Store,
    StoreError,
    Stretch,
    Write,
    WriterRefused,
)
from gateway.stores.deadlines import Deadlines
from gateway.tasks import Tasks, let_go

logger = logging.getLogger(__name__)

T = TypeVar("T", Begun, Finished)

OVERDUE_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class AuditSettings:
    limit_s: float = 0.5
    """What is not confirmed by then fails its request."""
    sums_every_s: float = 1.0
    sweep_every_s: float = 30.0
    """Overdue intents of tenants that this process has served."""
    sweep_all_every_s: float = 600.0
    """Overdue intents of all tenants, left by processes that died."""
    overdue_lease_s: int = 60
    idle_writer_s: float = 3600.0
    """A writer that was idle for so long is forgotten; the next event begins a new one."""


class Watch(Protocol):
    """Who wants to know of each answer (the checkpointer). Neither waits."""

    def appended(self, tenant: TenantId) -> None:
        """An event was confirmed."""

    def lost(self, tenant: TenantId) -> None:
        """The store holds fewer events than it confirmed, and takes no more."""


class _Underway(Generic[T]):
    """The sink of one call. The caller awaits `heard`, which the limit or a cancellation may end long before the answer."""

    __slots__ = ("answered", "entry", "event", "heard", "lane", "log", "refusal")

    def __init__(
        self, log: AuditLog, lane: Lane, entry: Entry, refusal: Callable[[], Problem], event: Event | None
    ) -> None:
        self.log = log
        self.lane = lane
        self.entry = entry
        """The last one of the call."""
        self.refusal = refusal
        """What the caller is told where the answer fails or comes too late."""
        self.event = event
        """What gets an outcome if it turns out to be in the log though the caller was refused; None: nothing has to."""
        self.heard: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.answered = False

    def done(self) -> bool:
        return self.answered

    def set_result(self, answer: T) -> None:
        self.answered = True
        self.log.on_answer(self, answer)

    def set_exception(self, error: Exception) -> None:
        self.answered = True
        self.log.on_failure(self, error)


class AuditLog:
    def __init__(
        self,
        store: Store,
        keys: Keys,
        settings: AuditSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives UTC seconds."""
        self.watch: Watch | None = None
        self._store = store
        self._settings = settings or AuditSettings()
        self._clock = clock
        self._floods = Floods()
        self._unsent: list[Sum] = []
        self._strangers = Strangers()
        self._deadlines = Deadlines(self._settings.limit_s)
        self._underway = 0
        """Calls without an answer, whether or not somebody waits for them."""
        self._quiet: asyncio.Future[None] | None = None
        """Done once nothing is on its way; there while the log is being closed."""
        self._tasks = Tasks()
        self._lanes = Lanes(keys, self._tasks, self._settings.limit_s)

    def start(self) -> None:
        """Begins the periodic work: sums, and the closing of overdue intents."""
        self._tasks.spawn("audit sums", self._every(self._settings.sums_every_s, self.send_sums))
        self._tasks.spawn("audit sweep", self._every(self._settings.sweep_every_s, self._sweep_served))
        self._tasks.spawn("audit sweep all", self._every(self._settings.sweep_all_every_s, self._sweep_all))

    async def aclose(self) -> None:
        """Sends the sums, and waits at most `limit_s` for what is on its way."""
        await self._tasks.aclose()
        await self.send_sums(now_s=self._clock() + 1)
        if self._underway:
            self._quiet = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._quiet}, timeout=self._settings.limit_s)

    # One request

    def begin(
        self,
        tenant: TenantId,
        event: Event,
        *,
        credential: str = "",
        lookups: tuple[Lookup, ...] = (),
        stretch: Stretch | None = None,
        open_s: int = 0,
    ) -> asyncio.Future[Begun]:
        """Appends an intent (`open_s`: seconds until it is closed as unknown) or a single event, and reads `lookups` and the
        `stretch` of a list.

        The awaitable raises Problem: TOO_MANY_REFUSALS (nothing was sent) or AUDIT_UNAVAILABLE.
        """
        now = self._clock()
        lane = self._lanes.get(tenant)
        if lane is None:
            send = partial(
                self.begin, tenant, event, credential=credential, lookups=lookups, stretch=stretch, open_s=open_s
            )
            return self._lanes.after_opening(tenant, send, Begun(0, 0, False, False), _unavailable)
        if (
            event.actor.pseudonym
            and (wait := self._floods.turn_away(tenant, event.actor, event.targets, now)) is not None
        ):
            return _failed(Problem(Reason.TOO_MANY_REFUSALS, retry_after_s=wait))
        if not self._store.ready(tenant):
            return _failed(_unavailable())
        self._count_refusals(tenant, (event,), now)
        entry = self._chain(lane, event, now)
        call = Begin(entry, credential, lookups, int(now) + open_s if open_s else 0, stretch)
        return self._send_begin(lane, call, event if open_s else None)

    def finish(
        self,
        tenant: TenantId,
        events: tuple[Event, ...],
        *,
        begun: Begun | None = None,
        writes: tuple[Write, ...] = (),
        closes: bool = True,
    ) -> asyncio.Future[Finished]:
        """Appends `events`, then carries out `writes` if the tenant is what it was at `begun`, whose intent this closes.

        The awaitable raises Problem(MAPPING_UNAVAILABLE): the writes may have been done, but nobody may rely on it.
        """
        now = self._clock()
        lane = self._lanes.get(tenant)
        if lane is None:
            send = partial(self.finish, tenant, events, begun=begun, writes=writes, closes=closes)
            return self._lanes.after_opening(tenant, send, Finished(0, False), _not_mapped)
        if not self._store.ready(tenant):
            return _failed(_not_mapped())
        self._count_refusals(tenant, events, now)
        entries = tuple([self._chain(lane, event, now) for event in events])
        generation, seq = (begun.generation, begun.seq) if begun else (0, 0)
        call = Finish(entries, writes, generation, seq if closes else 0)
        underway: _Underway[Finished] = _Underway(self, lane, entries[-1], _not_mapped, events[-1] if writes else None)
        self._underway += 1
        self._deadlines.watch(underway.heard, _not_mapped)
        self._store.send_finish(tenant, call, underway)
        return underway.heard

    def record(self, tenant: TenantId, event: Event) -> asyncio.Future[Begun]:
        """Appends a single event. Raises as `begin` does."""
        return self.begin(tenant, event)

    def count_stranger(self, reason: str, network: str) -> None:
        """Counts what belongs to no tenant, a refusal as a rule, for the operator's log. No I/O."""
        self._strangers.count(reason, network)

    # Chains

    def _chain(self, lane: Lane, event: Event, now: float) -> Entry:
        """The event as the next entry of the lane's writer, which is made where there is none."""
        lane.used = now
        if lane.writer is None:
            lane.confirmed = 0
            new_id = secrets.token_hex(12)
            if lane.ended is None:
                lane.writer = Writer(new_id)
            else:
                lane.writer, entry = succeed(lane.ended, new_id, lane.tenant, int(now * 1e6), lane.key)
                let_go(self._send_begin(lane, Begin(entry), None))
        lane.writer, entry = lane.writer.next(event, lane.key)
        return entry

    def _send_begin(self, lane: Lane, call: Begin, event: Event | None) -> asyncio.Future[Begun]:
        underway: _Underway[Begun] = _Underway(self, lane, call.entry, _unavailable, event)
        self._underway += 1
        self._deadlines.watch(underway.heard, _unavailable)
        self._store.send_begin(lane.tenant, call, underway)
        return underway.heard

    # Answers

    def on_answer(self, call: _Underway[T], answer: T) -> None:
        lane, entry = call.lane, call.entry
        if (writer := lane.writer) is not None and writer.id == entry.writer:
            if answer.seq == 0:
                # Erased or unknown: nothing was appended, so there is no chain to go on with.
                lane.writer, lane.ended = None, None
            elif entry.wseq > lane.confirmed:
                lane.confirmed = entry.wseq
        if answer.seq and self.watch is not None:
            self.watch.appended(lane.tenant)
        if not call.heard.done():
            call.heard.set_result(answer)
        else:
            self._late(call, answer.seq)
        self._less_underway()

    def on_failure(self, call: _Underway[T], error: Exception) -> None:
        if isinstance(error, EventsLost) and self.watch is not None:
            self.watch.lost(call.lane.tenant)
        if isinstance(error, NotDurable):
            self._late(call, error.seq)
            if self.watch is not None:
                self.watch.appended(call.lane.tenant)
        else:
            self._end_writer(call.lane, call.entry)
        if isinstance(error, WriterRefused):
            told = {"writer": call.entry.writer, "wseq": call.entry.wseq}
            logger.warning("audit.entry_refused", extra={"fields": told})
        elif not isinstance(error, StoreError):
            logger.error("store.call_failed", exc_info=error)
        if not call.heard.done():
            call.heard.set_exception(call.refusal())
        self._less_underway()

    def _end_writer(self, lane: Lane, entry: Entry) -> None:
        """An entry was not confirmed: nobody knows where its writer stands."""
        writer = lane.writer
        if writer is None or writer.id != entry.writer:
            return
        if lane.confirmed:
            lane.ended = Ended(writer.id, lane.confirmed)
        lane.writer = None
        logger.warning("audit.writer_ended", extra={"fields": {"writer": writer.id, "confirmed": lane.confirmed}})

    def _less_underway(self) -> None:
        self._underway -= 1
        if not self._underway and self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    def _late(self, call: _Underway[T], seq: int) -> None:
        """The events are in the log as `seq` though the caller was refused, or has gone: they get the outcome that it was
        told. Mappings that are written for who has gone need none."""
        if call.event is None:
            return
        told = Reason.CLIENT_CLOSED if call.heard.cancelled() else call.refusal().reason
        if call.refusal is _unavailable:
            self._close(call.event, told, seq, seq)
        elif told is not Reason.CLIENT_CLOSED:
            self._close(call.event, told, seq, 0)

    def _close(self, event: Event, told: Reason, seq: int, intent: int) -> None:
        if seq:
            outcome = Outcome(Result.ERROR, told, TABLE[told].status)
            let_go(self.finish(event.tenant, (self._closing(event, outcome),), begun=_begun(intent)))

    def _closing(self, event: Event, outcome: Outcome) -> Event:
        now_us = int(self._clock() * 1e6)
        return replace(event, ts_us=now_us, phase=Phase.OUTCOME, outcome=outcome, targets=(), changes={})

    # Floods

    def _count_refusals(self, tenant: TenantId, events: Iterable[Event], now: float) -> None:
        for event in events:
            outcome = event.outcome
            if outcome is not None and outcome.result is Result.DENY and event.actor.pseudonym:
                self._floods.refused(tenant, event.actor, outcome.reason, now)

    async def send_sums(self, now_s: float | None = None) -> None:
        """Appends the sums of the seconds that are over; what cannot be appended now is kept for the next time."""
        now = self._clock() if now_s is None else now_s
        self._unsent += self._floods.ended(now)
        for _ in range(len(self._unsent)):
            # Taken out before the wait: a call on its way is carried out even if the wait is cancelled.
            flood = self._unsent.pop(0)
            try:
                await self.begin(flood.tenant, _summed(flood, int(now * 1e6)))
            except Problem:
                self._unsent.append(flood)
        await self._strangers.send(self._store, int(now * 1e6))

    # Intents without an outcome

    async def sweep(self, tenant: TenantId) -> int:
        """Closes the tenant's overdue intents as unknown. How many; raises StoreError."""
        now, closed = self._clock(), 0
        while True:
            overdue = await self._store.take_overdue(tenant, int(now), self._settings.overdue_lease_s, OVERDUE_AT_ONCE)
            for stored in overdue:
                closing = self._closing(_intent(tenant, stored.body), Outcome(Result.UNKNOWN))
                try:
                    await self.finish(tenant, (closing,), begun=_begun(stored.seq))
                except Problem:
                    return closed  # it comes up again after its lease
                closed += 1
            if len(overdue) < OVERDUE_AT_ONCE:
                return closed

    async def _sweep_served(self) -> None:
        now = self._clock()
        for lane in self._lanes.opened():
            await self._try_sweep(lane.tenant)
            await self._lanes.renew_key(lane)
            if now - lane.used > self._settings.idle_writer_s:
                self._lanes.forget(lane)

    async def _sweep_all(self) -> None:
        async for tenant, _ in self._store.tenants():
            await self._try_sweep(tenant)

    async def _try_sweep(self, tenant: TenantId) -> None:
        try:
            await self.sweep(tenant)
        except StoreError as error:
            # Another tenant's server may well answer.
            logger.warning("audit.sweep_failed", extra={"fields": {"tenant": tenant, "reason": str(error)}})

    async def _every(self, pause_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception:  # the work must go on whatever one round of it met
                logger.exception("audit.upkeep_failed", extra={"fields": {"work": work.__name__}})
            await asyncio.sleep(pause_s)


def _intent(tenant: TenantId, body: bytes) -> Event:
    """The intent, or what says that it cannot be read."""
    try:
        return replace(decode(body), tenant=tenant)
    except ValueError:
        return Event(tenant, 0, EventType.INTENT_UNREADABLE, Phase.INTENT, SYSTEM)


def _summed(flood: Sum, ts_us: int) -> Event:
    return Event(
        tenant=flood.tenant,
        ts_us=ts_us,
        type=EventType.REFUSALS_SUMMED,
        phase=Phase.SINGLE,
        # Said by the system, so that a sum is never counted as a refusal itself.
        actor=SYSTEM,
        outcome=Outcome(Result.DENY, flood.reason, 429),
        targets=tuple(flood.targets)[:SHOWN],
        changes={
            "actor": flood.actor.pseudonym,
            "count": flood.count,
            "distinct_targets": len(flood.targets),
            "second": flood.second,
        },
    )


def _begun(intent: int) -> Begun:
    """For closing an intent of which no more is known than its sequence number."""
    return Begun(intent, 0, tenant_active=False, credential_live=False)


def _unavailable() -> Problem:
    return Problem(Reason.AUDIT_UNAVAILABLE, retry_after_s=1)


def _not_mapped() -> Problem:
    return Problem(Reason.MAPPING_UNAVAILABLE)


def _failed(problem: Problem) -> asyncio.Future[T]:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_exception(problem)
    return future
