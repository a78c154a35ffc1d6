"""What a tenant's admins change: streams of the log to their own systems, how long it is kept, a hold, an anchor of their own.

Each change is an intent in the log before it is done and an outcome after it, of the same types as the operator's.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from starlette.responses import RedirectResponse, Response

from gateway.audit.receivers import TAKEN, ReceiverRefused
from gateway.audit.streams.batch import Format
from gateway.console.desk import Page, Refusal, Refused, Visit
from gateway.outgoing import OutgoingRefused
from gateway.stores.log import MOST_DAYS, Rules

MOST_CHARS: Final = 2_048


class Change(StrEnum):
    """Types of the events; the admin package has them too. Closed and alphabetised."""

    AUDIT_ANCHOR = "audit.anchor"
    AUDIT_HOLD = "audit.hold"
    AUDIT_RETAIN = "audit.retain"
    STREAM_ADD = "stream.add"
    STREAM_REMOVE = "stream.remove"
    STREAM_TEST = "stream.test"


async def streams(visit: Visit) -> Page:
    listed = await visit.desk.streams.list(visit.tenant, visit.keys)
    return Page("streams.html", {"streams": listed, "formats": list(Format), "said": ""})


async def change_streams(visit: Visit) -> Page | Response:
    """Adds, removes or tries a stream, by the button that was pressed."""
    if "add" in visit.form:
        return await _add(visit)
    for name, change, work in (("remove", Change.STREAM_REMOVE, _remove), ("test", Change.STREAM_TEST, _test)):
        if stream := visit.form.get(name, "")[:MOST_CHARS]:
            known = {one.id for one in await visit.desk.streams.list(visit.tenant, visit.keys)}
            if stream not in known:
                raise Refused(Refusal.NOT_FOUND, "There is no such stream.")
            return await work(visit, change, stream)
    raise Refused(Refusal.BAD_REQUEST, "Nothing was asked for.")


async def _add(visit: Visit) -> Page:
    url, whole = visit.form.get("url", "").strip(), visit.form.get("from") == "start"
    try:
        form = Format(visit.form.get("format", ""))
    except ValueError:
        raise Refused(Refusal.BAD_REQUEST, "That is no format of a stream.") from None
    if not url or len(url) > MOST_CHARS:
        raise Refused(Refusal.BAD_REQUEST, "An address is needed, such as https://siem.example.com/in.")
    async with visit.changing(Change.STREAM_ADD, {"format": form.value}) as facts:
        try:
            made = await visit.desk.streams.add(visit.tenant, visit.keys, url, form, from_start=whole)
        except ReceiverRefused as refused:
            raise Refused(Refusal.BAD_REQUEST, f"It was not added: {refused}.") from None
        facts["stream"] = made.id
    return Page("stream_made.html", {"made": made})


async def _remove(visit: Visit, change: Change, stream: str) -> Response:
    async with visit.changing(change, {"stream": stream}):
        try:
            await visit.desk.streams.remove(visit.tenant, stream)
        except ReceiverRefused as refused:
            raise Refused(Refusal.NOT_FOUND, f"It was not removed: {refused}.") from None
    return RedirectResponse("/streams", 303)


async def _test(visit: Visit, change: Change, stream: str) -> Page:
    async with visit.changing(change, {"stream": stream}) as facts:
        try:
            status = await visit.desk.streams.test(visit.tenant, visit.keys, stream)
            facts["status"] = status
            said = f"{stream}: the receiver answered {status}, " + ("it took it." if status in TAKEN else "a refusal.")
        except ReceiverRefused as refused:
            facts["failed"] = True
            said = f"{stream}: {refused}."
    page = await streams(visit)
    return Page(page.template, {**page.values, "said": said})


async def retention(visit: Visit) -> Page:
    rules, state = await visit.desk.logs.rules(visit.tenant), await visit.desk.logs.state(visit.tenant)
    return Page("retention.html", {
        "rules": rules,
        "state": state,
        "default_days": visit.desk.retention_days,
        "most_days": MOST_DAYS,
    })  # fmt: skip


async def change_retention(visit: Visit) -> Response:
    """Sets the days, the hold or the anchor, by the button that was pressed."""
    rules = await visit.desk.logs.rules(visit.tenant)
    if "set_days" in visit.form:
        await _set_days(visit, rules)
    elif "set_hold" in visit.form:
        on = visit.form["set_hold"] == "on"
        async with visit.changing(Change.AUDIT_HOLD, {"hold_before": rules.hold, "hold_after": on}):
            await visit.desk.logs.set_rules(visit.tenant, hold=int(on))
    elif "set_webhook" in visit.form:
        await _set_webhook(visit, visit.form.get("webhook", "").strip(), rules)
    else:
        raise Refused(Refusal.BAD_REQUEST, "Nothing was asked for.")
    return RedirectResponse("/retention", 303)


async def _set_days(visit: Visit, rules: Rules) -> None:
    text, by = visit.form.get("days", "").strip(), visit.form.get("by", "")
    if by == "days":
        if not (text.isascii() and text.isdecimal() and 1 <= len(text) <= 5 and 1 <= int(text) <= MOST_DAYS):
            raise Refused(Refusal.BAD_REQUEST, f"A number of days is needed, 1 to {MOST_DAYS:,}.")
        days: int | None = int(text)
    elif by in ("always", "default"):
        days = 0 if by == "always" else None
    else:
        raise Refused(Refusal.BAD_REQUEST, "Say how long the log is kept.")
    async with visit.changing(Change.AUDIT_RETAIN, {"days_before": rules.days, "days_after": days}):
        await visit.desk.logs.set_rules(visit.tenant, days=-1 if days is None else days)


async def _set_webhook(visit: Visit, url: str, rules: Rules) -> None:
    """The log says that it was set, and not to what: an address may hold a secret."""
    if len(url) > MOST_CHARS:
        raise Refused(Refusal.BAD_REQUEST, "The address is too long.")
    if url:
        try:
            visit.desk.streams.outgoing.check(url)
        except OutgoingRefused as refused:
            raise Refused(Refusal.BAD_REQUEST, f"It was not set: {refused}.") from None
    async with visit.changing(Change.AUDIT_ANCHOR, {"webhook_before": bool(rules.webhook), "webhook_after": bool(url)}):
        await visit.desk.logs.set_rules(visit.tenant, webhook=url)
