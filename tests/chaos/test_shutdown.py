"""SIGTERM to the program itself, with requests under way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2

from gateway.demo.stand_in.server import Running
from tests.chaos.test_leaving import sent
from tests.gateway_fixture import ROOT_KEY, Deployment
from tests.patience import PATIENT
from tests.pipeline.desk import Desk, desk
from tests.redis_fixture import RedisServer, free_port
from tests.transport.raw import connected, exchange, request

DRAIN_S, EXIT_S = 0.8, 5.0


@contextlib.asynccontextmanager
async def program(
    redis: RedisServer, stand_in: Running, folder: Path, **more: str
) -> AsyncIterator[tuple[Process, Desk]]:
    """`python -m gateway serve`, and a desk whose requests go to it. Tenants and keys are made beside it."""
    port = free_port()
    async with desk(redis, stand_in, folder) as beside:
        env = {
            **PATIENT,
            "PATH": os.environ["PATH"],
            "COATCHECK_ROOT_KEY": ROOT_KEY,
            "COATCHECK_DATA": str(folder),
            "COATCHECK_METRICS_PORT": "0",
            "COATCHECK_PORT": str(port),
            "REDIS_URL": redis.url,
            "OPENAI_API_KEY": "sk-upstream-secret",
            "OPENAI_BASE_URL": stand_in.api_url,
            "COATCHECK_TRANSPORT_DRAIN_S": str(DRAIN_S),
            "COATCHECK_TRANSPORT_EXIT_S": str(EXIT_S),
            **more,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", "serve", stdout=PIPE, stderr=PIPE, env=env
        )
        try:
            await _ready(process, port)
            at = Desk(
                cast(
                    Deployment,
                    SimpleNamespace(
                        url=f"http://127.0.0.1:{port}/v1", tenant=beside.gateway.tenant, gateway=beside.gateway.gateway
                    ),
                ),
                redis,
                stand_in,
                beside.http,
                {"alice": await beside.gateway.key("acme", "alice")},
            )
            yield process, at
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def _ready(process: Process, port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            assert process.returncode is None, (await process.communicate())[1].decode()
            with contextlib.suppress(OSError):
                if (await exchange(port, request("/readyz"))).status == 200:
                    return
            await asyncio.sleep(0.05)


async def ended(process: Process, within_s: float) -> str:
    async with asyncio.timeout(within_s):
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return errors.decode()


async def test_sigterm_lets_a_stream_finish_tells_the_next_and_ends_in_time(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with program(redis_server, stand_in, tmp_path) as (process, at):
        assert (await at.create()).status_code == 200
        async with connected(at.port) as short, connected(at.port) as long, connected(at.port) as waiting:
            await sent(at, short, "message, delay=0.01", stream=True)
            await short.reader.readuntil(b"response.created")
            await sent(at, long, "message, hang=4", stream=True)
            await long.reader.readuntil(b"response.created")
            await sent(at, waiting, "hang")
            started = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert b"response.completed" in await short.rest()
            assert (await exchange(at.port, request("/readyz"))).status == 503
            headers = await at.headers()
            refused = await exchange(at.port, request("/v1/models", f"Authorization: {headers['authorization']}"))
            assert refused.status == 503
            assert refused.error["code"] == "server_draining"
            data = await long.rest()
            assert data.endswith(b"\r\n0\r\n\r\n"), "the body has its end"
            last = json.loads(data.split(b"data: ")[-1].split(b"\n")[0])
            assert (last["type"], last["code"], last["retryable"]) == ("error", "server_draining", True)
            answer = await waiting.answer()
            assert (answer.status, answer.error["code"]) == (503, "server_draining")
        errors = await ended(process, EXIT_S)
        assert DRAIN_S <= time.monotonic() - started < EXIT_S + 0.5
        assert "Traceback" not in errors
        assert await at.unanswered() == []
        reasons = [one["outcome"]["reason"] for one in await at.log() if one["phase"] == "outcome"]
        assert reasons.count("server_draining") == 2
        assert "client_closed" not in reasons


async def test_sigterm_without_requests_ends_at_once(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with program(redis_server, stand_in, tmp_path) as (process, at):
        assert (await at.create()).status_code == 200
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        await ended(process, EXIT_S)
        assert time.monotonic() - started < 2


async def test_a_killed_process_leaves_intents_that_are_closed_as_unknown_when_they_are_due(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with program(redis_server, stand_in, tmp_path) as (process, at):
        async with connected(at.port) as connection:
            await sent(at, connection, "hang")

            async def there() -> Any:
                return at.upstream

            await at.until(there)
            process.kill()
            await process.wait()
        (left,) = await at.unanswered()
        tenant = await at.tenant()
        opened = f"{{t:{tenant}}}:open"
        (seq,) = redis_server.command("ZRANGE", opened, 0, -1)
        redis_server.command("ZADD", opened, 1, seq)  # its time is over
        assert await at.gateway.gateway.shared.log.sweep(tenant) == 1
        assert await at.outcomes(left) == [("unknown", "", 0)]
        assert redis_server.command("ZCARD", opened) == 0


async def test_a_reader_that_does_not_read_costs_little_memory(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with program(redis_server, stand_in, tmp_path) as (process, at):
        statm = Path(f"/proc/{process.pid}/statm")

        def resident() -> int:
            return int(statm.read_text().split()[1]) * 4096

        await at.streamed("message, flood=1000")  # whatever grows by then has grown
        before = resident()
        async with connected(at.port) as one, connected(at.port) as other:
            for reader in (one, other):
                await sent(at, reader, "message, flood=100000", stream=True)

            async def stands_still() -> bool:
                passed = [request.bytes_sent for request in at.upstream[1:]]
                await asyncio.sleep(0.3)
                return len(passed) == 2 and [request.bytes_sent for request in at.upstream[1:]] == passed

            await at.until(stands_still, 20)
            assert resident() - before <= 2 * 10_000_000


async def test_a_client_gets_a_whole_answer_also_while_the_process_ends(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with program(redis_server, stand_in, tmp_path) as (process, at):
        at.script("slow=0.3")
        running = asyncio.ensure_future(at.create())
        await asyncio.sleep(0.15)
        process.send_signal(signal.SIGTERM)
        reply: httpx2.Response = await running
        assert reply.status_code == 200
        await ended(process, EXIT_S)
