"""What every operator's function needs, and how each change gets on record: an intent before it, an outcome after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.audit.anchors.contract import Anchor
from gateway.audit.checkpoints import Checkpointer
from gateway.audit.event import Actor, Change, Event, Outcome, Phase, RequestFacts, Result, Target
from gateway.audit.log import AuditLog
from gateway.clock import now_us
from gateway.errors import Problem, Reason
from gateway.names import Kind, OpaqueId, TenantId
from gateway.pipeline.deciding import check_status
from gateway.stores.contract import Begun, Found, Lookup, Store, Write
from gateway.stores.keyring import Keyring, KeysMissing, Unlocked

OPERATOR: Final = Actor("operator", auth="command")
_OPEN_S: Final = 60


class AdminEvent(StrEnum):
    """Types of the events that operators cause: `subject.action`. Closed and alphabetised."""

    ADMIN_REFUSED = "admin.refused"
    """A tenant's own service was turned away before anything was asked for."""
    AUDIT_ANCHOR = "audit.anchor"
    AUDIT_EXPORT = "audit.export"
    AUDIT_HOLD = "audit.hold"
    AUDIT_PROVE = "audit.prove"
    AUDIT_READ = "audit.read"
    AUDIT_RETAIN = "audit.retain"
    ID_ADOPT = "id.adopt"
    ID_SHOW = "id.show"
    KEY_CREATE = "key.create"
    KEY_REVOKE = "key.revoke"
    KEY_ROTATE = "key.rotate"
    STREAM_ADD = "stream.add"
    STREAM_LIST = "stream.list"
    STREAM_REMOVE = "stream.remove"
    STREAM_TEST = "stream.test"
    TAG_RETIRE = "tag.retire"
    """Every opaque ID of the deployment was retired."""
    TENANT_CREATE = "tenant.create"
    TENANT_ERASE = "tenant.erase"
    TENANT_RESUME = "tenant.resume"
    TENANT_REWRAP = "tenant.rewrap"
    """The tenant's keys were wrapped by another root key. `changes`: `keys`, how many."""
    TENANT_ROTATE = "tenant.rotate"
    """New keys. `changes`: the new version by purpose."""
    TENANT_SUSPEND = "tenant.suspend"
    WEBHOOK_ADD = "webhook.add"
    WEBHOOK_DEAD = "webhook.dead"
    """Dead letters were looked at."""
    WEBHOOK_LIST = "webhook.list"
    WEBHOOK_REMOVE = "webhook.remove"
    WEBHOOK_REPLAY = "webhook.replay"
    WEBHOOK_ROTATE = "webhook.rotate"
    WEBHOOK_TEST = "webhook.test"


class AdminRefused(Exception):
    """What was asked for was not done. The text says why, and names no raw ID."""


class AdminBusy(AdminRefused):
    """It is asked for too often; the same may work in a second."""


class AdminInvalid(AdminRefused):
    """A value that was given cannot be one of its kind."""


class AdminMissing(AdminRefused):
    """What was named is not there."""


class AdminUnavailable(AdminRefused):
    """It cannot be recorded, signed or anchored right now; the same may work in a moment."""


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose word something is done."""

    actor: Actor = OPERATOR
    credential: str = ""
    """The API key's tag, where the caller is a tenant's own: the intent is refused unless tenant and key are live."""
    request: RequestFacts | None = None
    """Where it came over HTTP."""


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
            raise AdminUnavailable("it is not certain that the record was written; do it again") from problem
        if not finished.tenant_active:
            raise AdminRefused("the tenant is suspended")
        return finished.conflicts[0] if finished.conflicts else None


@dataclass(frozen=True, slots=True)
class Administration:
    """The parts that an operator's functions work on."""

    store: Store
    keyring: Keyring
    log: AuditLog
    checkpointer: Checkpointer | None = None
    """Of this process; None: what it writes is signed by the gateway that runs."""
    caller: Caller = Caller()

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        return self.checkpointer.anchors if self.checkpointer is not None else ()

    async def flush(self) -> None:
        """Has what this process wrote signed and anchored."""
        if self.checkpointer is not None:
            await self.checkpointer.flush()

    async def unlock(self, tenant: TenantId) -> Unlocked:
        """The tenant's keys. Raises AdminMissing where it has none."""
        try:
            return await self.keyring.tenant(tenant)
        except KeysMissing:
            raise AdminMissing("the tenant has no keys: unknown, or erased") from None

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

        Raises AdminUnavailable before the body where the intent can't be written, after it where the outcome can't; such an
        intent is closed as unknown. Raises Problem where the caller's own tenant or key is not live, or too much was refused.
        """
        named = tuple(Target(kind.value, opaque.text) for kind, opaque in targets)
        caller = self.caller
        intent = Event(
            tenant, now_us(), what, Phase.INTENT, caller.actor, caller.request, targets=named, changes=changes or {}
        )
        try:
            begun = await self.log.begin(tenant, intent, credential=caller.credential, lookups=lookups, open_s=_OPEN_S)
        except Problem as problem:
            if problem.reason is Reason.TOO_MANY_REFUSALS:
                raise
            raise AdminUnavailable("the audit log cannot be written right now; nothing was done") from problem
        if begun.seq == 0:
            raise AdminMissing("the tenant is unknown or erased")
        recording = Recording(self, intent, begun)
        try:
            if caller.credential:
                check_status(tenant_active=begun.tenant_active, credential_live=begun.credential_live)
            yield recording
        except Problem as problem:
            await self._close(recording, Outcome(Result.DENY, problem.reason.value, problem.status), {})
            raise
        except AdminRefused as refused:
            await self._close(recording, Outcome(Result.DENY, "admin_refused"), {"why": str(refused)})
            raise
        except BaseException:
            await self._close(recording, Outcome(Result.ERROR, "admin_failed"), {})
            raise
        await self._close(recording, Outcome(Result.ALLOW), recording.changes)

    async def record(
        self,
        tenant: TenantId,
        what: AdminEvent,
        changes: Mapping[str, Change] | None = None,
        outcome: Outcome | None = None,
    ) -> int:
        """A single event, allowed where no `outcome` is given, and its number; 0: the tenant is unknown or erased. Raises Problem
        where it can't be written."""
        caller, ending = self.caller, outcome or Outcome(Result.ALLOW)
        event = Event(tenant, now_us(), what, Phase.SINGLE, caller.actor, caller.request, ending, changes=changes or {})
        return (await self.log.record(tenant, event)).seq

    @staticmethod
    def event(intent: Event, phase: Phase, outcome: Outcome, changes: Mapping[str, Change]) -> Event:
        """The intent's next event."""
        every = {**intent.changes, **changes}
        return Event(
            intent.tenant, now_us(), intent.type, phase, intent.actor, intent.request, outcome, intent.targets, every
        )

    async def _close(self, recording: Recording, outcome: Outcome, changes: Mapping[str, Change]) -> None:
        event = self.event(recording.intent, Phase.OUTCOME, outcome, changes)
        try:
            await self.log.finish(recording.intent.tenant, (event,), begun=recording.begun)
        except Problem as problem:
            raise AdminUnavailable("its outcome could not be recorded; the log will show it as unknown") from problem
