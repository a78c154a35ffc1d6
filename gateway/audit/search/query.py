"""A query of one tenant's log, and its form in a URL, which holds it whole. Pure: the clock is passed in.

    type=responses.create & type=conversations.create & result!=allow & since=2026-11-01T00:00:00Z & q=gpt

A name stands once for each value. Values of one field are alternatives, fields narrow each other; `name!` (so `name!=value`)
leaves out what has the value. `since` and `until` are RFC 3339, until not included; `last` is a span that ends now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

MAX_FILTERS: Final = 32
MAX_CHARS: Final = 256
"""Of one value, and of the searched text."""
MAX_WORDS: Final = 8
LAST_US: Final = 253_402_214_400_000_000
"""The last moment that is one: the day after it is the calendar's last, and what is drawn may reach a little further."""
NEGATED: Final = "!"
"""Ends the name of a filter that leaves out."""


class Field(StrEnum):
    """What an event is found by. Closed and alphabetised; the values stand in URLs and in the index."""

    ACTOR = "actor"
    """A pseudonym: of who acted, or of whose refusals were summed."""
    MODEL = "model"
    NETWORK = "network"
    """As sealed: equal addresses have equal seals."""
    PHASE = "phase"
    REASON = "reason"
    REQUEST = "request"
    RESULT = "result"
    ROUTE = "route"
    """A path template."""
    TARGET = "target"
    """An opaque ID."""
    TYPE = "type"
    VIA = "via"
    """A pseudonym: of who acted for the actor."""


IDS: Final = frozenset({Field.ACTOR, Field.NETWORK, Field.REQUEST, Field.TARGET, Field.VIA})
"""Fields of many values. Text finds one by its beginning; in all other fields it is found anywhere."""
CLOSED: Final = frozenset({Field.PHASE, Field.REASON, Field.RESULT, Field.ROUTE, Field.TYPE})
"""Fields whose values nobody but the gateway chooses, so that they are few."""
_LEAST_OF_ID: Final = 6
"""Characters after the prefix (`resp_`, `req_`) that text must give of an ID, or it would stand for all of that kind."""


class QueryRefused(ValueError):
    """The query cannot be meant. The text names the part and says what is expected."""


@dataclass(frozen=True, slots=True)
class Filter:
    field: Field
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """The empty query finds everything."""

    filters: tuple[Filter, ...] = ()
    since_us: int | None = None
    """UTC, microseconds since 1970; included."""
    until_us: int | None = None
    """Not included."""
    last_s: int | None = None
    """In the place of `since_us` and `until_us`: the seconds before now. Stays what it is in a URL; see `at`."""
    text: str = ""
    """Words; an event must have each of them in some field."""

    @classmethod
    def parse(cls, items: Iterable[tuple[str, str]]) -> Query:
        """From a URL's decoded name-value pairs. Empty values are left out, for forms send them. Raises QueryRefused, also
        for a name that is not in `NAMES`, so that a filter that is spelt wrong never shows more than was asked for."""
        filters: dict[Filter, None] = {}
        single: dict[str, str] = {}
        for name, value in items:
            if name not in NAMES:
                raise QueryRefused(f"{name[:MAX_CHARS]}: no such filter; there are {', '.join(Field)}")
            if not value.strip():
                continue
            if len(value) > MAX_CHARS:
                raise QueryRefused(f"{name}: at most {MAX_CHARS} characters")
            if name not in _SINGLE:
                filters[Filter(Field(name.removesuffix(NEGATED)), value.strip(), name.endswith(NEGATED))] = None
            elif single.setdefault(name, value) != value:
                raise QueryRefused(f"{name}: given twice")
        if len(filters) > MAX_FILTERS:
            raise QueryRefused(f"at most {MAX_FILTERS} filters")
        return cls(
            tuple(filters),
            _moment("since", single),
            _moment("until", single),
            _span(single),
            " ".join(single.get("q", "").split()),
        )._checked()

    def items(self) -> tuple[tuple[str, str], ...]:
        """The URL's name-value pairs: `Query.parse(query.items()) == query`."""
        pairs = [(one.field.value + NEGATED * one.negated, one.value) for one in self.filters]
        for name, moment_us in (("since", self.since_us), ("until", self.until_us)):
            if moment_us is not None:
                pairs.append((name, write_moment(moment_us)))
        if self.last_s is not None:
            pairs.append(("last", _write_span(self.last_s)))
        if self.text:
            pairs.append(("q", self.text))
        return tuple(pairs)

    def at(self, now_us: int) -> Query:
        """The same query with its span made into moments."""
        if self.last_s is None:
            return self
        return replace(self, since_us=max(0, now_us - self.last_s * 1_000_000), until_us=None, last_s=None)

    def words(self) -> tuple[str, ...]:
        return tuple(self.text.split())

    def with_filter(self, field: Field, value: str, *, negated: bool = False) -> Query:
        """This query, narrowed (or widened, where the field has a value already) by one filter."""
        added = Filter(field, value, negated)
        return self if added in self.filters else replace(self, filters=(*self.filters, added))

    def without(self, filter_: Filter) -> Query:
        return replace(self, filters=tuple(one for one in self.filters if one != filter_))

    def matches(self, ts_us: int, terms: Mapping[Field, Set[str]]) -> bool:
        """Whether an event of `ts_us` that is found by `terms` is among what this query (without a span) finds."""
        bounded = self.since_us is not None or self.until_us is not None
        # What has no time is in no range.
        if bounded and (ts_us < max(self.since_us or 1, 1) or (self.until_us is not None and ts_us >= self.until_us)):
            return False
        for field, wanted, unwanted in self.by_field():
            has = terms.get(field, frozenset())
            if (wanted and not wanted & has) or unwanted & has:
                return False
        return all(
            any(has_word(field, value, word) for field, values in terms.items() for value in values)
            for word in self.words()
        )

    def by_field(self) -> Iterator[tuple[Field, frozenset[str], frozenset[str]]]:
        """Each field that is filtered: values of which an event has one, values of which it has none."""
        for field in sorted({one.field for one in self.filters}):
            mine = [one for one in self.filters if one.field is field]
            yield (
                field,
                frozenset(one.value for one in mine if not one.negated),
                frozenset(one.value for one in mine if one.negated),
            )

    def _checked(self) -> Query:
        if self.since_us is not None and self.until_us is not None and self.since_us >= self.until_us:
            raise QueryRefused("until: must be later than since")
        if self.last_s is not None and (self.since_us is not None or self.until_us is not None):
            raise QueryRefused("last: not together with since or until")
        if len(self.words()) > MAX_WORDS:
            raise QueryRefused(f"q: at most {MAX_WORDS} words")
        return self


_SINGLE: Final = frozenset({"since", "until", "last", "q"})
NAMES: Final = _SINGLE | {field.value for field in Field} | {field.value + NEGATED for field in Field}
"""The names of a query's items in a URL; a page's own (its cursor, say) are others."""


def has_word(field: Field, value: str, word: str) -> bool:
    """Whether text finds `value`: an ID by its beginning, anything else by any part of it, capital or not."""
    if field in IDS:
        return identifies(word) and value.startswith(word)
    return word.lower() in value.lower()


def identifies(word: str) -> bool:
    """Whether there is enough of an ID in `word` to look for it."""
    return len(re.split(r"[_-]", word)[-1]) >= _LEAST_OF_ID


def write_moment(moment_us: int) -> str:
    """RFC 3339 in UTC, with as many digits as it needs."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment_us)
    return moment.isoformat().replace("+00:00", "Z")


def _moment(name: str, single: Mapping[str, str]) -> int | None:
    if name not in single:
        return None
    try:
        moment = datetime.fromisoformat(single[name].strip())
        # Without an offset it is UTC, as in everything that the log shows.
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        moment_us = (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        moment_us = LAST_US + 1
    if moment_us > LAST_US:
        raise QueryRefused(f"{name}: a moment as in 2026-11-30T12:00:00Z is expected")
    return moment_us


_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def _span(single: Mapping[str, str]) -> int | None:
    if "last" not in single:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,5})([dhms])", single["last"].strip(), re.ASCII)
    if match is None:
        raise QueryRefused("last: a span as in 15m, 24h or 7d is expected")
    return int(match[1]) * _UNITS[match[2]]


def _write_span(seconds: int) -> str:
    unit = next(unit for unit, size in _UNITS.items() if seconds % size == 0)
    return f"{seconds // _UNITS[unit]}{unit}"
