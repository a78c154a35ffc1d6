"""The first page: is the log whole, what was refused, who touched this conversation."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import RedirectResponse, Response

from gateway.audit.event import EventType, Result
from gateway.audit.search.query import Field, Query
from gateway.clock import now_us
from gateway.console.desk import Page, Visit, allowed
from gateway.console.log import outcomes
from gateway.console.people import most_frequent, rows_of
from gateway.console.picture import draw

DAY_S: Final = 86_400
BARS: Final = 48
TOUCHED: Final = 10
"""Objects that are offered; as many as stand beside the refusals without a hole."""
_OPENED: Final = ("conv_", "resp_")
"""What has a story."""


async def overview(visit: Visit) -> Page:
    day = Query(last_s=DAY_S)
    search, tenant = visit.desk.search, visit.tenant
    answered = outcomes(day.at(now_us()))
    refused = answered.with_filter(Field.RESULT, Result.DENY.value)
    finding, histogram, reasons, people, newest, touched = await asyncio.gather(
        visit.desk.integrity.look(tenant, visit.keys),
        search.histogram(tenant, answered, BARS),
        search.top(tenant, refused, Field.REASON, 5),
        most_frequent(visit, refused, 5),
        search.search(tenant, refused, limit=5),
        search.top(tenant, day, Field.TARGET, 60),
    )
    denied = day.with_filter(Field.RESULT, Result.DENY.value)
    return Page("overview.html", {
        "finding": finding,
        "picture": draw(histogram),
        "denied": denied,
        "everything": Query(),
        "reasons": reasons,
        "people": people,
        "refusals": await rows_of(visit, newest.rows),
        "touched": [(target, number) for target, number in touched if target.startswith(_OPENED)][:TOUCHED],
    })  # fmt: skip


async def verify(visit: Visit) -> Response:
    """Reads the whole log anew."""
    await visit.record(EventType.CONSOLE_VIEW, allowed(303))
    visit.desk.integrity.forget(visit.tenant)
    return RedirectResponse("/", 303)
