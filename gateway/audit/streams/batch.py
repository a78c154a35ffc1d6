"""A batch as it goes out: a JSON array, one element for each event. Pure.

    json   {"seq": 17, "event": <the stored bytes>}
    ocsf   OCSF 1.6.0 API Activity (`ocsf.py`)

What is no event of the log, but must be told (events that were trimmed before they were sent, rows that no gateway wrote, a
log that was cut or replaced), stands among them in the same form, with null for `seq`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import orjson

from gateway.audit.event import Change
from gateway.audit.streams.ocsf import to_ocsf
from gateway.stores.contract import StoredEvent


class Format(StrEnum):
    JSON = "json"
    OCSF = "ocsf"


class Notice(StrEnum):
    """What a receiver is told beside the events. The values stand as the events' types."""

    CUT = "stream.cut"
    """Events `first` to `last`, which were delivered before, are no longer in the log: it lost its newest ones."""
    GAP = "stream.gap"
    """Events `first` to `last` were trimmed off the log before they were delivered; the archive holds them."""
    INVENTED = "stream.invented"
    """Rows `first` to `last` of the log were written by no gateway: they are not passed on."""
    REPLACED = "stream.replaced"
    """The event `last`, delivered before, is another one in the log now: all of the log comes again."""
    TEST = "stream.test"
    """Somebody tries the stream out."""


@dataclass(frozen=True, slots=True)
class Told:
    """One notice, with the events that it speaks of (0: none)."""

    notice: Notice
    ts_us: int
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    told: Sequence[Told]
    rows: Sequence[StoredEvent]

    def body(self, format_: Format, tenant: str) -> bytes:
        bodies: list[tuple[int | None, bytes]] = [(None, _notice(one, tenant)) for one in self.told]
        bodies += [(row.seq, row.body) for row in self.rows]
        return b"[" + b",".join(_element(seq, body, format_, tenant) for seq, body in bodies) + b"]"


def _element(seq: int | None, body: bytes, format_: Format, tenant: str) -> bytes:
    if format_ is Format.OCSF:
        return orjson.dumps(to_ocsf(seq, body, tenant))
    try:
        orjson.loads(body)
    except ValueError:
        # Nobody of ours wrote it: it goes along as text, for in its own form it would spoil the whole batch.
        return orjson.dumps({"seq": seq, "unreadable": body.decode("utf-8", "backslashreplace")})
    return b'{"seq":%s,"event":%s}' % (b"null" if seq is None else b"%d" % seq, body)


def _notice(told: Told, tenant: str) -> bytes:
    changes: dict[str, Change] = {"first": told.first, "last": told.last} if told.last else {}
    return orjson.dumps(
        {
            "actor": {"kind": "system"},
            "changes": changes,
            "phase": "single",
            "tenant": tenant,
            "ts": told.ts_us,
            "type": told.notice,
        },
        option=orjson.OPT_SORT_KEYS,
    )
