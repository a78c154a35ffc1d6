"""`python -m tests.bench.timing`: whether the time of a not-found answer tells why nothing was found.

IDs that verify but do not open are asked for in four classes: another tenant's, another user's, one's own deleted, and genuine
ones that were never recorded. The classes take turns in random order, and each pair is compared by Welch's t (Biometrika 34,
1947). A fifth class is delayed by 50 µs in the gateway: a measurement that misses it proves nothing. Exit code 0: no pair
reaches 4.5 (the limit of test vector leakage assessment), and the delay was found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import fmean, median, variance
from time import perf_counter
from typing import Any, Final

import uvloop

from gateway.app import open_gateway, project_of
from gateway.mapping import Mapper
from gateway.names import Kind
from gateway.settings import load
from gateway.transport.guard import App, Receive, Scope, Send
from gateway.transport.server import Listen, running
from gateway.upstreams.fleet import FIRST
from tests.bench.processes import environment
from tests.gateway_fixture import ROOT_KEY, Deployment
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import running as stand_in

CLASSES: Final = ("another tenant's", "another user's", "deleted", "never recorded")
PLANTED: Final = "planted delay"
DELAY_S: Final = 50e-6
LIMIT: Final = 4.5
KEPT: Final = (1.0, 0.95, 0.5)
"""Shares of the samples, the quickest, that are compared: without what the machine adds now and then, less is seen more."""
USERS: Final = 120
"""Who ask in turn: a principal that is refused too often in a second is turned away, which would be another answer."""
OWNED: Final = 40
_HEADER: Final = b"x-bench"
"""On every request; the delay is for those where it says 1. The gateway drops it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A running gateway, who asks it, and for what."""

    port: int
    keys: list[str]
    ids: dict[str, list[str]]
    """By class. Those of `deleted` belong to the key at the same place."""


# The gateway, in a process of its own


def planted(app: App) -> App:
    """The app, with the delay where the request asks for it."""

    async def delayed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (_HEADER, b"1") in scope["headers"]:
            end = perf_counter() + DELAY_S
            while perf_counter() < end:
                pass
        await app(scope, receive, send)

    return delayed


async def serve(redis_url: str, folder: Path) -> None:
    """Serves until SIGTERM; prints the scene as one line once it is set."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    with stand_in() as provider:
        settings = load(
            env={
                "COATCHECK_ROOT_KEY": ROOT_KEY,
                "COATCHECK_DATA": str(folder),
                "REDIS_URL": redis_url,
                "OPENAI_API_KEY": "sk-none",
                "OPENAI_BASE_URL": provider.api_url,
            }
        )
        async with (
            open_gateway(settings) as gateway,
            running(planted(gateway.app), gateway.limits, gateway.drain, Listen()) as server,
        ):
            deployment = Deployment(gateway, f"http://127.0.0.1:{server.port}/v1", settings)
            scene = await _set(deployment, project_of(settings), server.port)
            for client in deployment.clients:
                await client.close()
            print(json.dumps(asdict(scene)), flush=True)
            await stopped.wait()


async def _set(deployment: Deployment, project: str, port: int) -> Scene:
    keys = [await deployment.key("acme", f"user{number}") for number in range(USERS)]
    deleted = []
    for key in keys:
        client = deployment.client(key)
        deleted.append((await client.responses.create(model="gpt-5", input="hello")).id)
        await client.responses.delete(deleted[-1])
    others = {}
    for name, tenant in zip(CLASSES, ("bravo", "acme"), strict=False):
        client = deployment.client(await deployment.key(tenant, "owner"))
        others[name] = [(await client.responses.create(model="gpt-5", input="hello")).id for _ in range(OWNED)]
    keyring = deployment.gateway.shared.keyring
    unlocked = await keyring.tenant(deployment.tenants["acme"])
    mapper = Mapper(await keyring.deployment(), unlocked, FIRST, project)
    unknown = [str(mapper.to_opaque(Kind.RESPONSE, f"resp_{secrets.token_hex(25)}")) for _ in range(OWNED)]
    ids = others | {"deleted": deleted, "never recorded": unknown, PLANTED: unknown}
    return Scene(port, keys, ids)


@contextmanager
def scene() -> Iterator[Scene]:
    """The gateway and a Redis of its own inside the block."""
    with RedisServer(tcp=True) as redis, tempfile.TemporaryDirectory(prefix="bench") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.timing", "--serve", redis.url, folder],
            stdout=subprocess.PIPE, env=environment(),
        )  # fmt: skip
        try:
            assert process.stdout is not None
            yield Scene(**json.loads(process.stdout.readline()))
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# The measurement


def measure(scene: Scene, samples: int) -> dict[str, list[float]]:
    """Seconds of each answer, by class. Raises ValueError where an answer is not the not-found that all share."""
    choice = random.Random(1)
    names = [*CLASSES, PLANTED]
    times: dict[str, list[float]] = {name: [] for name in names}
    connection = HTTPConnection("127.0.0.1", scene.port, timeout=10)
    for number in range(-USERS, samples):  # the first ones warm up
        user = number % USERS
        choice.shuffle(names)
        for name in names:
            ids = scene.ids[name]
            opaque = ids[user] if name == "deleted" else choice.choice(ids)
            headers = {"Authorization": f"Bearer {scene.keys[user]}", _HEADER.decode(): str(int(name == PLANTED))}
            begin = perf_counter()
            connection.request("GET", f"/v1/responses/{opaque}", headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            seconds = perf_counter() - begin
            if answer.status != 404:
                raise ValueError(f"{name}: status {answer.status}: {body.decode()}")
            if number >= 0:
                times[name].append(seconds)
    connection.close()
    return times


def welch(one: list[float], other: list[float]) -> float:
    """Welch's t of two samples of unequal variance."""
    return (fmean(one) - fmean(other)) / sqrt(variance(one) / len(one) + variance(other) / len(other))


def compare(one: list[float], other: list[float]) -> list[float]:
    """t of the quickest of both together, for each share that is kept: where to cut is the same for both."""
    ordered = sorted(one + other)
    found = []
    for share in KEPT:
        longest = ordered[int(share * len(ordered)) - 1]
        found.append(welch(*([seconds for seconds in times if seconds <= longest] for times in (one, other))))
    return found


def report(times: dict[str, list[float]]) -> bool:
    """Prints the comparisons as a table; whether all is well."""
    shares = "".join(f" t, quickest {share:.0%} |" for share in KEPT)
    print(f"| classes | medians, µs |{shares} |\n|{' --- |' * (len(KEPT) + 3)}")
    well = True
    for one, other in [*combinations(CLASSES, 2), ("never recorded", PLANTED)]:
        ts = compare(times[one], times[other])
        told, wanted = max(map(abs, ts)) >= LIMIT, other == PLANTED
        well &= told is wanted
        verdict = ("found" if told else "NOT FOUND") if wanted else ("TELLS" if told else "alike")
        medians = " / ".join(f"{median(times[name]) * 1e6:.0f}" for name in (one, other))
        print(f"| {one}, {other} | {medians} |{''.join(f' {t:+.2f} |' for t in ts)} {verdict} |")
    return well


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.bench.timing", description=__doc__)
    parser.add_argument("--samples", type=int, default=5_000, help="of each class (5,000)")
    parser.add_argument("--serve", nargs=2, metavar=("REDIS_URL", "FOLDER"), help=argparse.SUPPRESS)
    args: Any = parser.parse_args()
    if args.serve:
        uvloop.run(serve(args.serve[0], Path(args.serve[1])))
        return 0
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with scene() as set_scene:
        times = measure(set_scene, args.samples)
    return 0 if report(times) else 1


if __name__ == "__main__":
    sys.exit(main())
