"""Silence, dripping and slow ends: each phase has its own time-out."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.upstreams import Reason, Upstream, UpstreamLimits, UpstreamTimeout, parse_base_url
from tests.upstreams.calls import POST, Connect, hang, read
from tests.upstreams.peer import CHUNKED_HEAD, Peer, Wire, chunk, ok


@pytest.mark.parametrize(
    ("sent", "limit", "reason"),
    [
        (b"", {"headers_timeout_s": 0.1}, Reason.HEADERS_TIMEOUT),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200", {"headers_timeout_s": 0.1}, Reason.HEADERS_TIMEOUT),
        (CHUNKED_HEAD + chunk(b"x"), {"idle_timeout_s": 0.1}, Reason.IDLE_TIMEOUT),
        (b"", {"total_timeout_s": 0.1}, Reason.TOTAL_TIMEOUT),
        (CHUNKED_HEAD + chunk(b"x"), {"total_timeout_s": 0.1}, Reason.TOTAL_TIMEOUT),
    ],
)
async def test_silence_ends_in_the_time_out_of_its_phase(
    peer: Peer, connect: Connect, sent: bytes, limit: dict[str, float], reason: Reason
) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(sent)
        await wire.client_left()

    peer.script = script
    upstream = connect(**limit)
    started = time.monotonic()
    with pytest.raises(UpstreamTimeout) as caught:
        await read(upstream, POST)
    assert (caught.value.reason, caught.value.written) == (reason, True)
    assert 0.09 < time.monotonic() - started < 2
    assert upstream.pool.busy == 0


async def test_dripping_header_bytes_do_not_move_the_header_time_out(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\nx: ")
        while not wire.reader.at_eof():
            await wire.send(b"a")
            await asyncio.sleep(0.02)

    peer.script = script
    upstream = connect()
    with pytest.raises(UpstreamTimeout) as caught:
        await upstream.send(POST, headers_timeout_s=0.1)
    assert caught.value.reason is Reason.HEADERS_TIMEOUT


async def test_a_steady_stream_outlives_the_idle_time_out_but_not_the_total_one(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED_HEAD)
        while not wire.reader.at_eof():
            await wire.send(chunk(b"x"))
            await asyncio.sleep(0.02)

    peer.script = script
    upstream = connect()
    size = 0
    with pytest.raises(UpstreamTimeout) as caught:  # noqa: PT012
        async with await upstream.send(POST, idle_timeout_s=0.3, total_timeout_s=0.6) as answer:
            async for piece in answer:
                size += len(piece)
    assert caught.value.reason is Reason.TOTAL_TIMEOUT
    assert size > 8


async def test_a_reader_that_holds_back_is_not_taken_for_a_silent_upstream(peer: Peer, connect: Connect) -> None:
    whole = b"x" * 3_000_000

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(whole))
        await asyncio.sleep(0.02)
        await wire.send(whole)
        await wire.client_left()

    peer.script = script
    upstream = connect(idle_timeout_s=0.1)
    async with await upstream.send(POST) as answer:
        await asyncio.sleep(0.3)
        assert await answer.read(len(whole)) == whole


async def test_time_outs_of_earlier_calls_do_not_hit_later_ones_on_the_same_connection(
    peer: Peer, connect: Connect
) -> None:
    async def script(wire: Wire) -> None:
        while await wire.request():
            await asyncio.sleep(0.08)
            await wire.send(ok(b"hello"))

    peer.script = script
    upstream = connect()
    for _ in range(6):
        async with await upstream.send(POST, headers_timeout_s=0.4, total_timeout_s=0.4) as answer:
            assert await answer.read(10) == b"hello"
    assert len(peer.wires) == 1
    async with await upstream.send(POST, headers_timeout_s=5) as answer:
        assert await answer.read(10) == b"hello"


async def test_a_connect_that_gets_nowhere_times_out_without_a_byte_written(peer: Peer) -> None:
    # TLS towards a peer that never answers the handshake.
    peer.script = hang
    upstream = Upstream(
        "main", "proj", parse_base_url(f"https://127.0.0.1:{peer.port}"), UpstreamLimits(connect_timeout_s=0.1)
    )
    with pytest.raises(UpstreamTimeout) as caught:
        await upstream.send(POST)
    assert (caught.value.reason, caught.value.written) == (Reason.CONNECT_TIMEOUT, False)
    assert upstream.pool.busy == 0
