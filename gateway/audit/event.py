"""One audit event and its stored bytes: a line of JSON with sorted keys, at most 4 KiB. Pure.

The bytes are what is hashed, so they are made once. An event holds opaque IDs only; who acted stands in it as a pseudonym and
as text that the caller has sealed. What is too long is cut by a fixed rule and marked, so that no event is ever dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from gateway.ids.encoding import lp
from gateway.names import TenantId

VERSION: Final = 1
MAX_BYTES: Final = 4096
SHOWN_TARGETS: Final = 32


class EventType(StrEnum):
    """Types of the log's own events. A route's events have the route's action as their type, e.g. `responses.create`."""

    REFUSALS_SUMMED = "refusals.summed"
    WRITER_OPENED = "writer.opened"


class Phase(StrEnum):
    INTENT = "intent"
    OUTCOME = "outcome"
    SINGLE = "single"


class Result(StrEnum):
    ACCEPTED = "accepted"
    """The upstream took it and its answer has begun; another outcome follows."""
    ALLOW = "allow"
    DENY = "deny"
    ERROR = "error"
    UNKNOWN = "unknown"
    """No outcome came in time: closed by the sweeper."""


@dataclass(frozen=True, slots=True)
class Outcome:
    result: Result
    reason: str = ""
    status: int = 0
    """HTTP; 0 where there was none."""
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Actor:
    kind: str
    """`user`, `service`, `operator` or `system`."""
    pseudonym: str = ""
    """Keyed hash of `issuer#subject`, stable within the tenant; empty for the system."""
    issuer: str = ""
    auth: str = ""
    sealed: str = ""
    """The subject, sealed for the tenant's auditors."""
    chain: tuple[str, ...] = ()
    """Pseudonyms of who acts for the actor, outermost first."""


SYSTEM: Final = Actor("system")


@dataclass(frozen=True, slots=True)
class Target:
    kind: str
    id: str
    """Opaque."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """None and empty: not known, or does not apply."""

    id: str
    method: str = ""
    route: str = ""
    """The path template, never the path."""
    network: str = ""
    agent: str = ""
    """Hash of the User-Agent."""
    bytes_in: int | None = None
    bytes_out: int | None = None
    duration_us: int | None = None
    stream: bool | None = None
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None


Change = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Event:
    tenant: TenantId
    ts_us: int
    """UTC, microseconds since 1970."""
    type: str
    phase: Phase
    actor: Actor
    request: RequestFacts | None = None
    outcome: Outcome | None = None
    """None in an intent."""
    targets: tuple[Target, ...] = ()
    changes: Mapping[str, Change] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Limits:
    """How much of an event is shown. Bytes of UTF-8 for text."""

    targets: int
    changes: int
    text: int
    sealed: int


_STEPS: Final = (
    _Limits(SHOWN_TARGETS, 24, 128, 1024),
    _Limits(16, 16, 128, 1024),
    _Limits(8, 8, 64, 512),
    _Limits(4, 4, 40, 256),
    _Limits(0, 0, 24, 24),
)
"""Tried in turn until the event fits. The last always does, even where each character takes six in JSON."""


def encode(event: Event, writer: str, wseq: int, wprev: str) -> bytes:
    """The event's stored bytes, at most `MAX_BYTES`, as entry `wseq` of `writer` after the one with hash `wprev` (hex)."""
    body = b""
    for step, limits in enumerate(_STEPS):
        fields = _fields(event, limits)
        fields |= {"v": VERSION, "id": f"{writer}.{wseq}", "writer": writer, "wseq": wseq, "wprev": wprev}
        if step:
            fields["cut"] = step
        body = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
        if len(body) <= MAX_BYTES:
            break
    return body


def decode(body: bytes) -> Event:
    """What `encode` wrote, as far as it was shown. Raises ValueError for anything else."""
    try:
        fields = orjson.loads(body)
        outcome, request = fields.get("outcome"), fields.get("request")
        actor = dict(fields["actor"])
        return Event(
            tenant=TenantId(fields["tenant"]),
            ts_us=fields["ts"],
            type=fields["type"],
            phase=Phase(fields["phase"]),
            actor=Actor(**(actor | {"chain": tuple(actor.get("chain", ()))})),
            request=RequestFacts(**request) if request else None,
            outcome=Outcome(**(outcome | {"result": Result(outcome["result"])})) if outcome else None,
            targets=tuple(Target(**target) for target in fields.get("targets", ())),
            changes=fields.get("changes", {}),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError("not an audit event") from error


def _fields(event: Event, limits: _Limits) -> dict[str, Any]:
    text = limits.text
    actor = event.actor
    fields: dict[str, Any] = {
        "tenant": _cut(event.tenant, text),
        "ts": event.ts_us,
        "type": _cut(event.type, text),
        "phase": event.phase.value,
        "actor": {"kind": _cut(actor.kind, text)}
        | _known(
            pseudonym=_cut(actor.pseudonym, text),
            issuer=_cut(actor.issuer, text),
            auth=_cut(actor.auth, text),
            sealed=_cut(actor.sealed, limits.sealed),
            chain=[_cut(link, text) for link in actor.chain[:4]],
        ),
    }
    if (request := event.request) is not None:
        fields["request"] = {"id": _cut(request.id, text)} | _known(
            method=_cut(request.method, text),
            route=_cut(request.route, text),
            network=_cut(request.network, text),
            agent=_cut(request.agent, text),
            bytes_in=request.bytes_in,
            bytes_out=request.bytes_out,
            duration_us=request.duration_us,
            stream=request.stream,
            model=_cut(request.model, text),
            tokens_in=request.tokens_in,
            tokens_out=request.tokens_out,
        )
    if (outcome := event.outcome) is not None:
        fields["outcome"] = {"result": outcome.result.value} | _known(
            reason=_cut(outcome.reason, text),
            status=outcome.status or None,
            policy=_cut(outcome.policy, text),
        )
    if event.targets:
        shown = event.targets[: limits.targets]
        fields["targets"] = [{"kind": _cut(target.kind, text), "id": _cut(target.id, text)} for target in shown]
        if len(shown) < len(event.targets):
            every = b"".join(lp(_clean(target.kind), _clean(target.id)) for target in event.targets)
            fields["targets_count"] = len(event.targets)
            fields["targets_digest"] = hashlib.sha256(every).hexdigest()
    if event.changes:
        names = sorted(event.changes)[: limits.changes]
        fields["changes"] = {_cut(name, text): _cut_change(event.changes[name], text) for name in names}
        if len(names) < len(event.changes):
            fields["changes_count"] = len(event.changes)
    return fields


def _known(**fields: Any) -> dict[str, Any]:
    """Without what is not known."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [])}


def _clean(text: str) -> str:
    """Without lone surrogates, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _cut(text: str, limit: int) -> str:
    """`text`, or its beginning, `~` and 16 hex digits of its SHA-256, in at most `limit` bytes of UTF-8."""
    if len(text) <= limit and text.isascii():
        return text
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode()
    head = raw[: limit - 17].decode("utf-8", "ignore")
    return f"{head}~{hashlib.sha256(raw).hexdigest()[:16]}"


def _cut_change(value: Change, limit: int) -> Change:
    if isinstance(value, str):
        return _cut(value, limit)
    # JSON numbers beyond 64 bits have no one reading.
    return _cut(str(value), limit) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value
