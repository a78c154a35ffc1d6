"""Bodies that come down, read or pushed: they wait for a slow reader, and memory stays bounded."""

from __future__ import annotations

import asyncio

import pytest

from gateway.upstreams import Reason, UpstreamAnswer, UpstreamBadAnswer, UpstreamError
from tests.upstreams.calls import POST, Connect, settled
from tests.upstreams.peer import CHUNKED_HEAD, Peer, Wire, chunk, ok


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


class _Source:
    def hold_back(self) -> None: ...
    def go_on(self) -> None: ...
    def abort(self) -> None: ...


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("way", ["end", "failure", "abort"])
def test_the_end_of_a_body_is_told_once_however_it_ended(way: str, early: bool) -> None:
    answer, told = UpstreamAnswer(200, (), _Source(), 1000), list[str]()
    if early:
        answer.on_end(lambda: told.append(way))
        assert told == []
    if way == "abort":
        answer.abort()
    else:
        answer.end(UpstreamBadAnswer(Reason.TRUNCATED) if way == "failure" else None)
    if not early:
        answer.on_end(lambda: told.append(way))
    answer.abort()
    assert told == [way]


async def test_what_a_body_grows_by_is_told_and_a_body_that_is_given_up_shows_how_it_began() -> None:
    for whole in (True, False):
        answer, sizes = UpstreamAnswer(200, (), _Source(), 1000), list[int]()
        answer.feed(b"ab")
        answer.feed(b"cde")
        answer.end(None if whole else UpstreamBadAnswer(Reason.TRUNCATED))
        if whole:
            assert await answer.read(10, sizes.append) == b"abcde"
        else:
            with pytest.raises(UpstreamBadAnswer):
                await answer.read(10, sizes.append)
            assert answer.begun == b"abcde"
        assert sum(sizes) == 5
