"""Logs of tenants that never ran: real events by real writers in one process, with their real proofs.

Several writers take turns; one is ended and followed by a successor, so that every rule of the log has something to hold.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

from gateway.audit.chain import Ended, Writer, succeed
from gateway.audit.checkpoint import Checkpoint, log_origin, public_key, sign
from gateway.audit.event import SYSTEM, Actor, Event, EventType, Outcome, Phase, RequestFacts, Result, Target
from gateway.audit.export import export
from gateway.audit.layout import Manifest
from gateway.audit.search.query import Query
from gateway.audit.source import Log
from gateway.audit.tree import Frontier, leaf
from gateway.names import TenantId
from gateway.stores.contract import StoredEvent

DEPLOYMENT = "0123456789abcdef"
ACME, OTHER = TenantId("aaaabbbbccccdddd"), TenantId("zzzzyyyyxxxxwwww")
START_US = 1_790_000_000_000_000
STEP_US = 1_000_000
MADE_US = START_US + 10**12
PEOPLE = tuple(Actor("user", name * 24, "https://idp.example", "jwt", f"1.{name * 60}") for name in "abc")


@dataclass
class WrittenLog:
    """A log as a store holds it. `bodies[i]` is the event with number `i + 1`."""

    tenant: TenantId = ACME
    seed: bytes = b"k" * 32
    bodies: list[bytes] = field(default_factory=list)
    epoch: int = 0

    @property
    def origin(self) -> str:
        return log_origin(DEPLOYMENT, self.tenant, self.epoch)

    @property
    def key_line(self) -> str:
        return str(public_key(log_origin(DEPLOYMENT, self.tenant), self.seed))

    def leaves(self) -> list[bytes]:
        return [leaf(self.tenant, seq, body) for seq, body in enumerate(self.bodies, start=1)]

    def note(self, size: int | None = None) -> str:
        """A checkpoint of the log as it is."""
        size = len(self.bodies) if size is None else size
        return sign(Checkpoint(self.origin, size, Frontier().extend(self.leaves()[:size]).root()), self.seed)

    def log(self, *, note: str = "", trimmed: int = 0) -> Log:
        async def after(seq: int, count: int) -> tuple[StoredEvent, ...]:
            first = max(seq, trimmed)
            chosen = self.bodies[first : first + count]
            return tuple(StoredEvent(first + at + 1, body) for at, body in enumerate(chosen))

        async def before(seq: int, count: int) -> tuple[StoredEvent, ...]:
            numbers = range(seq - 1, max(trimmed, seq - 1 - count), -1)
            return tuple(StoredEvent(number, self.bodies[number - 1]) for number in numbers)

        base = Frontier().extend(self.leaves()[:trimmed])
        return Log(self.tenant, self.origin, self.seed, len(self.bodies), after, before, base, note)

    def export(
        self, folder: Path, *query: tuple[str, str], step: int = 16, note: str = "", trimmed: int = 0
    ) -> Manifest:
        log = self.log(note=note, trimmed=trimmed)
        return asyncio.run(export(log, Query.parse(query), folder, made_us=MADE_US, step=step))


def event(number: int, tenant: TenantId = ACME) -> Event:
    """A request's event, one in three of them a refusal."""
    denied = number % 3 == 0
    return Event(
        tenant=tenant,
        ts_us=START_US + number * STEP_US,
        type="responses.create" if number % 2 else "responses.get",
        phase=Phase.OUTCOME,
        actor=PEOPLE[number % len(PEOPLE)],
        request=RequestFacts(
            f"req_{number:032x}", "POST", "/v1/responses", "1.net", "agent", 100, 200, 300, model="gpt-x"
        ),
        outcome=Outcome(Result.DENY, "not_owned", 404) if denied else Outcome(Result.ALLOW, "", 200),
        targets=(Target("response", f"resp_{number:034d}"),),
    )


def write(
    count: int, *, tenant: TenantId = ACME, seed: bytes = b"k" * 32, writers: int = 3, chooses: int = 0
) -> WrittenLog:
    """A log of `count` events. After a third of them the first writer is ended, and its successor goes on in its place."""
    choose = random.Random(chooses)
    hands = [Writer(f"{number:024x}") for number in range(1, writers + 1)]
    bodies: list[bytes] = []
    for number in range(1, count + 1):
        if number == count // 3 and hands[0].last_wseq:
            ended = Ended(hands[0].id, hands[0].last_wseq)
            hands[0], entry = succeed(ended, f"{writers + 1:024x}", tenant, START_US + number * STEP_US)
        else:
            at = choose.randrange(writers)
            hands[at], entry = hands[at].next(event(number, tenant))
        bodies.append(entry.body)
    return WrittenLog(tenant, seed, bodies)


def resealed(log: WrittenLog, kept: int, *, lost_last: int, then: int = 20) -> WrittenLog:
    """The log after the events above `kept` were lost and the loss accepted: other writers go on in a new epoch."""
    break_event = Event(
        tenant=log.tenant,
        ts_us=START_US + kept * STEP_US,
        type=EventType.LOG_RESEALED,
        phase=Phase.SINGLE,
        actor=SYSTEM,
        outcome=Outcome(Result.ALLOW),
        changes={"epoch": log.epoch + 1, "lost_first": kept + 1, "lost_last": lost_last},
    )
    _, entry = Writer(f"{900 + log.epoch:024x}").next(break_event)
    bodies = [*log.bodies[:kept], entry.body]
    hand = Writer(f"{950 + log.epoch:024x}")
    for number in range(then):
        hand, entry = hand.next(event(kept + 2 + number, log.tenant))
        bodies.append(entry.body)
    return WrittenLog(log.tenant, log.seed, bodies, log.epoch + 1)
