"""The live tail: new events as they come (server-sent events), for a page that reads well without them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Final

import orjson
from starlette.responses import Response

from gateway.audit.event import EventType
from gateway.audit.search.contract import SearchUnavailable
from gateway.audit.search.query import Query
from gateway.console.desk import Page, Refusal, Refused, Visit, allowed
from gateway.console.log import ROWS, asked
from gateway.console.pages import event_url
from gateway.console.people import called, resolved, rows_of, spread
from gateway.console.reading import Row
from gateway.console.seats import Seated
from gateway.console.session import COOKIE
from gateway.console.text import plain
from gateway.stores.contract import StoreError

POLL_S: Final = 1.0
PING_S: Final = 15.0
REFRESH_S: Final = 10


async def tail(visit: Visit) -> Page:
    """The newest events. `refresh=1` loads the page again and again, for browsers without scripts."""
    pairs = visit.query()
    query = await resolved(visit, asked([(name, value) for name, value in pairs if name != "refresh"]).query)
    found = await visit.desk.search.search(visit.tenant, await spread(visit, query), limit=ROWS)
    return Page("tail.html", {
        "query": query,
        "called": await called(visit, query),
        "rows": await rows_of(visit, found.rows),
        "upto": found.upto_seq,
        "refresh": REFRESH_S if ("refresh", "1") in pairs else 0,
    })  # fmt: skip


async def feed(visit: Visit) -> Response:
    """Events newer than `after`, and then each as it comes. The session is not kept alive by it, and ends it."""
    said = visit.request.headers.get("last-event-id", "")
    pairs = [(name, value) for name, value in visit.query() if name != "after" or not said]
    ask = asked([*pairs, *([("after", said)] if said else [])])
    if ask.after is None:
        raise Refused(Refusal.BAD_REQUEST, "A feed begins after a record.")
    query = await spread(visit, await resolved(visit, ask.query))
    if visit.desk.feeds.are_full(visit.session):
        raise Refused(Refusal.TOO_MANY, "Too many live tails are open. Close one, then load this page again.")
    with ExitStack() as held:
        held.enter_context(visit.desk.feeds.taken(visit.session))
        await visit.record(EventType.CONSOLE_VIEW, allowed())
        headers = {"content-type": "text/event-stream"}
        return Seated(held.pop_all(), _pieces(visit, query, ask.after), headers)


async def _pieces(visit: Visit, query: Query, after: int) -> AsyncIterator[bytes]:
    desk, cookie = visit.desk, visit.request.cookies.get(COOKIE, "")
    silent_s = 0.0
    yield b"retry: 2000\n\n"
    while True:
        try:
            if await desk.sessions.peek(cookie) is None:
                yield b"event: over\ndata: {}\n\n"
                return
            page = await desk.search.search(visit.tenant, query, after_seq=after, limit=ROWS)
            rows = await rows_of(visit, page.rows)
        except (SearchUnavailable, StoreError):
            return  # the browser comes again
        for row in reversed(rows):
            after = row.seq
            yield b"id: %d\ndata: %b\n\n" % (row.seq, orjson.dumps(as_data(row, visit)))
        silent_s = 0.0 if page.rows else silent_s + POLL_S
        if silent_s >= PING_S:
            silent_s = 0.0
            yield b": still here\n\n"
        if page.newer is None:
            await asyncio.sleep(POLL_S)


def as_data(row: Row, visit: Visit) -> dict[str, object]:
    """What the script puts into the page as text."""
    return {
        "seq": row.seq,
        "href": event_url(visit.tenant, row.seq),
        "when": row.when.isoformat() if row.when else "",
        "time": row.when.strftime("%Y-%m-%d %H:%M:%S") if row.when else "no time",
        "who": plain(row.who, 60),
        "type": plain(row.type, 60),
        "result": row.result if row.result.isascii() and row.result.isalpha() else "unknown",
        "reason": plain(row.why, 60),
        "target": plain(row.targets[0].id, 60) if row.targets else "",
    }
