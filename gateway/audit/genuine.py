"""That an event in Redis was written by a process that holds its tenant's audit key. Pure.

Who can write to Redis can append rows, and what is in a log gets signed. So a row carries a MAC of its event beside it, and
nothing is signed on whose MAC is not the tenant's. It stays in Redis: a signed checkpoint says more than it does.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final

from gateway.ids.keys import AuditKeys, Versions
from gateway.stores.contract import StoredEvent

MAC_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class EventKey:
    version: int
    """Of the tenant's audit keys, 1 to 255."""
    secret: bytes = field(repr=False)

    def mac(self, body: bytes) -> bytes:
        """One byte of version, then the first half of HMAC-SHA256 (RFC 2104, section 5)."""
        return bytes((self.version,)) + hmac.digest(self.secret, body, "sha256")[:MAC_BYTES]


def event_key(keys: Versions[AuditKeys]) -> EventKey:
    """For new events."""
    return EventKey(keys.current, keys.newest.mac)


def version_of(event: StoredEvent) -> int:
    """Of the key that made its MAC; 0 where it has none."""
    return event.mac[0] if event.mac else 0


def is_genuine(event: StoredEvent, keys: Versions[AuditKeys]) -> bool:
    version = version_of(event)
    made = keys.keys.get(version)
    return made is not None and hmac.compare_digest(EventKey(version, made.mac).mac(event.body), event.mac)
