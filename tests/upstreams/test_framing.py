"""What an answer may look like on the wire (RFC 9112), byte by byte."""

from __future__ import annotations

import asyncio

import pytest

from gateway.upstreams import Headers, Reason, Upstream, UpstreamBadAnswer, UpstreamRequest
from gateway.upstreams.framing import Framing, framing_of
from tests.upstreams.calls import GET, Connect
from tests.upstreams.peer import CHUNKED_HEAD, Peer, Wire, chunk, chunked, ok


async def read(upstream: Upstream, request: UpstreamRequest = GET) -> tuple[int, bytes]:
    async with await upstream.send(request) as answer:
        return answer.status, await answer.read(1_000_000)


@pytest.mark.parametrize(
    ("wire", "status", "body"),
    [
        (ok(b"hello"), 200, b"hello"),
        (ok(b""), 200, b""),
        (chunked(b"hel", b"lo"), 200, b"hello"),
        (chunked(), 200, b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", 304, b""),
        (b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere.invalid/\r\ncontent-length: 0\r\n\r\n", 302, b""),
        (b"HTTP/1.1 500 \r\ncontent-length: 1\r\n\r\nx", 500, b"x"),
        (b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok(b"hello"), 200, b"hello"),
    ],
)
async def test_an_answer_is_read_and_its_connection_serves_the_next_call(
    peer: Peer, connect: Connect, wire: bytes, status: int, body: bytes
) -> None:
    peer.answers(wire, ok(b"next"))
    upstream = connect()
    assert await read(upstream) == (status, body)
    assert await read(upstream) == (200, b"next")
    assert len(peer.wires) == 1


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the endEOF", b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the endEOF", b"until the end"),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\n\r\nEOF", b""),
        (ok(b"hello", b"connection: close"), b"hello"),
        (ok(b"hello", b"Connection: Close") + b"more", b"hello"),
        (ok(b"hello") + ok(b"second answer", b"content-type: text/html"), b"hello"),
        (ok(b"hello") + b"HTTP/1.1 200", b"hello"),
        (ok(b"hello") + b"garbage", b"hello"),
    ],
)
async def test_an_answer_that_ends_its_connection_is_read_and_the_next_call_gets_a_new_one(
    peer: Peer, connect: Connect, wire: bytes, body: bytes
) -> None:
    peer.answers(wire)
    upstream = connect()
    for _ in range(2):
        assert await read(upstream) == (200, body)
    assert len(peer.wires) == 2


async def test_every_split_of_an_answer_reads_the_same(peer: Peer, connect: Connect) -> None:
    whole = (
        b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED_HEAD + b'3;ext="a"\r\nabc\r\n2\r\nde\r\n0\r\nx-trailer: 1\r\n\r\n'
    )
    splits = iter(range(1, len(whole)))

    async def script(wire: Wire) -> None:
        while await wire.request():
            at = next(splits)
            await wire.send(whole[:at])
            # A request of another connection passes meanwhile, so the halves arrive in two reads.
            for _ in range(3):
                await asyncio.sleep(0)
            await wire.send(whole[at:])

    peer.script = script
    upstream = connect()
    for _ in range(1, len(whole)):
        assert await read(upstream) == (200, b"abcde")
    assert len(peer.wires) == 1


@pytest.mark.parametrize("length", [b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n", b""])
async def test_an_answer_to_head_has_no_body_whatever_its_headers_say(
    peer: Peer, connect: Connect, length: bytes
) -> None:
    peer.answers(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n", b"HTTP/1.1 200 OK\r\n" + length + b"\r\nhello")
    upstream = connect()
    for _ in range(2):
        assert await read(upstream, UpstreamRequest("HEAD", b"/models")) == (200, b"")
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 0)


async def test_a_body_sent_to_a_head_request_is_never_delivered(peer: Peer, connect: Connect) -> None:
    peer.answers(ok(b"hello"), ok(b"second"))
    upstream = connect()
    assert await read(upstream, UpstreamRequest("HEAD", b"/models")) == (200, b"")
    assert await read(upstream) == (200, b"hello")


async def test_trailers_and_chunk_extensions_never_become_headers(peer: Peer, connect: Connect) -> None:
    peer.answers(
        CHUNKED_HEAD + b"5;authorization=x\r\nhello\r\n0\r\nAuthorization: Bearer x\r\nset-cookie: a=b\r\n\r\n",
        ok(b"n"),
    )
    upstream = connect()
    async with await upstream.send(GET) as answer:
        assert await answer.read(100) == b"hello"
        assert answer.headers == ((b"content-type", b"text/event-stream"), (b"transfer-encoding", b"chunked"))
    async with await upstream.send(GET) as answer:
        assert answer.headers == ((b"content-length", b"1"),)


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\nhello", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\nhello", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Reason.FRAMING),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nhello", Reason.FRAMING),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nhello", Reason.FRAMING),
        (b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", Reason.FRAMING),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello", Reason.CONTENT_CODING),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: identity, br\r\ncontent-length: 5\r\n\r\nhello", Reason.CONTENT_CODING),
        (b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\nx: a\x00b\r\ncontent-length: 0\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\nx: caf\xc3\xa9\r\ncontent-length: 0\r\n\r\n", Reason.HEADER_BYTES),
        (b"HTTP/1.1 200 OK\r\nx : a\r\ncontent-length: 0\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\n: a\r\ncontent-length: 0\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\nx: a\rset-cookie: b\r\ncontent-length: 0\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\nx: a\ncontent-length: 0\n\n", Reason.MALFORMED),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n", Reason.MALFORMED),
        (b"HTTP/0.9 200 OK\r\ncontent-length: 0\r\n\r\n", Reason.MALFORMED),
        (b"ICY 200 OK\r\n\r\n", Reason.MALFORMED),
        (b"\x16\x03\x01\x02\x00", Reason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ncontent-leEOF", Reason.TRUNCATED),
        (b"HTTP/1.1 100 Continue\r\n\r\nEOF", Reason.TRUNCATED),
        (b"HTTP/1.1 200 OK\r\n" + b"x: " + b"a" * 70_000 + b"\r\ncontent-length: 0\r\n\r\n", Reason.HEADERS_TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n" + b"x: a\r\n" * 14_000 + b"content-length: 0\r\n\r\n", Reason.HEADERS_TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 300_000, Reason.HEADERS_TOO_LARGE),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 12_000, Reason.HEADERS_TOO_LARGE),
    ],
)
async def test_an_answer_with_a_faulty_head_is_refused_and_its_connection_closed(
    peer: Peer, connect: Connect, wire: bytes, reason: Reason
) -> None:
    peer.answers(wire)
    upstream = connect()
    with pytest.raises(UpstreamBadAnswer) as caught:
        await upstream.send(GET)
    assert caught.value.reason is reason
    assert caught.value.written
    assert str(caught.value) == reason.value
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 0)
    assert len(peer.wires) == 1


@pytest.mark.parametrize(
    ("wire", "before", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhelloEOF", b"hello", Reason.TRUNCATED),
        (CHUNKED_HEAD + b"5\r\nhello\r\nEOF", b"hello", Reason.TRUNCATED),
        (CHUNKED_HEAD + b"5\r\nhelEOF", b"hel", Reason.TRUNCATED),
        (CHUNKED_HEAD + b"5\r\nhello\r\n0\r\nEOF", b"hello", Reason.TRUNCATED),
        (CHUNKED_HEAD + b"0\r\nx: " + b"a" * 300_000 + b"\r\n\r\n", b"", Reason.HEADERS_TOO_LARGE),
        (CHUNKED_HEAD + b"5;" + b"a" * 1_000_000, b"", Reason.HEADERS_TOO_LARGE),
    ],
)
async def test_a_body_that_breaks_off_is_an_error_after_the_pieces_before_it(
    peer: Peer, connect: Connect, wire: bytes, before: bytes, reason: Reason
) -> None:
    peer.answers(wire)
    upstream = connect()
    got = b""
    with pytest.raises(UpstreamBadAnswer) as caught:  # noqa: PT012
        async with await upstream.send(GET) as answer:
            async for piece in answer:
                got += piece
    assert (got, caught.value.reason) == (before, reason)
    assert (upstream.pool.busy, upstream.pool.idle) == (0, 0)


@pytest.mark.parametrize(
    "bad", [b"zz\r\nhello\r\n", b"5\r\nhelloXX5\r\n", b"-5\r\nhello\r\n", b"5\nhello\r\n", b"fffffffffffffffff\r\n"]
)
async def test_a_malformed_chunk_fails_the_body_instead_of_shortening_it(
    peer: Peer, connect: Connect, bad: bytes
) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED_HEAD + chunk(b"good"))
        await wire.request()

    peer.script = script
    upstream = connect()
    async with await upstream.send(GET) as answer:
        assert await anext(answer) == b"good"
        await peer.wires[0].send(bad)
        with pytest.raises(UpstreamBadAnswer) as caught:
            await answer.read(1_000)
        assert caught.value.reason is Reason.MALFORMED


async def test_a_body_longer_than_asked_for_is_cut_with_an_error_and_its_connection_closed(
    peer: Peer, connect: Connect
) -> None:
    peer.answers(CHUNKED_HEAD + chunk(b"x" * 2_000))
    upstream = connect()
    answer = await upstream.send(GET)
    with pytest.raises(UpstreamBadAnswer) as caught:
        await answer.read(1_000)
    assert caught.value.reason is Reason.TOO_LARGE
    assert upstream.pool.busy == 0


async def test_set_cookie_is_never_sent_back(peer: Peer, connect: Connect) -> None:
    peer.answers(ok(b"hello", b"set-cookie: __cf_bm=secret; path=/", b"location: /x", b"www-authenticate: Basic"))
    upstream = connect()
    for _ in range(2):
        await read(upstream)
    assert len(peer.wires) == 1
    assert b"cookie" not in peer.requests[1].lower()
    assert peer.requests[0] == peer.requests[1]


@pytest.mark.parametrize(
    ("headers", "framing"),
    [
        (((b"content-length", b"5"),), Framing.DELIMITED),
        (((b"transfer-encoding", b"Chunked"),), Framing.DELIMITED),
        ((), Framing.UNTIL_CLOSE),
        (((b"content-length", b"5"), (b"transfer-encoding", b"chunked")), Reason.FRAMING),
        (((b"content-length", b"5"), (b"content-length", b"5")), Reason.FRAMING),
        (((b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"chunked")), Reason.FRAMING),
        (((b"x", b"a\r\nb"),), Reason.HEADER_BYTES),
        (((b"x", b"\x7f"),), Reason.HEADER_BYTES),
        (((b"x", b"\x80"),), Reason.HEADER_BYTES),
        (((b"x", b"a" * 995),), Framing.UNTIL_CLOSE),
        (((b"x", b"a" * 996),), Reason.HEADERS_TOO_LARGE),
    ],
)
def test_the_rules_hold_without_the_parser_s_help(headers: Headers, framing: Framing | Reason) -> None:
    assert framing_of("1.1", 200, headers, 1_000) is framing
