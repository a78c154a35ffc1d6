"""The console's ASGI app: the table of pages, who may see them, and the order in which each is done.

A page is found, its visitor's session and role are looked at, its content is read, the visit is put on record, and only then
is it shown. What cannot be put on record is not shown.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gateway.audit.event import EventType
from gateway.audit.search.contract import SearchUnavailable
from gateway.audit.search.query import QueryRefused
from gateway.console import access, event, export, keeping, log, overview, story, tail
from gateway.console.desk import STATUS, Desk, Page, Refusal, Refused, Someone, Unrecorded, Visit, allowed, denied
from gateway.console.pages import Pages
from gateway.console.reading import read_all
from gateway.console.reviewer import Role
from gateway.console.session import COOKIE, Session
from gateway.console.shield import App, Shield
from gateway.errors import Reason
from gateway.ids.keys import KeyRefused
from gateway.stores.contract import StoreError
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.keyring import KeysMissing

LOG = logging.getLogger(__name__)

MAX_FORM_BYTES: Final = 16 * 1024
Answer = Callable[[Visit], Awaitable[Page | Response]]


@dataclass(frozen=True, slots=True)
class Row:
    """One page. `name` is what the log calls it."""

    path: str
    name: str
    answer: Answer
    role: Role = Role.AUDITOR
    method: str = "GET"
    linked: bool = True
    """Whether another site may lead a person here. Not where something is taken away, which is on record as the person's will."""


TABLE: Final = (
    Row("/", "overview", overview.overview),
    Row("/verify", "verify", overview.verify, method="POST"),
    Row("/log", "log", log.log),
    Row("/tail", "tail", tail.tail),
    Row("/tail/feed", "tail feed", tail.feed, linked=False),
    Row("/story", "story", story.story),
    Row("/event/{tenant}/{seq}", "event", event.event),
    Row("/event/{tenant}/{seq}/proof", "proof", event.proof, linked=False),
    Row("/export", "export", export.export, linked=False),
    Row("/checkpoint", "checkpoint", event.checkpoint, linked=False),
    Row("/key", "key", event.key, linked=False),
    Row("/sessions", "sessions", access.sessions, Role.ADMIN),
    Row("/sessions", "sessions", access.revoke, Role.ADMIN, "POST"),
    Row("/streams", "streams", keeping.streams, Role.ADMIN),
    Row("/streams", "streams", keeping.change_streams, Role.ADMIN, "POST"),
    Row("/retention", "retention", keeping.retention, Role.ADMIN),
    Row("/retention", "retention", keeping.change_retention, Role.ADMIN, "POST"),
    Row("/sign-out", "sign-out", access.sign_out, method="POST"),
)
"""Every page that needs a session. What changes something is a POST."""


ADMIN_PAGES: Final = (
    ("/streams", "streams", "Streams", "paper-airplane"),
    ("/retention", "retention", "Retention", "archive-box"),
    ("/sessions", "sessions", "Sessions", "users"),
)
"""Address, name, label and icon of what only admins are offered."""


class Console:
    """Serves `desk`'s parts. Every answer passes the shield."""

    def __init__(self, desk: Desk, pages: Pages) -> None:
        self._desk = desk
        self._pages = pages
        routes = [Route(row.path, self._page(row), methods=[row.method]) for row in TABLE]
        routes += [
            Route("/sign-in", self._open(access.entry)),
            Route("/sign-in/start", self._open(access.begin)),
            Route("/sign-in/done", self._open(access.done)),
            Route("/static/{name}", self._static),
        ]
        missing = {404: self._missing, 405: self._missing}
        self.app: App = Shield(Starlette(routes=routes, exception_handlers=missing), desk.origin)

    def _page(self, row: Row) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                return await self._visited(row, request)
            except (KeysMissing, KeyRefused, ErasuresUnreadable):
                return self._trouble(
                    403, "This log is closed.", "Its tenant is not here any more, or its keys do not open."
                )
            except (SearchUnavailable, StoreError) as error:
                LOG.warning("console.unavailable", extra={"fields": {"reason": str(error)}})
                return self._trouble(503, "The log cannot be read right now.", "Nothing was lost. Try again shortly.")

        return self._guarded(endpoint)

    def _open(
        self, answer: Callable[[Desk, Pages, Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                return await answer(self._desk, self._pages, request)
            except (StoreError, KeysMissing, KeyRefused, ErasuresUnreadable) as error:
                LOG.warning("console.unavailable", extra={"fields": {"reason": str(error)}})
                return self._trouble(503, "Nobody can sign in right now.", "Try again shortly.")

        return self._guarded(endpoint)

    def _guarded(self, endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                return await endpoint(request)
            except Unrecorded as error:
                return await self._unrecorded(request, error)
            except Exception:  # a page that says so is better than a connection that ends
                LOG.exception("console.page_failed")
                return self._trouble(500, "This page failed.", "Quote the time to the operator of this console.")

        return guarded

    async def _visited(self, row: Row, request: Request) -> Response:
        if not row.linked and request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return self._trouble(
                403,
                "Another site led you here.",
                "Nothing was taken away. Go on from the overview.",
                await self._session(request),
            )
        session = await self._desk.sessions.find(request.cookies.get(COOKIE, ""))
        if session is None:
            return _to_sign_in(request)
        keys = await self._desk.keyring.tenant(session.reviewer.tenant)
        form = await _form(request) if row.method == "POST" else {}
        visit = Visit(self._desk, request, session, keys, row.name, form)
        try:
            if not session.reviewer.may(row.role):
                raise Refused(Refusal.ROLE_MISSING, "Only an admin of your organization may open this page.")
            answer = await row.answer(visit)
        except QueryRefused as error:
            return await self._refused(visit, Refused(Refusal.BAD_REQUEST, f"This address cannot be read. {error}."))
        except Refused as refused:
            return await self._refused(visit, refused)
        if isinstance(answer, Response):
            return answer
        await visit.record(EventType.CONSOLE_VIEW, allowed(), answer.noted, answer.targets)
        return self._pages.render(
            answer.template, self._common(row.name, session, on_record=True) | dict(answer.values)
        )

    async def _refused(self, visit: Visit, refused: Refused) -> Response:
        await visit.record(EventType.CONSOLE_REFUSED, denied(refused.reason))
        titles = {
            Refusal.BAD_REQUEST: "That is not a question.",
            Refusal.NOT_FOUND: "There is nothing here.",
            Refusal.ROLE_MISSING: "This is not for you.",
            Refusal.TOO_MANY: "That is too much at once.",
        }
        return self._trouble(
            STATUS[refused.reason], titles[refused.reason], str(refused), visit.session, on_record=True
        )

    async def _unrecorded(self, request: Request, error: Unrecorded) -> Response:
        session = await self._session(request)
        if error.reason is Reason.TOO_MANY_REFUSALS:
            return self._trouble(429, "Too many refusals.", "Wait a second, then go on.", session)
        try:
            if halted := await self._halted(error.who):
                return self._pages.render("halted.html", self._common("", session) | halted, 503)
        except StoreError:
            LOG.warning("console.unavailable", extra={"fields": {"reason": "the log’s state cannot be read"}})
        return self._trouble(
            503, "The visit cannot be recorded.", "Nothing is shown that is not on record. Try again shortly.", session
        )

    async def _halted(self, who: Someone) -> dict[str, object] | None:
        """What is said of a log that takes no event until it is resealed: of its state, and nothing that it holds."""
        state = await self._desk.logs.state(who.tenant)
        if state is None or not state.halted:
            return None
        finding = await self._desk.integrity.look(who.tenant, who.keys)
        newest = await self._desk.store.read_events_before(who.tenant, finding.last + 1, 1)
        rows = read_all(newest, who.tenant, who.keys)
        return {"why": state.halted, "finding": finding, "newest": rows[0].when if rows else None}

    async def _session(self, request: Request) -> Session | None:
        """Whose name a page bears that is shown to anybody."""
        try:
            return await self._desk.sessions.peek(request.cookies.get(COOKIE, ""))
        except StoreError:
            return None

    def _trouble(
        self,
        status: int,
        title: str,
        text: str,
        session: Session | None = None,
        *,
        on_record: bool = False,
    ) -> Response:
        values = self._common("", session, on_record=on_record) | {"status": status, "title": title, "text": text}
        return self._pages.render("trouble.html", values, status)

    def _common(self, name: str, session: Session | None, *, on_record: bool = False) -> dict[str, object]:
        """What the frame around each page shows."""
        reviewer = session.reviewer if session else None
        return {
            "here": name,
            "session": session,
            "on_record": on_record,
            "reviewer": reviewer,
            "tenant": reviewer.tenant if reviewer else "",
            "admin_pages": ADMIN_PAGES,
            "is_admin": reviewer is not None and reviewer.may(Role.ADMIN),
        }

    async def _missing(self, request: Request, error: Exception) -> Response:
        session = await self._session(request)
        return self._trouble(404, "There is nothing here.", "The address leads nowhere.", session)

    async def _static(self, request: Request) -> Response:
        found = self._pages.static(request.path_params["name"])
        return found if found is not None else await self._missing(request, Exception())


def _to_sign_in(request: Request) -> Response:
    """Where a page without a session leads. A feed, which is no page, is told so."""
    if request.headers.get("accept", "").startswith("text/event-stream"):
        return Response("event: over\ndata: {}\n\n", headers={"content-type": "text/event-stream"})
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/sign-in?next={quote(path)}" if request.method == "GET" else "/sign-in", 303)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form, the last of a name; nothing where it is none."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_FORM_BYTES:
                return {}
    except ClientDisconnect:
        return {}
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=64))
    except ValueError:
        return {}
