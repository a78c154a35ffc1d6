from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.audit.bench import COUNT, Bench
from tests.audit.logbook import Replica, replica
from tests.audit.written_log import write
from tests.redis_fixture import RedisServer, _session_redis_server, own_redis_server, redis_server

__all__ = ["_session_redis_server", "own_redis_server", "redis_server"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    log = write(COUNT)
    key, anchor = tmp_path / "key", tmp_path / "anchor"
    key.write_text(log.key_line + "\n")
    anchor.write_text(log.note(40) + "\n" + log.note(80))
    return Bench(log, tmp_path / "export", key, anchor)


@pytest.fixture
async def one(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Replica]:
    async with replica(redis_server, tmp_path) as made:
        yield made
