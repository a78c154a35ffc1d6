"""The log: what was asked for, narrowed by any filter; its picture; and the address that holds the whole query."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.responses import RedirectResponse, Response

from gateway.audit.event import EventType, Phase, Result
from gateway.audit.search.query import Field, Query, QueryRefused
from gateway.clock import now_us
from gateway.console.desk import Page, Refusal, Refused, Visit
from gateway.console.pages import query_url
from gateway.console.people import called, most_frequent, resolved, rows_of, spread
from gateway.console.picture import draw

ROWS: Final = 50
BARS: Final = 60
SPANS: Final = (
    ("15m", "15 minutes"), ("1h", "Hour"), ("24h", "Day"), ("7d", "Week"), ("30d", "30 days"), ("", "All time"),
)  # fmt: skip
FACETS: Final = ((Field.RESULT, "Results"), (Field.REASON, "Reasons"), (Field.TYPE, "Actions"), (Field.ACTOR, "People"))
ADDABLE: Final = (
    (Field.ACTOR, "person"),
    (Field.TYPE, "action"),
    (Field.TARGET, "target ID"),
    (Field.RESULT, "result"),
    (Field.REASON, "reason"),
    (Field.ROUTE, "route"),
    (Field.REQUEST, "request ID"),
    (Field.MODEL, "model"),
    (Field.NETWORK, "address"),
    (Field.PHASE, "phase"),
)
_OWN: Final = frozenset({"before", "after", "add", "add_how", "add_value"})
"""Names in the address that are the page's own and no part of the query."""


_REVIEWS: Final = (
    EventType.CONSOLE_EXPORT, EventType.CONSOLE_REVOKE, EventType.CONSOLE_SIGN_IN, EventType.CONSOLE_SIGN_OUT,
    EventType.CONSOLE_VIEW,
)  # fmt: skip
"""Reviewers' own visits: no answers of the gateway."""


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
    query = await resolved(visit, ask.query)
    if ask.added or query != ask.query or any(not value for _, value in visit.query()):
        return RedirectResponse(query_url("/log", query), 303)
    if ask.before is not None and ask.after is not None:
        raise Refused(Refusal.BAD_REQUEST, "A page lies before a record or after it.")
    search, tenant, wide = visit.desk.search, visit.tenant, await spread(visit, query)
    found, number, histogram, facets = await asyncio.gather(
        search.search(tenant, wide, before_seq=ask.before, after_seq=ask.after, limit=ROWS),
        search.count(tenant, wide),
        search.histogram(tenant, outcomes(wide.at(now_us())), BARS),
        facets_of(visit, wide),
    )
    return Page("log.html", {
        "query": query,
        "timeless": spanned(query, ""),
        "called": await called(visit, query),
        "rows": await rows_of(visit, found.rows),
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
    """One event for each request that was answered: without intents, without what says that an answer began, and, unless the
    query names types, without reviewers' own visits."""
    answered = query.with_filter(Field.PHASE, Phase.INTENT.value, negated=True)
    answered = answered.with_filter(Field.RESULT, Result.ACCEPTED.value, negated=True)
    if not any(one.field is Field.TYPE and not one.negated for one in query.filters):
        for review in _REVIEWS:
            answered = answered.with_filter(Field.TYPE, review.value, negated=True)
    return answered


async def facets_of(visit: Visit, query: Query, n: int = 6) -> tuple[Facet, ...]:
    """The most frequent values of some fields, people by name."""

    async def values(field: Field) -> tuple[tuple[str, str, int], ...]:
        if field is Field.ACTOR:
            return await most_frequent(visit, query, n)
        return tuple(
            (value, value, number) for value, number in await visit.desk.search.top(visit.tenant, query, field, n)
        )

    found = await asyncio.gather(*(values(field) for field, _ in FACETS))
    return tuple(Facet(field, title, top) for (field, title), top in zip(FACETS, found, strict=True))


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
