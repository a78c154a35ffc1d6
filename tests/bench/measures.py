"""The measures: targets side by side, one round after the other, each round in another order.

A measure gives samples: per target a list of rounds, each a mapping of figures. Units are in the figures' names.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench import load, targets
from tests.bench.growth import fill
from tests.bench.processes import Server, Unusable, cpu_s, rss_kb
from tests.bench.targets import Target

Figures = dict[str, float]
Samples = dict[str, list[Figures]]

TARGETS: Final = ("direct", "nginx", "litellm", "coatcheck")
WARM_S: Final = 1.0
PACE_MS: Final = 20
SPEECH_MS: Final = 100
"""Between two events of a session that speaks."""
IDLE_AFTER_S: Final = 0.5
"""What memory is given to settle before it is read."""


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int = 5
    seconds: float = 4.0
    connections: int = 32
    """Of wrk, at once."""
    burst_streams: int = 16
    paced_streams: int = 50
    idle_streams: int = 800
    idle_sockets: int = 1_000
    busy_sockets: int = 200
    slow_sockets: int = 20
    rate: float = 100.0
    """Requests a second of the open loop."""
    stored: tuple[int, int] = (1_000, 1_000_000)
    """IDs in the store, before and after growth."""
    targets: tuple[str, ...] = TARGETS


@dataclass(slots=True)
class Bench:
    """One run: its folder, and why what is missing is missing."""

    options: Options
    folder: Path
    skips: list[str] = field(default_factory=list)

    def rounds(self, measure: str, chosen: Sequence[Target], one: Callable[[Target], Figures]) -> Samples:
        """`one` for each target in each round; a target that fails is dropped, with the reason."""
        samples: Samples = {target.name: [] for target in chosen}
        for number in range(self.options.rounds):
            _tell(f"{measure}: round {number + 1} of {self.options.rounds}")
            for i in range(len(chosen)):
                target = chosen[(i + number) % len(chosen)]
                if target.name not in samples:
                    continue
                try:
                    samples[target.name].append(one(target))
                except Unusable as error:
                    self.skip(f"{measure}, {target.name}: {error}")
                    del samples[target.name]
        return samples

    def skip(self, reason: str) -> None:
        _tell(f"skipped: {reason}")
        self.skips.append(reason)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure_json(bench: Bench) -> Mapping[str, Samples]:
    """`json` (as fast as they go), `alone` (one at a time) and `rate` (an open loop) on the same processes."""
    options, folder = bench.options, bench.folder
    with ExitStack() as stack:
        upstream = stack.enter_context(targets.json_upstream(folder))
        chosen = _start(bench, stack, upstream, TARGETS)
        for target in chosen:
            load.wrk(target.aim, WARM_S, options.connections, folder)

        def alone(target: Target) -> Figures:
            return load.client("alone", target.aim, target.aim.body(), folder, seconds=options.seconds)

        def rate(target: Target) -> Figures:
            return load.client(
                "rate", target.aim, target.aim.body(), folder, seconds=options.seconds, rate=options.rate
            )

        # One worker of LiteLLM does not answer as many in a second as the open loop asks for.
        quick = [target for target in chosen if target.name != "litellm"]
        return {
            "json": bench.rounds("json", chosen, lambda target: _wrk_with_cpu(bench, target)),
            "alone": bench.rounds("alone", chosen, alone),
            "rate": bench.rounds("rate", quick, rate),
        }


def measure_sse(bench: Bench) -> Mapping[str, Samples]:
    """`burst` (an event a turn of the upstream's loop) and `paced` (one every 20 ms) on the same processes."""
    options, folder = bench.options, bench.folder
    with ExitStack() as stack:
        upstream = stack.enter_context(targets.stream_upstream(folder))
        chosen = _start(bench, stack, upstream, ("direct", "nginx", "coatcheck"))

        def streams(target: Target, count: int, interval_ms: int, seconds: float, spread_s: float) -> Figures:
            before = _cpu(target)
            body = target.aim.body(interval_ms=interval_ms)
            figures = load.client("streams", target.aim, body, folder, seconds=seconds, count=count, spread_s=spread_s)
            return figures | _spent(target, before, figures["events"])

        def burst(target: Target) -> Figures:
            return streams(target, options.burst_streams, 0, options.seconds, 0.0)

        for target in chosen:
            streams(target, options.burst_streams, 0, WARM_S, 0.0)
        return {
            "burst": bench.rounds("burst", chosen, burst),
            "paced": bench.rounds(
                "paced", chosen, lambda target: streams(target, options.paced_streams, PACE_MS, options.seconds, 1.0)
            ),
        }


def measure_rest(bench: Bench) -> Mapping[str, Samples]:
    """`rest`: new gateway processes each round: start to first answer, memory at rest, memory of open streams and sockets."""
    options, folder = bench.options, bench.folder
    with ExitStack() as stack:
        upstream = stack.enter_context(targets.stream_upstream(folder))
        made = stack.enter_context(targets.gateway(upstream, folder))

        def rest(_: Target) -> Figures:
            began = time.monotonic()
            with made.start() as target:
                assert target.server is not None
                targets.first_answer(target.aim, targets.START_TIMEOUT_S)
                start_s = time.monotonic() - began
                time.sleep(IDLE_AFTER_S)
                at_rest = rss_kb(target.server.pid)
                with load.held_streams(target.aim, options.idle_streams, folder):
                    time.sleep(IDLE_AFTER_S)
                    held = rss_kb(target.server.pid)
            # A new one: memory that the streams left would be used again.
            with made.serving() as target:
                assert target.server is not None
                before = rss_kb(target.server.pid)
                with load.held_sockets(target.aim, "idle", options.idle_sockets, folder):
                    time.sleep(IDLE_AFTER_S)
                    sockets = rss_kb(target.server.pid)
                return {
                    "socket_kb": (sockets - before) / options.idle_sockets,
                    "start_s": start_s,
                    "rest_mb": at_rest / 1024,
                    "stream_kb": (held - at_rest) / options.idle_streams,
                }

        return {"rest": bench.rounds("rest", [Target("coatcheck", made.aim)], rest)}


def measure_growth(bench: Bench) -> Mapping[str, Samples]:
    """`growth`: two gateways, each with a Redis of its own, one with few stored IDs, one with many."""
    options, folder = bench.options, bench.folder
    with ExitStack() as stack:
        upstream = stack.enter_context(targets.json_upstream(folder))
        chosen = []
        for name, count in zip(("few", "many"), options.stored, strict=True):
            made = stack.enter_context(targets.gateway(upstream, folder))
            _tell(f"growth: storing {count:,} IDs")
            fill(made.redis, count)
            target = stack.enter_context(made.serving())
            chosen.append(Target(name, target.aim, target.server, target.redis))
        for target in chosen:
            load.wrk(target.aim, WARM_S, options.connections, folder)

        def grown(target: Target) -> Figures:
            figures = _wrk_with_cpu(bench, target)
            alone = load.client("alone", target.aim, target.aim.body(), folder, seconds=options.seconds / 2)
            return figures | {"alone_p50_ms": alone["p50_ms"]}

        return {"growth": bench.rounds("growth", chosen, grown)}


def measure_sockets(bench: Bench) -> Mapping[str, Samples]:
    """`sockets`: CPU and delay of sessions that speak: alone, beside idle ones, and beside some that read nothing."""
    options, folder = bench.options, bench.folder
    with ExitStack() as stack:
        upstream = stack.enter_context(targets.stream_upstream(folder))
        chosen = _start(bench, stack, upstream, ("nginx", "coatcheck"))

        def busy(target: Target, seconds: float, beside: str = "") -> Figures:
            assert target.server is not None
            figures = load.busy_sockets(
                target.aim, options.busy_sockets, folder, seconds=seconds, interval_ms=SPEECH_MS, pid=target.server.pid
            )
            return {f"{name}{beside}": figure for name, figure in figures.items()}

        def sockets(target: Target) -> Figures:
            figures = busy(target, options.seconds)
            for mode, count in (("idle", options.idle_sockets), ("slow", options.slow_sockets)):
                with load.held_sockets(target.aim, mode, count, folder):
                    figures |= busy(target, options.seconds, f"_{mode}")
            return figures

        for target in chosen:
            busy(target, WARM_S)
        return {"sockets": bench.rounds("sockets", chosen, sockets)}


MEASURES: Final[Mapping[str, Callable[[Bench], Mapping[str, Samples]]]] = {
    "json": measure_json,
    "sse": measure_sse,
    "rest": measure_rest,
    "sockets": measure_sockets,
    "growth": measure_growth,
}


def _start(bench: Bench, stack: ExitStack, upstream: Server, names: Sequence[str]) -> list[Target]:
    chosen: list[Target] = []
    for name in names:
        if name not in bench.options.targets:
            continue
        try:
            match name:
                case "direct":
                    chosen.append(Target("direct", load.Aim(upstream.port)))
                case "nginx":
                    chosen.append(stack.enter_context(targets.nginx_proxy(upstream, bench.folder)))
                case "litellm":
                    chosen.append(stack.enter_context(targets.litellm(upstream, bench.folder)))
                case "coatcheck":
                    made = stack.enter_context(targets.gateway(upstream, bench.folder))
                    chosen.append(stack.enter_context(made.serving()))
        except Unusable as error:
            bench.skip(f"{name}: {error}")
    return chosen


def _wrk_with_cpu(bench: Bench, target: Target) -> Figures:
    before = _cpu(target)
    figures = load.wrk(target.aim, bench.options.seconds, bench.options.connections, bench.folder)
    spent = _spent(target, before, figures["requests"])
    return figures | spent | {"requests_per_s": figures["requests"] / figures["seconds"]}


def _cpu(target: Target) -> Figures:
    pids = {"cpu": target.server and target.server.pid, "redis_cpu": target.redis and target.redis.pid}
    return {name: cpu_s(pid) for name, pid in pids.items() if pid}


def _spent(target: Target, before: Figures, count: float) -> Figures:
    """CPU microseconds per request or event since `before`."""
    return {f"{name}_us": (after - before[name]) / count * 1e6 for name, after in _cpu(target).items()}
