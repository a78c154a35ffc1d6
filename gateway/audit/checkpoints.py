"""The checkpointer: signs what each tenant's log is, every 256 events or every second in which something is new.

Every process looks after the tenants that it serves, so an idle tenant costs nothing. Of two processes with the same tenant
each signs only what continues the newest checkpoint, which one script call replaces if nobody else was first: there is one line
of checkpoints. Before it signs on, a process compares the log with what it knows (`consistency.py`); a log that is not the one
that was signed is halted, and its tenant's calls are refused until an operator says what is to be done (`resealing.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from gateway.audit.anchoring import Anchoring
from gateway.audit.anchors.contract import Anchor, AnchorFailed
from gateway.audit.checkpoint import Checkpoint, log_origin, open_note, sign
from gateway.audit.consistency import LogMismatch, Standing, compare, extend
from gateway.audit.genuine import is_genuine, version_of
from gateway.audit.known import Known, verifier_keys
from gateway.audit.tree import Frontier, leaf
from gateway.ids.keys import AuditKeys, KeyRefused, Versions
from gateway.names import TenantId
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.contract import Store, StoredEvent, StoreError, TenantStatus
from gateway.stores.keyring import KeysMissing
from gateway.stores.keyspace import is_safe_name
from gateway.stores.log import LogState, Signed
from gateway.tasks import Tasks

LOG = logging.getLogger(__name__)

AT_ONCE: Final = 16
MOST_EVENTS: Final = 4096
"""Under one checkpoint; what is older goes first."""
MOST_IN_A_ROW: Final = 64
"""Checkpoints of one tenant, before others have their turn."""
STARTING_S: Final = 30.0
CLOSING_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    every_s: float = 1.0
    every_events: int = 256


class Checkpointer:
    def __init__(
        self,
        store: Store,
        keys: AuditKeyring,
        anchors: tuple[Anchor, ...],
        settings: CheckpointSettings | None = None,
    ) -> None:
        self._store = store
        self._keys = keys
        self.anchors = anchors
        self._settings = settings or CheckpointSettings()
        self._anchoring = Anchoring(anchors, self._anchored, self._forked)
        self._new: dict[TenantId, int] = {}
        """Events that this process appended since the tenant's turn."""
        self._known = Known(store.log, anchors)
        self._halted: set[TenantId] = set()
        self._due = asyncio.Event()
        self._turns = asyncio.Lock()

    def start(self, tasks: Tasks) -> None:
        tasks.spawn("checkpoints", self._run())
        self._anchoring.start(tasks)

    async def aclose(self) -> None:
        """Signs and anchors what is new, as far as that takes no longer than a few seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await self.flush()
        await self._anchoring.aclose()

    async def flush(self) -> None:
        """Signs and anchors what is new. Failures are logged."""
        await self.turn()
        await self._anchoring.flush()

    def appended(self, tenant: TenantId) -> None:
        """An event of the tenant was confirmed. No I/O."""
        count = self._new[tenant] = self._new.get(tenant, 0) + 1
        if count == self._settings.every_events:
            self._due.set()

    def lost(self, tenant: TenantId, why: str = "events that were confirmed are missing") -> None:
        """The store says that it holds fewer events than it confirmed, or that the log is halted. No I/O."""
        self._anchoring.drop(tenant)
        if tenant not in self._halted:
            self._halted.add(tenant)
            LOG.critical("audit.log_halted", extra={"fields": {"tenant": tenant, "reason": why}})

    # What operators see

    @property
    def halted(self) -> int:
        """How many tenants this process knows to be halted."""
        return len(self._halted)

    @property
    def unsigned(self) -> int:
        """How many events of this process are under no checkpoint yet."""
        return sum(self._new.values())

    @property
    def behind(self) -> dict[str, int]:
        """By anchor that events must be in to count as anchored, how many tenants' newest checkpoint is not there yet."""
        return self._anchoring.behind

    # Turns

    async def check(self, tenants: Iterable[TenantId], limit_s: float = STARTING_S) -> None:
        """Compares each log with its anchors, and signs what is new: at start, before anything is served.

        Where anchors do not answer, it ends at the limit; the logs are compared later, and nothing of them is signed until then.
        """
        for tenant in tenants:
            if is_safe_name(tenant):
                self._new.setdefault(tenant, 0)
            else:
                LOG.error("audit.no_tenant")
        try:
            async with asyncio.timeout(limit_s):
                await self.turn()
        except TimeoutError:
            LOG.error("audit.not_compared", extra={"fields": {"tenants": len(self._new)}})

    async def turn(self, least: int = 0) -> None:
        """One turn of every tenant with at least so many new events."""
        async with self._turns:
            gate = asyncio.Semaphore(AT_ONCE)
            for tenant in self._known.to_compare():
                self._new.setdefault(tenant, 0)
            tenants = [tenant for tenant, count in self._new.items() if count >= least]
            if least == 0:
                tenants += [tenant for tenant in self._halted if tenant not in self._new]
            await asyncio.gather(*(self._take_turn(tenant, gate) for tenant in tenants))

    async def _run(self) -> None:
        loop, every_s = asyncio.get_running_loop(), self._settings.every_s
        next_at = loop.time() + every_s
        while True:
            try:
                async with asyncio.timeout_at(next_at):
                    await self._due.wait()
                self._due.clear()
                least = self._settings.every_events
            except TimeoutError:
                least, next_at = 0, loop.time() + every_s
            try:
                await self.turn(least)
            except Exception:  # the work must go on whatever one turn of it met
                LOG.exception("audit.checkpoints_failed")

    async def _take_turn(self, tenant: TenantId, gate: asyncio.Semaphore) -> None:
        async with gate:
            count = self._new.pop(tenant, 0)
            try:
                for _ in range(MOST_IN_A_ROW):
                    if await self._advance(tenant):
                        return
            except LogMismatch as mismatch:
                await self._halt(tenant, mismatch)
                return
            except KeysMissing:
                return
            except (StoreError, AnchorFailed, KeyRefused, OSError) as error:
                LOG.warning("audit.no_checkpoint", extra={"fields": {"tenant": tenant, "reason": str(error)}})
            except Exception:  # others must have their turn whatever one tenant's log or keys are
                LOG.exception("audit.no_checkpoint")
            except asyncio.CancelledError:
                self._again(tenant, count)
                raise
            self._again(tenant, count)

    def _again(self, tenant: TenantId, count: int) -> None:
        """On the next turn."""
        self._new[tenant] = self._new.get(tenant, 0) + count

    async def _advance(self, tenant: TenantId) -> bool:
        """False: there is more to do."""
        state = await self._store.log.state(tenant)
        if state is None or state.status is TenantStatus.ERASED:
            self._known.forget(tenant)
            self._halted.discard(tenant)
            return True
        if state.halted:
            self.lost(tenant, state.halted)
            return True
        self._halted.discard(tenant)
        name = await self._name(tenant)
        known = await self._known.of(tenant, name, state)
        if known is not None and _is_as_known(state, known):
            # Nothing is new, and nobody needs the tenant's keys to see it.
            self._known.keep(known)
            return True
        audit = await self._keys.tenant(tenant)
        keys = verifier_keys(name, audit)
        if known is not None and open_note(known.note, keys) is None:
            raise LogMismatch("an anchor holds a note that is not signed by the tenant", known.checkpoint.size)
        agreed = await compare(self._store, tenant, state, known, keys)
        to = min(state.seq, agreed.size + MOST_EVENTS)
        if to > state.size:
            return await self._sign(tenant, state, agreed, to, audit) and to == state.seq
        if state.size:
            self._publish(Standing(_checkpoint(state, name, agreed), state.note, agreed))
        return True

    async def _sign(
        self, tenant: TenantId, state: LogState, agreed: Frontier, to: int, audit: Versions[AuditKeys]
    ) -> bool:
        """False: another process was first."""
        longer = await extend(self._store, tenant, agreed, to, check=partial(self._check_genuine, tenant, agreed.size))
        if longer is None:
            raise LogMismatch(f"an event after {agreed.size} is missing in the middle of the log", agreed.size)
        name = await self._name(tenant)
        checkpoint = _checkpoint(state, name, longer.frontier)
        last = longer.last or (await self._store.read_events(tenant, to - 1, 1))[0].body
        note = sign(checkpoint, audit.newest.seed)
        signed = Signed(
            state.epoch,
            state.size,
            to,
            note,
            longer.frontier.to_bytes(),
            "\n".join(map(str, verifier_keys(name, audit))),
            last,
            leaf(tenant, to, last),
        )
        if not await self._store.log.put_checkpoint(tenant, signed):
            return False
        self._publish(Standing(checkpoint, note, longer.frontier))
        return True

    async def _check_genuine(self, tenant: TenantId, signed: int, page: tuple[StoredEvent, ...]) -> None:
        audit = await self._keys.tenant(tenant, having=max(map(version_of, page)))
        for event in page:
            if not is_genuine(event, audit):
                raise LogMismatch(f"event {event.seq} was not written by a gateway", signed)

    async def _name(self, tenant: TenantId) -> str:
        return log_origin((await self._keys.deployment()).deployment, tenant)

    def _publish(self, standing: Standing) -> None:
        self._known.keep(standing)
        self._anchoring.add(standing)

    async def _halt(self, tenant: TenantId, mismatch: LogMismatch) -> None:
        fields = {"tenant": tenant, "reason": str(mismatch), "signed": mismatch.size}
        LOG.critical("audit.log_mismatch", extra={"fields": fields})
        self._halted.add(tenant)
        self._anchoring.drop(tenant)
        try:
            await self._store.log.halt(tenant, str(mismatch))
        except StoreError:
            self._new.setdefault(tenant, 0)

    # What the anchors say

    async def _anchored(self, tenant: TenantId, checkpoint: Checkpoint) -> None:
        try:
            await self._store.log.set_anchored(tenant, checkpoint.epoch, checkpoint.size)
        except StoreError as error:
            # The next checkpoint says it, too.
            LOG.warning("audit.anchored_unsaid", extra={"fields": {"tenant": tenant, "reason": str(error)}})

    async def _forked(self, tenant: TenantId, checkpoint: Checkpoint) -> None:
        await self._halt(tenant, LogMismatch("an anchor holds another tree of this size", checkpoint.size))


def _is_as_known(state: LogState, known: Standing) -> bool:
    """By what was signed: sizes that stand beside a note are what anybody wrote there."""
    checkpoint = known.checkpoint
    return state.note == known.note and state.seq == state.size == checkpoint.size and state.epoch == checkpoint.epoch


def _checkpoint(state: LogState, name: str, frontier: Frontier) -> Checkpoint:
    origin = f"{name}/{state.epoch}" if state.epoch else name
    return Checkpoint(origin, frontier.size, frontier.root())
