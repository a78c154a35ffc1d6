"""Connections: reuse, loss, cancellation, time-outs, hold-back, queues. On real sockets, with a peer scripted byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable

import pytest

from gateway.upstreams import (
    Reason,
    Upstream,
    UpstreamAnswer,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamLimits,
    UpstreamRequest,
    UpstreamTimeout,
    UpstreamUnavailable,
    parse_base_url,
)
from tests.upstreams.peer import CHUNKED_HEAD, Peer, Wire, chunk, ok

Connect = Callable[..., Upstream]
GET = UpstreamRequest("GET", b"/models")
DELETE = UpstreamRequest("DELETE", b"/responses/x")
POST = UpstreamRequest("POST", b"/responses", body=b'{"model":"m"}')


async def read(upstream: Upstream, request: UpstreamRequest = GET) -> bytes:
    async with await upstream.send(request) as answer:
        return await answer.read(1_000_000)


async def settled(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    """Waits until `condition` holds; fails after `within_s`."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def hang(wire: Wire) -> None:
    await wire.client_left()


# --- reuse and loss


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


# --- leaving and cancellation


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


# --- queue


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


# --- time-outs


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


# --- hold-back, both ways


@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_a_slow_reader_keeps_memory_bounded_and_loses_nothing(peer: Peer, connect: Connect, framing: str) -> None:
    piece = bytes(range(256)) * 256
    total = 40_000_000 // len(piece)
    sent = 0

    async def script(wire: Wire) -> None:
        nonlocal sent
        await wire.request()
        await wire.send(
            CHUNKED_HEAD if framing == "chunked" else ok(b"").replace(b"h: 0", b"h: %d" % (total * len(piece)))
        )
        for _ in range(total):
            await wire.send(chunk(piece) if framing == "chunked" else piece)
            sent += len(piece)
        await wire.send(b"0\r\n\r\n" if framing == "chunked" else b"")
        await wire.client_left()

    peer.script = script
    upstream = connect()
    async with await upstream.send(POST) as answer:
        await asyncio.sleep(0.2)
        assert answer._buffered <= 400_000
        before = sent
        await asyncio.sleep(0.1)
        assert sent == before  # nothing moves while nobody reads
        size, good = 0, True
        async for got in answer:
            expected = (piece * (len(got) // len(piece) + 2))[size % len(piece) :][: len(got)]
            good = good and got == expected
            size += len(got)
            assert answer._buffered <= 400_000
    assert good
    assert size == total * len(piece)
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 1)


class Sink:
    """Collects a pushed body; holds back after every piece if asked to."""

    def __init__(self, answer: UpstreamAnswer, *, hold: bool) -> None:
        self.answer, self.hold = answer, hold
        self.pieces: list[bytes] = []
        self.ends: list[UpstreamError | None] = []
        self.over = asyncio.Event()

    def body_piece(self, piece: bytes) -> None:
        assert not self.ends
        self.pieces.append(piece)
        if self.hold:
            self.answer.hold_back()

    def body_end(self, failure: UpstreamError | None) -> None:
        self.ends.append(failure)
        self.over.set()


async def test_a_pushed_body_arrives_in_the_callback_and_ends_once(peer: Peer, connect: Connect) -> None:
    go = asyncio.Event()

    async def script(wire: Wire) -> None:
        while await wire.request():
            await wire.send(CHUNKED_HEAD + chunk(b"before"))
            await go.wait()
            await wire.send(chunk(b"after") + b"0\r\n\r\n")

    peer.script = script
    upstream = connect()
    async with await upstream.send(POST) as answer:
        await asyncio.sleep(0.02)
        sink = Sink(answer, hold=False)
        answer.push_to(sink)
        assert sink.pieces == [b"before"]
        go.set()
        await sink.over.wait()
    assert (sink.pieces, sink.ends) == ([b"before", b"after"], [None])
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 1)


async def test_a_pushed_body_waits_while_its_sink_holds_back(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED_HEAD)
        for _ in range(200):
            await wire.send(chunk(b"x" * 100_000))
        await wire.send(b"0\r\n\r\n")
        await wire.client_left()

    peer.script = script
    upstream = connect()
    async with await upstream.send(POST) as answer:
        sink = Sink(answer, hold=True)
        answer.push_to(sink)
        while not sink.ends:
            await asyncio.sleep(0.001)
            held = len(sink.pieces)
            await asyncio.sleep(0)
            assert not held or len(sink.pieces) == held
            answer.go_on()
    assert sum(map(len, sink.pieces)) == 20_000_000
    assert sink.ends == [None]


async def test_a_sink_that_holds_back_gets_nothing_more_of_what_had_already_arrived(
    peer: Peer, connect: Connect
) -> None:
    step = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED_HEAD + chunk(b"1"))
        for piece in (chunk(b"2"), chunk(b"3") + b"0\r\n\r\n"):
            await step.wait()
            step.clear()
            await wire.send(piece)
        await wire.client_left()

    peer.script = script
    upstream = connect()
    async with await upstream.send(POST) as answer:
        for _ in range(2):
            await asyncio.sleep(0.01)
            step.set()
        await settled(lambda: upstream.pool.idle == 1)
        sink = Sink(answer, hold=True)
        answer.push_to(sink)
        seen = [list(sink.pieces)]
        while not sink.ends:
            answer.go_on()
            seen.append(list(sink.pieces))
    assert seen == [[b"1"], [b"1", b"2"], [b"1", b"2", b"3"], [b"1", b"2", b"3"]]
    assert sink.ends == [None]


async def test_a_piece_that_comes_although_reading_was_stopped_waits_too(peer: Peer, connect: Connect) -> None:
    """TLS transports may hand over what they had decrypted already."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED_HEAD)
        await wire.client_left()

    peer.script = script
    upstream = connect()
    async with await upstream.send(POST) as answer:
        sink = Sink(answer, hold=True)
        answer.push_to(sink)
        connection = next(iter(upstream.pool._open))
        connection.data_received(chunk(b"1"))
        connection.data_received(chunk(b"2"))
        assert sink.pieces == [b"1"]
        answer.go_on()
        assert sink.pieces == [b"1", b"2"]


async def test_a_pushed_body_tells_its_sink_of_the_failure_once(peer: Peer, connect: Connect) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED_HEAD + chunk(b"one"))
        await asyncio.sleep(0.02)
        wire.reset()

    peer.script = script
    upstream = connect()
    async with await upstream.send(POST) as answer:
        sink = Sink(answer, hold=False)
        answer.push_to(sink)
        await sink.over.wait()
    await answer.aclose()
    assert [failure.reason for failure in sink.ends if failure] == [Reason.TRUNCATED]


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


# --- breaker


async def test_an_upstream_that_answers_badly_is_reached_all_the_same(peer: Peer, connect: Connect) -> None:
    async def lose(wire: Wire) -> None:
        await wire.request()
        wire.close()

    async def talk_nonsense(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"nonsense")

    upstream = connect(breaker_failures=2)
    for peer.script, error in (
        (lose, UpstreamUnavailable),
        (talk_nonsense, UpstreamBadAnswer),
        (lose, UpstreamUnavailable),
    ):
        with pytest.raises(error):
            await upstream.send(POST)
    peer.script = peer.echo_ok
    assert await read(upstream, POST) == b"hello"


async def test_connections_lost_without_an_answer_open_the_breaker(peer: Peer, connect: Connect) -> None:
    async def lose(wire: Wire) -> None:
        await wire.request()
        wire.close()

    peer.script = lose
    upstream = connect(breaker_failures=2)
    reasons = []
    for _ in range(3):
        with pytest.raises(UpstreamUnavailable) as caught:
            await upstream.send(POST)
        reasons.append(caught.value.reason)
    assert reasons == [Reason.CONNECTION_LOST, Reason.CONNECTION_LOST, Reason.BREAKER_OPEN]


async def test_the_breaker_opens_on_refused_connections_and_closes_after_a_probe(peer: Peer) -> None:
    async with Peer() as gone:
        port = gone.port
    limits = UpstreamLimits(breaker_failures=3, breaker_open_s=0.4, retry_pause_s=0.001)
    upstream = Upstream("main", "proj", parse_base_url(f"http://127.0.0.1:{port}"), limits)
    for _ in range(3):
        with pytest.raises(UpstreamUnavailable) as caught:
            await upstream.send(POST)
        assert (caught.value.reason, caught.value.written) == (Reason.CONNECT_FAILED, False)
    with pytest.raises(UpstreamUnavailable) as caught:
        await upstream.send(POST)
    assert caught.value.reason is Reason.BREAKER_OPEN
    assert 0 < caught.value.retry_after_s <= 0.41
    await asyncio.sleep(0.45)
    server = await asyncio.start_server(peer.accept, "127.0.0.1", port)
    async with server:
        assert await read(upstream, POST) == b"hello"
        assert await read(upstream, POST) == b"hello"
        await upstream.aclose()
