"""No tenant holds everything: its sockets, and its frames on their way, have a share that comes back at every way out."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode

from gateway.demo.stand_in.server import Running
from gateway.transport.budget import Budget
from gateway.websocket import MAX_FRAGMENTS
from tests.patience import AS_SHIPPED
from tests.pipeline.desk import MODEL, Desk, desk
from tests.redis_fixture import RedisServer
from tests.sockets.odd import odd_service
from tests.sockets.wire import PATIENCE_S, Wire, opened, refused

SHARE = 4
FRAME_BYTES = 1_000_000
LIMITS = {
    "COATCHECK_TRANSPORT_SOCKETS": str(2 * SHARE),
    "COATCHECK_TRANSPORT_BODY_BYTES": str(FRAME_BYTES),
    "COATCHECK_TRANSPORT_WEBSOCKET_FRAME_BYTES": str(FRAME_BYTES),
    "COATCHECK_TRANSPORT_BODIES_BYTES": str(2 * FRAME_BYTES),
    "COATCHECK_REQUESTS_MAX_ANSWER_BYTES": str(FRAME_BYTES),
}
REALTIME = "/realtime?model=gpt-realtime"


@pytest.fixture
async def tight(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(redis_server, stand_in, tmp_path, **LIMITS, **AS_SHIPPED) as made:
        yield made


@pytest.fixture
async def hasty(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    """As `tight`, but Redis may hang."""
    async with desk(redis_server, stand_in, tmp_path, **LIMITS, **AS_SHIPPED) as made:
        yield made


def budget(at: Desk, name: str) -> Budget:
    """`seats`, of sockets; `bodies`, of bytes."""
    found: Budget = getattr(at.gateway.app.websocket, name)
    return found


async def all_is_back(at: Desk) -> None:
    async def back() -> bool:
        return budget(at, "seats").left == 2 * SHARE and budget(at, "bodies").left == 2 * FRAME_BYTES

    await at.until(back, PATIENCE_S)
    assert budget(at, "seats").held_by(await at.tenant()) == 0


async def test_of_ten_sockets_at_once_a_tenant_gets_its_share_and_another_tenant_still_comes_in(tight: Desk) -> None:
    await tight.headers("carol")
    await tight.headers("bob")
    async with AsyncExitStack() as stack:

        async def attempt(number: int) -> Wire | InvalidStatus:
            try:
                return await stack.enter_async_context(opened(tight, ("alice", "carol")[number % 2]))
            except InvalidStatus as status:
                return status

        attempts = await asyncio.gather(*[attempt(number) for number in range(10)])
        answers = [one.response for one in attempts if isinstance(one, InvalidStatus)]
        assert len(answers) == 10 - SHARE
        for answer in answers:
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "1"
            error = json.loads(answer.body or b"")["error"]
            assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
        assert len([one for one in tight.upstream if one.method == "GET"]) == SHARE
        async with opened(tight, "bob") as other:
            await other.responded()
        await next(one for one in attempts if isinstance(one, Wire)).responded()
    denied = [one for one in await tight.log() if one["outcome"] and one["outcome"]["reason"] == "share_exhausted"]
    assert [(one["type"], one["phase"], one["outcome"]["status"]) for one in denied] == [
        ("responses.connect", "single", 429)
    ] * (10 - SHARE)
    await all_is_back(tight)


async def test_more_sockets_than_the_process_holds_are_refused_whoever_asks(tight: Desk) -> None:
    async with AsyncExitStack() as stack:
        for who in ("alice", "bob"):
            for _ in range(SHARE):
                await stack.enter_async_context(opened(tight, who))
        # A third tenant's share is free, and the process is full.
        key = await tight.gateway.key("third", "dave")
        answer = (await refused(tight, {"authorization": f"Bearer {key}"})).response
        assert answer.status_code == 503
        assert json.loads(answer.body or b"")["error"]["code"] == "server_busy"
    await all_is_back(tight)


async def leaves(at: Desk) -> None:
    async with opened(at) as wire:
        await wire.responded()


async def is_cut_off(at: Desk) -> None:
    async with opened(at) as wire:
        await wire.send({"type": "response.create", "model": MODEL, "input": "[[script: message, hang]] x"})
        await wire.until("response.created")
        wire.connection.transport.abort()


async def breaks_the_protocol(at: Desk) -> None:
    async with opened(at) as wire:
        wire.connection.transport.write(b"\xff\xff\xff\xff")
        assert (await wire.closed())[0] == 1002


async def is_closed_by_the_service(at: Desk) -> None:
    async with opened(at) as wire:
        await wire.responded("[[script: message, close_socket=3005]] x")
        await wire.closed()


async def is_refused_by_policy(at: Desk) -> None:
    answer = (await refused(at, await at.headers(), "/realtime?model=curie:ft-acme-2023")).response
    assert answer.status_code == 403


async def cannot_be_recorded(at: Desk) -> None:
    headers = await at.headers()
    async with opened(at):
        pass
    at.redis.pause()
    try:
        assert (await refused(at, headers)).response.status_code == 503
    finally:
        at.redis.resume()


async def leaves_while_it_opens(at: Desk) -> None:
    url = at.gateway.url.replace("http://", "ws://") + "/responses"
    headers = await at.headers()
    at.redis.pause()
    try:
        with contextlib.suppress(TimeoutError):
            async with connect(url, additional_headers=headers, proxy=None, open_timeout=0.05):
                pass
    finally:
        at.redis.resume()


async def is_ended_with_the_process(at: Desk) -> None:
    async with opened(at) as wire:
        await wire.responded()
        at.gateway.gateway.drain.expire()
        assert (await wire.closed())[0] == 1012


@pytest.mark.parametrize(
    "way",
    [
        leaves, is_cut_off, breaks_the_protocol, is_closed_by_the_service, is_refused_by_policy,
        cannot_be_recorded, leaves_while_it_opens,
        is_ended_with_the_process,
    ],
)  # fmt: skip
async def test_a_socket_gives_its_place_back_whichever_way_it_goes(
    hasty: Desk, way: Callable[[Desk], Awaitable[None]]
) -> None:
    await way(hasty)
    await all_is_back(hasty)


@pytest.mark.parametrize(
    ("does", "seen"),
    [("binary", 1011), ("nonsense", 1011), ("lost", 1011), ("wrong", 1011), ("refused", 429), ("dropped", 503)],
)
async def test_a_socket_whose_service_fails_gives_its_place_back(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path, does: str, seen: int
) -> None:
    async with odd_service() as url, desk(redis_server, stand_in, tmp_path, **LIMITS, OPENAI_BASE_URL=url) as at:
        try:
            async with opened(at, path=f"/realtime?model={does}") as wire:
                ended, _ = await wire.closed()
        except InvalidStatus as refusal:
            ended = refusal.response.status_code
        assert ended == seen
        await all_is_back(at)
        assert not await at.unanswered()


def piece(size: int) -> bytes:
    """The beginning of a message whose end does not come."""
    return Frame(Opcode.TEXT, b" " * size, fin=False).serialize(mask=True)


async def test_frames_on_their_way_count_against_their_tenants_share_of_the_memory(tight: Desk) -> None:
    most = FRAME_BYTES - 100
    async with opened(tight) as stalled, opened(tight, "carol") as second, opened(tight, "bob") as other:
        stalled.connection.transport.write(piece(most))

        async def held() -> bool:
            return budget(tight, "bodies").held_by(await tight.tenant()) > most * 9 // 10

        await tight.until(held)
        padded = json.dumps({"type": "response.create", "model": MODEL, "input": "[[script: say=ok]] " + "x" * 700_000})
        await second.send(padded)
        error = await second.event()
        assert (error["type"], error["status"], error["error"]["code"]) == ("error", 429, "rate_limit_exceeded")
        assert (await second.closed())[0] == 1013
        # What is small is never refused, and another tenant has a share of its own.
        await other.responded()
        await other.send(padded)
        assert (await other.until("response.completed", "error"))[-1]["type"] == "response.completed"
        async with opened(tight, "carol") as again:
            await again.responded()
    told = [one["outcome"] for one in await tight.log() if one["type"] == "responses.connect" and one["outcome"]]
    assert [one["status"] for one in told if one["reason"] == "share_exhausted"] == [429]
    await all_is_back(tight)


async def test_fragments_cost_their_bytes_and_no_more_and_come_to_an_end(tight: Desk) -> None:
    async with opened(tight) as wire:
        first = Frame(Opcode.TEXT, b"{", fin=False).serialize(mask=True)
        more = Frame(Opcode.CONT, b"", fin=False).serialize(mask=True) * (MAX_FRAGMENTS - 2)
        wire.connection.transport.write(first + more)
        wire.connection.transport.write(Frame(Opcode.CONT, b"}", fin=True).serialize(mask=True))
        assert (await wire.event())["type"] == "error"
        await wire.responded()
        wire.connection.transport.write(first + more * 2)
        assert (await wire.closed())[0] == 1009
    await all_is_back(tight)


async def test_a_share_that_cannot_hold_one_message_is_found_at_the_start(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="WEBSOCKET_FRAME_BYTES"):
        async with desk(redis_server, stand_in, tmp_path, **LIMITS, COATCHECK_TRANSPORT_TENANT_PERCENT="40"):
            pass
