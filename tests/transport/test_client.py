"""Answers written past uvicorn's messages: the same on the wire, in fewer writes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from gateway.transport.client import CLIENT, Client
from gateway.transport.guard import Message, Receive, Scope, Send
from gateway.transport.limits import Limits
from gateway.transport.server import running
from tests.transport import raw


async def _answered(
    status: int, headers: list[tuple[bytes, bytes]], pieces: list[bytes] | bytes, request: bytes
) -> raw.Answer:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        client: Client = scope[CLIENT]
        if isinstance(pieces, bytes):
            client.wire.answer(status, headers, pieces)
            return
        client.wire.answer(status, headers, None)
        for piece in pieces:
            slow = client.wire.piece(piece)
            if slow is not None:
                await slow
        client.wire.end()

    async with running(app, Limits()) as server:
        return await raw.exchange(server.port, request)


async def test_a_request_and_a_connection_leave_nothing_for_the_garbage_collector() -> None:
    requests: list[weakref.ref[Any]] = []
    connections: list[weakref.ref[Any]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        requests.append(weakref.ref(scope[CLIENT].wire))
        scope[CLIENT].wire.answer(200, [(b"content-length", b"0")], b"")

    gc.disable()
    try:
        async with running(app, Limits()) as server:
            async with raw.connected(server.port) as connection:
                for _ in range(3):
                    await connection.send(raw.request("/"))
                    await connection.answer()
                connections = [weakref.ref(one) for one in server.server_state.connections]
                assert [one() is None for one in requests] == [True, True, False]
            async with asyncio.timeout(5):
                while server.server_state.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
            assert [one() for one in requests + connections] == [None] * 4
    finally:
        gc.enable()


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("expects", [False, True])
async def test_a_body_is_taken_at_once_where_it_is_there_and_received_where_it_is_not(
    split: bool, expects: bool
) -> None:
    taken: list[bytes | None] = []
    received = b""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal received
        wire = scope[CLIENT].wire
        taken.append(wire.arrived())
        message: Message = {"more_body": taken[0] is None}
        while message["more_body"]:
            message = await receive()
            received += message["body"]
        wire.answer(200, [(b"content-length", b"0")], b"")
        assert (await receive())["type"] == "http.disconnect"

    whole = raw.request(
        "/", "Content-Length: 5", *(["Expect: 100-continue"] if expects else []), method=b"POST", body=b"hello"
    )
    async with running(app, Limits()) as server, raw.connected(server.port) as connection:
        await connection.send(whole[:-2] if split else whole)
        if split:
            await asyncio.sleep(0.05)
            await connection.send(whole[-2:])
        if expects:
            assert (await connection.answer()).status == 100
        assert (await connection.answer()).status == 200
    assert (taken[0], received) == ((None, b"hello") if split or expects else (b"hello", b""))


async def test_a_whole_answer_has_its_head_and_body() -> None:
    answer = await _answered(
        201, [(b"content-length", b"2"), (b"x-a", b"b")], b"ok", raw.request("/", "connection: close")
    )
    assert (answer.status, answer.body) == (201, b"ok")
    assert answer.header("x-a") == "b"
    assert answer.closed


async def test_pieces_arrive_as_one_body_and_an_empty_one_does_not_end_it() -> None:
    answer = await _answered(200, [], [b"one ", b"", b"two"], raw.request("/"))
    assert answer.body == b"one two"
    assert answer.header("transfer-encoding") == "chunked"


async def test_a_body_that_is_cut_has_no_end_and_its_connection_has() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        wire = scope[CLIENT].wire
        wire.answer(200, [], None)
        wire.piece(b"one")
        wire.cut()
        wire.cut()
        wire.end()

    async with running(app, Limits()) as server, raw.connected(server.port) as connection:
        await connection.send(raw.request("/"))
        said = await connection.reader.read()
    assert said.endswith(b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n")


async def test_a_head_request_gets_no_body() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[CLIENT].wire.answer(200, [(b"content-length", b"2")], b"ok")

    async with running(app, Limits()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(raw.request("/", "connection: close", method=b"HEAD"))
        assert (await reader.read()).endswith(b"\r\n\r\n")
        writer.close()


@pytest.mark.parametrize("value", [b"a\r\nx-b: c", b"a\nx-b: c", b"a\rb", b"\r\n\r\n<html>"])
async def test_a_line_break_in_a_header_never_reaches_the_wire(value: bytes) -> None:
    answer = await _answered(200, [(b"content-length", b"2"), (b"x-a", value)], b"ok", raw.request("/"))
    assert answer.status == 500
    assert answer.header("x-b") is None
    assert b"<html>" not in answer.body


async def test_what_is_asked_for_at_leaving_is_called_once_also_when_it_has_happened() -> None:
    called: list[str] = []
    left = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        client: Client = scope[CLIENT]
        client.on_leave(lambda: called.append("replaced"))
        client.on_leave(lambda: called.append("left"))
        while (await receive())["type"] != "http.disconnect":
            pass
        client.on_leave(lambda: called.append("late"))
        left.set()

    async with running(app, Limits()) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(raw.request("/"))
        await writer.drain()
        writer.close()
        await asyncio.wait_for(left.wait(), 5)
    assert called == ["left", "late"]
