"""Redis goes away: before a request, between its two calls, and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.pipeline.salvage import Salvage
from tests.patience import AS_SHIPPED
from tests.pipeline.desk import Desk, desk
from tests.redis_fixture import RedisServer, until
from tests.stand_in_fixture import Running

LIMIT_S = 1.2
"""The design's 500 ms, and room for a busy machine."""


@pytest.fixture
async def at(own_redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(
        own_redis_server, stand_in, tmp_path, **AS_SHIPPED, COATCHECK_UPSTREAM_BREAKER_OPEN_S="0.2"
    ) as made:
        yield made


@pytest.fixture
def own_redis_server() -> Iterator[RedisServer]:
    """A server that loses nothing when it is killed: what a loss does is another matter, and another test's."""
    with RedisServer(options=("--appendfsync", "always")) as server:
        yield server


async def back(at: Desk) -> None:
    """Until a request passes again, all by itself."""

    async def passes() -> bool:
        return (await at.create()).status_code == 200

    await at.until(passes, 10)


async def all_closed(at: Desk) -> None:
    """Every intent has an outcome, or gets one as soon as it is overdue."""
    tenant = await at.tenant()
    opened = f"{{t:{tenant}}}:open"
    for seq in at.redis.command("ZRANGE", opened, 0, -1):
        at.redis.command("ZADD", opened, 1, seq)
    await at.gateway.gateway.shared.log.sweep(tenant)
    assert at.redis.command("ZCARD", opened) == 0
    assert await at.unanswered() == []


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "undo").glob("*.undo"))


@pytest.mark.parametrize("how", ["kill", "pause"])
@pytest.mark.parametrize("who", ["alice", "carol"])
async def test_without_redis_a_request_is_refused_in_time_and_nothing_goes_upstream(
    at: Desk, own_redis_server: RedisServer, how: str, who: str
) -> None:
    await at.created()
    await at.headers("carol")  # her key is made, and in no cache
    calls = len(at.upstream)
    getattr(own_redis_server, how)()
    try:
        for _ in range(3):
            started = time.monotonic()
            reply = await at.create(who=who)
            assert time.monotonic() - started < LIMIT_S
            assert reply.status_code == 503
            assert reply.json()["error"]["code"] == "audit_unavailable"
            assert int(reply.headers["retry-after"]) >= 1
    finally:
        own_redis_server.restart()
    assert len(at.upstream) == calls
    await back(at)
    await all_closed(at)


async def test_keys_that_are_due_to_be_read_again_make_no_refusal_slower(
    at: Desk, own_redis_server: RedisServer
) -> None:
    """As after a minute: what the process keeps of keys is old, and Redis hangs."""
    await at.created()
    keyring = at.gateway.gateway.shared.keyring
    own_redis_server.pause()
    for deployment in (keyring._deployment, None):
        keyring._tenants.clear()
        keyring._deployment = deployment
        started = time.monotonic()
        replies = await asyncio.gather(*(at.create() for _ in range(5)))
        assert time.monotonic() - started < LIMIT_S
        assert {reply.status_code for reply in replies} == {503}
        assert all("retry-after" in reply.headers for reply in replies)
    own_redis_server.restart()
    await back(at)


async def test_a_request_with_an_idempotency_key_that_was_refused_may_come_again(
    at: Desk, own_redis_server: RedisServer
) -> None:
    await at.created()
    calls = len(at.upstream)

    async def keyed() -> Any:
        return await at.call("POST", "/responses", {"model": "gpt-5", "input": "x"}, idempotency_key="k")

    own_redis_server.pause()
    started = time.monotonic()
    assert (await keyed()).status_code == 503
    assert time.monotonic() - started < LIMIT_S
    own_redis_server.restart()
    await back(at)
    assert (await keyed()).status_code == 200
    assert len([one for one in at.upstream[calls:] if "idempotency-key" in dict(one.headers)]) == 1


async def test_requests_at_once_without_redis_are_all_refused_in_time(at: Desk, own_redis_server: RedisServer) -> None:
    await at.created()
    calls = len(at.upstream)
    own_redis_server.pause()
    started = time.monotonic()
    replies = await asyncio.gather(*(at.create() for _ in range(40)))
    assert time.monotonic() - started < 2 * LIMIT_S
    assert {reply.status_code for reply in replies} == {503}
    own_redis_server.restart()
    assert len(at.upstream) == calls
    await back(at)
    await all_closed(at)


async def held(at: Desk, own_redis_server: RedisServer, how: str, **body: Any) -> Any:
    """A create whose Redis goes away while the upstream works on it."""
    await at.created()
    at.script("slow=0.4")
    calls = len(at.upstream)
    running = asyncio.ensure_future(at.create(**body))
    await until(lambda: len(at.upstream) > calls)
    getattr(own_redis_server, how)()
    started = time.monotonic()
    reply = await running
    assert time.monotonic() - started < 0.4 + 2 * LIMIT_S
    return reply


@pytest.mark.parametrize("how", ["kill", "pause"])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_cannot_be_recorded_is_withheld_and_deleted_upstream(
    at: Desk, own_redis_server: RedisServer, how: str, stream: bool
) -> None:
    reply = await held(at, own_redis_server, how, stream=stream)
    assert reply.status_code == 503
    assert reply.headers["x-should-retry"] == "false"
    assert reply.json()["error"]["code"] == "mapping_unavailable"
    assert "resp_" not in reply.text
    assert at.upstream[-1].method == "DELETE"
    assert at.upstream[-1].status == 200
    assert len(at.stand_in.provider.responses) == 1, "only the first is left"
    own_redis_server.restart()
    await back(at)
    await all_closed(at)
    assert [one["type"] for one in await at.log()].count("writer.opened") <= 1


async def test_what_cannot_be_deleted_either_is_kept_sealed_and_deleted_later(
    at: Desk, own_redis_server: RedisServer, tmp_path: Path
) -> None:
    await at.created()
    at.script("slow=0.3")
    calls = len(at.upstream)
    running = asyncio.ensure_future(at.call("POST", "/responses", {"model": "gpt-5", "input": "hello"}))
    await until(lambda: len(at.upstream) > calls)
    own_redis_server.kill()
    at.stand_in.provider.set_script("close")  # the upstream goes down, too
    assert (await running).headers["x-should-retry"] == "false"
    (entry,) = kept(tmp_path)
    raw = list(at.stand_in.provider.responses)[-1]
    assert raw.encode() not in entry.read_bytes()
    assert entry.stat().st_mode & 0o077 == 0
    salvage = salvage_of(at)
    assert await salvage.sweep() == 1
    at.stand_in.provider.set_script("")
    own_redis_server.restart()
    await back(at)
    assert await salvage.sweep() == 0
    await all_closed(at)
    assert kept(tmp_path) == []
    assert raw not in at.stand_in.provider.responses


def salvage_of(at: Desk) -> Salvage:
    app: Any = at.gateway.app
    salvage: Salvage = app.pipeline.recorder.salvage
    return salvage


async def test_a_stream_whose_end_cannot_be_recorded_ends_in_an_error_and_not_as_completed(
    at: Desk, own_redis_server: RedisServer
) -> None:
    await at.created()
    async with at.stream("delay=0.02, message") as reply:
        assert reply.status_code == 200
        data = b""
        async for piece in reply.aiter_bytes():
            if not data:
                own_redis_server.kill()
            data += piece
    assert b"response.completed" not in data
    assert b"event: error" in data
    assert b"mapping_unavailable" in data
    own_redis_server.restart()
    await back(at)


async def test_every_intent_has_an_outcome_after_trouble(at: Desk, own_redis_server: RedisServer) -> None:
    """Restarts under load: what was answered is whole in the log, and what was refused was not done."""
    await at.created()
    stop = asyncio.Event()
    statuses: list[int] = []

    async def caller() -> None:
        while not stop.is_set():
            statuses.append((await at.create()).status_code)

    callers = [asyncio.ensure_future(caller()) for _ in range(4)]
    for _ in range(2):
        await asyncio.sleep(0.2)
        await asyncio.to_thread(own_redis_server.restart)
        await asyncio.sleep(0.3)
    stop.set()
    await asyncio.gather(*callers)
    await back(at)
    assert {200} <= set(statuses) <= {200, 503}
    await all_closed(at)
    assert statuses.count(200) + 2 <= len(at.stand_in.provider.responses) <= len(statuses) + 12
