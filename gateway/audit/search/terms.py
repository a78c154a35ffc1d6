"""What an event is found by: its time and its values, read from its stored bytes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from gateway.audit.event import EventType
from gateway.audit.lenient import caller, part, parts, text
from gateway.audit.search.query import LAST_US, Field


@dataclass(slots=True)
class Terms:
    ts_us: int
    """0: the event has no time that can be read."""
    values: dict[Field, str]
    """Of the fields with one value; without the empty ones."""
    targets: tuple[str, ...]
    """Opaque IDs, each once."""
    more: int = 0
    """Of a sum of refusals: how many it stands for beyond itself."""

    def sets(self) -> dict[Field, frozenset[str]]:
        """As `Query.matches` takes them."""
        every = {field: frozenset((value,)) for field, value in self.values.items()}
        return {**every, Field.TARGET: frozenset(self.targets)} if self.targets else every


_MOST: Final = 10**9
"""Refusals that one sum is believed."""
_PLACES: Final[tuple[tuple[Field, str, str], ...]] = (
    (Field.ACTOR, "actor", "pseudonym"),
    (Field.MODEL, "request", "model"),
    (Field.NETWORK, "request", "network"),
    (Field.REASON, "outcome", "reason"),
    (Field.REQUEST, "request", "id"),
    (Field.RESULT, "outcome", "result"),
    (Field.ROUTE, "request", "route"),
)
"""Field, and the part and name under which an event holds it."""


def terms_of(body: bytes) -> Terms:
    """What cannot be read is found by nothing, only by where it stands: the log may hold what nobody of ours wrote."""
    try:
        event = orjson.loads(body)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        return Terms(0, {}, ())
    values = {field: text(part(event, place), name) for field, place, name in _PLACES}
    values[Field.PHASE], values[Field.TYPE] = text(event, "phase"), text(event, "type")
    values[Field.VIA] = caller(part(event, "actor"))
    more = 0
    if event.get("type") == EventType.REFUSALS_SUMMED:
        summed = part(event, "changes")
        values[Field.ACTOR], number = text(summed, "actor"), summed.get("count")
        more = number - 1 if isinstance(number, int) and 1 < number <= _MOST else 0
    named = [text(one, "id") for one in parts(event, "targets")]
    ts_us = event.get("ts")
    return Terms(
        ts_us if isinstance(ts_us, int) and 0 < ts_us <= LAST_US else 0,
        {field: value for field, value in values.items() if value},
        tuple(dict.fromkeys(filter(None, named))),
        more,
    )
