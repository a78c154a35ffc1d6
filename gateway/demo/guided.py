"""The guided demo: Alice works through the gateway, others try what is hers, and each promise is checked on what really
went over the wire, reached the provider and stands in the audit log."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from openai import APIError, AsyncOpenAI
from openai.types.responses import Response

from gateway.admin.events import tail
from gateway.admin.ids import show
from gateway.audit.event import Result, decode
from gateway.demo.attempts import AT_ONCE, MODEL, NEVER_WERE, Attempt, Ids, attempt
from gateway.demo.attempts import Result as Tried
from gateway.demo.evidence import prove
from gateway.demo.screen import Screen, open_screen
from gateway.demo.stage import ACCOUNTS, KEY_FILE, Stage, User, open_stage
from gateway.demo.stand_in.raw_ids import Exposure
from gateway.demo.wire import Exchange
from gateway.ids.form import DeploymentForm
from gateway.ids.shape import find_raw
from gateway.settings import wants_colours
from gateway.stores.contract import StoredEvent

NEWEST: Final = 5_000
"""Events that are read of each tenant's log."""
TOPIC: Final = {"topic": "coats"}
"""Metadata of Alice's conversation."""


@dataclass(frozen=True, slots=True)
class Hers:
    """What Alice has after the first act."""

    ids: Ids
    raw: dict[str, str]
    """The raw ID behind each, as the operator is shown it."""


async def guide(*, stays: bool) -> int:
    """Runs the demo, and with `stays` goes on serving until interrupted. 0 if every promise held, else 1."""
    screen = open_screen(wants_colours())
    async with open_stage() as stage:
        _open(screen, stage)
        try:
            hers = await _alice_works(screen, stage)
            await _others_try(screen, stage, hers)
            _look_at_provider(screen, stage, hers)
            _look_at_wire(screen, stage, hers)
            await _look_at_log(screen, stage, hers)
            await prove(screen, stage)
        except APIError as error:
            screen.promise("The service works for Alice as OpenAI's does", [f"{type(error).__name__}: {error}"])
        print()
        if screen.broken:
            screen.title(f"{len(screen.broken)} of {screen.kept + len(screen.broken)} promises were broken.")
            return 1
        screen.title(f"All {screen.kept} promises were kept.")
        if stays:
            _invite(screen, stage)
            await _interrupted()
    return 0


def _open(screen: Screen, stage: Stage) -> None:
    screen.title("Coatcheck, the guided demo")
    provider = "the stand-in, which plants raw IDs all over its answers" if stage.provider else "OpenAI"
    screen.rows(
        [
            ("provider", f"{stage.settings.openai.base_url}  ({provider})"),
            ("store", stage.store),
            ("gateway", stage.url),
            ("console", stage.console),
        ]
    )
    screen.note(f"{'tenants':<8}  acme: Alice, Carol   bravo: Bob, Dave")
    if stage.in_memory:
        screen.warn("No redis-server was found: all is kept in memory, and nothing survives the end of this process.")


@dataclass(frozen=True, slots=True)
class Work:
    ids: Ids
    rows: list[tuple[str, str, str]]
    """What was made, its ID, and how."""
    faults: list[str]


async def _alice_works(screen: Screen, stage: Stage) -> Hers:
    screen.act("1  Alice works, with the official SDK")
    alice = stage.users["Alice"]
    work = await stage.aside(_work(alice.client))
    screen.rows(work.rows)
    screen.promise("Responses, continuations, streams and conversations work as with OpenAI", work.faults)
    every = work.ids.every()
    foreign = [one for one in every if stage.form.verify(one) is None]
    screen.promise(f"Each of the {len(every)} IDs that Alice holds is opaque", foreign)
    raw = {one: (await show(stage.admin, alice.tenant, one, stage.upstream)).raw.text for one in every}
    return Hers(work.ids, raw)


async def _work(client: AsyncOpenAI) -> Work:
    """A first response, its continuation, a streamed one, and a conversation of two."""
    made: list[Response] = []
    rows: list[tuple[str, str, str]] = []

    def got(response: Response, how: str) -> Response:
        made.append(response)
        rows.append(("responses.create", response.id, how))
        return response

    first = got(await client.responses.create(model=MODEL, input="My coat is blue."), "")
    second = await client.responses.create(model=MODEL, input="Which colour?", previous_response_id=first.id)
    got(second, "continues the first")
    faults = [] if second.previous_response_id == first.id else ["the second response does not name the first"]
    events = [event async for event in await client.responses.create(model=MODEL, input="Tell me more.", stream=True)]
    ended = events[-1]
    if ended.type == "response.completed":
        got(ended.response, f"streamed in {len(events)} events")
    else:
        faults.append(f"the stream ended with {ended.model_dump_json(exclude_none=True)}")
    conversation = await client.conversations.create(metadata=TOPIC)
    rows.append(("conversations.create", conversation.id, ""))
    for text, how in (("Keep my coat.", "in the conversation"), ("Where is it?", "continues the conversation")):
        got(await client.responses.create(model=MODEL, input=text, conversation=conversation.id), how)
    said = await _said(client, conversation.id)
    if len(said) < 4:
        faults.append(f"the conversation has {len(said)} items instead of four or more")
    messages = tuple(item.id for one in made for item in one.output if item.type == "message")
    return Work(Ids(tuple(one.id for one in made), conversation.id, messages, said), rows, faults)


async def _said(client: AsyncOpenAI, conversation: str) -> tuple[str, ...]:
    """The IDs of the conversation's items."""
    return tuple([str(item.id) async for item in client.conversations.items.list(conversation)])


async def _others_try(screen: Screen, stage: Stage, hers: Hers) -> None:
    screen.act("2  Bob, of another tenant, and Carol, a colleague, try each of Alice's IDs and the raw ones")
    asked = len(stage.provider.received) if stage.provider else 0
    hers_and_raw = hers.ids.attempts(), hers.ids.mapped(hers.raw).attempts()
    bob, carol, dave = await asyncio.gather(
        stage.aside(_try_all(stage.users["Bob"], *hers_and_raw)),
        stage.aside(_try_all(stage.users["Carol"], *hers_and_raw)),
        # For comparison.
        stage.aside(_try_all(stage.users["Dave"], NEVER_WERE.attempts())),
    )
    results = {"Bob": bob, "Carol": carol}
    _show_attempts(screen, results)
    for name, tried in results.items():
        wrong = [f"{one.what}: {one.status} {one.message}" for one in tried if not one.is_not_found]
        screen.promise(f"{name} reads OpenAI's own not-found error at all {len(tried)} attempts", wrong)
    answers: dict[str, set[str]] = {}
    for one in (*bob, *carol, *dave):
        answers.setdefault(one.what, set()).add(one.answer)
    telling = [what for what, different in answers.items() if len(different) > 1]
    screen.promise("These errors are the same as for IDs that never were, which Dave tries", telling)
    if stage.provider:
        reached = [f"{one.method} {one.path}" for one in stage.provider.received[asked:]]
        screen.promise("None of these attempts reached the provider", reached)
    changed = await stage.aside(_changed(stage.users["Alice"].client, hers.ids))
    screen.promise("What Alice has is as she left it", changed)


async def _try_all(user: User, *kinds: list[Attempt]) -> list[Tried]:
    """In turns over the kinds of IDs, so many a second that the gateway does not call it a flood."""
    results: list[Tried] = []
    for start in range(0, max(map(len, kinds)), AT_ONCE):
        if start:
            await asyncio.sleep(1 - time.time() % 1)
        for one in (one for kind in kinds for one in kind[start : start + AT_ONCE]):
            results.append(await attempt(user.client, one))
    return results


def _show_attempts(screen: Screen, results: dict[str, list[Tried]]) -> None:
    rows: dict[tuple[str, str, str], int] = Counter()
    for one in (one for tried in results.values() for one in tried):
        rows[one.what, str(one.status), one.shown] += 1
    screen.rows([(f"{count:>3} ×", *row) for row, count in rows.items()])


async def _changed(client: AsyncOpenAI, ids: Ids) -> list[str]:
    """Which of these objects are no longer as they were made."""
    changed = [one for one in ids.responses if (await client.responses.retrieve(one)).status != "completed"]
    conversation = await client.conversations.retrieve(ids.conversation)
    if conversation.metadata != TOPIC or await _said(client, conversation.id) != ids.said:
        changed.append(ids.conversation)
    return changed


def _look_at_provider(screen: Screen, stage: Stage, hers: Hers) -> None:
    screen.act("3  What the provider received")
    if stage.provider is None:
        screen.note("not looked at: only the stand-in shows what it received")
        return
    seen: list[tuple[str, str]] = []
    for one in stage.provider.received:
        text = f"{one.method} {one.path}?{one.query} {one.headers} {one.body.decode('utf-8', 'replace')}"
        seen.append((f"{one.method} {one.path}", text))
    first = hers.ids.responses[0]
    screen.rows(
        [("Alice sent", f"previous_response_id {first}"), ("it received", f"previous_response_id {hers.raw[first]}")]
    )
    claims = [
        f"{what}: {text[start:end]}"
        for what, text in seen
        for start, end in find_raw(text)
        if stage.form.verify(text[start:end]) is not None
    ]
    keys = [f"{what}: a gateway key" for what, text in seen if "cck_" in text]
    screen.promise(f"No claim check and no gateway key is in the {len(seen)} requests", claims + keys)
    everything = " ".join(text for _, text in seen)
    absent = [hers.raw[one] for one in (first, hers.ids.conversation) if hers.raw[one] not in everything]
    screen.promise("It was asked for its own raw IDs", absent)


def _look_at_wire(screen: Screen, stage: Stage, hers: Hers) -> None:
    screen.act("4  What the clients received, byte for byte")
    secrets, harmless = set(hers.raw.values()), set[str]()
    if stage.provider:
        issued = stage.provider.issued.values()
        secrets |= stage.provider.ids.secrets()
        harmless = {one.raw for one in issued if one.exposure is not Exposure.NEVER}
    faults = [f"{one.who}: {leak}" for one in stage.wire for leak in leaks(stage.form, one, secrets, harmless)]
    total = sum(len(one.received) for one in stage.wire)
    screen.promise(
        f"None of the provider's {len(secrets)} raw IDs is in {total:,} bytes of {len(stage.wire)} answers", faults
    )
    screen.note("An error repeats the ID that its own request named, and nothing else.")


def leaks(form: DeploymentForm, exchange: Exchange, secrets: Iterable[str], harmless: set[str]) -> Iterator[str]:
    """What of an answer is a raw ID: known as one, or of the shape of one without being ours. Not what the request itself
    said, nor request IDs, which are the gateway's."""
    received, sent = exchange.received.decode("utf-8", "replace"), exchange.sent.decode("utf-8", "replace")
    for raw in secrets:
        if raw in received and raw not in sent:
            yield raw
    for start, end in find_raw(received):
        found = received[start:end]
        known = found in harmless or found in sent or found.startswith("req_")
        if not known and form.verify(found) is None:
            yield found


async def _look_at_log(screen: Screen, stage: Stage, hers: Hers) -> None:
    screen.act("5  The audit log")
    faults: list[str] = []
    gaps: list[str] = []
    bodies = ""
    rows = [("TENANT", "WHO", "WHAT", "RESULT", "", "REASON")]
    for tenant_name, tenant in {user.tenant_name: user.tenant for user in stage.users.values()}.items():
        stored = [one async for one in tail(stage.admin, tenant, newest=NEWEST)]
        bodies += "".join(one.body.decode() for one in stored)
        gaps += [f"{tenant_name}: after {a.seq}" for a, b in pairwise(stored) if b.seq != a.seq + 1]
        mine = {user.name for user in stage.users.values() if user.tenant == tenant}
        asked = {one.request_id for one in stage.wire if one.who in mine}
        faults += [f"{tenant_name}: {missing}" for missing in sorted(asked - _recorded(stored))]
        rows += _table(stage, tenant_name, stored, asked)
    screen.rows(rows)
    screen.promise(f"Each of the {len(stage.wire)} requests is on record, allowed or denied", faults)
    screen.promise("The sequence numbers have no gap", gaps)
    screen.promise("No raw ID is in the log", [raw for raw in hers.raw.values() if raw in bodies])


def _recorded(stored: list[StoredEvent]) -> set[str]:
    """The request IDs that have an outcome."""
    events = (decode(one.body) for one in stored)
    return {event.request.id for event in events if event.request and event.outcome}


def _table(
    stage: Stage, tenant_name: str, stored: list[StoredEvent], asked: set[str]
) -> Iterator[tuple[str, str, str, str, str, str]]:
    """Outcomes of the requests with these IDs; those of the same result are one row."""
    counts: Counter[tuple[str, str, str]] = Counter()
    reasons: dict[tuple[str, str, str], dict[str, None]] = {}
    for event in (decode(one.body) for one in stored):
        outcome = event.outcome
        if outcome and outcome.result is not Result.ACCEPTED and event.request and event.request.id in asked:
            row = stage.names.get(event.actor.pseudonym, event.actor.kind), event.type, outcome.result.value
            counts[row] += 1
            reasons.setdefault(row, {})[outcome.reason] = None
    users = list(dict.fromkeys(who for who, _, _ in counts))
    for row in sorted(counts, key=lambda row: users.index(row[0])):
        yield tenant_name, *row, f"{counts[row]:>3} ×", ", ".join(reasons[row])


def _invite(screen: Screen, stage: Stage) -> None:
    screen.act("The audit console")
    screen.line(f"  {stage.console}")
    screen.note(f"Sign in as one of these, with the password {stage.password}")
    screen.rows([(name, f"{', '.join(one.roles)} of {one.organization}") for name, one in ACCOUNTS.items()])
    screen.act("Your own program")
    for line in (
        "from openai import OpenAI",
        f'client = OpenAI(base_url="{stage.url}", api_key="{stage.users["Alice"].key}")',
        f'print(client.responses.create(model="{MODEL}", input="Hello").output_text)',
    ):
        screen.line("  " + line)
    print()
    screen.rows([(f"{user.name}'s key", user.key) for user in stage.users.values()])
    if not stage.in_memory:
        data = stage.settings.data
        kept = data / KEY_FILE
        root = f" COATCHECK_ROOT_KEY_FILE={kept}" if kept.exists() else ""
        screen.note("A key for somebody else, from another terminal in this folder:")
        screen.line(f"  COATCHECK_DATA={data}{root} {_python()} -m gateway key create acme --subject erin")
    screen.note(f"The gateway's own log is in {stage.log_file}. Ctrl-C ends it all.")


def _python() -> str:
    relative = os.path.relpath(sys.executable)
    return sys.executable if relative.startswith("..") else relative


async def _interrupted() -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    print()
