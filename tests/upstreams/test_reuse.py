"""A connection used again, and lost: what is sent once more and what never. With a peer scripted byte by byte."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from gateway.upstreams import (
    Reason,
    Upstream,
    UpstreamBadAnswer,
    UpstreamLimits,
    UpstreamRequest,
    UpstreamUnavailable,
    parse_base_url,
)
from tests.upstreams.calls import DELETE, GET, POST, Connect, read, settled
from tests.upstreams.peer import Peer, Wire, ok


async def test_calls_one_after_another_share_a_connection(peer: Peer, connect: Connect) -> None:
    upstream = connect()
    for _ in range(5):
        assert await read(upstream, POST) == b"hello"
    assert len(peer.wires) == 1
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 1)


async def test_an_idle_connection_that_the_peer_closes_leaves_the_pool(peer: Peer, connect: Connect) -> None:
    upstream = connect()
    await read(upstream)
    peer.wires[0].close()
    await settled(lambda: upstream.pool.idle == 0)
    assert await read(upstream, POST) == b"hello"
    assert len(peer.wires) == 2


@pytest.mark.parametrize("surplus", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison"])
@pytest.mark.parametrize("request_", [POST, GET])
async def test_a_close_or_surplus_answer_that_the_loop_has_not_seen_yet_does_not_reach_the_next_call(
    peer: Peer, connect: Connect, surplus: bytes, request_: UpstreamRequest
) -> None:
    upstream = connect()
    await read(upstream)
    wire = peer.wires[0]
    raw = wire.writer.get_extra_info("socket")
    # Straight to the kernel, and no await before the next call: the loop cannot have noticed.
    if surplus:
        os.write(raw.fileno(), surplus)
    else:
        wire.writer.transport.abort()
        await asyncio.sleep(0)  # the peer's own loop turn, in which its socket closes
    assert await read(upstream, request_) == b"hello"
    assert len(peer.requests) == 2
    assert len(peer.wires) == 2


async def test_bytes_on_an_idle_connection_close_it(peer: Peer, connect: Connect) -> None:
    upstream = connect()
    await read(upstream)
    await peer.wires[0].send(ok(b"poison"))
    await settled(lambda: upstream.pool.idle == 0)
    assert await read(upstream) == b"hello"


def dies_after_first_answer(peer: Peer, how: Callable[[Wire], None]) -> list[bytes]:
    """The first connection answers one request and breaks on the second, after it has read it; later connections work."""
    seen: list[bytes] = []

    async def script(wire: Wire) -> None:
        seen.append(await wire.request())
        await wire.send(ok(b"hello"))
        seen.append(await wire.request())
        if len(peer.wires) == 1:
            how(wire)
            return
        await wire.send(ok(b"hello"))

    peer.script = script
    return seen


@pytest.mark.parametrize("how", [Wire.close, Wire.reset])
async def test_a_post_is_never_sent_again_once_it_was_written(
    peer: Peer, connect: Connect, how: Callable[[Wire], None]
) -> None:
    seen = dies_after_first_answer(peer, how)
    upstream = connect()
    await read(upstream, POST)
    with pytest.raises(UpstreamUnavailable) as caught:
        await read(upstream, POST)
    assert (caught.value.reason, caught.value.written) == (Reason.CONNECTION_LOST, True)
    await asyncio.sleep(0.05)
    assert len(peer.wires) == 1
    assert len(seen) == 2
    assert upstream.pool.busy == 0


@pytest.mark.parametrize("request_", [GET, DELETE])
@pytest.mark.parametrize("how", [Wire.close, Wire.reset])
async def test_get_and_delete_are_sent_again_on_a_fresh_connection(
    peer: Peer, connect: Connect, how: Callable[[Wire], None], request_: UpstreamRequest
) -> None:
    dies_after_first_answer(peer, how)
    upstream = connect()
    assert await read(upstream, request_) == b"hello"
    assert await read(upstream, request_) == b"hello"
    assert len(peer.wires) == 2


async def test_a_request_is_not_sent_again_on_another_kept_connection(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        old = len(peer.wires) <= 4
        while request := await wire.request():
            peer.requests.append(request)
            await asyncio.sleep(0.01)  # long enough for four connections side by side
            if old and len(peer.requests) > 4:
                wire.close()
                return
            await wire.send(ok(b"hello"))

    peer.script = script
    upstream = connect()
    await asyncio.gather(*(read(upstream) for _ in range(4)))
    assert upstream.pool.idle == 4
    assert await read(upstream) == b"hello"
    assert len(peer.wires) == 5


async def test_get_is_sent_three_times_at_most_and_not_after_a_byte_of_an_answer(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        peer.requests.append(await wire.request())
        wire.close()

    peer.script = script
    upstream = connect()
    with pytest.raises(UpstreamUnavailable):
        await read(upstream)
    assert len(peer.requests) == 3

    async def one_byte(wire: Wire) -> None:
        peer.requests.append(await wire.request())
        await wire.send(b"H")
        wire.close()

    peer.script = one_byte
    with pytest.raises(UpstreamBadAnswer):
        await read(upstream)
    assert len(peer.requests) == 4


async def test_resending_ends_with_the_time_of_the_call(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        peer.requests.append(await wire.request())
        wire.close()

    peer.script = script
    origin = parse_base_url(f"http://127.0.0.1:{peer.port}")
    upstream = Upstream("main", "proj", origin, UpstreamLimits(retry_pause_s=10), jitter=lambda: 0.5)
    with pytest.raises(UpstreamUnavailable):
        await upstream.send(GET, total_timeout_s=1)
    assert len(peer.requests) == 1


async def test_a_peer_that_half_closes_without_an_answer_is_a_lost_connection(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        wire.writer.write_eof()
        await wire.client_left()

    peer.script = script
    upstream = connect()
    with pytest.raises(UpstreamUnavailable) as caught:
        await read(upstream, POST)
    assert caught.value.reason is Reason.CONNECTION_LOST
    assert upstream.pool.busy == 0


async def test_a_reset_in_the_middle_of_a_stream_is_an_error_not_an_end(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await asyncio.sleep(0.02)
        wire.reset()

    peer.script = script
    upstream = connect()
    answer = await upstream.send(POST)
    assert await anext(answer) == b"hello"
    with pytest.raises(UpstreamBadAnswer) as caught:
        await anext(answer)
    assert caught.value.reason is Reason.TRUNCATED


async def test_idle_connections_expire_and_only_so_many_are_kept(peer: Peer, connect: Connect) -> None:
    upstream = connect(max_idle=3, idle_expiry_s=0.5)
    answers = [await upstream.send(POST) for _ in range(1)]
    await asyncio.gather(*(read(upstream) for _ in range(20)))
    assert 1 <= upstream.pool.idle <= 3
    await settled(lambda: upstream.pool.idle == 0)
    await settled(lambda: peer.live == 0)
    await answers[0].aclose()
