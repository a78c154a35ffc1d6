"""A whole gateway as a process of its own, for tests that run in another environment.

`python -m tests.clients.serve` starts Redis, the stand-in provider and the gateway, prints one line of JSON with the URLs
and a key for each person, and stays up until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.gateway_fixture import deployment
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running, running

PEOPLE = {"alice": "acme", "carol": "acme", "bob": "bravo"}
"""Who gets a key, and in which tenant."""


async def serve(redis: RedisServer, stand_in: Running, folder: Path) -> None:
    async with deployment(redis.url, stand_in, folder) as gateway:
        keys = {name: await gateway.key(tenant, name) for name, tenant in PEOPLE.items()}
        print(json.dumps({"url": gateway.url, "stand_in": stand_in.url, "keys": keys}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    with RedisServer() as redis, running() as stand_in, tempfile.TemporaryDirectory() as folder:
        asyncio.run(serve(redis, stand_in, Path(folder)))


if __name__ == "__main__":
    main()
