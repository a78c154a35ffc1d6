"""What every operator's function needs, and how each change gets on record: an intent before it, an outcome after it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.audit.event import Actor, Change, Event, Outcome, Phase, Result, Target
from gateway.audit.log import AuditLog
from gateway.errors import Problem
from gateway.names import Kind, OpaqueId, TenantId
from gateway.stores.contract import Begun, Found, Lookup, Store, Write
from gateway.stores.keyring import Keyring, KeysMissing, Unlocked

OPERATOR: Final = Actor("operator", auth="command")
_OPEN_S: Final = 60


class AdminEvent(StrEnum):
    """Types of the events that operators cause: `subject.action`. Closed and alphabetised."""

    AUDIT_READ = "audit.read"
    ID_ADOPT = "id.adopt"
    ID_SHOW = "id.show"
    KEY_CREATE = "key.create"
    KEY_REVOKE = "key.revoke"
    KEY_ROTATE = "key.rotate"
    TENANT_CREATE = "tenant.create"
    TENANT_SUSPEND = "tenant.suspend"


class AdminRefused(Exception):
    """What the operator asked for was not done. The text says why, and names no raw ID."""


@dataclass(slots=True)
class Recording:
    """A change that is under way: its intent is in the log."""

    admin: Administration
    intent: Event
    begun: Begun
    changes: dict[str, Change] = field(default_factory=dict)
    """More facts for the outcome."""

    @property
    def found(self) -> tuple[Found, ...]:
        """The records of the look-ups. Raises AdminRefused where the tenant is suspended, for then nothing is read."""
        if not self.begun.tenant_active:
            raise AdminRefused("the tenant is suspended")
        return self.begun.found

    async def write(self, write: Write) -> bytes | None:
        """Writes a record, and returns what a CREATE met. Raises AdminRefused where the tenant takes no records."""
        event = self.admin.event(self.intent, Phase.OUTCOME, Outcome(Result.ACCEPTED), {})
        try:
            finished = await self.admin.log.finish(
                self.intent.tenant, (event,), begun=self.begun, writes=(write,), closes=False
            )
        except Problem as problem:
            raise AdminRefused("it is not certain that the record was written; do it again") from problem
        if not finished.tenant_active:
            raise AdminRefused("the tenant is suspended")
        return finished.conflicts[0] if finished.conflicts else None


@dataclass(frozen=True, slots=True)
class Administration:
    """The parts that an operator's functions work on."""

    store: Store
    keyring: Keyring
    log: AuditLog

    async def unlock(self, tenant: TenantId) -> Unlocked:
        """The tenant's keys. Raises AdminRefused where it has none."""
        try:
            return await self.keyring.tenant(tenant)
        except KeysMissing:
            raise AdminRefused("the tenant has no keys: unknown, or erased") from None

    @asynccontextmanager
    async def recorded(
        self,
        tenant: TenantId,
        what: AdminEvent,
        *,
        changes: Mapping[str, Change] | None = None,
        targets: tuple[tuple[Kind, OpaqueId], ...] = (),
        lookups: tuple[Lookup, ...] = (),
    ) -> AsyncIterator[Recording]:
        """The body runs between intent and outcome: allowed, denied (AdminRefused) or failed (anything else).

        Raises AdminRefused before the body where the intent can't be written, after it where the outcome can't; such an
        intent is closed as unknown.
        """
        named = tuple(Target(kind.value, opaque.text) for kind, opaque in targets)
        intent = Event(tenant, _now_us(), what, Phase.INTENT, OPERATOR, targets=named, changes=changes or {})
        try:
            begun = await self.log.begin(tenant, intent, lookups=lookups, open_s=_OPEN_S)
        except Problem as problem:
            raise AdminRefused("the audit log cannot be written right now; nothing was done") from problem
        if begun.seq == 0:
            raise AdminRefused("the tenant is unknown or erased")
        recording = Recording(self, intent, begun)
        try:
            yield recording
        except AdminRefused as refused:
            await self._close(recording, Outcome(Result.DENY, "admin_refused"), {"why": str(refused)})
            raise
        except BaseException:
            await self._close(recording, Outcome(Result.ERROR, "admin_failed"), {})
            raise
        await self._close(recording, Outcome(Result.ALLOW), recording.changes)

    async def record(self, tenant: TenantId, what: AdminEvent) -> None:
        """A single event, after the fact. Raises Problem where it can't be written."""
        event = Event(tenant, _now_us(), what, Phase.SINGLE, OPERATOR, outcome=Outcome(Result.ALLOW))
        await self.log.record(tenant, event)

    @staticmethod
    def event(intent: Event, phase: Phase, outcome: Outcome, changes: Mapping[str, Change]) -> Event:
        """The intent's next event."""
        every = {**intent.changes, **changes}
        return Event(intent.tenant, _now_us(), intent.type, phase, intent.actor, None, outcome, intent.targets, every)

    async def _close(self, recording: Recording, outcome: Outcome, changes: Mapping[str, Change]) -> None:
        event = self.event(recording.intent, Phase.OUTCOME, outcome, changes)
        try:
            await self.log.finish(recording.intent.tenant, (event,), begun=recording.begun)
        except Problem as problem:
            raise AdminRefused("its outcome could not be recorded; the log will show it as unknown") from problem


def _now_us() -> int:
    return time.time_ns() // 1000
