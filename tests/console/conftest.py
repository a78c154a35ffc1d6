from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.console.house import House, house
from tests.redis_fixture import RedisServer, _session_redis_server, own_redis_server, redis_server

__all__ = ["_session_redis_server", "own_redis_server", "redis_server"]


@pytest.fixture
async def home(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[House]:
    async with house(redis_server.url, tmp_path) as made:
        yield made
