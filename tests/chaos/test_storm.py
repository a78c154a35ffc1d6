"""Some of the 10,000 requests of `python -m tests.bench.storm`, for the suite."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.chaos.storm import Storm
from tests.patience import AS_SHIPPED
from tests.pipeline.desk import desk
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running
from tests.stores.cutting_proxy import CuttingProxy

REQUESTS = 2000


async def test_every_upstream_call_has_an_intent_and_every_intent_an_outcome(stand_in: Running, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    with RedisServer(options=("--appendfsync", "always")) as server:
        proxy = CuttingProxy(server.socket_path)
        await proxy.start()
        try:
            async with desk(
                server, stand_in, tmp_path, redis_url=f"redis://127.0.0.1:{proxy.port}", **AS_SHIPPED
            ) as at:
                storm = Storm(at, server, proxy, random.Random(seed))
                await storm.run(REQUESTS)
                counted = await storm.check()
        finally:
            await proxy.close()
    print(f"seed {seed}: {counted}, Redis was {dict(storm.troubles)}")
    assert counted["requests"] == REQUESTS
    assert counted.get("status 200", 0) > REQUESTS / 10
    assert set(counted) <= {"requests", "upstream calls", "status 200", "status 503"}
    assert sum(storm.troubles.values()) >= 5
