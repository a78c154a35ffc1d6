"""How long it takes to verify a large export: `python -m tests.bench.evidence [--events 1000000]`.

It makes a log of requests by three writers, exports it, and verifies the export in one process and in as many as there are
cores, in turns. Progress goes to standard error, the table to standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.audit.chain import Writer
from gateway.audit.checkpoint import log_origin, public_key
from gateway.audit.event import Actor, Event, Outcome, Phase, RequestFacts, Result, Target
from gateway.audit.export import export
from gateway.audit.offline import verify_folder
from gateway.audit.search.query import Query
from gateway.audit.source import Log
from gateway.names import TenantId
from gateway.stores.contract import StoredEvent

TENANT: Final = TenantId("aaaabbbbccccdddd")
ORIGIN: Final = log_origin("0123456789abcdef", TENANT)
SEED: Final = b"k" * 32
LIMIT_S: Final = 20.0
"""For a million events, on two cores."""


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.bench.evidence", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evidence") as name:
        folder = Path(name) / "export"
        began = time.perf_counter()
        asyncio.run(export(_log(args.events), Query(), folder, made_us=1, progress=_Ticker("exported")))
        size = sum(path.stat().st_size for path in folder.iterdir())
        _say(f"exported in {time.perf_counter() - began:.0f} s, {size / args.events:.0f} bytes an event")
        cores = os.cpu_count() or 1
        took: dict[int, list[tuple[float, float]]] = {1: [], cores: []}
        for round_ in range(args.rounds):
            for processes, times in took.items():
                times.append(_verify(folder, processes))
                _say("round {}: {} process(es), {:.1f} s, {:.1f} s of CPU".format(round_ + 1, processes, *times[-1]))
    print("| processes | s for a million events | CPU s | events/s |", "|---|---|---|---|", sep="\n")
    for processes, times in took.items():
        least, cpu = min(times)
        print(
            f"| {processes} | {least * 1e6 / args.events:.1f} | {cpu * 1e6 / args.events:.1f} | {args.events / least:,.0f} |"
        )
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"\n{args.events:,} events of {size / args.events:.0f} bytes; at most {peak / 1024:.0f} MiB in a process.")
    return 0 if min(took[cores])[0] * 1e6 / args.events < LIMIT_S else 1


def _verify(folder: Path, processes: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU of all processes."""
    began, cpu = time.perf_counter(), _cpu_s()
    key = public_key(ORIGIN, SEED)
    verdict = verify_folder(folder, (key,), processes=processes, progress=_Ticker("verified"))
    if verdict.findings:
        raise AssertionError(verdict.findings[0].text)
    return time.perf_counter() - began, _cpu_s() - cpu


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _log(count: int) -> Log:
    """Events are made as they are read, once and in order, so that a large log takes no memory."""
    bodies = _bodies()

    async def after(seq: int, most: int) -> tuple[StoredEvent, ...]:
        return tuple(StoredEvent(number, next(bodies)) for number in range(seq + 1, min(seq + most, count) + 1))

    async def before(seq: int, most: int) -> tuple[StoredEvent, ...]:
        raise AssertionError("an export of the whole log asks for nothing before it")

    return Log(TENANT, ORIGIN, SEED, count, after, before)


def _bodies() -> Iterator[bytes]:
    """Intent and outcome of requests, as large as real ones."""
    hands = [Writer(f"{number:024x}") for number in range(3)]
    actors = [Actor("user", f"{number:024x}", "https://idp.example", "jwt", f"1.{'s' * 72}") for number in range(50)]
    number = 0
    while True:
        at = number % len(hands)
        facts = RequestFacts(
            f"req_{number:032x}", "POST", "/v1/responses", f"1.{'n' * 60}", "a" * 24, 1200, model="gpt-5"
        )
        targets = tuple(Target("item", f"msg_{number + item:034d}") for item in range(3))
        for phase, outcome in ((Phase.INTENT, None), (Phase.OUTCOME, Outcome(Result.ALLOW, "", 200, "owners"))):
            made = Event(TENANT, number, "responses.create", phase, actors[number % 50], facts, outcome, targets)
            hands[at], entry = hands[at].next(made)
            yield entry.body
        number += 1


class _Ticker:
    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + 2

    def __call__(self, done: int, of: int) -> None:
        if time.monotonic() > self._next:
            self._next = time.monotonic() + 2
            _say(f"{done:,} of {of:,} {self._what}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
