"""The places of a pool: who gets one, who waits, who is refused. On real sockets."""

from __future__ import annotations

import asyncio

import pytest

from gateway.upstreams import Reason, UpstreamRequest, UpstreamUnavailable
from tests.upstreams.calls import POST, Connect, hang, read, settled
from tests.upstreams.peer import Peer, Wire, ok


async def test_two_hundred_calls_at_once_on_ten_connections_all_get_their_own_answer(
    peer: Peer, connect: Connect
) -> None:
    async def script(wire: Wire) -> None:
        while request := await wire.request():
            await wire.send(ok(request.split(b"\r\n\r\n")[1]))

    peer.script = script
    upstream = connect(max_connections=10)
    bodies = [b"%d" % number for number in range(200)]
    answers = await asyncio.gather(*(read(upstream, UpstreamRequest("POST", b"/r", body=body)) for body in bodies))
    assert answers == bodies
    assert len(peer.wires) == 10
    assert upstream.pool.busy == 0


async def test_a_full_pool_refuses_after_the_wait_and_beyond_the_queue(peer: Peer, connect: Connect) -> None:
    peer.script = hang
    upstream = connect(max_connections=1, max_waiting=1, wait_timeout_s=0.1)
    busy = asyncio.ensure_future(upstream.send(POST))
    await settled(lambda: len(peer.wires) == 1)
    waiting = asyncio.ensure_future(upstream.send(POST))
    await asyncio.sleep(0.01)
    for call in (upstream.send(POST), waiting):
        with pytest.raises(UpstreamUnavailable) as caught:
            await call
        assert (caught.value.reason, caught.value.written) == (Reason.POOL_FULL, False)
    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)
    peer.script = peer.echo_ok
    assert await read(upstream) == b"hello"


async def test_a_cancelled_waiter_leaves_its_place_in_the_queue(peer: Peer, connect: Connect) -> None:
    peer.script = hang
    upstream = connect(max_connections=1, max_waiting=1)
    busy = asyncio.ensure_future(upstream.send(POST))
    await settled(lambda: len(peer.wires) == 1)
    for _ in range(3):
        waiting = asyncio.ensure_future(upstream.send(POST))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)


async def test_a_full_pool_gives_up_an_idle_connection_for_a_fresh_one(peer: Peer, connect: Connect) -> None:
    upstream = connect(max_connections=1)
    await read(upstream)
    ends_at = asyncio.get_running_loop().time() + 1
    connection = await upstream.pool.acquire(fresh=True, connect_timeout_s=1, ends_at=ends_at)
    assert not connection.reused
    assert (len(peer.wires), upstream.pool.busy, upstream.pool.idle) == (2, 1, 0)


async def test_a_waiter_gets_the_place_of_a_connection_that_died_and_a_cancelled_waiter_passes_it_on(
    peer: Peer, connect: Connect
) -> None:
    peer.script = hang
    upstream = connect(max_connections=1)
    busy = asyncio.ensure_future(upstream.send(POST))
    await settled(lambda: len(peer.wires) == 1)
    waiters = [asyncio.ensure_future(read(upstream)) for _ in range(3)]
    await asyncio.sleep(0.01)
    peer.script = peer.echo_ok
    busy.cancel()
    await asyncio.sleep(0)
    waiters[0].cancel()
    done = await asyncio.gather(busy, *waiters, return_exceptions=True)
    assert done[2:] == [b"hello", b"hello"]
    assert upstream.pool.busy == 0


async def test_closing_fails_calls_in_flight_and_waiting_and_refuses_new_ones(peer: Peer, connect: Connect) -> None:
    peer.script = hang
    upstream = connect(max_connections=1)
    calls = [asyncio.ensure_future(upstream.send(POST)) for _ in range(2)]
    await settled(lambda: len(peer.wires) == 1)
    await asyncio.sleep(0.01)
    await upstream.aclose()
    for call in (*calls, upstream.send(POST)):
        with pytest.raises(UpstreamUnavailable) as caught:
            await call
        assert caught.value.reason is Reason.CLOSED


async def test_a_connection_that_was_being_opened_when_the_pool_closed_serves_nothing(
    peer: Peer, connect: Connect
) -> None:
    upstream = connect()
    call = asyncio.ensure_future(upstream.send(POST))
    await asyncio.sleep(0)
    assert upstream.pool.busy == 1
    await upstream.aclose()
    with pytest.raises(UpstreamUnavailable) as caught:
        await call
    assert (caught.value.reason, caught.value.written) == (Reason.CLOSED, False)
    assert (upstream.pool.busy, peer.requests) == (0, [])
