"""A `Desk` with default settings, and what it stands on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.pipeline.desk import Desk, desk
from tests.redis_fixture import RedisServer, _session_redis_server, own_redis_server, redis_server
from tests.stand_in_fixture import Running, stand_in

__all__ = ["_session_redis_server", "own_redis_server", "redis_server", "stand_in"]


@pytest.fixture
async def at(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(redis_server, stand_in, tmp_path) as made:
        yield made
