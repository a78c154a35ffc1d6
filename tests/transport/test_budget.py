"""Large bodies share a budget; small ones are never refused for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.errors import Problem, Reason
from gateway.transport.budget import FREE_BYTES, BodyBudget
from tests.gateway_fixture import deployment
from tests.redis_fixture import RedisServer, _session_redis_server, redis_server
from tests.stand_in_fixture import Running, stand_in
from tests.transport import raw

__all__ = ["_session_redis_server", "redis_server", "stand_in"]


def test_what_is_held_is_given_back_once() -> None:
    budget = BodyBudget(1000)
    lease = budget.lease()
    lease.hold(FREE_BYTES + 300)
    lease.hold(FREE_BYTES + 700)
    assert budget.left == 300
    lease.give_back()
    lease.give_back()
    assert budget.left == 1000


def test_a_body_beyond_the_budget_is_refused_and_leaves_it_as_it_was() -> None:
    budget = BodyBudget(1000)
    one, other = budget.lease(), budget.lease()
    one.hold(FREE_BYTES + 900)
    other.hold(FREE_BYTES)
    with pytest.raises(Problem) as refused:
        other.hold(FREE_BYTES + 101)
    assert refused.value.reason is Reason.SERVER_BUSY
    assert budget.left == 100
    one.give_back()
    assert budget.left == 1000


async def test_stalled_large_bodies_fill_no_memory_and_stop_no_small_request(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    budget = {"COATCHECK_TRANSPORT_BODIES_BYTES": str(2 * 1024 * 1024)}
    async with deployment(redis_server.url, stand_in, tmp_path, **budget) as gateway:
        key = await gateway.key("acme", "alice")
        port = int(gateway.url.rsplit(":", 1)[1].split("/")[0])

        def post(body: bytes, length: int) -> bytes:
            fields = (f"authorization: Bearer {key}", "content-type: application/json", f"content-length: {length}")
            return raw.request("/v1/responses", *fields, method=b"POST", body=body)

        size = 1_500_000
        async with raw.connected(port) as stalled:
            await stalled.send(post(b" " * (size - 1), size))
            await asyncio.sleep(0.3)
            refused = await raw.exchange(port, post(b" " * size, size))
            assert (refused.status, refused.error["code"]) == (503, "server_busy")
            assert refused.header("retry-after") == "1"
            small = b'{"model": "gpt-5", "input": "hello"}'
            assert (await raw.exchange(port, post(small, len(small)))).status == 200
        await asyncio.sleep(0.2)
        large = small[:-1] + b" " * size + b"}"
        assert (await raw.exchange(port, post(large, len(large)))).status == 200
