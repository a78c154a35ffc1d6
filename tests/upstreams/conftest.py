"""These tests run on both event loops: asyncio's own and uvloop, whose transports differ in the finer points."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from gateway.upstreams import Upstream, UpstreamLimits, parse_base_url
from tests.upstreams.peer import Peer


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """A server whose every byte the test writes."""
    async with Peer() as running:
        yield running


@pytest.fixture
async def connect(peer: Peer) -> AsyncIterator[Callable[..., Upstream]]:
    """Makes an Upstream for `peer` with the given limits; all are closed at the end, and must be empty then."""
    made: list[Upstream] = []

    def make(**limits: float) -> Upstream:
        settings = {
            "connect_timeout_s": 2.0,
            "headers_timeout_s": 5.0,
            "idle_timeout_s": 5.0,
            "retry_pause_s": 0.001,
        } | limits
        origin = parse_base_url(f"http://127.0.0.1:{peer.port}/v1")
        upstream = Upstream("main", "proj", origin, UpstreamLimits(**settings))  # type: ignore[arg-type]
        made.append(upstream)
        return upstream

    yield make
    for upstream in made:
        await upstream.aclose()
        assert (upstream.pool.busy, upstream.pool.idle) == (0, 0)
