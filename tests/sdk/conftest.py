"""A gateway in front of the stand-in, and two customers with the official SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.gateway_fixture import Deployment, deployment
from tests.redis_fixture import RedisServer, _session_redis_server, own_redis_server, redis_server
from tests.stand_in_fixture import Options, Running, running, stand_in

__all__ = ["_session_redis_server", "own_redis_server", "redis_server", "stand_in"]


@pytest.fixture
async def gateway(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployment(redis_server.url, stand_in, tmp_path) as made:
        yield made


@pytest.fixture
def unkind() -> Iterator[Running]:
    """A stand-in that writes fresh IDs into unknown fields of every object."""
    with running(Options(canary=True)) as server:
        yield server


@pytest.fixture
async def alice(gateway: Deployment) -> AsyncOpenAI:
    return gateway.client(await gateway.key("acme", "alice"))


@pytest.fixture
async def bob(gateway: Deployment) -> AsyncOpenAI:
    """Somebody of another tenant."""
    return gateway.client(await gateway.key("bravo", "bob"))


@pytest.fixture
async def outer(
    redis_server: RedisServer, own_redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> AsyncIterator[Deployment]:
    """A gateway whose upstream is another gateway, which stands before the stand-in."""
    async with deployment(own_redis_server.url, stand_in, tmp_path / "inner") as inner:
        upstream = Running(inner.url.removesuffix("/v1"), stand_in.provider)
        key = await inner.key("acme", "the outer gateway")
        async with deployment(redis_server.url, upstream, tmp_path / "outer", OPENAI_API_KEY=key) as made:
            yield made


def sent(stand_in: Running) -> Any:
    """The body of the last request that went upstream."""
    return stand_in.provider.received[-1].json()
