"""Health over the real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from gateway.transport.drain import Drain
from gateway.transport.health import Health
from gateway.transport.limits import Limits
from gateway.transport.server import running
from tests.transport.raw import exchange, request


@dataclass
class Store:
    well: bool = True
    asked: int = 0
    hangs: bool = False

    async def answers(self) -> bool:
        self.asked += 1
        if self.hangs:
            await asyncio.sleep(30)
        if not self.well:
            raise ConnectionError("redis.internal:6379")
        return True


@asynccontextmanager
async def health(store: Store, drain: Drain, fresh_s: float = 0.0) -> AsyncIterator[int]:
    app = Health(store.answers, drain, fresh_s=fresh_s, timeout_s=0.1)
    async with running(app, Limits(), drain) as server:
        yield server.port


async def status(port: int, path: str, method: bytes = b"GET") -> int:
    return (await exchange(port, request(path, "Connection: close", method=method))).status


async def test_ready_follows_the_store_and_alive_does_not() -> None:
    store = Store()
    async with health(store, Drain()) as port:
        assert await status(port, "/readyz") == 200
        store.well = False
        assert await status(port, "/readyz") == 503
        assert await status(port, "/healthz") == 200
        store.well, store.hangs = True, True
        assert await status(port, "/readyz") == 503


async def test_a_log_that_is_not_whole_is_told_beside_readiness_and_changes_nothing_of_it() -> None:
    whole, drain = [True], Drain()
    app = Health(Store().answers, drain, audit_is_whole=lambda: whole[0])
    async with running(app, Limits(), drain) as server:
        bodies = []
        for state in (True, False):
            whole[0] = state
            for path in ("/readyz", "/healthz"):
                got = await exchange(server.port, request(path, "Connection: close"))
                assert got.status == 200
                bodies.append(json.loads(got.body))
    assert bodies == [{"status": "ok"}, {"status": "ok"}, {"status": "ok", "audit": "halted"}, {"status": "ok"}]


async def test_a_process_that_drains_is_alive_and_not_ready() -> None:
    drain = Drain()
    async with health(Store(), drain) as port:
        drain.begin()
        assert await status(port, "/readyz") == 503
        assert await status(port, "/healthz") == 200


async def test_many_who_ask_are_one_question_to_the_store() -> None:
    store = Store()
    async with health(store, Drain(), fresh_s=60) as port:
        assert await asyncio.gather(*[status(port, "/readyz") for _ in range(20)]) == [200] * 20
    assert store.asked == 1


async def test_the_answer_says_one_word() -> None:
    async with health(Store(well=False), Drain()) as port:
        answer = await exchange(port, request("/readyz"))
        assert json.loads(answer.body) == {"status": "unavailable"}
        answer = await exchange(port, request("/healthz/"))
        assert json.loads(answer.body) == {"status": "ok"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_only_reading_is_allowed(path: str) -> None:
    async with health(Store(), Drain()) as port:
        answer = await exchange(port, request(path, "Content-Length: 0", method=b"POST"))
        assert (answer.status, answer.header("allow")) == (405, "GET, HEAD")
        assert await status(port, "/health") == 404
