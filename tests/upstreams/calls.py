"""What the tests of a pool call, and how long they wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.upstreams import Upstream, UpstreamRequest
from tests.upstreams.peer import Wire

Connect = Callable[..., Upstream]
GET = UpstreamRequest("GET", b"/models")
DELETE = UpstreamRequest("DELETE", b"/responses/x")
POST = UpstreamRequest("POST", b"/responses", body=b'{"model":"m"}')


async def read(upstream: Upstream, request: UpstreamRequest = GET) -> bytes:
    async with await upstream.send(request) as answer:
        return await answer.read(1_000_000)


async def settled(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    """Waits until `condition` holds; fails after `within_s`."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def hang(wire: Wire) -> None:
    await wire.client_left()
