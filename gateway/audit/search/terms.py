"""What an event is found by: its time and its values, read from its stored bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.audit.event import EventType
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
    values = {field: _text(_part(event, part).get(name)) for field, part, name in _PLACES}
    values[Field.PHASE], values[Field.TYPE] = _text(event.get("phase")), _text(event.get("type"))
    if chain := _part(event, "actor").get("chain"):
        values[Field.VIA] = _text(chain[0] if isinstance(chain, list) else None)
    more = 0
    if event.get("type") == EventType.REFUSALS_SUMMED:
        summed = _part(event, "changes")
        values[Field.ACTOR], number = _text(summed.get("actor")), summed.get("count")
        more = number - 1 if isinstance(number, int) and 1 < number <= _MOST else 0
    listed = event.get("targets")
    named = [_text(one.get("id")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    ts_us = event.get("ts")
    return Terms(
        ts_us if isinstance(ts_us, int) and 0 < ts_us <= LAST_US else 0,
        {field: value for field, value in values.items() if value},
        tuple(dict.fromkeys(filter(None, named))),
        more,
    )


def _part(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = event.get(name)
    return part if isinstance(part, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
