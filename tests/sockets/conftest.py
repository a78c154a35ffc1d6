"""A `Desk` whose people also open sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.patience import AS_SHIPPED
from tests.pipeline.conftest import at
from tests.pipeline.desk import Desk, _session_stand_in, desk, stand_in
from tests.redis_fixture import RedisServer, _session_redis_server, redis_server
from tests.stand_in_fixture import Running

__all__ = ["_session_redis_server", "_session_stand_in", "at", "redis_server", "stand_in"]


@pytest.fixture
async def impatient(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    """As `at`, but Redis may hang."""
    async with desk(redis_server, stand_in, tmp_path, **AS_SHIPPED) as made:
        yield made
