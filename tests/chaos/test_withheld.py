"""Redis goes away while the upstream makes an object: whatever it is, it is ended there, now or later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.pipeline.salvage import Salvage
from gateway.surfaces.table import ROUTES
from tests.patience import AS_SHIPPED
from tests.pipeline.creating import CREATES, creating
from tests.pipeline.desk import Desk, desk
from tests.redis_fixture import RedisServer, until
from tests.stand_in_fixture import Running


@pytest.fixture
async def at(own_redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(own_redis_server, stand_in, tmp_path, **AS_SHIPPED) as made:
        yield made


def salvage_of(at: Desk) -> Salvage:
    app: Any = at.gateway.app
    salvage: Salvage = app.pipeline.recorder.salvage
    return salvage


async def withheld(at: Desk, redis: RedisServer, action: str, then: str = "") -> list[str]:
    """Creates, and takes Redis away before the answer is there. What the upstream is asked after it, IDs left out. `then`: the
    stand-in's script from there on."""
    path, body = await creating(at, action)
    at.script("slow=0.4")
    calls = len(at.upstream)
    running = asyncio.ensure_future(at.call("POST", path, body))
    await until(lambda: len(at.upstream) > calls)
    redis.kill()
    at.stand_in.provider.set_script(then)
    reply = await running
    assert reply.status_code == 503, reply.text
    assert reply.headers["x-should-retry"] == "false"
    return [_shape(one.method, one.path) for one in at.upstream[calls + 1 :]]


def _shape(method: str, path: str) -> str:
    """`DELETE /v1/files/file-…` → `DELETE /files/{}`: what has a digit in it is an ID."""
    steps = path.removeprefix("/v1").split("/")
    return f"{method} " + "/".join("{}" if any(c.isdigit() for c in step) else step for step in steps)


def test_every_route_that_makes_an_object_is_here() -> None:
    assert CREATES.keys() == {route.action for route in ROUTES if route.creates}


@pytest.mark.parametrize("action", CREATES)
async def test_what_cannot_be_recorded_is_ended_at_once(
    at: Desk, own_redis_server: RedisServer, tmp_path: Path, action: str
) -> None:
    calls = await withheld(at, own_redis_server, action)
    assert calls == [CREATES[action][1]]
    assert not (tmp_path / "undo").exists()


@pytest.mark.parametrize("action", CREATES)
async def test_what_cannot_be_ended_at_once_is_ended_later(
    at: Desk, own_redis_server: RedisServer, tmp_path: Path, action: str
) -> None:
    await withheld(at, own_redis_server, action, then="status=500")
    (entry,) = (tmp_path / "undo").glob("*.undo")
    at.stand_in.provider.set_script("")
    own_redis_server.restart()
    salvage, calls = salvage_of(at), len(at.upstream)

    async def swept() -> bool:
        return await salvage.sweep() == 0

    await at.until(swept, 10)
    assert [_shape(one.method, one.path) for one in at.upstream[calls:]] == [CREATES[action][1]]
    assert not entry.exists()
