"""The log: what was asked for, narrowed by any filter; its picture; and the address that holds the whole query."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.responses import RedirectResponse, Response

from gateway.audit.event import Phase, Result
from gateway.audit.search.query import Field, Query, QueryRefused
from gateway.clock import now_us
from gateway.console.desk import Page, Refusal, Refused, Visit
from gateway.console.pages import query_url
from gateway.console.picture import draw
from gateway.console.reading import read_all

ROWS: Final = 50
BARS: Final = 60
SPANS: Final = (
    ("15m", "15 minutes"), ("1h", "Hour"), ("24h", "Day"), ("7d", "Week"), ("30d", "30 days"), ("", "All time"),
)  # fmt: skip
FACETS: Final = ((Field.RESULT, "Results"), (Field.REASON, "Reasons"), (Field.TYPE, "Actions"), (Field.ACTOR, "People"))
ADDABLE: Final = (
    (Field.ACTOR, "person (pseudonym)"),
    (Field.TYPE, "action"),
    (Field.TARGET, "target ID"),
    (Field.RESULT, "result"),
    (Field.REASON, "reason"),
    (Field.ROUTE, "route"),
    (Field.REQUEST, "request ID"),
    (Field.MODEL, "model"),
    (Field.NETWORK, "network (sealed)"),
    (Field.PHASE, "phase"),
)
_OWN: Final = frozenset({"before", "after", "add", "add_how", "add_value"})
"""Names in the address that are the page's own and no part of the query."""


@dataclass(frozen=True, slots=True)
class Facet:
    field: Field
    title: str
    values: tuple[tuple[str, str, int], ...]
    """Value, what to show for it, number."""

    @property
    def largest(self) -> int:
        return max((number for _, _, number in self.values), default=0)


@dataclass(frozen=True, slots=True)
class Asked:
    query: Query
    before: int | None
    after: int | None
    added: bool
    """A filter was added by the form: the address is to be made anew."""


def asked(items: Iterable[tuple[str, str]]) -> Asked:
    """Raises QueryRefused."""
    pairs = list(items)
    own = {name: value for name, value in pairs if name in _OWN}
    query = Query.parse([(name, value) for name, value in pairs if name not in _OWN])
    if value := own.get("add_value", "").strip():
        try:
            field = Field(own.get("add", ""))
        except ValueError:
            raise QueryRefused("add: no such filter") from None
        query = Query.parse([*query.items(), (field.value + ("!" if own.get("add_how") == "not" else ""), value)])
    return Asked(query, _seq(own, "before"), _seq(own, "after"), bool(own.keys() & {"add", "add_how", "add_value"}))


async def log(visit: Visit) -> Page | Response:
    ask = asked(visit.query())
    if ask.added or any(not value for _, value in visit.query()):
        return RedirectResponse(query_url("/log", ask.query), 303)
    if ask.before is not None and ask.after is not None:
        raise Refused(Refusal.BAD_REQUEST, "A page lies before a record or after it.")
    search, tenant, query = visit.desk.search, visit.tenant, ask.query
    found, number, histogram, facets = await asyncio.gather(
        search.search(tenant, query, before_seq=ask.before, after_seq=ask.after, limit=ROWS),
        search.count(tenant, query),
        search.histogram(tenant, outcomes(query.at(now_us())), BARS),
        facets_of(visit, query),
    )
    return Page("log.html", {
        "query": query,
        "timeless": spanned(query, ""),
        "rows": read_all(found.rows, tenant, visit.keys),
        "found": found,
        "number": number,
        "older": None if found.older is None else query_url("/log", query, before=found.older),
        "newer": None if found.newer is None else query_url("/log", query, after=found.newer),
        "picture": draw(histogram),
        "facets": facets,
        "spans": [(name, title, query_url("/log", spanned(query, name)), is_span(query, name)) for name, title in SPANS],
        "addable": ADDABLE,
    })  # fmt: skip


def outcomes(query: Query) -> Query:
    """One event for each request that was answered: without intents, and without what says that an answer began."""
    without_intents = query.with_filter(Field.PHASE, Phase.INTENT.value, negated=True)
    return without_intents.with_filter(Field.RESULT, Result.ACCEPTED.value, negated=True)


async def facets_of(visit: Visit, query: Query, n: int = 6) -> tuple[Facet, ...]:
    """The most frequent values of some fields, people by name."""
    tops = await asyncio.gather(*(visit.desk.search.top(visit.tenant, query, field, n) for field, _ in FACETS))
    names = await names_of(visit, [value for (field, _), top in zip(FACETS, tops, strict=True)
                                   for value, _ in top if field is Field.ACTOR])  # fmt: skip
    return tuple(
        Facet(field, title, tuple((value, names.get(value, value), number) for value, number in top))
        for (field, title), top in zip(FACETS, tops, strict=True)
    )


async def names_of(visit: Visit, pseudonyms: Iterable[str]) -> dict[str, str]:
    """The people behind pseudonyms, as far as an event of theirs says."""

    async def name(pseudonym: str) -> tuple[str, str]:
        found = await visit.desk.search.search(visit.tenant, Query().with_filter(Field.ACTOR, pseudonym), limit=5)
        rows = read_all(found.rows, visit.tenant, visit.keys)
        return pseudonym, next((row.name for row in rows if row.pseudonym == pseudonym and row.name), pseudonym)

    return dict(await asyncio.gather(*(name(one) for one in dict.fromkeys(pseudonyms))))


def spanned(query: Query, span: str) -> Query:
    """The query over another span."""
    kept = [(name, value) for name, value in query.items() if name not in ("last", "since", "until")]
    return Query.parse([*kept, ("last", span)])


def is_span(query: Query, span: str) -> bool:
    unbound = query.since_us is None and query.until_us is None
    return unbound and dict(query.items()).get("last", "") == dict(spanned(query, span).items()).get("last", "")


def _seq(own: dict[str, str], name: str) -> int | None:
    text = own.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise QueryRefused(f"{name}: a record's number is expected")
    return int(text)
