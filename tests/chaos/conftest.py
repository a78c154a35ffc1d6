"""What chaos happens to: a Redis server, the stand-in, a whole gateway, on the loop that it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvloop

from tests.pipeline.desk import _session_stand_in, stand_in
from tests.redis_fixture import _session_redis_server, own_redis_server, redis_server

__all__ = ["_session_redis_server", "_session_stand_in", "own_redis_server", "redis_server", "stand_in"]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """As the gateway runs: uvloop writes, pauses and closes in its own way."""
    return {"uvloop": uvloop.new_event_loop}
