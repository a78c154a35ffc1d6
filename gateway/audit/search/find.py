"""A query on one tenant's index, and its answers: a set of events for each span, the newest span first. Blocks.

Everything that people wrote is a parameter of the SQL.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Final

import orjson

from gateway.audit.search.bits import SPAN, by_bucket, flags, members, members_down, stretch, unpack, within
from gateway.audit.search.contract import Bar, Histogram
from gateway.audit.search.index import EVERY, times_of
from gateway.audit.search.query import IDS, Field, Query, has_word, identifies

_AT_ONCE: Final = 64
"""Spans whose sets are read at once."""
_LAST_CHARACTER: Final = "\U0010ffff"
_FOREVER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Plan:
    """A query in numbers of values."""

    wanted: tuple[tuple[int, ...], ...]
    """An event has one of each group."""
    unwanted: tuple[int, ...]
    since: int
    until: int

    @property
    def bounded(self) -> bool:
        return self.since > 0 or self.until < _FOREVER


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found in one span, never nothing."""

    no: int
    bits: int
    every: int
    """All that is in the span."""
    low: int
    high: int
    """Of the times, where every event has one; else 0 and the end of time."""
    others: Mapping[int, int] = field(default_factory=dict)
    """Who has the values that were asked for beside the query."""


def last(connection: sqlite3.Connection) -> int:
    """The newest event in the index."""
    (seq,) = connection.execute("SELECT last FROM state").fetchone()
    return int(seq)


def seqs(
    connection: sqlite3.Connection, query: Query, limit: int, *, before: int | None = None, after: int | None = None
) -> tuple[int, ...]:
    """The first `limit` that match: below `before` or of all, newest first; above `after`, oldest first."""
    first, final = 0 if after is None else after + 1, _FOREVER if before is None else before - 1
    rows: list[int] = []
    for found in _find(connection, query, first, final, up=after is not None):
        places = members(found.bits) if after is not None else members_down(found.bits)
        rows += [found.no * SPAN + at for _, at in zip(range(limit - len(rows)), places, strict=False)]
        if len(rows) >= limit:
            break
    return tuple(rows)


def count(connection: sqlite3.Connection, query: Query) -> int:
    return sum(found.bits.bit_count() for found in _find(connection, query))


def histogram(connection: sqlite3.Connection, query: Query, buckets: int, split: Field) -> Histogram:
    low, high = connection.execute("SELECT coalesce(min(low), 0), coalesce(max(high), 0) FROM span").fetchone()
    since = low if query.since_us is None else query.since_us
    until = max(since, high) + 1 if query.until_us is None else query.until_us
    # Rounded up, so that `buckets` bars cover all.
    width = -(-(until - since) // buckets)
    totals: Counter[int] = Counter()
    counts: list[Counter[str]] = [Counter() for _ in range(buckets)]
    names = dict(connection.execute("SELECT id, text FROM value WHERE field = ?", (split,)).fetchall())
    query = replace(query, since_us=since, until_us=until)
    for found in _find(connection, query, others=tuple(names)):
        bucket = (found.low - since) // width
        if bucket == (found.high - since) // width:
            parts = {bucket: found.bits}
        else:
            parts = by_bucket(times_of(connection, found.no), since, width)
        for at, part in parts.items():
            if part & found.bits:
                totals[at] += (part & found.bits).bit_count()
                for value, bits in found.others.items():
                    counts[at][names[value]] += (part & found.bits & bits).bit_count()
        for place, more in _summed(connection, found).items():
            for at, part in parts.items():
                if part >> place & 1:
                    totals[at] += more
                    counts[at].update({names[value]: more for value, bits in found.others.items() if bits >> place & 1})
    bars = tuple(Bar(since + width * at, totals[at], +counts[at]) for at in range(buckets))
    return Histogram(since, since + width * buckets, bars)


def top(connection: sqlite3.Connection, query: Query, field_: Field, n: int) -> tuple[tuple[str, int], ...]:
    counted: Counter[int] = Counter()
    for found in _find(connection, query):
        row = connection.execute("SELECT pairs FROM pairs WHERE field = ? AND span = ?", (field_, found.no)).fetchone()
        flat = array("I")
        flat.frombytes(row[0] if row else b"")
        values: Iterable[int] = flat[1::2]
        if found.bits != found.every:
            chosen = flags(found.bits)
            values = compress(values, [chosen[at] for at in flat[::2]])
        counted.update(values)
        # A sum names a few of the objects of all its refusals: none of them was refused that often.
        if field_ is not Field.TARGET and (sums := _summed(connection, found)):
            for at, value in zip(flat[::2], flat[1::2], strict=True):
                if at in sums:
                    counted[value] += sums[at]
    return tuple((_text(connection, value), number) for value, number in counted.most_common(n))


def _summed(connection: sqlite3.Connection, found: _Found) -> dict[int, int]:
    """By place: what the sums of refusals among `found` stand for beyond themselves."""
    first = found.no * SPAN
    rows = connection.execute("SELECT seq, more FROM summed WHERE seq >= ? AND seq < ?", (first, first + SPAN))
    return {seq - first: more for seq, more in rows if found.bits >> (seq - first) & 1}


def _find(
    connection: sqlite3.Connection,
    query: Query,
    first: int = 0,
    final: int = _FOREVER,
    *,
    up: bool = False,
    others: Sequence[int] = (),
) -> Iterator[_Found]:
    """What is found among the events `first` to `final`, span by span, the newest first or (`up`) the oldest."""
    plan = _plan(connection, query)
    if plan is None:
        return
    spans = connection.execute(
        f"""SELECT no, low, high, bare FROM span WHERE no BETWEEN ? AND ?
            AND (? OR (high >= ? AND low < ?)) ORDER BY no {"ASC" if up else "DESC"}""",
        (first // SPAN, final // SPAN, not plan.bounded, plan.since, plan.until),
    ).fetchall()
    for start in range(0, len(spans), _AT_ONCE):
        part = spans[start : start + _AT_ONCE]
        low_no, high_no = min(part[0][0], part[-1][0]), max(part[0][0], part[-1][0])
        groups = [_bits(connection, group, low_no, high_no) for group in plan.wanted]
        every = _bits(connection, (EVERY,), low_no, high_no)
        unwanted = _bits(connection, plan.unwanted, low_no, high_no)
        beside = {value: _bits(connection, (value,), low_no, high_no) for value in others}
        for no, low, high, bare in part:
            bits = every.get(no, 0) & stretch(first - no * SPAN, final - no * SPAN)
            for group in groups:
                bits &= group.get(no, 0)
            bits &= ~unwanted.get(no, 0)
            if bits and plan.bounded and (bare or low < plan.since or high >= plan.until):
                bits &= within(times_of(connection, no), plan.since, plan.until)
            if bits:
                asked = {value: held[no] for value, held in beside.items() if no in held}
                yield _Found(no, bits, every[no], 0 if bare else low, _FOREVER if bare else high, asked)


def _bits(connection: sqlite3.Connection, values: Sequence[int], low_no: int, high_no: int) -> dict[int, int]:
    """By span: who has one of the values."""
    found: dict[int, int] = {}
    if values:
        rows = connection.execute(
            "SELECT span, bits FROM bits WHERE value IN (SELECT value FROM json_each(?)) AND span BETWEEN ? AND ?",
            (orjson.dumps(values).decode(), low_no, high_no),
        )
        for no, stored in rows:
            found[no] = found.get(no, 0) | unpack(stored)
    return found


def _plan(connection: sqlite3.Connection, query: Query) -> _Plan | None:
    """None: a value or word that is asked for is nobody's, so nothing can be found."""
    groups, unwanted = [], []
    for field_, wanted, left_out in query.by_field():
        if wanted:
            groups.append(_ids(connection, field_, wanted))
        unwanted += _ids(connection, field_, left_out)
    groups += [_found_by(connection, word) for word in query.words()]
    if not all(groups):
        return None
    bounded = query.since_us is not None or query.until_us is not None
    # What has no time is in no range.
    since = max(query.since_us or 1, 1) if bounded else 0
    return _Plan(
        tuple(map(tuple, groups)), tuple(unwanted), since, _FOREVER if query.until_us is None else query.until_us
    )


def _ids(connection: sqlite3.Connection, field_: Field, texts: Iterable[str]) -> list[int]:
    rows = connection.execute(
        "SELECT id FROM value WHERE field = ? AND text IN (SELECT value FROM json_each(?))",
        (field_, orjson.dumps(sorted(texts)).decode()),
    )
    return [number for (number,) in rows]


def _found_by(connection: sqlite3.Connection, word: str) -> list[int]:
    """The values that text finds."""
    connection.create_function("has_word", 2, lambda name, text: has_word(Field(name), text, word), deterministic=True)
    found: list[tuple[int]] = []
    for field_ in Field:
        if field_ not in IDS:
            found += connection.execute("SELECT id FROM value WHERE field = ? AND has_word(field, text)", (field_,))
        elif identifies(word):
            bounds = (field_, word, word + _LAST_CHARACTER)
            found += connection.execute("SELECT id FROM value WHERE field = ? AND text >= ? AND text < ?", bounds)
    return [number for (number,) in found]


def _text(connection: sqlite3.Connection, value: int) -> str:
    return str(connection.execute("SELECT text FROM value WHERE id = ?", (value,)).fetchone()[0])
