"""Lists of the caller's own objects: the service's own would show everybody's on the shared key.

What stands in a list, and in which order, the gateway's index says, a page of which comes with Redis ①. Each row is then
fetched from the service by its raw ID, a few at once, as if the caller had retrieved it: a row that the service does not
know is left out, and so is one that the caller may not retrieve. The rows' bytes stay as they came but for their IDs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import orjson

from gateway.authz import Allow, Policies, Resource, decide, owns
from gateway.errors import Problem, Reason
from gateway.mapping import Mapper, Opened
from gateway.names import Visibility
from gateway.pipeline import forward
from gateway.pipeline.answering import let_go, table_of
from gateway.pipeline.catalogue import stretch_of_own
from gateway.pipeline.exchange import Answer, Exchange
from gateway.pipeline.expiry import has_expired
from gateway.pipeline.minting import Minting
from gateway.pipeline.paging import Asked, Filter
from gateway.pipeline.recorder import Recorder
from gateway.pipeline.recording import Heritage, Record, records
from gateway.pipeline.routing import Routing
from gateway.pipeline.threads import Threads
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.outbound import translate_rows
from gateway.rewrite.splice import parse
from gateway.stores.contract import Found, Lookup, Rows, Store, StoreError, Stretch
from gateway.surfaces.route import Route
from gateway.surfaces.table import BY_ACTION
from gateway.upstreams import UpstreamAnswer

AT_ONCE: Final = 8
"""Calls upstream of one list."""

MOST_LOOKED_AT: Final = 1000
"""Rows that are fetched for one page, where a filter passes over most."""

PAGE_BYTES: Final = 16 * 1024 * 1024
"""Of rows; what has no room comes with the next page. Every page has at least one."""

_FILTERED_STRETCH: Final = 32


@dataclass(slots=True)
class _Fetched:
    """A row that the page shows."""

    opened: Opened
    body: bytes
    document: Any


@dataclass(slots=True)
class _Page:
    """What has been found for a page so far, in the order in which the index was read."""

    wanted: int
    room: int = PAGE_BYTES
    rows: list[_Fetched] = field(default_factory=list)
    gone: list[Opened] = field(default_factory=list)
    looked_at: int = 0

    @property
    def full(self) -> bool:
        return len(self.rows) >= self.wanted or self.room < 0


@dataclass(frozen=True, slots=True)
class Lister:
    routing: Routing
    recorder: Recorder
    store: Store
    policies: Policies
    limit_s: float
    """Within which a list is made."""
    threads: Threads

    async def answer(self, exchange: Exchange) -> Answer:
        """The page. Raises Problem and UpstreamError."""
        asked = exchange.known_asked
        try:
            async with asyncio.timeout(self.limit_s):
                page, table, ended = await self._gathered(exchange, asked)
        except TimeoutError:
            raise Problem(Reason.UPSTREAM_TIMEOUT) from None
        shown = page.rows[: asked.limit]
        if asked.backwards:
            shown.reverse()
        has_more = len(page.rows) > asked.limit or not ended
        write = partial(_written, exchange, shown, table, has_more=has_more)
        content, made = await self.threads.run(sum(len(row.body) for row in shown), write)
        exchange.bytes_out = len(content)
        made += [Record(exchange.known_mapper.write_gone(one, exchange.now), one.raw.text) for one in page.gone]
        if has_more and not shown:
            nothing = Problem(Reason.BAD_PARAMETER, f"none of the first {page.looked_at} objects is one of these")
            await self.recorder.finish(exchange, made, nothing.status, failure=nothing)
            raise nothing
        await self.recorder.finish(exchange, made, 200)
        headers = [
            (b"content-type", b"application/json"),
            (b"x-request-id", exchange.head.request_id.encode()),
            (b"content-length", b"%d" % len(content)),
        ]
        return Answer(200, headers, content, exchange.action)

    async def _gathered(self, exchange: Exchange, asked: Asked) -> tuple[_Page, IdTable, bool]:
        """The rows, one more than the page shows if there are so many, and whether the list ends with them."""
        listing, rows = exchange.known_listing, exchange.known_rows
        if asked.cursor is not None and not rows.known:
            raise asked.cursor.problem(Reason.NOT_RECORDED)
        principal = exchange.known_principal
        table = table_of(exchange, Heritage(principal.owner, Visibility.PRIVATE, None))
        page = _Page(asked.limit + 1)
        route = BY_ACTION[listing.row]
        while True:
            await self._look_at(exchange, route, self._open(exchange, route, rows), page, table)
            if page.full:
                return page, table, page.room >= 0
            if rows.position == 0:
                return page, table, True
            if page.looked_at >= MOST_LOOKED_AT:
                return page, table, False
            rows = await self._read(exchange, _further(exchange, rows, page))

    async def _read(self, exchange: Exchange, further: Stretch) -> Rows:
        try:
            async with asyncio.timeout(self.recorder.limit_s):
                return await self.store.read_rows(exchange.known_mapper.tenant, further)
        except (StoreError, TimeoutError):
            raise Problem(Reason.AUDIT_UNAVAILABLE, retry_after_s=1) from None

    def _open(self, exchange: Exchange, route: Route, rows: Rows) -> list[Opened]:
        """What the caller may retrieve: the index only says where to look, whose it is says each record."""
        principal, mapper = exchange.known_principal, exchange.known_mapper
        circumstances = forward.circumstances(route, "", None, exchange.head.client)
        found = []
        for row in rows.rows:
            opened = mapper.to_raw(Lookup(exchange.known_listing.kind, row.h), Found(row.record, None))
            if opened is None or opened.deleted or not owns(principal, opened.root):
                continue
            if self.routing.of(opened.root) is None:
                continue  # no upstream of its project is left, and nobody could say what became of it
            resource = Resource(opened.kind, opened.root.owner, opened.root.visibility, mapper.tenant)
            if isinstance(decide(self.policies, principal, route.action, [resource], circumstances), Allow):
                found.append(opened)
        return found

    async def _look_at(
        self, exchange: Exchange, route: Route, opened: Sequence[Opened], page: _Page, table: IdTable
    ) -> None:
        """Fetches rows, a few at once, until the page is full."""
        filters = _filters(exchange)
        for first in range(0, len(opened), AT_ONCE):
            if page.full:
                return
            some = opened[first : first + AT_ONCE]
            exchange.upstream_called = True
            for one, body in zip(some, await self._fetch_all(exchange, route, some, table), strict=True):
                page.looked_at += 1
                if body is None:
                    page.gone.append(one)
                    continue
                kept = len(page.rows)
                document = await self.threads.run(len(body), partial(parse, body))
                if type(document) is not dict:
                    raise Problem(Reason.UPSTREAM_BAD_ANSWER)
                if has_expired(route, document):
                    page.gone.append(one)
                elif all(each.takes(document) for each in filters):
                    page.room -= len(body)
                    if page.room >= 0 or not page.rows:
                        page.rows.append(_Fetched(one, body, document))
                if len(page.rows) == kept:
                    exchange.known_lease.shed(len(body))

    async def _fetch_all(
        self, exchange: Exchange, route: Route, some: Sequence[Opened], table: IdTable
    ) -> list[bytes | None]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._fetch(exchange, route, one, table)) for one in some]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _fetch(self, exchange: Exchange, route: Route, opened: Opened, table: IdTable) -> bytes | None:
        """The row as the service has it, or None where it knows no such object. Raises Problem and UpstreamError."""
        (name,) = route.path_ids
        target = route.path.replace(f"{{{name}}}", quote(opened.raw.text, safe=""))
        provider = self.routing.of(opened.root)
        if provider is None:
            raise Problem(Reason.UPSTREAM_UNAVAILABLE, retry_after_s=60)
        async with await provider.call(exchange.known_mapper.tenant, provider.fetch("GET", target.encode())) as answer:
            if answer.status == 404 and _is_json(answer):
                return None
            if answer.status != 200:
                raise await provider.refusal(answer, table)
            if not _is_json(answer):
                raise Problem(Reason.UPSTREAM_BAD_ANSWER)
            return await answer.read(provider.max_answer_bytes, exchange.known_lease.grow)


def _filters(exchange: Exchange) -> list[Filter]:
    """What a row must be, in the service's own words: of an ID that a filter names, the raw one."""
    raws = {
        reference.param: reference.raw for reference in exchange.collected.references if reference.container is None
    }
    return [replace(one, value=raws.get(one.member) or one.value) for one in exchange.known_asked.filters]


def stretch(exchange: Exchange) -> Stretch | None:
    """What a list reads of the index with Redis ①; None where the route is none."""
    asked, listing = exchange.asked, exchange.known_route.lists
    if asked is None or listing is None:
        return stretch_of_own(exchange)
    form, parsed = exchange.known_mapper.form, asked.cursor.parsed if asked.cursor else None
    # A cursor of an epoch that is over must cost what one costs that was never in the list.
    cursor = b"" if parsed is None else parsed.h if form.is_current(parsed) else bytes(len(parsed.h))
    newest_first = asked.newest_first is not asked.backwards
    scopes = exchange.known_mapper.scopes(exchange.known_principal.owner)
    return Stretch(listing.kind, scopes, asked.limit + 1, newest_first, cursor)


def _is_json(answer: UpstreamAnswer) -> bool:
    return (answer.header(b"content-type") or b"").partition(b";")[0].strip().lower() == b"application/json"


def _further(exchange: Exchange, rows: Rows, page: _Page) -> Stretch:
    """The stretch behind `rows`."""
    asked, listing = exchange.known_asked, exchange.known_listing
    count = max(page.wanted - len(page.rows), _FILTERED_STRETCH if asked.filters else 1)
    scopes = exchange.known_mapper.scopes(exchange.known_principal.owner)
    return Stretch(listing.kind, scopes, count, asked.newest_first is not asked.backwards, position=rows.position)


def _written(
    exchange: Exchange, shown: Sequence[_Fetched], table: IdTable, *, has_more: bool
) -> tuple[bytes, list[Record]]:
    """The page's bytes, and the records of what its rows show, each under the owner of its row. Raises Problem."""
    listing = exchange.known_listing
    names, bodies, made = [""] * len(shown), [b""] * len(shown), list[Record]()
    for (upstream, project), places in _by_project(shown).items():
        mapper = exchange.known_mapper.at(upstream, project)
        known = table if mapper is exchange.known_mapper else _table(exchange, mapper)
        some = [(shown[at].body, shown[at].document) for at in places]
        rows = translate_rows(some, BY_ACTION[listing.row].answer, known)
        for at in places:
            # What they named nobody as, their request was sent with: it reads as nobody here too.
            exchange.added.append(mapper.end_user(shown[at].opened.root.owner))
        for at, (body, minted) in zip(places, rows, strict=True):
            root = shown[at].opened.root
            heritage = Heritage(root.owner, root.visibility, None, {listing.kind: shown[at].opened.h}, root.stored)
            made += records(mapper, heritage, minted, exchange.now)
            names[at] = known.refer(listing.kind, root.raw.text)
            bodies[at] = let_go(exchange, body, known, known.raws)
    exchange.listed += [(listing.kind, name) for name in names]
    ends = [orjson.dumps(name) for name in (names[0], names[-1])] if names else [b"null", b"null"]
    content = b'{"object":"list","data":[%b],"first_id":%b,"last_id":%b,"has_more":%b}' % (
        b",".join(bodies), *ends, b"true" if has_more else b"false",
    )  # fmt: skip
    return content, made


def _by_project(shown: Sequence[_Fetched]) -> dict[tuple[str, str], list[int]]:
    """Where the rows of each upstream and project stand: IDs of one mean nothing in another."""
    places: dict[tuple[str, str], list[int]] = {}
    for at, row in enumerate(shown):
        places.setdefault((row.opened.root.upstream, row.opened.root.project), []).append(at)
    return places


def _table(exchange: Exchange, mapper: Mapper) -> IdTable:
    minting = Minting(mapper, exchange.known_principal.owner, Visibility.PRIVATE, exchange.tokens)
    return IdTable(minting, {})
