"""A stored event as a page shows it. Pure.

Nothing is taken on trust: the log's place may have been written by somebody else, so each value is looked at before it is used,
and what is no event is shown as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from gateway.audit.event import EventType
from gateway.audit.lenient import part, parts, text
from gateway.audit.persons import NETWORK, SUBJECT, unsealed
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.stores.contract import StoredEvent

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_US: Final = 253_402_300_799_000_000
"""The end of the year 9999."""
INTENT: Final = "intent"
UNREADABLE: Final = "unreadable"


@dataclass(frozen=True, slots=True)
class Target:
    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Row:
    """What every page says of an event. Text is as it was stored."""

    seq: int
    readable: bool
    when: datetime | None
    type: str
    result: str
    """`intent`, a result of `audit.event.Result`, or `unreadable`."""
    reason: str
    status: int
    policy: str
    name: str
    """Of who acted, opened; empty for the system and where it does not open."""
    pseudonym: str
    """Of who acted, or of whose refusals were summed."""
    kind: str
    issuer: str
    auth: str
    chain: tuple[str, ...]
    request_id: str
    method: str
    route: str
    model: str
    network: str
    """Opened."""
    sealed_network: str
    targets: tuple[Target, ...]
    targets_count: int
    refusals: int
    """That were summed to this event; 0: it is no sum."""
    refused_targets: int
    """Different objects among those."""
    changes: tuple[tuple[str, str], ...]
    fields: Mapping[str, Any]
    body: bytes

    @property
    def who(self) -> str:
        return self.name or self.pseudonym or self.kind or "nobody"

    @property
    def why(self) -> str:
        """The reason, and how often."""
        return f"{self.refusals:,} × {self.reason}" if self.refusals else self.reason


def read(stored: StoredEvent, tenant: TenantId, keys: Versions[AuditKeys]) -> Row:
    fields = _parsed(stored.body)
    actor, outcome, request = (part(fields, name) for name in ("actor", "outcome", "request"))
    readable = isinstance(fields.get("type"), str) and bool(actor)
    sealed, network = text(actor, "sealed"), text(request, "network")
    targets = parts(fields, "targets")
    count = fields.get("targets_count")
    changes = part(fields, "changes")
    chain = actor.get("chain")
    summed = changes if fields.get("type") == EventType.REFUSALS_SUMMED else {}
    return Row(
        seq=stored.seq,
        readable=readable,
        when=_moment(fields.get("ts")),
        type=text(fields, "type") if readable else UNREADABLE,
        result=(text(outcome, "result") or INTENT) if readable else UNREADABLE,
        reason=text(outcome, "reason"),
        status=_number(outcome, "status"),
        policy=text(outcome, "policy"),
        name=(unsealed(keys, tenant, SUBJECT, sealed) or "") if sealed else "",
        pseudonym=text(summed, "actor") or text(actor, "pseudonym"),
        kind=text(actor, "kind"),
        issuer=text(actor, "issuer"),
        auth=text(actor, "auth"),
        chain=tuple(map(str, chain)) if isinstance(chain, list) else (),
        request_id=text(request, "id"),
        method=text(request, "method"),
        route=text(request, "route"),
        model=text(request, "model"),
        network=(unsealed(keys, tenant, NETWORK, network) or "") if network else "",
        sealed_network=network,
        targets=tuple(Target(text(one, "kind"), text(one, "id")) for one in targets),
        targets_count=count if isinstance(count, int) else len(targets),
        refusals=max(0, _number(summed, "count")),
        refused_targets=_number(summed, "distinct_targets"),
        changes=tuple((str(name), _written(value)) for name, value in changes.items()),
        fields=fields,
        body=stored.body,
    )


def read_all(found: Iterable[StoredEvent], tenant: TenantId, keys: Versions[AuditKeys]) -> tuple[Row, ...]:
    return tuple(read(stored, tenant, keys) for stored in found)


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(body)
        # What is nested so deeply that it cannot be written again is no event, and would end the page that shows it.
        orjson.dumps(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _written(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _moment(value: object) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LAST_US:
        return None
    return _EPOCH + timedelta(microseconds=value)
