"""A message as it waits: the body that its receiver gets, and what the log says of it, sealed for its webhook."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from gateway.audit.event import SYSTEM, Change, Event, EventType, Outcome, Phase, Target
from gateway.audit.persons import sealed, unsealed
from gateway.clock import now_us
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.stores.webhooks import Message


@dataclass(frozen=True, slots=True)
class Content:
    body: bytes
    type: str
    """Of the service's event."""
    target: Target
    """The object that it is about."""


def seal(
    keys: Versions[AuditKeys], tenant: TenantId, webhook: str, id_: str, lane: str, now_ms: int, content: Content
) -> Message:
    held = {
        "body": content.body.decode(),
        "id": content.target.id,
        "kind": content.target.kind,
        "type": content.type,
    }
    text = orjson.dumps(held).decode()
    return Message(id_, lane, now_ms, sealed(keys.newest, keys.current, tenant, _what(webhook, id_), text))


def unseal(keys: Versions[AuditKeys], tenant: TenantId, webhook: str, message: Message) -> Content | None:
    """None: nobody of ours wrote it for this webhook, or the key that it was sealed with is gone."""
    text = unsealed(keys, tenant, _what(webhook, message.id), message.sealed)
    if text is None:
        return None
    held = orjson.loads(text)
    return Content(held["body"].encode(), held["type"], Target(held["kind"], held["id"]))


def _what(webhook: str, id_: str) -> str:
    return f"webhook message {webhook} {id_}"


def event(
    tenant: TenantId, type_: EventType, outcome: Outcome, content: Content | None, changes: dict[str, Change]
) -> Event:
    """What the tenant's log says of a message."""
    said = {**changes, "event": content.type} if content else changes
    targets = (content.target,) if content else ()
    return Event(tenant, now_us(), type_, Phase.SINGLE, SYSTEM, outcome=outcome, targets=targets, changes=said)
