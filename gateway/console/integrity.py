"""Whether a tenant's log is whole: read from its first event on, against the writers' chains and the signed checkpoint.

What was read once is remembered as the tree's hashes, so that a later look reads only what is new; an event that is opened is
compared with them anew, and where it differs, so does the log. A look begins again from the first event after `FRESH_S`, when the
log went back, or when asked to.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from gateway.audit.chain import NO_EVENT
from gateway.audit.checkpoint import Checkpoint, VerifierKey, log_origin, open_note, public_key
from gateway.audit.event import EventType
from gateway.audit.faults import MEANING
from gateway.audit.segment import EventRefused, check_event
from gateway.audit.tree import Frontier, Proof, Tree, leaf, verify_inclusion
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.stores.contract import Store, StoredEvent, StoreError
from gateway.stores.log import LogState, LogStore
from gateway.tasks import Tasks

LOG = logging.getLogger(__name__)

FRESH_S: Final = 3600.0
AT_ONCE: Final = 5_000
"""Events that one look reads before it answers, in a fifth of a second; the rest is read in the background."""
_BATCH: Final = 200
"""Events that are read in a row, in some 5 ms: a gateway in the same process serves in between."""
_PAUSE_S: Final = 0.01
_KEPT: Final = 32
"""Tenants whose trees are kept, 64 bytes an event."""


class State(StrEnum):
    """What is known of a log, the worst last."""

    WHOLE = "whole"
    """Every event up to the newest checkpoint is the one that was signed."""
    CHECKING = "checking"
    """So far; the rest is being read."""
    UNSIGNED = "unsigned"
    """The chains hold, and there is no checkpoint yet."""
    HALTED = "halted"
    """Events were lost; nothing is appended until an operator reseals the log."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    state: State
    checked: int
    """The newest event that was read."""
    last: int
    """The newest event there is."""
    trimmed: int
    """Events up to this one are in the archive, not here."""
    checkpoint: Checkpoint | None
    """The newest one; its signature holds."""
    note: str
    anchored: int
    """The size up to which the log is in every anchor."""
    at_s: float
    """When reading it from the first event on was begun, UTC seconds."""
    bad: int | None = None
    """The first event that does not match."""
    why: str = ""
    """In words, with `state` broken or halted."""

    @property
    def size(self) -> int:
        return self.checkpoint.size if self.checkpoint else 0

    @property
    def unsigned(self) -> int:
        """Events newer than the checkpoint."""
        return max(0, self.last - self.size)


class Verdict(StrEnum):
    """What is known of one event."""

    MATCHES = "matches"
    DIFFERS = "differs"
    PENDING = "pending"
    """Not under a checkpoint yet, or not read yet."""


@dataclass(frozen=True, slots=True)
class Checked:
    verdict: Verdict
    checkpoint: Checkpoint | None = None
    note: str = ""
    proof: Proof = ()

    @property
    def proof_holds(self) -> bool:
        """Whether there is a proof; that of a log's only event is empty."""
        return self.verdict is Verdict.MATCHES


@dataclass(slots=True)
class _Walk:
    """How far a log was read, and what is known from that."""

    tree: Tree
    begun: float
    """Monotonic."""
    at_s: float
    epoch: int
    writers: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    """By writer: the `wseq`, hash and place of its newest event."""
    archived: int = 0
    """The last event of which one that was read says that it went to the archive."""
    good: int = 0
    """The size of the newest checkpoint that held."""
    bad: int | None = None
    why: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Integrity:
    def __init__(
        self,
        store: Store,
        logs: LogStore,
        deployment: str,
        tasks: Tasks,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._logs = logs
        self._deployment = deployment
        self._tasks = tasks
        self._clock = clock
        self._monotonic = monotonic
        self._walks: OrderedDict[TenantId, _Walk] = OrderedDict()
        self._behind: set[TenantId] = set()

    def forget(self, tenant: TenantId) -> None:
        """The next look reads the log from its first event on."""
        self._walks.pop(tenant, None)

    async def look(self, tenant: TenantId, keys: Versions[AuditKeys]) -> Finding:
        """What is known now, having read at most `AT_ONCE` further events. Raises StoreError."""
        state = await self._logs.state(tenant)
        if state is None:
            return Finding(State.UNSIGNED, 0, 0, 0, None, "", 0, self._clock())
        walk = self._walk(tenant, state)
        async with walk.lock:
            await self._read_on(tenant, walk, state.seq, AT_ONCE)
            finding = self._finding(tenant, walk, state, keys)
        if finding.checked < state.seq and finding.state is not State.BROKEN and tenant not in self._behind:
            self._behind.add(tenant)
            self._tasks.spawn("console integrity", self._read_rest(tenant, walk, state.seq))
        return finding

    async def check(self, tenant: TenantId, keys: Versions[AuditKeys], stored: StoredEvent) -> Checked:
        """Whether this event is the one that was signed, with the proof. Raises StoreError."""
        finding = await self.look(tenant, keys)
        if finding.bad == stored.seq:
            return Checked(Verdict.DIFFERS, finding.checkpoint)
        walk, checkpoint = self._walks.get(tenant), finding.checkpoint
        if (
            walk is None
            or checkpoint is None
            or not walk.tree.start < stored.seq <= min(checkpoint.size, walk.tree.size)
        ):
            return Checked(Verdict.PENDING)
        if checkpoint.size > walk.tree.size:
            return Checked(Verdict.PENDING, checkpoint)
        proof = walk.tree.inclusion(stored.seq - 1, checkpoint.size)
        its_leaf = leaf(tenant, stored.seq, stored.body)
        holds = verify_inclusion(its_leaf, stored.seq - 1, checkpoint.size, proof, checkpoint.root)
        if holds:
            return Checked(Verdict.MATCHES, checkpoint, finding.note, proof)
        if finding.bad is not None and stored.seq < finding.bad:
            return Checked(Verdict.PENDING, checkpoint)
        # What a page has shown must not be denied by the next, which would go by what was read before.
        walk.bad, walk.why = stored.seq, f"Record {stored.seq:,} does not match: it is not the one that was signed."
        return Checked(Verdict.DIFFERS, checkpoint)

    def public_keys(self, tenant: TenantId, keys: Versions[AuditKeys]) -> tuple[VerifierKey, ...]:
        """The tenant's, the newest first."""
        name = log_origin(self._deployment, tenant)
        return tuple(public_key(name, keys.keys[version].seed) for version in sorted(keys.keys, reverse=True))

    # Reading

    def _walk(self, tenant: TenantId, state: LogState) -> _Walk:
        walk = self._walks.get(tenant)
        if walk is None or self._is_old(walk, state):
            walk = _Walk(Tree(_begin(state)), self._monotonic(), self._clock(), state.epoch)
            self._walks[tenant] = walk
            if len(self._walks) > _KEPT:
                self._walks.popitem(last=False)
        self._walks.move_to_end(tenant)
        return walk

    def _is_old(self, walk: _Walk, state: LogState) -> bool:
        return (
            self._monotonic() - walk.begun > FRESH_S
            or walk.epoch != state.epoch
            or walk.tree.size > state.seq
            or state.trimmed > walk.tree.size
        )

    async def _read_on(self, tenant: TenantId, walk: _Walk, until: int, at_most: int) -> None:
        stop = min(until, walk.tree.size + at_most)
        while walk.bad is None and walk.tree.size < stop:
            after = walk.tree.size
            events = await self._store.read_events(tenant, after, min(_BATCH, stop - after))
            if not events:
                walk.bad, walk.why = after + 1, f"Record {after + 1:,} is missing, and so is everything after it."
            for stored in events:
                if stored.seq != walk.tree.size + 1:
                    missing = walk.tree.size + 1
                    walk.bad, walk.why = missing, f"Record {missing:,} is missing."
                    break
                _chain(walk, tenant, stored)
                if walk.bad is not None:
                    break
            await asyncio.sleep(0)

    async def _read_rest(self, tenant: TenantId, walk: _Walk, until: int) -> None:
        try:
            while walk.bad is None and walk.tree.size < until and self._walks.get(tenant) is walk:
                async with walk.lock:
                    await self._read_on(tenant, walk, until, _BATCH)
                await asyncio.sleep(_PAUSE_S)
        except StoreError as error:
            LOG.warning("console.integrity_not_read", extra={"fields": {"reason": str(error)}})
        finally:
            self._behind.discard(tenant)

    def _finding(self, tenant: TenantId, walk: _Walk, state: LogState, keys: Versions[AuditKeys]) -> Finding:
        checkpoint = open_note(state.note, self.public_keys(tenant, keys)) if state.note else None
        found = Finding(
            State.WHOLE,
            walk.tree.size,
            state.seq,
            state.trimmed,
            checkpoint,
            state.note if checkpoint else "",
            min(state.anchored, checkpoint.size if checkpoint else 0),
            walk.at_s,
        )
        if walk.bad is None and state.note and checkpoint is None:
            return replace(found, state=State.BROKEN, why="The newest checkpoint is not signed with the log’s key.")
        if walk.bad is None and checkpoint and walk.good < checkpoint.size <= walk.tree.size:
            self._compare(walk, checkpoint)
        if walk.bad is not None:
            return replace(found, state=State.BROKEN, bad=walk.bad, why=walk.why)
        if checkpoint and checkpoint.size > state.seq:
            first = state.seq + 1
            why = f"Record {first:,} is missing: {checkpoint.size:,} records were signed, {state.seq:,} are here."
            return replace(found, state=State.BROKEN, bad=first, why=why)
        if state.halted:
            return replace(found, state=State.HALTED, why=state.halted)
        if walk.tree.size < state.seq:
            return replace(found, state=State.CHECKING)
        if walk.archived < state.trimmed:
            # Retention says so before it trims, by an event that is newer than all that it takes.
            why = f"Records 1 to {state.trimmed:,} are not here, and no record says that they went to the archive."
            return replace(found, state=State.BROKEN, why=why)
        return found if checkpoint else replace(found, state=State.UNSIGNED)

    def _compare(self, walk: _Walk, checkpoint: Checkpoint) -> None:
        if walk.tree.start > checkpoint.size or walk.tree.root(checkpoint.size) == checkpoint.root:
            walk.good = checkpoint.size
            return
        first = max(walk.good, walk.tree.start) + 1
        walk.bad = checkpoint.size if first >= checkpoint.size else first
        walk.why = f"A record between {first:,} and {checkpoint.size:,} is not the one that was signed."


def _begin(state: LogState) -> Frontier:
    """Of the events that are in the archive. Where it cannot be read they count as missing."""
    try:
        return Frontier.from_bytes(state.base) if state.trimmed else Frontier()
    except ValueError:
        return Frontier()


def _chain(walk: _Walk, tenant: TenantId, stored: StoredEvent) -> None:
    """Takes an event into the tree, unless it is none or breaks its writer's chain (`audit/chain.py`)."""
    seq = stored.seq
    try:
        fields = check_event(seq, stored.body, tenant)
    except EventRefused as refused:
        walk.bad, walk.why = seq, f"Record {seq:,} does not match: {MEANING[refused.finding.fault][0]}."
        return
    writer, wseq, wprev = fields["writer"], fields["wseq"], fields["wprev"]
    known = walk.writers.get(writer)
    if known is None and walk.tree.start == 0 and (wseq != 1 or wprev != NO_EVENT):
        walk.bad, walk.why = seq, f"Record {seq:,} does not match: what its writer wrote before it is missing."
    elif known is not None and wseq != known[0] + 1:
        walk.bad, walk.why = seq, f"Record {seq:,} does not match: its writer’s record before it is missing."
    elif known is not None and wprev != known[1]:
        walk.bad, walk.why = known[2], f"Record {known[2]:,} does not match: record {seq:,} holds another hash of it."
    else:
        if fields["type"] == EventType.LOG_ARCHIVED:
            last = fields["changes"].get("last") if isinstance(fields["changes"], dict) else None
            walk.archived = max(walk.archived, last) if isinstance(last, int) else walk.archived
        walk.writers[writer] = wseq, hashlib.sha256(stored.body).hexdigest(), seq
        walk.tree.append(leaf(tenant, seq, stored.body))
