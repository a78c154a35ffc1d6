"""A writer's chain: each entry holds the SHA-256 of the writer's entry before. Pure.

A writer is one process's hand in one tenant's log. Its entries are numbered from 1 without a gap, so a later entry shows that
an earlier one is missing. A writer that had to be ended is followed by a successor whose first entry says so.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from gateway.audit.event import SYSTEM, Event, EventType, Phase, encode
from gateway.audit.genuine import EventKey
from gateway.names import TenantId
from gateway.stores.contract import Entry

NO_EVENT: Final = "0" * 64
"""`wprev` of a writer's first entry."""


@dataclass(slots=True)
class Writer:
    id: str
    """Random, never reused; 16 to 32 lower-case hex digits."""
    last_wseq: int = 0
    last_hash: str = NO_EVENT

    def next(self, event: Event, key: EventKey | None = None, ended: Ended | None = None) -> tuple[Writer, Entry]:
        """The writer after `event`, and the entry to store, which takes the place of `ended`'s next one."""
        wseq = self.last_wseq + 1
        body = encode(event, self.id, wseq, self.last_hash)
        mac = key.mac(body) if key is not None else b""
        ends, ends_after = (ended.id, ended.confirmed) if ended is not None else ("", 0)
        return (
            Writer(self.id, wseq, hashlib.sha256(body).hexdigest()),
            Entry(self.id, wseq, body, ends, ends_after, mac),
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """A writer that takes no further entry, and how many of its entries are known to be stored."""

    id: str
    confirmed: int


def succeed(
    ended: Ended, new_id: str, tenant: TenantId, ts_us: int, key: EventKey | None = None
) -> tuple[Writer, Entry]:
    """A successor and its first entry, `writer.opened`, which names the predecessor and its last confirmed `wseq`."""
    event = Event(
        tenant=tenant,
        ts_us=ts_us,
        type=EventType.WRITER_OPENED,
        phase=Phase.SINGLE,
        actor=SYSTEM,
        changes={"predecessor": ended.id, "confirmed": ended.confirmed},
    )
    return Writer(new_id).next(event, key, ended)
