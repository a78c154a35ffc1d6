from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.stores.address import parse_target
from gateway.stores.fake import FakeLink
from gateway.stores.link import AnyLink, Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS
from tests.redis_fixture import (
    RedisServer,
    _session_redis_server,
    own_redis_server,
    redis_server,
    server_binary,
    wheel_binaries,
)

__all__ = ["_session_redis_server", "own_redis_server", "redis_server"]

_BINARIES = {next(part for part in path.parts if part.endswith("lite")): path for path in wheel_binaries()}


@pytest.fixture(scope="module", params=["path", *_BINARIES, "fakeredis"])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer | None]:
    """Every server at hand: PATH's, the oldest supported, Valkey; None stands for the in-process Redis."""
    if request.param == "fakeredis":
        yield None
        return
    binary: Path = _BINARIES.get(request.param) or server_binary()
    with RedisServer(binary=binary) as running:
        yield running


@pytest.fixture
async def link(server: RedisServer | None) -> AsyncIterator[AnyLink]:
    """To `server`, emptied."""
    link: AnyLink
    if server is None:
        link = await FakeLink.open(SCRIPTS)
    else:
        server.command("FLUSHALL")
        link = await Link.open(LinkSettings(parse_target(server.url)), SCRIPTS)
    yield link
    await link.aclose()
