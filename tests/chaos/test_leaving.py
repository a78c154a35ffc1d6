"""Clients that leave: the upstream call ends with them, nothing is kept, and the log says so."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.pipeline import settling
from tests.patience import AS_SHIPPED
from tests.pipeline.desk import MODEL, Desk, desk
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running
from tests.transport.raw import RawConnection, connected, request


@pytest.fixture
async def at(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(redis_server, stand_in, tmp_path, **AS_SHIPPED, COATCHECK_UPSTREAM_MAX_CONNECTIONS="20") as made:
        yield made


async def sent(at: Desk, connection: RawConnection, script: str = "", who: str = "alice", **body: Any) -> None:
    """Sends a create over a raw connection, on which the test may leave as it likes."""
    if script:
        at.script(script)
    headers = await at.headers(who)
    content = json.dumps({"model": MODEL, "input": "hello", **body}).encode()
    lines = (
        f"Authorization: {headers['authorization']}", "Content-Type: application/json", f"Content-Length: {len(content)}"
    )  # fmt: skip
    await connection.send(request("/v1/responses", *lines, method=b"POST", body=content))


async def arrived(at: Desk, count: int) -> None:
    async def there() -> bool:
        return len(at.upstream) >= count

    await at.until(there)


async def hung_up(at: Desk, number: int) -> float:
    """Seconds until the stand-in saw the caller of its request leave."""
    started = time.monotonic()

    async def seen() -> bool:
        one = at.upstream[number]
        return one.disconnected_at is not None

    await at.until(seen, 2)
    return time.monotonic() - started


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_before_the_first_byte_ends_the_upstream_call(at: Desk, stream: bool) -> None:
    async with connected(at.port) as connection:
        await sent(at, connection, "hang", stream=stream)
        await arrived(at, 1)
    assert await hung_up(at, 0) < 1

    async def told() -> bool:
        return await at.last_outcome() == ("error", "client_closed")

    await at.until(told)
    assert await at.unanswered() == []


@pytest.mark.parametrize("script", ["message, hang=4", "message, flood=100000", "delay=0.05"])
async def test_a_client_that_leaves_in_the_middle_of_a_stream_ends_the_upstream_call(at: Desk, script: str) -> None:
    async with connected(at.port) as connection:
        await sent(at, connection, script, stream=True)
        await connection.reader.readuntil(b"response.created")
    assert await hung_up(at, 0) < 1

    async def told() -> bool:
        return await at.last_outcome() == ("error", "client_closed")

    await at.until(told)
    assert await at.unanswered() == []


async def test_two_hundred_clients_that_leave_exhaust_nothing(at: Desk) -> None:
    """The pool has 20 connections: one that stayed behind each time would end it soon."""
    await at.headers()
    at.stand_in.provider.set_script("message, hang=2")
    started = len(at.upstream)

    async def leave(number: int) -> None:
        async with connected(at.port) as connection:
            await sent(at, connection, stream=True)
            if number % 2:
                await connection.reader.readuntil(b"response.created")
            else:
                await connection.reader.readuntil(b"HTTP/1.1 200")

    for batch in range(20):
        await asyncio.gather(*(leave(batch * 10 + number) for number in range(10)))
    assert len(at.upstream) == started + 200
    at.stand_in.provider.set_script("")
    assert (await at.create()).status_code == 200

    async def settled() -> bool:
        return await at.unanswered() == []

    await at.until(settled)

    async def seen() -> bool:
        return all(one.disconnected_at is not None for one in at.upstream[started : started + 200])

    await at.until(seen, 2)
    reasons = [one["outcome"]["reason"] for one in await at.log() if one["phase"] == "outcome"]
    assert reasons.count("client_closed") == 200


async def test_clients_that_leave_at_once_exhaust_nothing(at: Desk) -> None:
    """1,000 that are gone as soon as they have asked."""
    await at.created()

    async def leave() -> None:
        async with connected(at.port) as connection:
            await sent(at, connection, stream=True)

    for _ in range(50):
        await asyncio.gather(*(leave() for _ in range(20)))

    async def settled() -> bool:
        return await at.unanswered() == []

    await at.until(settled)
    assert (await at.create()).status_code == 200


async def test_an_answer_whose_client_left_while_it_was_recorded_is_whole_in_the_log(at: Desk) -> None:
    first = await at.created()
    async with connected(at.port) as connection:
        await sent(at, connection, "slow=0.2")
        await arrived(at, 2)
        await asyncio.sleep(0.15)
    await asyncio.sleep(0.2)
    assert await at.unanswered() == []
    assert (await at.call("GET", f"/responses/{first['id']}")).status_code == 200


async def test_a_background_stream_that_is_left_goes_on_and_is_settled(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "_FIRST_PAUSE_S", 0.05)
    async with connected(at.port) as connection:
        await sent(at, connection, "reasoning, message, hang=6", stream=True, background=True)
        data = await connection.reader.readuntil(b"response.output_item.added")
        await connection.reader.readuntil(b"\n\n")
    response = json.loads(data.split(b"data: ")[1].split(b"\n")[0])["response"]["id"]

    async def detached() -> bool:
        return ("accepted", "detached") in [
            (one["outcome"]["result"], one["outcome"]["reason"]) for one in await at.log() if one["phase"] == "outcome"
        ]

    await at.until(detached)

    async def settled() -> bool:
        return await at.unanswered() == []

    await at.until(settled)
    assert await at.last_outcome() == ("allow", "")
    got = await at.call("GET", f"/responses/{response}")
    assert got.json()["status"] == "completed"
    items = [{"type": "item_reference", "id": one["id"]} for one in got.json()["output"]]
    assert (await at.call("POST", "/responses", {"model": MODEL, "input": items})).status_code == 200


async def test_what_cannot_be_recorded_is_undone_also_when_its_client_has_left(
    at: Desk, redis_server: RedisServer
) -> None:
    await at.created()
    async with connected(at.port) as connection:
        await sent(at, connection, "slow=0.1")
        await arrived(at, 2)
        redis_server.pause()
        await asyncio.sleep(0.25)  # the answer is here, and waits for Redis

    async def undone() -> bool:
        return bool(at.upstream[-1].method == "DELETE")

    try:
        await at.until(undone, 3)
    finally:
        redis_server.resume()
    assert len(at.stand_in.provider.responses) == 1

    async def settled() -> bool:
        return await at.unanswered() == []

    await at.until(settled)


async def test_a_body_that_is_broken_off_goes_nowhere(at: Desk) -> None:
    headers = await at.headers()
    lines = (
        f"Authorization: {headers['authorization']}", "Content-Type: application/json", "Content-Length: 100"
    )  # fmt: skip
    async with connected(at.port) as connection:
        await connection.send(request("/v1/responses", *lines, method=b"POST", body=b'{"model": "gpt-5", '))
        await asyncio.sleep(0.05)

    async def told() -> bool:
        return await at.last_outcome() == ("error", "client_closed")

    await at.until(told)
    assert at.upstream == []
