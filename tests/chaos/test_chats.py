"""Streams of chats, whose events have no type, when somebody leaves, breaks off or ends."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.pipeline.desk import Desk, desk, events_of
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running

BODY = {"model": "gpt-5", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
async def at(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(redis_server, stand_in, tmp_path) as made:
        yield made


@contextlib.asynccontextmanager
async def chat(at: Desk, script: str) -> AsyncIterator[httpx2.Response]:
    at.script(script)
    headers = await at.headers(content_type="application/json")
    content = json.dumps(BODY).encode()
    url = f"{at.gateway.url}/chat/completions"
    async with at.http.stream("POST", url, headers=headers, content=content) as reply:
        yield reply


async def test_the_end_of_the_process_is_told_to_an_open_chat_in_its_own_form(at: Desk) -> None:
    app: Any = at.gateway.app
    async with chat(at, "hang=3") as reply:
        pieces = reply.aiter_bytes()
        data = await anext(pieces)
        app.drain.expire()
        data += b"".join([piece async for piece in pieces])
    first, *_, last = events_of(data)
    assert first["object"] == "chat.completion.chunk"
    assert last["error"]["code"] == "server_draining"
    assert "type" not in last
    assert await at.unanswered() == []


@pytest.mark.parametrize("script", ["cut=3", "cut_clean=3"])
async def test_a_chat_that_breaks_off_ends_in_an_error_and_without_its_mark(at: Desk, script: str) -> None:
    async with chat(at, script) as reply:
        data = await reply.aread()
    assert b"[DONE]" not in data
    assert "error" in events_of(data)[-1]
    result, reason = await at.last_outcome()
    assert result == "error"
    assert reason.startswith("upstream_")


async def test_a_client_that_leaves_a_chat_ends_the_upstreams_work(at: Desk) -> None:
    async with chat(at, "hang=3") as reply:
        await anext(reply.aiter_bytes())

    async def left() -> bool:
        return at.upstream[-1].disconnected_at is not None

    await at.until(left)

    async def closed() -> bool:
        return await at.last_outcome() == ("error", "client_closed")

    await at.until(closed)
