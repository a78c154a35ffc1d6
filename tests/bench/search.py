"""`python -m tests.bench.search`: a million events in a Redis of its own, and how long a reviewer waits for 50 of them.

Each query is asked for its newest page and for the page in the middle of the log, cold (a new connection) every time; the
figures are the median and the slowest of the rounds, from the call to the rows. A table in Markdown goes to standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import redis

from gateway.audit.chain import Writer
from gateway.audit.event import Actor, Event, Outcome, Phase, RequestFacts, Result, Target
from gateway.audit.search.engine import IndexedSearch
from gateway.audit.search.query import Field, Query
from gateway.ids.encoding import ALPHABET
from gateway.names import TenantId
from gateway.stores.address import parse_target
from gateway.stores.keyspace import tenant_keys
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.redis_fixture import RedisServer

TENANT: Final = TenantId("aaaaaaaaaaaaaaaa")
BAR_MS: Final = 300.0
BEGAN_US: Final = 1_790_000_000_000_000
_TYPES: Final = tuple(f"{noun}.{verb}" for noun in ("responses", "conversations", "chat", "files", "items", "models")
                      for verb in ("create", "get", "list", "update", "delete"))  # fmt: skip
_MODELS: Final = (
    "gpt-5",
    "gpt-5-mini",
    "gpt-5-nano",
    "gpt-4.1",
    "o4-mini",
    "text-embedding-3-small",
    "omni-moderation",
)
_REASONS: Final = ("not_found", "not_owned", "policy", "rate_limited", "foreign_or_retired")
_BUSY: Final = "conv_" + "B" * 34
"""A conversation that a third of all requests name."""
_RARE: Final = "resp_" + "R" * 34
_SERVICE: Final = "5" * 24
"""Who makes half of all requests."""

QUERIES: Final[tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]] = (
    ("nothing filtered", "all", ()),
    ("a dense value", "50 %", (("phase", "outcome"),)),
    ("a dense actor", "50 %", (("actor", _SERVICE),)),
    ("a rare actor", "about 30", (("actor", f"{4_321:024x}"),)),
    ("a dense target", "a third", (("target", _BUSY),)),
    ("a rare target", "2", (("target", _RARE),)),
    ("one request", "2", (("request", f"req_{1_000:032x}"),)),
    ("a dense value left out", "50 %", (("phase!", "intent"),)),
    ("a dense target left out", "two thirds", (("target!", _BUSY),)),
    ("two dense values that never meet", "none", (("phase", "intent"), ("result", "allow"))),
    ("all results left out but none has none", "none", (("phase", "outcome"), *(("result!", one.value) for one in Result))),
    ("all phases left out, on all fields", "none", (
        ("phase!", "intent"), ("phase!", "outcome"), ("phase!", "single"), ("type!", _TYPES[0]), ("type!", _TYPES[1]),
        ("model!", "gpt-5"), ("actor!", _SERVICE), ("reason!", "not_owned"), ("route!", "/responses"),
    )),
    ("a dense target left out of a dense actor, and never met", "none", (
        ("target!", _BUSY), ("actor", _SERVICE), ("reason", "not_owned"), ("phase", "intent"),
    )),
    ("a dense target that never meets a value", "none", (("target", _BUSY), ("phase", "single"), ("reason", "policy"))),
    ("five values, or four, of three", "some", (
        *(("type", one) for one in _TYPES[:5]), *(("model", one) for one in _MODELS[:4]),
        ("reason", "policy"), ("reason", "not_owned"), ("reason", "rate_limited"),
    )),
    ("a range of an hour, a month ago", "some", (
        ("since", "2026-10-01T00:00:00Z"), ("until", "2026-10-01T01:00:00Z"), ("result", "deny"),
    )),
    ("a range of all, of what never meets", "none", (
        ("since", "2020-01-01T00:00:00Z"), ("phase", "intent"), ("result!", "deny"), ("reason", "policy"),
    )),
    ("text in models", "many", (("q", "mini"),)),
    ("text in models, in what was refused", "some", (("q", "MINI not_ow"), ("result!", "allow"))),
    ("text that begins an ID", "2", (("q", _RARE[:14]),)),
    ("text that nothing has", "none", (("q", "nowhere"),)),
)  # fmt: skip
"""Name, what it finds of a million, and the query as in a URL."""


def events(number: int, seed: int = 7) -> Iterator[Event]:
    """In the order of the log: requests of two events with their objects, a few refusals, 90 days all in all."""
    rng = random.Random(seed)
    types, reasons = list(range(len(_TYPES))), list(range(len(_REASONS)))
    for at in range(0, number, 2):
        ts = BEGAN_US + at * (90 * 86_400_000_000 // number) + rng.randrange(2_000_000)
        busy = rng.random() < 0.5
        who = _SERVICE if busy else f"{rng.randrange(15_000):024x}"
        actor = Actor("service" if busy else "user", who, "https://idp.example", "jwt", "1." + "s" * 90)
        kind = _TYPES[rng.choices(types, [1 / (one + 1) for one in types])[0]]
        facts = RequestFacts(f"req_{at:032x}", "POST", f"/{kind.partition('.')[0]}", f"1.{rng.randrange(400):060x}",
                             f"{rng.randrange(50):024x}", 900, 2_000, 1_500_000, None, rng.choice(_MODELS))  # fmt: skip
        made = _RARE if at == number // 4 * 2 else "resp_" + "".join(rng.choices(ALPHABET, k=34))
        named = (Target("conversation", _BUSY),) if rng.random() < 1 / 3 else ()
        targets = (*named, Target("response", made))
        yield Event(TENANT, ts, kind, Phase.INTENT, actor, facts, targets=named)
        denied = rng.random() < 0.08
        reason = _REASONS[rng.choices(reasons, [1 / (one + 1) ** 3 for one in reasons])[0]] if denied else ""
        ending = Outcome(Result.DENY if denied else Result.ALLOW, reason, 404 if denied else 200)
        yield Event(TENANT, ts + 1_500_000, kind, Phase.OUTCOME, actor, facts, ending, targets)


def fill(server: RedisServer, number: int) -> None:
    """Writes the events where the gateway's scripts would, many at a time."""
    client: Any = redis.Redis(unix_socket_path=str(server.socket_path))
    names, writer, seq = tenant_keys(TENANT), Writer("0" * 24), 0
    client.hset("tenants", TENANT, b"record")
    made = events(number)
    while batch := list(islice(made, 5_000)):
        with client.pipeline(transaction=False) as pipeline:
            for event in batch:
                seq += 1
                writer, entry = writer.next(event)
                pipeline.xadd(names.log, {"e": entry.body}, id=f"0-{seq}")
            pipeline.hset(names.meta, mapping={"status": "active", "generation": 1, "seq": seq})
            pipeline.execute()
    client.close()


async def measure(server: RedisServer, folder: Path, number: int, rounds: int) -> bool:
    """Prints the table. Whether every page came within the bar."""
    store = RedisStore(await Link.open(LinkSettings(parse_target(server.url)), SCRIPTS))
    search = IndexedSearch(store, folder)
    began = time.perf_counter()
    await search.follow(TENANT)
    size_mb = sum(path.stat().st_size for path in folder.iterdir()) / 1e6  # noqa: ASYNC240 - nothing else runs
    print(f"{number:,} events indexed in {time.perf_counter() - began:.0f} s; {size_mb:.0f} MB.\n")
    print("| query | finds | rows | newest page, ms | page from the middle, ms |\n|---|---|---|---|---|")
    within = True
    for name, finds, items in QUERIES:
        query, cells = Query.parse(items), []
        rows: list[int] = []
        for before in (None, number // 2):
            taken = []
            for _ in range(rounds):
                start = time.perf_counter()
                page = await search.search(TENANT, query, before_seq=before)
                taken.append((time.perf_counter() - start) * 1e3)
                rows.append(len(page.rows))
            within = within and max(taken) < BAR_MS
            cells.append(f"{statistics.median(taken):.0f} (at most {max(taken):.0f})")
        print(f"| {name} | {finds} | {max(rows)} | {' | '.join(cells)} |", flush=True)
    print("\n| summary | query | ms |\n|---|---|---|")
    for title, call in (
        ("60 bars", lambda query: search.histogram(TENANT, query, 60)),
        ("top 10 actors", lambda query: search.top(TENANT, query, Field.ACTOR, 10)),
        ("top 10 targets", lambda query: search.top(TENANT, query, Field.TARGET, 10)),
        ("top 10 reasons", lambda query: search.top(TENANT, query, Field.REASON, 10)),
        ("count", lambda query: search.count(TENANT, query)),
    ):
        for asked, items in (("all", ()), ("refused", (("result", "deny"),))):
            start = time.perf_counter()
            await call(Query.parse(items))
            print(f"| {title} | {asked} | {(time.perf_counter() - start) * 1e3:.0f} |", flush=True)
    await store.aclose()
    return within


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.bench.search", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="events in the log (default: a million)")
    parser.add_argument("--rounds", type=int, default=5, help="times that each page is asked for (default: 5)")
    args = parser.parse_args()
    with RedisServer(options=("--appendonly", "no")) as server, tempfile.TemporaryDirectory() as folder:
        print(f"writing {args.events:,} events", file=sys.stderr)
        fill(server, args.events)
        within = asyncio.run(measure(server, Path(folder), args.events, args.rounds))
    print(f"\nEvery page within {BAR_MS:.0f} ms: {'yes' if within else 'no'}.")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
