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

    CONSOLE_EXPORT = "console.export"
    """A reviewer took something away: the found events, a proof, a checkpoint, the public key. `changes`: `what`."""
    CONSOLE_REFUSED = "console.refused"
    CONSOLE_REVOKE = "console.revoke"
    """An admin ended sessions of the console."""
    CONSOLE_SIGN_IN = "console.sign_in"
    CONSOLE_SIGN_OUT = "console.sign_out"
    CONSOLE_VIEW = "console.view"
    """A reviewer read a page. `changes`: `page`, and `query` with digests in the place of IDs."""
    INTENT_UNREADABLE = "intent.unreadable"
    """An overdue intent that is no event: somebody has written to the log's place."""
    LOG_ARCHIVED = "log.archived"
    """The events from `changes.first` to `changes.last` are in the archive, and leave the log."""
    LOG_RESEALED = "log.resealed"
    """Events were lost, and an operator has accepted it. `changes`: `epoch` (of the log's origin from here on), `lost_first`
    (this event's own number, for the log goes on there) and `lost_last` (the highest number that is known to be lost, by an
    anchored checkpoint or otherwise; `lost_first` - 1: none is known)."""
    REFUSALS_SUMMED = "refusals.summed"
    WEBHOOK_DELIVER = "webhook.deliver"
    """A webhook of the service was handed on to a receiver of the tenant's, or given up. `changes`: `webhook`, `message`, `event`
    (its type) and `attempts`."""
    WEBHOOK_RECEIVE = "webhook.receive"
    """The service told of an object. `changes`: `event` (its type) and `webhooks` (how many it was put down for)."""
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


@dataclass(slots=True)
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


@dataclass(slots=True, unsafe_hash=True)
class Target:
    """Not frozen, which would make it four times as slow to make; nobody changes one."""

    kind: str
    id: str
    """Opaque."""


@dataclass(slots=True)
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


@dataclass(slots=True)
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


SHOWN_CHAIN: Final = 4
_FIXED: Final = frozenset({"id", "writer", "wprev", "targets_digest", "phase"})
"""Ours, of known length."""


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
"""Tried in turn where the event does not fit as it is. The last always fits, even where JSON needs six bytes a character."""


def encode(event: Event, writer: str, wseq: int, wprev: str) -> bytes:
    """The event's stored bytes, at most `MAX_BYTES`, as entry `wseq` of `writer` after the one with hash `wprev` (hex).

    Every field is always there. An event that does not fit is cut by the steps above, and `cut` says by which.
    """
    fields = _fields(event, writer, wseq, wprev)
    try:
        body = orjson.dumps(fields)
        if len(body) <= MAX_BYTES:
            return body
    except orjson.JSONEncodeError:
        pass  # text that is no UTF-8, or a number beyond 64 bits: cutting mends both
    fields["targets_digest"] = _digest(event.targets)
    for step, limits in enumerate(_STEPS, start=1):
        body = orjson.dumps(_shorten(fields, limits) | {"cut": step}, option=orjson.OPT_SORT_KEYS)
        if len(body) <= MAX_BYTES:
            return body
    raise AssertionError("the last step always fits")


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


def _fields(event: Event, writer: str, wseq: int, wprev: str) -> dict[str, Any]:
    """Keys stand sorted in every part: to have them sorted at each encoding costs 1 µs."""
    actor, request, outcome, targets = event.actor, event.request, event.outcome, event.targets
    fields: dict[str, Any] = {
        "actor": {
            "auth": actor.auth,
            "chain": actor.chain,
            "issuer": actor.issuer,
            "kind": actor.kind,
            "pseudonym": actor.pseudonym,
            "sealed": actor.sealed,
        },
        "changes": dict(sorted(event.changes.items())) if event.changes else {},
        "id": f"{writer}.{wseq}",
        "outcome": outcome
        and {
            "policy": outcome.policy,
            "reason": outcome.reason,
            "result": outcome.result,
            "status": outcome.status,
        },
        "phase": event.phase,
        "request": request
        and {
            "agent": request.agent,
            "bytes_in": request.bytes_in,
            "bytes_out": request.bytes_out,
            "duration_us": request.duration_us,
            "id": request.id,
            "method": request.method,
            "model": request.model,
            "network": request.network,
            "route": request.route,
            "stream": request.stream,
            "tokens_in": request.tokens_in,
            "tokens_out": request.tokens_out,
        },
        "targets": [{"id": target.id, "kind": target.kind} for target in targets[:SHOWN_TARGETS]],
        "targets_count": len(targets),
        "tenant": event.tenant,
        "ts": event.ts_us,
        "type": event.type,
        "v": VERSION,
        "wprev": wprev,
        "writer": writer,
        "wseq": wseq,
    }
    if len(targets) > SHOWN_TARGETS:
        fields["targets_digest"] = _digest(targets)
        return dict(sorted(fields.items()))
    return fields


def _digest(targets: tuple[Target, ...]) -> str:
    """SHA-256 (hex) over kind and ID of all targets, each with its length."""
    return hashlib.sha256(b"".join(lp(_clean(target.kind), _clean(target.id)) for target in targets)).hexdigest()


def _shorten(fields: dict[str, Any], limits: _Limits) -> dict[str, Any]:
    changes = fields["changes"]
    names = sorted(changes)[: limits.changes]
    short: dict[str, Any] = {
        name: _cut(value, limits.text) if isinstance(value, str) and name not in _FIXED else value
        for name, value in fields.items()
    }
    short["actor"] = _cut_values(fields["actor"], limits) | {
        "chain": [_cut(link, limits.text) for link in fields["actor"]["chain"][:SHOWN_CHAIN]]
    }
    for part in ("request", "outcome"):
        short[part] = fields[part] and _cut_values(fields[part], limits)
    short["targets"] = [_cut_values(target, limits) for target in fields["targets"][: limits.targets]]
    short["changes"] = {_cut(name, limits.text): _cut_value(changes[name], limits.text) for name in names}
    short["changes_count"] = len(changes)
    return short


def _cut_values(part: Mapping[str, Any], limits: _Limits) -> dict[str, Any]:
    return {name: _cut_value(value, limits.sealed if name == "sealed" else limits.text) for name, value in part.items()}


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


def _cut_value(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return _cut(value, limit)
    # JSON numbers beyond 64 bits have no one reading.
    return _cut(str(value), limit) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value
