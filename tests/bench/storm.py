"""`python -m tests.bench.storm`: 10,000 requests while Redis is stopped, slowed, cut and restarted at random; about three
minutes. Exit code 0: every upstream call has an intent, every intent an outcome, and the logs verify. `--seed` repeats the order
of the troubles, though not their moments."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from gateway.demo.stand_in.server import running
from tests.chaos.storm import Storm
from tests.patience import AS_SHIPPED
from tests.pipeline.desk import desk
from tests.redis_fixture import RedisServer
from tests.stores.cutting_proxy import CuttingProxy


async def storm(count: int, seed: int) -> None:
    with (
        RedisServer(options=("--appendfsync", "always")) as server,
        running() as stand_in,
        tempfile.TemporaryDirectory(prefix="storm") as folder,
    ):
        proxy = CuttingProxy(server.socket_path)
        await proxy.start()
        try:
            async with desk(
                server, stand_in, Path(folder), redis_url=f"redis://127.0.0.1:{proxy.port}", **AS_SHIPPED
            ) as at:
                made = Storm(at, server, proxy, random.Random(seed))
                await made.run(count)
                counted = await made.check()
        finally:
            await proxy.close()
    print(*(f"{name}: {number:,}" for name, number in counted.items()), sep="\n")
    print("Redis was " + ", ".join(f"{kind} {number} times" for kind, number in made.troubles.items()))


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.bench.storm", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr)
    began = time.monotonic()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(storm(args.requests, args.seed))
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
