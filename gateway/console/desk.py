"""What every page works with, and how a visit gets on record: before anything of it is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request

from gateway.audit.event import Change, Event, EventType, Outcome, Phase, RequestFacts, Result, Target
from gateway.audit.log import AuditLog
from gateway.audit.persons import NETWORK, digest, is_pseudonym, person, sealed, unsealed
from gateway.audit.search.contract import Search
from gateway.audit.streams.registry import Streams
from gateway.clock import now_us
from gateway.console.integrity import Integrity
from gateway.console.reviewer import Reviewer
from gateway.console.seats import Seats
from gateway.console.session import Session, Sessions
from gateway.console.sign_in import SignIn
from gateway.errors import Problem, Reason
from gateway.ids.keys import AuditKeys, Versions
from gateway.ids.shape import RAW
from gateway.names import Principal, TenantId
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.contract import Store
from gateway.stores.keyring import KeysMissing
from gateway.stores.log import LogStore
from gateway.telemetry import REQUEST_ID

MAX_NOTED: Final = 512
"""Characters of a query that the log keeps."""


FEEDS: Final = (4, 64, 256)
"""Open live tails of a session, a tenant, a process: each asks the store once a second. A browser opens six connections to a
console without HTTP/2, and all pages need one."""
EXPORTS: Final = (4, 8, 32)
"""Exports on their way, likewise: each reads as fast as it can."""
OPEN_S: Final = 60
"""A change without an outcome is closed as unknown after so long."""


class Refusal(StrEnum):
    """Why the console refused something: the reasons in its events. Closed and alphabetised."""

    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    ROLE_MISSING = "role_missing"
    TOO_MANY = "too_many"


STATUS: Final = {
    Refusal.BAD_REQUEST: 400, Refusal.NOT_FOUND: 404, Refusal.ROLE_MISSING: 403, Refusal.TOO_MANY: 429,
}  # fmt: skip


class Refused(Exception):
    """A page that is not shown. The text is for the reviewer."""

    def __init__(self, reason: Refusal, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Unrecorded(Exception):
    """What was done cannot be put on record, and so it is not shown."""

    def __init__(self, who: Someone, reason: Reason) -> None:
        super().__init__(reason.value)
        self.who = who
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts, made once (`app.py`)."""

    store: Store
    logs: LogStore
    keyring: AuditKeyring
    log: AuditLog
    search: Search
    integrity: Integrity
    streams: Streams
    retention_days: int
    """For tenants without a rule of their own; 0: nothing goes."""
    sessions: Sessions
    sign_in: SignIn
    origin: str
    client: Callable[[Mapping[str, Any]], str]
    """A request's network address, from its ASGI scope."""
    deployment: str
    folder: Path
    """For exports while they are being made."""
    feeds: Seats = field(default_factory=lambda: Seats(*FEEDS))
    """Open live tails."""
    exports: Seats = field(default_factory=lambda: Seats(*EXPORTS))
    """Exports on their way."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a page's function found. It is shown once the visit is on record."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    noted: Mapping[str, Change] = field(default_factory=dict)
    """More facts for the event."""
    targets: tuple[Target, ...] = ()
    """Objects whose story was read."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a reviewer who is signed in."""

    desk: Desk
    request: Request
    session: Session
    keys: Versions[AuditKeys]
    page: str
    """Its name, which the event notes."""
    form: Mapping[str, str] = field(default_factory=dict)
    """What was sent by POST."""

    @property
    def tenant(self) -> TenantId:
        return self.session.reviewer.tenant

    @property
    def reviewer(self) -> Reviewer:
        return self.session.reviewer

    def query(self) -> list[tuple[str, str]]:
        return self.request.query_params.multi_items()

    async def record(
        self,
        type_: EventType,
        outcome: Outcome,
        noted: Mapping[str, Change] | None = None,
        targets: tuple[Target, ...] = (),
    ) -> None:
        """Raises Unrecorded where it cannot be written: then nothing is shown."""
        who = Someone(self.tenant, self.keys, self.reviewer.principal)
        await record(self.desk, self.request, who, type_, outcome, self._noted(noted), targets)

    @asynccontextmanager
    async def changing(self, type_: str, facts: Mapping[str, Change]) -> AsyncIterator[dict[str, Change]]:
        """The body runs between intent and outcome, and may add facts for the outcome. Raises Unrecorded where one of the
        two cannot be written."""
        told: dict[str, Change] = dict(facts)
        who = Someone(self.tenant, self.keys, self.reviewer.principal)
        intent = event_of(self.desk, self.request, who, type_, None, told)
        with _on_record(who):
            begun = await self.desk.log.begin(self.tenant, intent, open_s=OPEN_S)
        if begun.seq == 0:
            raise KeysMissing("the tenant is erased")
        outcome = Outcome(Result.ERROR, "failed", 500)
        try:
            yield told
            outcome = allowed()
        except Refused as refused:
            outcome = denied(refused.reason)
            raise
        finally:
            ended = replace(intent, ts_us=now_us(), phase=Phase.OUTCOME, outcome=outcome, changes=told)
            with _on_record(who):
                await self.desk.log.finish(self.tenant, (ended,), begun=begun)

    def _noted(self, noted: Mapping[str, Change] | None) -> dict[str, Change]:
        about: dict[str, Change] = {"page": self.page}
        if asked := " ".join(f"{name}={self._kept(name, value)}" for name, value in self.query()):
            about["query"] = without_ids(self.keys.newest, asked)
        return about | dict(noted or {})

    def _kept(self, name: str, value: str) -> str:
        """What the log keeps of a part of the query: a person's name, or an address, stands in it sealed or not at all."""
        field = self.request.query_params.get("add", "") if name == "add_value" else name.rstrip("!")
        if not value or field not in ("actor", "network", "via") or is_pseudonym(value):
            return value
        opened = unsealed(self.keys, self.tenant, NETWORK, value)
        return value if opened is not None else f"?{digest(self.keys.newest, 'stranger', value)}"


@dataclass(frozen=True, slots=True)
class Someone:
    """Who an event is about, and the keys that say it in the tenant's log."""

    tenant: TenantId
    keys: Versions[AuditKeys]
    principal: Principal


@contextmanager
def _on_record(who: Someone) -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        raise Unrecorded(who, problem.reason) from problem


async def record(
    desk: Desk,
    request: Request,
    who: Someone,
    type_: EventType,
    outcome: Outcome,
    changes: Mapping[str, Change],
    targets: tuple[Target, ...] = (),
) -> None:
    """A single event in the tenant's log. Raises Unrecorded where it cannot be written."""
    event = event_of(desk, request, who, type_, outcome, changes, targets)
    with _on_record(who):
        begun = await desk.log.record(who.tenant, event)
    if begun.seq == 0:
        raise KeysMissing("the tenant is erased")


def event_of(
    desk: Desk,
    request: Request,
    who: Someone,
    type_: str,
    outcome: Outcome | None,
    changes: Mapping[str, Change],
    targets: tuple[Target, ...] = (),
) -> Event:
    """A single event, or an intent where there is no outcome."""
    tenant, keys, version = who.tenant, who.keys.newest, who.keys.current
    network, agent = desk.client(request.scope), request.headers.get("user-agent", "")
    facts = RequestFacts(
        id=REQUEST_ID.get(),
        method=request.method,
        network=sealed(keys, version, tenant, NETWORK, network) if network else "",
        agent=digest(keys, "agent", tenant, agent[:MAX_NOTED].encode()) if agent else "",
    )
    phase = Phase.SINGLE if outcome else Phase.INTENT
    return Event(tenant, now_us(), type_, phase, person(keys, version, who.principal), facts, outcome, targets, changes)


def allowed(status: int = 200) -> Outcome:
    return Outcome(Result.ALLOW, "", status)


def denied(reason: Refusal) -> Outcome:
    return Outcome(Result.DENY, reason.value, STATUS[reason])


def without_ids(keys: AuditKeys, text: str) -> str:
    """`text` for the log: what has the shape of a service's ID may be a raw one, so only its digest is kept."""
    return RAW.sub(lambda match: f"?{digest(keys, 'stranger', match[0])}", text[: 4 * MAX_NOTED])[:MAX_NOTED]
