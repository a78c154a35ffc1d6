"""The story of one object: who made it, went on with it, read it, was refused it, and ended it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.audit.event import Result, Target
from gateway.audit.search.query import MAX_CHARS, MAX_FILTERS, Field, Query
from gateway.console.desk import Page, Refusal, Refused, Visit
from gateway.console.people import rows_of
from gateway.console.reading import INTENT, Row

STEPS: Final = 400
"""Events that are read of one object."""
_ENDS: Final = ("delete", "cancel")
_READS: Final = ("retrieve", "list", "show", "input_items", "view")


@dataclass(frozen=True, slots=True)
class Step:
    """What one request did to the object."""

    row: Row
    """Its outcome, or its intent where there is no outcome."""
    verb: str

    @property
    def times(self) -> int:
        """How often, at least: a sum of refusals does not say how often each of its objects was meant."""
        return self.row.refusals if self.row.refusals and self.row.refused_targets == 1 else 1


@dataclass(frozen=True, slots=True)
class Story:
    target: str
    steps: tuple[Step, ...]
    """Oldest first."""
    is_whole: bool
    """False: there are more events than were read."""

    @property
    def made_by(self) -> Step | None:
        return next((step for step in self.steps if step.verb == "created"), None)

    @property
    def ended_by(self) -> Step | None:
        return next((step for step in reversed(self.steps) if step.verb == "ended"), None)

    def by(self, verb: str) -> tuple[tuple[str, str, int], ...]:
        """Who did it how often: pseudonym, name and number, in the order of their first time."""
        counts: dict[tuple[str, str], tuple[str, str, int]] = {}
        for step in self.steps:
            if step.verb == verb:
                row = step.row
                # After a rotation of the keys one person has two pseudonyms.
                person = (row.issuer, row.name) if row.name else ("", row.pseudonym)
                pseudonym, _, number = counts.get(person, (row.pseudonym, "", 0))
                counts[person] = pseudonym, row.who, number + step.times
        return tuple(counts.values())


async def story(visit: Visit) -> Page:
    named = [value.strip() for name, value in visit.query() if name == "id"]
    if len(named) > 1 or any(len(value) > MAX_CHARS for value in named):
        raise Refused(Refusal.BAD_REQUEST, "Name one object by its ID.")
    target = named[0] if named else ""
    told = await _told(visit, target) if target else None
    # An ID that is found in the log was given out by the gateway; any other text may be anything.
    kind = next((one.kind for step in told.steps for one in step.row.targets if one.id == target), "") if told else ""
    return Page(
        "story.html",
        {"target": target, "story": told},
        targets=(Target(kind or "object", target),) if told and told.steps else (),
    )


async def _told(visit: Visit, target: str) -> Story:
    search, tenant = visit.desk.search, visit.tenant
    found = await search.search(tenant, Query().with_filter(Field.TARGET, target), after_seq=0, limit=STEPS)
    rows = await rows_of(visit, found.rows)
    requests = list(dict.fromkeys(row.request_id for row in rows if row.request_id))
    batches = [requests[at : at + MAX_FILTERS] for at in range(0, len(requests), MAX_FILTERS)]
    pages = await asyncio.gather(*(search.search(tenant, _any_of(batch), limit=STEPS) for batch in batches))
    ends = await rows_of(visit, (stored for page in pages for stored in page.rows))
    return Story(target, steps(target, [*rows, *ends]), found.newer is None)


def _any_of(requests: Iterable[str]) -> Query:
    query = Query()
    for one in requests:
        query = query.with_filter(Field.REQUEST, one)
    return query


def steps(target: str, rows: Sequence[Row]) -> tuple[Step, ...]:
    """One step a request, by its newest event; events without a request are steps of their own."""
    by_request: dict[str, list[Row]] = {}
    begun: dict[tuple[str, str, str], str] = {}
    for row in sorted({row.seq: row for row in rows}.values(), key=lambda row: row.seq):
        # What has no request (an operator's command) is one with its intent, the last of its kind.
        doer = (row.type, row.kind, row.pseudonym)
        name = row.request_id or (begun.pop(doer, "") if row.result != INTENT else "") or f"record {row.seq}"
        if row.result == INTENT:
            begun[doer] = name
        by_request.setdefault(name, []).append(row)
    made = [
        Step(events[-1], verb(target, events))
        for events in by_request.values()
        if any(one.id == target for event in events for one in event.targets)
    ]
    return tuple(sorted(made, key=lambda step: step.row.seq))


def verb(target: str, events: Sequence[Row]) -> str:
    """What a request, by all its events in order, did to the object."""
    last = events[-1]
    doing = last.type.rpartition(".")[2]
    named = any(one.id == target for event in events if event.result == INTENT for one in event.targets)
    if last.result == Result.DENY:
        return "was refused"
    if last.result in (Result.ERROR, Result.UNKNOWN, INTENT):
        return "tried"
    if doing.startswith(_ENDS):
        return "ended"
    if doing.startswith(_READS) or last.method == "GET":
        return "read"
    return "continued" if named else "created"
