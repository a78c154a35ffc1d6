"""Bodies that go up, from a source: they wait for a slow upstream, and end as the source ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.upstreams import Reason, UpstreamAnswer, UpstreamRequest, UpstreamTimeout
from tests.upstreams.calls import POST, Connect, read
from tests.upstreams.peer import Peer, Wire, ok


async def test_a_streamed_request_is_sent_in_chunks_and_waits_for_a_slow_upstream(peer: Peer, connect: Connect) -> None:
    piece = b"y" * 100_000
    given = 0
    read_on = asyncio.Event()
    received = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(200):
            given += len(piece)
            yield piece
        yield b""

    async def script(wire: Wire) -> None:
        nonlocal received
        head = await wire.reader.readuntil(b"\r\n\r\n")
        assert b"transfer-encoding: chunked\r\n" in head
        assert b"content-length" not in head
        await read_on.wait()
        while size := int(await wire.reader.readline(), 16):
            received += len(await wire.reader.readexactly(size))
            assert await wire.reader.readexactly(2) == b"\r\n"
        await wire.reader.readline()
        await wire.send(ok(b"hello"))
        assert await wire.request()
        await wire.send(ok(b"again"))

    peer.script = script
    upstream = connect()
    call = asyncio.ensure_future(read(upstream, UpstreamRequest("POST", b"/files", body=body())))
    await asyncio.sleep(0.2)
    assert given < 15_000_000
    read_on.set()
    assert await call == b"hello"
    assert received == 200 * len(piece)
    assert await read(upstream, POST) == b"again"


async def test_an_answer_before_the_end_of_a_streamed_request_is_taken_and_the_connection_closed(
    peer: Peer, connect: Connect
) -> None:
    stopped = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"z" * 1_000
                await asyncio.sleep(0.001)
        finally:
            stopped.set()

    async def script(wire: Wire) -> None:
        await wire.reader.readuntil(b"\r\n\r\n")
        await wire.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\n\r\nfull")
        await wire.client_left()

    peer.script = script
    upstream = connect()
    async with await upstream.send(UpstreamRequest("POST", b"/files", body=body())) as answer:
        assert (answer.status, await answer.read(10)) == (413, b"full")
    async with asyncio.timeout(1):
        await stopped.wait()
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 0)


@pytest.mark.parametrize("status", [b"200 OK", b"413 Too Large"])
async def test_a_source_that_never_goes_on_is_cancelled_by_an_early_answer(
    peer: Peer, connect: Connect, status: bytes
) -> None:
    stopped = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"z"
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def script(wire: Wire) -> None:
        await wire.reader.readuntil(b"\r\n\r\n")
        await wire.send(b"HTTP/1.1 " + status + b"\r\ncontent-length: 4\r\n\r\nfull")
        await wire.client_left()

    peer.script = script
    upstream = connect()
    async with asyncio.timeout(1):
        async with await upstream.send(UpstreamRequest("POST", b"/files", body=body())) as answer:
            assert await answer.read(10) == b"full"
        await stopped.wait()
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 0)


async def test_a_slow_source_is_not_taken_for_a_silent_upstream(peer: Peer, connect: Connect) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(2):
            yield b"part"
            await asyncio.sleep(0.25)

    async with await connect(idle_timeout_s=0.1).send(UpstreamRequest("POST", b"/files", body=body())) as answer:
        assert await answer.read(10) == b"hello"


async def test_a_body_source_that_fails_raises_its_own_error_and_the_upstream_never_sees_an_end(
    peer: Peer, connect: Connect
) -> None:
    class ClientGone(Exception):
        pass

    received = bytearray()

    async def body() -> AsyncIterator[bytes]:
        yield b"part"
        raise ClientGone

    async def script(wire: Wire) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await wire.reader.read(65536):
                received.extend(data)

    peer.script = script
    upstream = connect()
    with pytest.raises(ClientGone):
        await upstream.send(UpstreamRequest("POST", b"/files", body=body()))
    await asyncio.sleep(0.05)
    assert b"\r\n0\r\n" not in received
    assert upstream.pool.busy == 0


async def test_a_body_source_that_fails_while_its_call_is_cancelled_leaves_no_noise(
    peer: Peer, connect: Connect
) -> None:
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    calls: list[asyncio.Task[UpstreamAnswer]] = []

    async def body() -> AsyncIterator[bytes]:
        yield b"part"
        calls[0].cancel()
        raise OSError

    calls.append(asyncio.create_task(connect().send(UpstreamRequest("POST", b"/files", body=body()))))
    await asyncio.wait(calls)
    assert calls.pop().cancelled()
    gc.collect()
    assert said == []


async def test_an_upstream_that_takes_no_more_of_a_request_times_out(peer: Peer, connect: Connect) -> None:
    async def body() -> AsyncIterator[bytes]:
        while True:
            yield b"z" * 1_000_000

    async def script(wire: Wire) -> None:
        await asyncio.sleep(1)

    peer.script = script
    upstream = connect(idle_timeout_s=0.1)
    with pytest.raises(UpstreamTimeout) as caught:
        await upstream.send(UpstreamRequest("POST", b"/files", body=body()))
    assert caught.value.reason is Reason.IDLE_TIMEOUT
    assert upstream.pool.busy == 0
