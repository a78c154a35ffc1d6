"""A whole gateway as a process of its own, for tests that run in another environment.

`python -m tests.clients.serve` starts Redis, the stand-in provider and the gateway, prints one line of JSON with the URLs
and a key for each person, and stays up until its standard input is closed. With `--patient` nobody is turned away for being
refused often.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from gateway.audit.flood import Floods
from tests.gateway_fixture import deployment
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running, running

PEOPLE = {"alice": "acme", "carol": "acme", "bob": "bravo"}
"""Who gets a key, and in which tenant."""


async def serve(redis: RedisServer, stand_in: Running, folder: Path, *, patient: bool) -> None:
    async with deployment(redis.url, stand_in, folder) as gateway:
        if patient:
            gateway.gateway.shared.log._floods = Floods(first=1_000_000)
        keys = {name: await gateway.key(tenant, name) for name, tenant in PEOPLE.items()}
        print(json.dumps({"url": gateway.url, "stand_in": stand_in.url, "keys": keys}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    with RedisServer() as redis, running() as stand_in, tempfile.TemporaryDirectory() as folder:
        asyncio.run(serve(redis, stand_in, Path(folder), patient="--patient" in sys.argv))


if __name__ == "__main__":
    main()
