"""A `Desk` with default settings, and what it stands on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.pipeline.desk import Desk, _session_stand_in, desk, stand_in
from tests.redis_fixture import RedisServer, _session_redis_server, redis_server
from tests.stand_in_fixture import Running

__all__ = ["_session_redis_server", "_session_stand_in", "redis_server", "stand_in"]


@pytest.fixture
async def at(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(redis_server, stand_in, tmp_path) as made:
        yield made
