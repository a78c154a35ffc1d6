"""`audit tail`: a tenant's events as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson

from gateway.admin.administration import AdminEvent, Administration
from gateway.audit.event import Event, decode
from gateway.audit.persons import NETWORK, SUBJECT, unsealed
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.stores.contract import StoredEvent

NEWEST: Final = 20
_PAGE: Final = 500
_POLL_S: Final = 0.5


async def tail(
    admin: Administration, tenant: TenantId, *, follow: bool = False, newest: int = NEWEST, opens: bool = False
) -> AsyncIterator[StoredEvent]:
    """The `newest` events, oldest first, and with `follow` each further one as it is appended. Reading is an event too, which
    says whether personal fields are opened (`opens`).

    Raises AdminRefused where that can't be recorded, and what the store raises.
    """
    async with admin.recorded(tenant, AdminEvent.AUDIT_READ, changes={"opened": True} if opens else None):
        state = await admin.store.tenant_state(tenant)
    after = max(0, (state.last_seq if state else 0) - newest)
    while True:
        page = await admin.store.read_events(tenant, after, _PAGE)
        for stored in page:
            after = stored.seq
            yield stored
        if not page:
            if not follow:
                return
            await asyncio.sleep(_POLL_S)


@dataclass(frozen=True, slots=True)
class Opened:
    """The personal fields of one event, as far as they open."""

    subject: str | None = None
    network: str | None = None


def opened(keys: Versions[AuditKeys], tenant: TenantId, stored: StoredEvent) -> Opened:
    """What the event has sealed for the tenant's auditors."""
    try:
        event = decode(stored.body)
    except ValueError:
        return Opened()
    network = event.request.network if event.request else ""
    return Opened(
        unsealed(keys, tenant, SUBJECT, event.actor.sealed) if event.actor.sealed else None,
        unsealed(keys, tenant, NETWORK, network) if network else None,
    )


def as_line(stored: StoredEvent, personal: Opened | None = None) -> str:
    """One event for a terminal. What others wrote into it (a model's name, say) cannot steer the terminal: every
    character that is not printable is shown as its escape."""
    try:
        event = decode(stored.body)
    except ValueError:
        return f"{stored.seq:>6}  (not an audit event)"
    return _printable(f"{stored.seq:>6}  {_columns(event, personal)}")


def as_sum(line: bytes) -> str:
    """One line of the operator's log for a terminal: when, how often, what, and from which networks."""
    try:
        held = orjson.loads(line)
        networks, more = list(filter(None, held["networks"])), held["networks_count"] - len(held["networks"])
        came = f"  from {', '.join(networks)}{f' and {more} more' if more else ''}" if networks else ""
        return _printable(f"{_when(held['ts'])}  {held['count']} × {held['reason']}{came}")
    except (KeyError, OverflowError, TypeError, ValueError):
        return "(not a sum of the gateway's)"


def as_json(stored: StoredEvent, personal: Opened | None = None) -> str:
    """One event as a line of JSON: its number in the log, its stored bytes as they are, and what was opened."""
    beside = f',"opened":{orjson.dumps(personal).decode()}' if personal is not None else ""
    return f'{{"seq":{stored.seq},"event":{stored.body.decode("utf-8", "replace")}{beside}}}'


def _columns(event: Event, personal: Opened | None) -> str:
    outcome = event.outcome
    parts = [
        _when(event.ts_us),
        f"{event.type:<28}",
        f"{event.phase.value if outcome is None else outcome.result.value:<8}",
        f"{event.actor.kind}:{event.actor.pseudonym or '-'}",
    ]
    if personal is not None:
        parts += [part for part in (personal.subject, personal.network) if part]
    if outcome is not None:
        parts += [part for part in (outcome.reason, str(outcome.status or ""), outcome.policy) if part]
    if event.request is not None:
        parts += [part for part in (event.request.id, event.request.model) if part]
    parts += [target.id for target in event.targets]
    return "  ".join(parts)


def _when(ts_us: int) -> str:
    return datetime.fromtimestamp(ts_us / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
