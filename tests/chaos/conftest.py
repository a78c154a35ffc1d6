"""What chaos happens to: a Redis server, the stand-in, a whole gateway, on the loop that it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvloop

from tests.redis_fixture import _session_redis_server, own_redis_server, redis_server
from tests.stand_in_fixture import stand_in

__all__ = ["_session_redis_server", "own_redis_server", "redis_server", "stand_in"]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """As the gateway runs: uvloop writes, pauses and closes in its own way."""
    return {"uvloop": uvloop.new_event_loop}
