"""Callers that leave, at every turn of the loop: no connection is spoiled, none is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import pytest

from gateway.upstreams import UpstreamBadAnswer, UpstreamRequest
from tests.upstreams.calls import POST, Connect, hang, read, settled
from tests.upstreams.peer import CHUNKED_HEAD, Peer, Wire, chunk, ok


async def test_leaving_a_body_unread_closes_its_connection_at_once(peer: Peer, connect: Connect) -> None:
    left = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED_HEAD + chunk(b"one"))
        await wire.client_left()
        left.set()

    peer.script = script
    upstream = connect()
    async with await upstream.send(POST) as answer:
        async for piece in answer:
            assert piece == b"one"
            break
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 0)
    async with asyncio.timeout(1):
        await left.wait()
    await answer.aclose()
    with pytest.raises(UpstreamBadAnswer):
        await anext(answer)


async def test_a_thousand_clients_that_leave_before_the_first_byte_leave_the_pool_empty(
    peer: Peer, connect: Connect
) -> None:
    peer.script = hang
    upstream = connect(max_connections=50)
    for _ in range(20):
        calls = [asyncio.ensure_future(upstream.send(POST)) for _ in range(50)]
        await settled(lambda: upstream.pool.busy == 50)
        await asyncio.sleep(0.002)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended)
        assert (upstream.pool.busy, upstream.pool.idle) == (0, 0)
    await settled(lambda: peer.live == 0)
    peer.script = peer.echo_ok
    assert await read(upstream) == b"hello"


async def paced(wire: Wire) -> None:
    """Answers every request in ten small steps."""
    steps = [CHUNKED_HEAD[:20], CHUNKED_HEAD[20:], *[chunk(b"piece")] * 6, b"0\r\n", b"\r\n"]
    while await wire.request():
        for step in steps:
            await wire.send(step)
            await asyncio.sleep(0)


async def slow_upload() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield b"part"
        await asyncio.sleep(0)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_cancelled_at_any_turn_of_the_loop_never_spoils_a_connection(
    peer: Peer, connect: Connect, streamed: bool
) -> None:
    peer.script = paced
    upstream = connect(max_connections=2)

    async def call() -> bytes:
        body = slow_upload() if streamed else b"{}"
        async with await upstream.send(UpstreamRequest("POST", b"/files", body=body)) as answer:
            return await answer.read(1_000)

    outcomes = set()
    for turns in [*range(60), 1_000]:
        task = asyncio.ensure_future(call())
        other = asyncio.ensure_future(call())
        for _ in range(turns):
            await asyncio.sleep(0)
            if task.done():
                break
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            assert await task == b"piece" * 6
        outcomes.add(task.cancelled())
        # The call beside it is untouched, and so is one that takes over whatever connection is there.
        assert await call() == b"piece" * 6
        assert await other == b"piece" * 6
        assert upstream.pool.busy == 0
        assert upstream.pool.idle <= 2
    assert outcomes == {True, False}


async def test_cancelling_a_call_whose_answer_is_already_whole_leaves_the_next_user_of_its_connection_alone(
    peer: Peer, connect: Connect
) -> None:
    peer.script = hang
    upstream = connect(max_connections=1)
    first = asyncio.ensure_future(upstream.send(POST))
    second = asyncio.ensure_future(upstream.send(POST))
    await settled(lambda: len(peer.wires) == 1)
    connection = next(iter(upstream.pool._open))
    await asyncio.sleep(0.01)
    # The whole answer in one read; then the cancellation, before the first caller's task has run again.
    connection.data_received(ok(b"hello"))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.sleep(0.01)
    assert not second.done()
    connection.data_received(ok(b"for the second"))
    assert await (await second).read(100) == b"for the second"
    assert len(peer.wires) == 1


async def test_a_cancelled_call_takes_no_answer_that_comes_before_it_has_noticed(peer: Peer, connect: Connect) -> None:
    peer.script = hang
    upstream = connect()
    call = asyncio.ensure_future(upstream.send(POST))
    await settled(lambda: len(peer.wires) == 1)
    connection = next(iter(upstream.pool._open))
    await asyncio.sleep(0.01)
    call.cancel()
    connection.data_received(ok(b"hello"))
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 0)


async def test_a_connection_handed_to_a_waiter_is_looked_at_once_more(peer: Peer, connect: Connect) -> None:
    peer.script = hang
    upstream = connect(max_connections=1)
    first = asyncio.ensure_future(upstream.send(POST))
    second = asyncio.ensure_future(read(upstream, POST))
    await settled(lambda: len(peer.wires) == 1)
    connection = next(iter(upstream.pool._open))
    await asyncio.sleep(0.01)
    peer.script = peer.echo_ok
    # In one turn of the loop: the first answer, and surplus bytes behind it that the loop has not read.
    os.write(peer.wires[0].writer.get_extra_info("socket").fileno(), ok(b"poison"))
    connection.data_received(ok(b"first"))
    assert await (await first).read(100) == b"first"
    assert await second == b"hello"
    assert len(peer.wires) == 2


async def test_cancelling_a_reader_closes_the_connection(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED_HEAD)
        await wire.client_left()

    peer.script = script
    upstream = connect()
    answer = await upstream.send(POST)
    reader = asyncio.ensure_future(answer.read(100))
    await asyncio.sleep(0.01)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert upstream.pool.busy == 0


async def test_cancelling_while_connecting_gives_the_place_back(peer: Peer, connect: Connect) -> None:
    upstream = connect(max_connections=1)
    for turns in range(6):
        call = asyncio.ensure_future(upstream.send(POST))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            async with await call:
                pass
        assert upstream.pool.busy == 0
    assert await read(upstream) == b"hello"
