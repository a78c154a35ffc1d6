"""Answers above 64 KiB: counted while they are held, given as they are taken, translated where they hold up nobody."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import Reason
from gateway.pipeline import answering
from gateway.pipeline.threads import LARGE_BYTES, Threads
from gateway.transport.budget import FREE_BYTES
from gateway.transport.client import CLIENT
from gateway.transport.guard import Receive, Scope, Send
from gateway.transport.limits import Limits
from gateway.transport.server import running
from tests.pipeline.desk import Desk, desk, events_of
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running
from tests.transport import raw

MIB = 1024 * 1024
ANSWER_BYTES = 8 * MIB
"""More than the kernel takes for a client that reads nothing."""
SHARE_BYTES = 36 * MIB
LIMITS = {
    "COATCHECK_TRANSPORT_BODY_BYTES": str(10 * MIB),
    "COATCHECK_TRANSPORT_WEBSOCKET_FRAME_BYTES": str(MIB),
    "COATCHECK_TRANSPORT_BODIES_BYTES": str(2 * SHARE_BYTES),
    "COATCHECK_REQUESTS_MAX_ANSWER_BYTES": str(SHARE_BYTES),
}
TOOLS = [{"type": "function", "name": f"f{number}", "parameters": {"type": "object"}} for number in range(1_500)]


@pytest.fixture
async def tight(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(redis_server, stand_in, tmp_path, **LIMITS) as made:
        yield made


async def settled(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def reading_nothing(at: Desk, path: str) -> AsyncIterator[raw.RawConnection]:
    """A GET whose sender takes nothing of the answer."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.setblocking(False)
    await asyncio.get_running_loop().sock_connect(deaf, ("127.0.0.1", at.port))
    connection = raw.RawConnection(*await asyncio.open_connection(sock=deaf, limit=4096))
    headers = await at.headers()
    await connection.send(raw.request(f"/v1{path}", f"authorization: {headers['authorization']}"))
    try:
        yield connection
    finally:
        connection.writer.transport.abort()


async def test_what_a_client_does_not_read_counts_against_its_tenant_until_it_is_gone(tight: Desk) -> None:
    budget = tight.gateway.app.budget
    paths = {}
    for who in ("alice", "bob"):
        said = {"type": "message", "role": "user", "content": "x" * ANSWER_BYTES}
        made = await tight.call("POST", "/conversations", {"items": [said]}, who)
        paths[who] = f"/conversations/{made.json()['id']}/items"
    tenant = await tight.tenant()
    async with AsyncExitStack() as unread:
        for _ in range(4):
            await unread.enter_async_context(reading_nothing(tight, paths["alice"]))
        await settled(lambda: budget.held_by(tenant) >= 4 * (ANSWER_BYTES - FREE_BYTES))
        refused = await tight.call("GET", paths["alice"])
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        told = await tight.outcomes(refused.headers["x-request-id"])
        assert told == [("deny", Reason.SHARE_EXHAUSTED.value, 429)]
        assert (await tight.call("GET", paths["bob"], who="bob")).status_code == 200
    await settled(lambda: budget.left == 2 * SHARE_BYTES)
    assert len((await tight.call("GET", paths["alice"])).content) > ANSWER_BYTES
    assert budget.left == 2 * SHARE_BYTES


async def test_an_answer_that_finds_no_room_is_refused_and_what_it_made_is_deleted(tight: Desk) -> None:
    tenant = await tight.tenant()
    lease = tight.gateway.app.budget.lease(tenant)
    lease.hold(SHARE_BYTES + FREE_BYTES - MIB // 2)
    tools = [{**tool, "description": "x" * 200} for tool in TOOLS]
    refused = await tight.create(tools=tools)
    assert refused.status_code == 429, refused.text
    created, undone = tight.upstream[-2:]
    assert (created.path, undone.method) == ("/v1/responses", "DELETE")
    assert undone.status == 200
    lease.give_back()
    assert (await tight.create(tools=tools)).status_code == 200


async def test_the_transport_holds_no_more_of_an_answer_than_its_client_takes() -> None:
    body = bytes(range(256)) * (ANSWER_BYTES // 256)
    wires = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        wire = scope[CLIENT].wire
        wires.append(wire)
        slow = wire.answer(200, [(b"content-length", b"%d" % len(body))], body)
        assert slow is not None
        await slow

    async with running(app, Limits()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=4096)
        writer.write(raw.request("/"))
        await settled(lambda: bool(wires) and wires[0].flow.write_paused)
        (connection,) = server.server_state.connections
        assert connection.transport.get_write_buffer_size() <= 3 * LARGE_BYTES
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: %d\r\n" % len(body) in head
        assert b"chunked" not in head
        assert await reader.readexactly(len(body)) == body
        writer.write(raw.request("/"))
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()


async def test_a_large_answer_is_translated_in_a_thread_and_a_small_one_where_it_is(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    translate: Any = answering.__dict__["translate_json"]

    def noting(*arguments: object) -> object:
        seen.append(threading.current_thread() is threading.main_thread())
        return translate(*arguments)

    monkeypatch.setattr(answering, "translate_json", noting)
    assert len(json.dumps((await at.created(tools=TOOLS))["tools"])) > LARGE_BYTES
    await at.created()
    assert seen == [False, True]


async def test_a_large_event_is_counted_and_translated_in_a_thread(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    threads, budget = at.gateway.app.pipeline.answering.threads, at.gateway.app.budget
    tenant = await at.tenant()
    run = threads.run

    async def counted(size: int, work: Callable[[], object]) -> object:
        if size > LARGE_BYTES:
            runs.append(budget.held_by(tenant))
        return await run(size, work)

    monkeypatch.setattr(threads, "run", counted)
    tools = [{**tool, "description": "x" * 500} for tool in TOOLS]
    events = events_of(await at.streamed(tools=tools))
    size = len(json.dumps(tools))
    assert events[-1]["type"] == "response.completed"
    assert len(events[-1]["response"]["tools"]) == len(TOOLS)
    assert len(runs) >= 2
    # The request's own bytes, and from the second run on an event's.
    assert max(runs) > 1.5 * (size - FREE_BYTES)
    await settled(lambda: budget.held_by(tenant) == 0)


async def test_who_is_cancelled_waits_for_the_end_of_the_work_and_the_next_begins_then() -> None:
    threads, ends, began = Threads(), threading.Event(), threading.Event()

    def work() -> bool:
        began.set()
        assert not gc.isenabled()
        return ends.wait(10)

    first = asyncio.ensure_future(threads.run(LARGE_BYTES + 1, work))
    await asyncio.to_thread(began.wait, 10)
    second = asyncio.ensure_future(threads.run(LARGE_BYTES + 1, lambda: "second"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0.02)
    assert not first.done()
    assert not second.done()
    ends.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == "second"
    assert gc.isenabled()
