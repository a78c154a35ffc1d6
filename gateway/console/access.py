"""Signing in and out, and the tenant's sessions, which its admins may end."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.audit.event import EventType, Outcome, Result
from gateway.console.desk import Desk, Page, Refusal, Refused, Someone, Visit, allowed, record
from gateway.console.pages import Pages
from gateway.console.session import COOKIE
from gateway.console.sign_in import ATTEMPT_COOKIE, ATTEMPT_S, SignInFailed, Why
from gateway.errors import Reason
from gateway.stores.keyring import KeysMissing

LOG = logging.getLogger(__name__)

_FAILED: Mapping[Why, str] = {
    Why.ANSWER_REFUSED: "Your identity provider did not sign you in.",
    Why.ATTEMPT_UNKNOWN: "This sign-in was used already, or took too long. Begin again.",
    Why.OTHER_BROWSER: "This sign-in was begun in another browser. Begin again.",
    Why.PROVIDER_FAILED: "Your identity provider cannot be used right now. Try again shortly.",
    Why.TOO_MANY: "Too many people are signing in at this moment. Try again in a minute.",
    Why.ROLE_MISSING: "You may not review a log: your identity provider gives you neither the auditor's nor the admin's role.",
}
_ELSE = "The sign-in failed. Begin again; if that does not help, ask the operator of this console."


async def entry(desk: Desk, pages: Pages, request: Request, failed: Why | None = None) -> Response:
    """The sign-in page, which anybody may see."""
    providers = [(name, provider.party.label) for name, provider in desk.sign_in.providers.items()]
    values = {
        "providers": providers,
        "next": request.query_params.get("next", "/"),
        "failed": _FAILED.get(failed, _ELSE) if failed else "",
        "signed_out": "out" in request.query_params,
    }
    status = {None: 200, Why.TOO_MANY: 429}.get(failed, 403)
    return pages.render("sign_in.html", values, status)


async def begin(desk: Desk, pages: Pages, request: Request) -> Response:
    name, next_path = request.query_params.get("provider", ""), request.query_params.get("next", "/")
    try:
        begun = await desk.sign_in.begin(name, next_path, desk.client(request.scope))
    except SignInFailed as failure:
        return await _failed(desk, pages, request, failure)
    answer = RedirectResponse(begun.url, 303)
    _set(answer, ATTEMPT_COOKIE, begun.cookie, ATTEMPT_S)
    return answer


async def done(desk: Desk, pages: Pages, request: Request) -> Response:
    """The provider sent the browser back. A new session takes the place of any that the browser held before."""
    try:
        reviewer, next_path = await desk.sign_in.finish(
            request.query_params.multi_items(), request.cookies.get(ATTEMPT_COOKIE, "")
        )
        keys = await desk.keyring.tenant(reviewer.tenant)
    except SignInFailed as failure:
        return await _failed(desk, pages, request, failure)
    except KeysMissing:
        return await _failed(desk, pages, request, SignInFailed(Why.TOKEN_REFUSED, "the tenant is not here"))
    who = Someone(reviewer.tenant, keys, reviewer.principal)
    await record(desk, request, who, EventType.CONSOLE_SIGN_IN, allowed(303), {"role": reviewer.role.value})
    if before := await desk.sessions.peek(request.cookies.get(COOKIE, "")):
        await desk.sessions.end(before.reviewer.tenant, before.name)
    _, cookie = await desk.sessions.start(reviewer)
    answer = RedirectResponse(next_path, 303)
    _set(answer, COOKIE, cookie)
    _clear(answer, ATTEMPT_COOKIE)
    return answer


async def sign_out(visit: Visit) -> Response:
    try:
        await visit.record(EventType.CONSOLE_SIGN_OUT, allowed(303))
    finally:  # also where the log takes no event: it shows nothing, and who wants to go goes
        await visit.desk.sessions.end(visit.tenant, visit.session.name)
    answer = RedirectResponse("/sign-in?out", 303)
    _clear(answer, COOKIE)
    return answer


async def sessions(visit: Visit) -> Page:
    return Page("sessions.html", {"sessions": await visit.desk.sessions.all_of(visit.tenant)})


async def revoke(visit: Visit) -> Response:
    """Ends one of the tenant's sessions, or all but the admin's own."""
    name = visit.form.get("session", "")
    every = [one for one in await visit.desk.sessions.all_of(visit.tenant) if one.name != visit.session.name]
    chosen = every if name == "others" else [one for one in every if one.name == name]
    if not chosen and name != "others":
        raise Refused(Refusal.NOT_FOUND, "There is no such session, or it is the one that you are using.")
    await visit.record(EventType.CONSOLE_REVOKE, allowed(303), {"sessions": len(chosen)})
    for session in chosen:
        await visit.desk.sessions.end(visit.tenant, session.name)
    return RedirectResponse("/sessions", 303)


async def _failed(desk: Desk, pages: Pages, request: Request, failure: SignInFailed) -> Response:
    """Says no more than what helps the person; the rest stands in the logs. A failure of somebody who is known is an event
    of the tenant, any other belongs to no tenant and is summed for the operator."""
    LOG.info("console.sign_in_failed", extra={"fields": {"why": failure.why.value, "detail": str(failure)}})
    keys = None
    if failure.principal is not None:
        try:
            keys = await desk.keyring.tenant(failure.principal.tenant)
        except KeysMissing:
            keys = None
    if keys is None or failure.principal is None:
        desk.log.count_stranger(Reason.UNAUTHENTICATED, desk.client(request.scope))
    else:
        outcome = Outcome(Result.DENY, Refusal.ROLE_MISSING.value, 403)
        who = Someone(failure.principal.tenant, keys, failure.principal)
        await record(desk, request, who, EventType.CONSOLE_REFUSED, outcome, {"page": "sign-in"})
    answer = await entry(desk, pages, request, failure.why)
    _clear(answer, ATTEMPT_COOKIE)
    return answer


def _set(answer: Response, name: str, value: str, max_age_s: int | None = None) -> None:
    """Without a Domain, for the whole site, over TLS (or to this machine), out of scripts' reach."""
    answer.set_cookie(name, value, max_age_s, path="/", secure=True, httponly=True, samesite="lax")


def _clear(answer: Response, name: str) -> None:
    answer.delete_cookie(name, path="/", secure=True, httponly=True, samesite="lax")
