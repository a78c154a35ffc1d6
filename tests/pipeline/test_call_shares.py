"""The connections to an upstream: one tenant has its share of them, and the rest is for the others."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import Reason
from tests.pipeline.desk import Desk, desk
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running

SHARE = 3


async def test_a_tenant_with_its_share_of_calls_open_reads_429_and_another_is_served(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with desk(redis_server, stand_in, tmp_path, COATCHECK_UPSTREAM_MAX_CONNECTIONS=str(2 * SHARE)) as at:
        lease: Any = at.gateway.app.pipeline.routing.first.lease
        budget, tenant = lease.__self__, await at.tenant()
        kept = await at.created()
        assert budget.held_by(tenant) == 0
        async with AsyncExitStack() as streams:
            for _ in range(SHARE):
                await streams.enter_async_context(at.stream("never_finish"))
            assert budget.held_by(tenant) == SHARE
            received = len(at.upstream)
            for refused in (await at.create(), await at.call("GET", f"/responses/{kept['id']}")):
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
                told = await at.outcomes(refused.headers["x-request-id"])
                assert told == [("deny", Reason.SHARE_EXHAUSTED.value, 429)]
            assert len(at.upstream) == received
            assert (await at.create(who="bob")).status_code == 200

        async def free() -> bool:
            return bool(budget.held_by(tenant) == 0)

        await at.until(free)
        assert (await at.create()).status_code == 200
        assert budget.left == 2 * SHARE + at.gateway.settings.upstream.max_waiting


async def test_a_call_that_never_got_its_answer_counts_no_more(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = at.gateway.app.pipeline.routing.first
    lease: Any = provider.lease
    await provider.upstream.aclose()
    assert (await at.create()).status_code == 503
    assert lease.__self__.held_by(await at.tenant()) == 0
