"""A tenant's log that is not the one that was signed: its calls stop at once, nothing goes upstream, and others go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gateway.admin.keeping import reseal_log
from tests.audit.logbook import cut
from tests.audit.s3_server import BUCKET, KEY_ID, REGION, SECRET, S3Server
from tests.gateway_fixture import deployment
from tests.pipeline.desk import Desk, desk
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running


@pytest.fixture
async def at(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(redis_server, stand_in, tmp_path) as made:
        await made.created()
        await made.created(who="bob")
        yield made


@asynccontextmanager
async def again(at: Desk, stand_in: Running, folder: Path) -> AsyncIterator[Desk]:
    """Another process of the same deployment."""
    async with deployment(at.redis.url, stand_in, folder) as gateway:
        gateway.tenants = at.gateway.tenants
        yield Desk(gateway, at.redis, at.stand_in, at.http, at.keys)


async def metrics(at: Desk) -> str:
    """What the metrics' port says."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any: ...

    await at.gateway.gateway.metrics({"type": "http", "path": "/metrics", "method": "GET"}, receive, send)
    return str(sent[-1]["body"].decode())


async def ready(at: Desk) -> httpx2.Response:
    return await at.http.get(f"http://127.0.0.1:{at.port}/readyz")


async def refused(at: Desk) -> None:
    calls = len(at.upstream)
    reply = await at.create()
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "audit_unavailable")
    assert len(at.upstream) == calls, "nothing went upstream"
    assert (await at.create(who="bob")).status_code == 200


async def test_a_log_that_was_cut_while_the_gateway_was_down_stops_its_tenant_from_the_start(
    at: Desk, stand_in: Running, tmp_path: Path
) -> None:
    tenant = await at.tenant()
    checkpointer = at.gateway.gateway.shared.checkpointer
    await checkpointer.flush()
    assert (await ready(at)).json() == {"status": "ok"}
    size = int(at.redis.command("HGET", f"{{t:{tenant}}}:ckpt", "size"))
    cut(at.redis, size - 2, tenant)
    async with again(at, stand_in, tmp_path) as after:
        await refused(after)
        reply = await ready(after)
        assert (reply.status_code, reply.json()) == (200, {"status": "ok", "audit": "halted"})
        assert "coatcheck_audit_halted_tenants 1.0" in await metrics(after)
        assert (await after.http.get(f"http://127.0.0.1:{after.port}/healthz")).json() == {"status": "ok"}
        done = await reseal_log(after.admin, tenant)
        assert (done.first, done.last) == (size - 1, size)
        assert (await after.create()).status_code == 200
        await after.gateway.gateway.shared.checkpointer.turn()
        assert (await ready(after)).json() == {"status": "ok"}
        assert "coatcheck_audit_halted_tenants 0.0" in await metrics(after)
    await checkpointer.turn()
    assert (await at.create()).status_code == 200


async def test_a_log_that_is_cut_while_the_gateway_runs_stops_its_tenant_within_the_second(at: Desk) -> None:
    tenant = await at.tenant()
    await at.gateway.gateway.shared.checkpointer.flush()
    cut(at.redis, 2, tenant)
    at.redis.command("DEL", *at.redis.command("KEYS", f"{{t:{tenant}}}:w:*"))

    async def stopped() -> bool:
        return (await at.create()).status_code == 503

    await at.until(stopped)
    await refused(at)


async def test_what_the_gateway_answered_is_signed_and_anchored_within_a_second_or_two(
    at: Desk, tmp_path: Path
) -> None:
    tenant = await at.tenant()
    log = at.admin.store.log

    async def anchored() -> bool:
        state = await log.state(tenant)
        return state is not None and state.anchored == state.seq > 0

    await at.until(anchored)
    assert (tmp_path / "anchors" / f"{tenant}.notes").stat().st_size > 200


async def test_what_a_process_wrote_at_its_end_is_signed_before_it_has_gone(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with desk(redis_server, stand_in, tmp_path, COATCHECK_AUDIT_CHECKPOINT_INTERVAL_S="60") as at:
        tenant = await at.tenant()
        await at.created()
    size, anchored = redis_server.command("HMGET", f"{{t:{tenant}}}:ckpt", "size", "anchored")
    assert size == anchored == redis_server.command("HGET", f"{{t:{tenant}}}:meta", "seq")


async def test_with_a_bucket_in_the_settings_checkpoints_go_there(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    with S3Server().running() as s3:
        env = {
            "BUCKET": BUCKET, "BUCKET_ENDPOINT": s3.url, "BUCKET_REGION": REGION,
            "BUCKET_KEY_ID": KEY_ID, "BUCKET_SECRET": SECRET,
        }  # fmt: skip
        async with desk(
            redis_server, stand_in, tmp_path, **{f"COATCHECK_AUDIT_{name}": value for name, value in env.items()}
        ) as at:
            await at.created()
            tenant = await at.tenant()
            await at.gateway.gateway.shared.checkpointer.flush()
            state = await at.admin.store.log.state(tenant)
            assert state is not None
            assert state.anchored == state.size > 0
            assert state.note.encode() in s3.objects.values()
            assert "coatcheck_audit_unanchored_tenants" in await metrics(at)
        assert s3.refused == []
