"""Large bodies share a budget; small ones are never refused for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.errors import Problem, Reason
from gateway.names import TenantId
from gateway.transport.budget import FREE_BYTES, Budget
from gateway.transport.spool import Spools
from tests.gateway_fixture import deployment
from tests.redis_fixture import RedisServer, _session_redis_server, redis_server
from tests.stand_in_fixture import Running, stand_in
from tests.transport import raw

ACME, BRAVO = TenantId("ten_acme"), TenantId("ten_bravo")

__all__ = ["_session_redis_server", "redis_server", "stand_in"]


def test_what_is_held_is_given_back_once() -> None:
    budget = Budget(1000)
    lease = budget.lease()
    lease.hold(FREE_BYTES + 300)
    lease.hold(FREE_BYTES + 700)
    assert budget.left == 300
    lease.give_back()
    lease.give_back()
    assert budget.left == 1000


def test_a_body_beyond_the_budget_is_refused_and_leaves_it_as_it_was() -> None:
    budget = Budget(1000)
    one, other = budget.lease(), budget.lease()
    one.hold(FREE_BYTES + 900)
    other.hold(FREE_BYTES)
    with pytest.raises(Problem) as refused:
        other.hold(FREE_BYTES + 101)
    assert refused.value.reason is Reason.SERVER_BUSY
    assert budget.left == 100
    one.give_back()
    assert budget.left == 1000


def test_a_tenant_gets_no_more_than_its_share_and_leaves_the_rest_to_others() -> None:
    budget = Budget(1000, 60, free=0)
    one, two, other, nobody = budget.lease(ACME), budget.lease(ACME), budget.lease(BRAVO), budget.lease()
    one.hold(400)
    with pytest.raises(Problem) as refused:
        two.hold(201)
    assert (refused.value.reason, refused.value.retry_after_s) == (Reason.SHARE_EXHAUSTED, 1)
    two.hold(200)
    with pytest.raises(Problem) as refused:
        one.hold(401)
    assert refused.value.reason is Reason.SHARE_EXHAUSTED
    other.hold(400)
    assert budget.left == 0
    with pytest.raises(Problem) as refused:
        nobody.hold(1)
    assert refused.value.reason is Reason.SERVER_BUSY
    one.shrink(100)
    assert (budget.left, budget.held_by(ACME)) == (300, 300)
    two.hold(500)
    for lease in (one, two, other, nobody):
        lease.give_back()
        lease.give_back()
    assert (budget.left, budget.held_by(ACME), budget.held_by(BRAVO)) == (1000, 0, 0)


def test_a_lease_grows_and_sheds_by_what_lies_above_the_free_bytes() -> None:
    budget = Budget(1000)
    lease = budget.lease(ACME)
    lease.grow(FREE_BYTES - 100)
    lease.grow(300)
    assert (budget.left, budget.held_by(ACME)) == (800, 200)
    with pytest.raises(Problem):
        lease.grow(801)
    lease.shed(150)
    assert budget.left == 950
    lease.shed(FREE_BYTES)
    lease.shrink(FREE_BYTES)
    assert (budget.left, budget.held_by(ACME)) == (1000, 0)


async def test_stalled_large_bodies_fill_no_memory_and_stop_no_small_request(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    most, whole = 2_000_000, 2 * 1024 * 1024
    budget = {
        "COATCHECK_TRANSPORT_BODIES_BYTES": str(whole),
        "COATCHECK_TRANSPORT_BODY_BYTES": str(most),
        "COATCHECK_TRANSPORT_WEBSOCKET_FRAME_BYTES": str(most),
        "COATCHECK_TRANSPORT_TENANT_PERCENT": "100",
        "COATCHECK_REQUESTS_MAX_ANSWER_BYTES": str(whole),
    }
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


async def test_a_tenant_at_its_share_reads_429_and_another_tenants_large_body_is_served(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    most = 2_000_000
    budget = {
        "COATCHECK_TRANSPORT_BODIES_BYTES": str(2 * most),
        "COATCHECK_REQUESTS_MAX_ANSWER_BYTES": str(most),
        "COATCHECK_TRANSPORT_BODY_BYTES": str(most),
        "COATCHECK_TRANSPORT_WEBSOCKET_FRAME_BYTES": str(most),
    }
    async with deployment(redis_server.url, stand_in, tmp_path, **budget) as gateway:
        keys = {tenant: await gateway.key(tenant, "somebody") for tenant in ("acme", "bravo")}
        port = int(gateway.url.rsplit(":", 1)[1].split("/")[0])
        bodies = gateway.app.budget

        def post(tenant: str, body: bytes, length: int) -> bytes:
            key = f"authorization: Bearer {keys[tenant]}"
            fields = (key, "content-type: application/json", f"content-length: {length}")
            return raw.request("/v1/responses", *fields, method=b"POST", body=body)

        large = b'{"model": "gpt-5", "input": "hello"' + b" " * 1_500_000 + b"}"
        async with raw.connected(port) as stalled:
            await stalled.send(post("acme", large[:-1], len(large)))
            async with asyncio.timeout(30):
                while bodies.held_by(gateway.tenants["acme"]) < 1_400_000:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            refused = await raw.exchange(port, post("acme", large, len(large)))
            assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
            assert refused.header("retry-after") == "1"
            assert (await raw.exchange(port, post("bravo", large, len(large)))).status == 200
        async with asyncio.timeout(30):
            while bodies.left != 2 * most:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await raw.exchange(port, post("acme", large, len(large)))).status == 200


async def test_what_waits_on_disk_counts_against_its_tenants_share(tmp_path: Path) -> None:
    spools = Spools(tmp_path, Budget(1_000_000, 50))
    mine, too, others = spools.open(ACME), spools.open(ACME), spools.open(BRAVO)
    await mine.write(b"x" * 400_000)
    with pytest.raises(Problem) as refused:
        await too.write(b"x" * 400_000)
    assert refused.value.reason is Reason.SHARE_EXHAUSTED
    await others.write(b"x" * 400_000)
    for spool in (mine, too, others):
        spool.close()
    assert spools.budget.left == 1_000_000


async def test_of_ten_takers_at_once_no_more_are_served_than_there_is_for_and_a_lost_one_gives_back() -> None:
    budget = Budget(3 * 1_000_000)

    async def take(ends: asyncio.Event) -> bool:
        lease = budget.lease()
        try:
            lease.hold(FREE_BYTES + 1_000_000)
            await ends.wait()
        except Problem:
            return False
        finally:
            lease.give_back()
        return True

    ends = asyncio.Event()
    takers = [asyncio.ensure_future(take(ends)) for _ in range(10)]
    await asyncio.sleep(0)
    assert budget.left == 0
    takers[0].cancel()
    await asyncio.sleep(0)
    assert budget.left == 1_000_000
    ends.set()
    assert [await taker for taker in takers[1:]] == [True, True, *[False] * 7]
    assert budget.left == 3 * 1_000_000
