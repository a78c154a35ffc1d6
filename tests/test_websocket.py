"""One end of a WebSocket over loopback, against another one and against peers that do as they like."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from gateway import websocket
from gateway.turns import FRAME_BYTES, TURN_BYTES
from gateway.websocket import MAX_FRAGMENTS, QUIET, Endpoint, SocketEnded

MOST = 1_000_000


class Open(Endpoint):
    """An end whose handshake is over."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opened()


def server_end() -> Open:
    return Open(ServerProtocol(state=State.OPEN, max_size=MOST, logger=QUIET))


def client_end() -> Open:
    return Open(ClientProtocol(parse_uri("ws://x"), state=State.OPEN, max_size=MOST, logger=QUIET))


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, asyncio.Future[Open]]]:
    """A port, and the end that the first connection to it gets."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Open] = loop.create_future()

    def make() -> Open:
        accepted.set_result(server_end())
        return accepted.result()

    server = await loop.create_server(make, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], accepted
    finally:
        if accepted.done():
            accepted.result().transport.abort()
        server.close()


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[tuple[Open, Open]]:
    """A server's end and a client's."""
    async with listening() as (port, accepted):
        _, client = await asyncio.get_running_loop().create_connection(client_end, "127.0.0.1", port)
        try:
            yield await accepted, client
        finally:
            client.transport.abort()


@contextlib.asynccontextmanager
async def stranger() -> AsyncIterator[tuple[Open, asyncio.StreamReader, asyncio.Transport]]:
    """A server's end, and bytes on its wire."""
    async with listening() as (port, accepted):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        transport = cast(asyncio.Transport, writer.transport)
        try:
            yield await accepted, reader, transport
        finally:
            transport.abort()


def masked(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


async def close_frame(reader: asyncio.StreamReader) -> Close:
    """The close that the end sends, past whatever else it sent before."""
    while True:
        opcode, size = await reader.readexactly(2)
        body = await reader.readexactly(size)
        if opcode == 0x88:
            return Close.parse(body)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_messages_pass_both_ways_in_their_order() -> None:
    async with pair() as (server, client):
        for end, other in ((server, client), (client, server)):
            for number in range(100):
                await end.send(b"%d" % number)
            assert [await other.receive() for _ in range(100)] == [b"%d" % number for number in range(100)]


async def test_what_came_before_a_close_is_read_and_both_read_its_code() -> None:
    async with pair() as (server, client):
        await client.send(b"last")
        client.begin_close(3005, "enough")
        assert await server.receive() == b"last"
        for end in (server, client):
            with pytest.raises(SocketEnded) as ended:
                await end.receive()
            assert (ended.value.code, ended.value.reason) == (3005, "enough")
        await asyncio.gather(server.wait_ended(), client.wait_ended())
        with pytest.raises(SocketEnded):
            await server.send(b"x")


async def test_who_does_not_take_messages_holds_the_sender_back() -> None:
    async with pair() as (server, client):
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await client.send(b"x" * 100_000)
                sent += 1

        flooding = asyncio.ensure_future(flood())
        await until(lambda: client._full)
        held = sent
        await asyncio.sleep(0.1)
        assert sent <= held + 1
        assert server.buffered_bytes < 1_000_000
        for _ in range(held):
            assert len(await server.receive() or b"") == 100_000
        flooding.cancel()


async def test_of_several_senders_a_cancelled_one_takes_no_other_along() -> None:
    async with pair() as (server, client):
        while not client._full:
            await client.send(b"x" * 100_000)
        first, second = (asyncio.ensure_future(client.send(word)) for word in (b"first", b"second"))
        await asyncio.sleep(0)
        first.cancel()
        while (message := await server.receive()) != b"second":
            assert message != b"first"
        await second


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x81\x01x", 1002),  # not masked
        (b"\xf1\x81\x00\x00\x00\x00x", 1002),
        (masked(Opcode.CONT, b"x"), 1002),
        (masked(Opcode.TEXT, b"\xff\xfe"), 1007),
        (masked(Opcode.TEXT, "é".encode()[:1], fin=False) + masked(Opcode.CONT, b"x"), 1007),
        (b"\x81\xff" + (MOST + 1).to_bytes(8, "big"), 1009),
        (masked(Opcode.TEXT, b"x" * (MOST - 1), fin=False) + masked(Opcode.CONT, b"xx"), 1009),
        (masked(Opcode.TEXT, b"", fin=False) + masked(Opcode.CONT, b"", fin=False) * MAX_FRAGMENTS, 1009),
    ],
    ids=[
        "not masked",
        "reserved bits",
        "no beginning",
        "no UTF-8",
        "no UTF-8 in pieces",
        "too long",
        "too long in pieces",
        "too many pieces",
    ],
)
async def test_a_peer_that_breaks_the_protocol_reads_why_and_is_cut_off(sent: bytes, code: int) -> None:
    async with stranger() as (server, reader, writer):
        writer.write(sent)
        with pytest.raises(SocketEnded) as ended:
            await server.receive()
        assert ended.value.code == 1006
        assert (await close_frame(reader)).code == code
        await asyncio.wait_for(server.wait_ended(), 5)


async def test_a_message_may_come_in_pieces_cut_anywhere_with_pings_between_and_holds_no_more_than_its_bytes() -> None:
    async with stranger() as (server, _, writer):
        text = "é" * 50
        pieces = [bytes([one]) for one in text.encode()] + [b""] * (MAX_FRAGMENTS - 102)
        sent = masked(Opcode.TEXT, b"", fin=False) + masked(Opcode.PING, b"1")
        writer.write(sent + b"".join(masked(Opcode.CONT, piece, fin=False) for piece in pieces))
        await until(lambda: server.buffered_bytes == 100)
        writer.write(masked(Opcode.CONT, b""))
        assert await server.receive() == text.encode()
        assert server.buffered_bytes == 0
        writer.write(masked(Opcode.BINARY, b"x"))
        assert await server.receive() is None


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Frames that all ends have heard, by turns of the loop."""
    heard = [0]
    hear = Endpoint._hear

    def count(end: Endpoint, event: object) -> None:
        heard[-1] += 1
        hear(end, event)

    def turn() -> None:
        heard.append(0)
        loop.call_soon(turn)

    loop = asyncio.get_running_loop()
    loop.call_soon(turn)
    monkeypatch.setattr(Endpoint, "_hear", count)
    return heard


TINY = [
    masked(Opcode.PONG, b""),
    masked(Opcode.PING, b""),
    masked(Opcode.CONT, b"", fin=False),
    masked(Opcode.TEXT, b""),
]


@pytest.mark.parametrize("tiny", TINY, ids=["pongs", "pings", "fragments", "messages"])
async def test_a_turn_of_the_loop_takes_a_few_tiny_frames_of_all_sockets_together(
    monkeypatch: pytest.MonkeyPatch, tiny: bytes
) -> None:
    begins = masked(Opcode.TEXT, b"", fin=False) if tiny[0] == 0 else b""
    async with contextlib.AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(stranger()) for _ in range(4)]
        taking = [asyncio.ensure_future(taken(server)) for server, _, _ in opened]
        heard = counted(monkeypatch)
        for _, _, writer in opened:
            writer.write(begins + tiny * 4_000)
        await until(lambda: sum(heard) >= 4 * 4_000)
        assert max(heard) <= TURN_BYTES // FRAME_BYTES + 1
        for task in taking:
            task.cancel()


async def taken(end: Endpoint) -> None:
    while True:
        await end.receive()


async def test_tiny_messages_that_nobody_takes_stay_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger() as (server, _, writer):
        writer.write(masked(Opcode.TEXT, b"") * 100_000)
        await until(lambda: server._held)
        heard = counted(monkeypatch)
        await asyncio.sleep(0.05)
        assert sum(heard) == 0
        assert len(server._messages) <= 16 + TURN_BYTES // FRAME_BYTES
        for _ in range(100_000):
            assert await server.receive() == b""


async def test_a_long_message_is_read_on_without_waiting_for_turns() -> None:
    async with stranger() as (server, _, writer):
        writer.write(masked(Opcode.TEXT, b"x" * (MOST - 1)) + masked(Opcode.TEXT, b"y"))
        assert await server.receive() == b"x" * (MOST - 1)
        assert await server.receive() == b"y"


async def test_pings_of_a_peer_that_reads_nothing_fill_no_memory() -> None:
    async with stranger() as (server, reader, writer):
        writer.pause_reading()
        while not server._full:
            await server.send(b"x" * 100_000)
        size = server.transport.get_write_buffer_size()
        for _ in range(20):
            writer.write(masked(Opcode.PING, b"x" * 125) * 1_000)
            await asyncio.sleep(0)
        await until(lambda: server._held)
        assert server.transport.get_write_buffer_size() < size + 2_000_000
        writer.write(masked(Opcode.TEXT, b"last"))
        writer.resume_reading()
        reading = asyncio.ensure_future(reader.read())
        assert await server.receive() == b"last"
        reading.cancel()


@pytest.mark.parametrize("answers", [True, False])
async def test_a_silent_peer_is_pinged_and_given_up_where_it_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    monkeypatch.setattr(websocket, "BEAT_S", 0.02)
    if answers:
        async with pair() as (server, client):
            await asyncio.sleep(0.3)
            await server.send(b"there?")
            assert await client.receive() == b"there?"
        return
    async with stranger() as (server, reader, _):
        with pytest.raises(SocketEnded):
            await asyncio.wait_for(server.receive(), 5)
        assert (await reader.read()).startswith(b"\x89\x00")


async def test_a_peer_that_sends_and_never_reads_is_given_up_and_one_that_is_not_listened_to_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "BEAT_S", 0.05)
    async with stranger() as (server, _, writer):
        while not server._held:
            writer.write(masked(Opcode.TEXT, b"x" * 1_000))
            await asyncio.sleep(0)
        await asyncio.sleep(0.5)
        assert not server._gone
        writer.pause_reading()
        while not server._full:
            await server.send(b"x" * 100_000)
        await asyncio.wait_for(server.wait_ended(), 5)


async def test_nothing_of_a_frame_is_logged_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("websockets", QUIET.name):
        caplog.set_level(logging.DEBUG, name)
    async with pair() as (server, client):
        await client.send(b"secret")
        await server.receive()
        client.begin_close(1000, "secret")
        await server.wait_ended()
    assert "secret" not in caplog.text
