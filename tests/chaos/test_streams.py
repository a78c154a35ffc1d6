"""Streams in trouble: a slow Redis, a silent, broken or lying upstream, a reader that does not read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import openai
import pytest

from gateway.demo.stand_in.server import Running
from tests.chaos.test_leaving import sent
from tests.patience import AS_SHIPPED
from tests.pipeline.desk import MODEL, Desk, desk, events_of
from tests.redis_fixture import RedisServer, until
from tests.transport.raw import RawConnection, connected
from tests.upstreams.peer import CHUNKED_HEAD, Peer, Wire, chunk

PING_S = 0.05
IDLE_S = 0.6


@pytest.fixture
async def at(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(
        redis_server,
        stand_in,
        tmp_path,
        **AS_SHIPPED,
        COATCHECK_REQUESTS_PING_INTERVAL_S=str(PING_S),
        COATCHECK_UPSTREAM_IDLE_TIMEOUT_S=str(IDLE_S),
    ) as made:
        yield made


@contextlib.contextmanager
def paused(server: RedisServer) -> Any:
    server.pause()
    try:
        yield
    finally:
        server.resume()


async def read_for(connection: RawConnection, seconds: float) -> bytes:
    """What comes within so long."""
    data = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while piece := await connection.reader.read(65536):
                data += piece
    return data


async def test_no_byte_with_the_id_comes_before_its_mapping_is_durable(at: Desk, redis_server: RedisServer) -> None:
    await at.created()
    async with connected(at.port) as connection:
        await sent(at, connection, "slow=0.1", stream=True)
        await until(lambda: len(at.upstream) == 2)
        with paused(redis_server):
            assert await read_for(connection, 0.35) == b""
        assert b"resp_" in await connection.reader.readuntil(b"\n\n")


async def test_the_terminal_event_waits_for_the_childrens_records_and_the_outcome(
    at: Desk, redis_server: RedisServer
) -> None:
    await at.created()
    async with connected(at.port) as connection:
        await sent(at, connection, "delay=0.01, message", stream=True)
        await connection.reader.readuntil(b"response.output_item.added")
        with paused(redis_server):
            early = await read_for(connection, 0.4)
        assert b"response.output_item.done" in early
        assert b"response.completed" not in early
        await connection.reader.readuntil(b"response.completed")
    assert await at.last_outcome() == ("allow", "")


async def test_new_ids_work_in_the_moment_of_completed(at: Desk) -> None:
    headers = await at.headers()
    client = at.gateway.client(headers["authorization"].removeprefix("Bearer "))
    for _ in range(5):
        at.script("reasoning, message")
        async for event in await client.responses.create(model=MODEL, input="hello", stream=True):
            if event.type == "response.completed":
                again = await client.responses.create(model=MODEL, input="x", previous_response_id=event.response.id)
                assert again.previous_response_id == event.response.id
                got = await client.responses.retrieve(event.response.id)
                assert [item.id for item in got.output] == [item.id for item in event.response.output]


@pytest.mark.parametrize("script", ["delay=0.07, delta=60", "delay=0.07, delta=60, keepalive, bom"])
async def test_a_ping_is_a_comment_that_the_sdk_never_sees(at: Desk, script: str) -> None:
    data = await at.streamed(script)
    assert b": ping\n" in data
    assert b": ping\n\n" not in data
    assert b"\n\n: ping\n" in data
    headers = await at.headers()
    client = at.gateway.client(headers["authorization"].removeprefix("Bearer "))
    at.script(script)
    types = [event.type async for event in await client.responses.create(model=MODEL, input="hello", stream=True)]
    assert types[0] == "response.created"
    assert types[-1] == "response.completed"
    assert all(types)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("message, cut=5", "upstream_bad_answer"),
        ("message, cut_clean=5", "upstream_bad_answer"),
        ("message, hang=5", "upstream_timeout"),
        ("message, error_event=5", "upstream_error"),
    ],
)
async def test_a_stream_that_breaks_off_ends_in_an_error_event(at: Desk, script: str, reason: str) -> None:
    async with at.stream(script) as reply:
        assert reply.status_code == 200
        data = await reply.aread()
        request_id = reply.headers["x-request-id"]
    last = events_of(data)[-1]
    assert last["type"] == "error"
    assert data.count(b"event: error") == 1
    assert {"code", "message", "param"} <= last.keys()
    for secret in at.stand_in.provider.ids.secrets():
        assert secret.encode() not in data
    outcomes = await at.outcomes(request_id)
    assert [result for result, _, _ in outcomes] == ["accepted", "error"]
    assert outcomes[-1][1] == reason
    assert await at.unanswered() == []


@pytest.mark.parametrize(
    "script", ["message, cut=0", "message, cut_clean=0", "message, hang=-1, error_event=-1, close"]
)
async def test_a_stream_that_breaks_off_before_its_first_event_is_an_ordinary_error(at: Desk, script: str) -> None:
    reply = await at.create(script, stream=True)
    assert reply.status_code in (502, 503), reply.text
    assert reply.headers["content-type"] == "application/json"
    assert await at.unanswered() == []


def wire(*pieces: bytes, end: bool = True) -> Callable[[Wire], Any]:
    async def script(wire: Wire) -> None:
        while await wire.request():
            await wire.send(CHUNKED_HEAD + b"".join(chunk(piece) for piece in pieces) + (b"0\r\n\r\n" if end else b""))

    return script


async def test_a_ping_comes_between_events_alone(redis_server: RedisServer, tmp_path: Path) -> None:
    """Not before the first, ahead of a byte order mark, and not inside a line end that comes in two pieces."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED_HEAD)
        event = b"\xef\xbb\xbf" + CREATED.replace(b"\n", b"\r\n")
        ending = b'data: {"type":"response.completed","response":{"id":"%b","output":[]}}\r\n\r\n' % RAW
        for piece in (event[:-1], event[-1:], ending):
            await asyncio.sleep(0.25)
            await wire.send(chunk(piece))
        await wire.send(b"0\r\n\r\n")

    async with Peer() as peer:
        peer.script = script
        upstream = cast(Running, SimpleNamespace(api_url=f"http://127.0.0.1:{peer.port}/v1"))
        async with desk(redis_server, upstream, tmp_path, COATCHECK_REQUESTS_PING_INTERVAL_S="0.1") as at:
            data = await at.streamed()
    assert data.startswith(b"\xef\xbb\xbfevent: response.created")
    created, _, rest = data.partition(b"\r\n\r\n")
    assert b": ping" not in created
    assert re.match(rb"(: ping\n)+data: ", rest)
    assert rest.endswith(b"}\r\n\r\n")


RAW = b"resp_0123456789abcdef0123456789abcdef0123456789abcdef01"
CREATED = (
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":'
    b'{"id":"%b","object":"response","output":[]}}\n\n' % RAW
)


@pytest.mark.parametrize(
    "broken",
    [
        b"data: {\n\n",
        b'data: {"type":"x","type":"y"}\n\n',
        b"data: " + b"[" * 5000 + b"]" * 5000 + b"\n\n",
        b'data: {"type":"response.x","n":NaN}\n\n',
        b'data: {"type":"response.x","s":"\xff"}\n\n',
        b"",
        b": comment only\n\n",
    ],
)
async def test_an_event_that_cannot_be_read_ends_the_stream(
    redis_server: RedisServer, tmp_path: Path, broken: bytes
) -> None:
    async with Peer() as peer:
        peer.script = wire(CREATED, broken)
        upstream = cast(Running, SimpleNamespace(api_url=f"http://127.0.0.1:{peer.port}/v1"))
        async with desk(redis_server, upstream, tmp_path) as at, at.stream() as reply:
            assert reply.status_code == 200
            data = await reply.aread()
            assert events_of(data)[-1]["type"] == "error"
            assert (await at.outcomes(reply.headers["x-request-id"]))[-1][:2] == ("error", "upstream_bad_answer")


async def test_an_upstream_that_sends_no_event_at_all_is_a_bad_answer(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with Peer() as peer:
        peer.script = wire(b"\n\n", b"data: {")
        upstream = cast(Running, SimpleNamespace(api_url=f"http://127.0.0.1:{peer.port}/v1"))
        async with desk(redis_server, upstream, tmp_path) as at:
            reply = await at.http.post(
                f"{at.gateway.url}/responses",
                json={"model": MODEL, "input": "x", "stream": True},
                headers=await at.headers(),
            )
            assert reply.status_code in (200, 502)
            assert b"upstream_bad_answer" in reply.content


def told(data: bytes) -> list[dict[str, Any]]:
    """The events, with IDs numbered in the order in which they first stand and times left out."""
    text = re.sub(rb'"(created_at|completed_at)": ?[0-9.]+', b'"time":0', data).decode().lstrip("\ufeff")
    text = re.sub(r"\bcall(_|\\u005f)[0-9A-Za-z]{8,}", "call_", text)
    names: dict[str, str] = {}
    text = re.sub(
        r"\b([a-z]+_)[0-9A-Za-z]{34}\b", lambda found: names.setdefault(found[0], f"{found[1]}{len(names)}"), text
    )
    events = re.split(r"\r\n\r\n|\n\n|\r\r", text)
    return [
        json.loads(
            "\n".join(line[5:].removeprefix(" ") for line in re.split(r"\r\n|\n|\r", event) if line.startswith("data:"))
        )
        for event in events
        if "data:" in event
    ]


async def test_how_the_upstream_cuts_and_writes_its_stream_changes_nothing(at: Desk) -> None:
    base = "reasoning, message, function_call, no_obfuscation, unicode"
    expected = told(await at.streamed(base))
    assert expected[-1]["type"] == "response.completed"
    for words in (
        "split=1", "split=7", "split=1000", "at=1:2:3:5:8:13:21:34:55:89:144:233", "one_write", "bom", "eol=cr", "eol=crlf",
        "eol=crlf, split=1", "eol=cr, split=1", "bom, split=1", "comments", "keepalive", "multi_data", "no_space", "no_event",
        "multi_data, eol=crlf, split=3, bom", "escape", "escape, split=1",
    ):  # fmt: skip
        assert told(await at.streamed(f"{base}, {words}")) == expected, words


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_a_reader_that_does_not_read_holds_the_upstream_back(at: Desk) -> None:
    await at.streamed("message, flood=500")  # whatever grows by then has grown
    before = resident_bytes()
    async with connected(at.port) as connection:
        connection.reader._limit = 1024  # type: ignore[attr-defined]
        await sent(at, connection, "message, flood=30000", stream=True)
        await until(lambda: len(at.upstream) == 2)

        async def stands_still() -> int:
            sent_so_far = at.upstream[-1].bytes_sent
            await asyncio.sleep(0.3)
            return sent_so_far if sent_so_far > 1_000_000 and at.upstream[-1].bytes_sent == sent_so_far else 0

        passed = await at.until(stands_still, 15)
        assert passed < 20_000_000
        assert resident_bytes() - before < 30_000_000
        # The gateway is free for others meanwhile, and goes on as soon as there is a reader.
        assert (await at.create()).status_code == 200
        assert len(await read_for(connection, 0.3)) > 1_000_000
        assert at.upstream[1].bytes_sent > passed
    await at.until(lambda: _left(at), 2)


async def _left(at: Desk) -> bool:
    return at.upstream[1].disconnected_at is not None


async def test_a_large_stream_arrives_whole(at: Desk) -> None:
    data = await at.streamed("message, flood=300")
    assert data.count(b"a" * 10_000) == 300
    assert b"response.completed" in data


async def test_a_stream_is_resumed_after_a_sequence_number_with_the_same_ids(at: Desk) -> None:
    events = events_of(await at.streamed("message, no_obfuscation", background=True))
    response = events[0]["response"]["id"]
    reply = await at.call("GET", f"/responses/{response}?stream=true&starting_after=3")
    assert events_of(reply.content) == events[4:]
    assert await at.unanswered() == []


async def test_a_policys_refusal_of_a_stream_is_no_stream(at: Desk) -> None:
    headers = await at.headers()
    client = at.gateway.client(headers["authorization"].removeprefix("Bearer "))
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="ft:gpt-4o:x:y:z", input="hello", stream=True)
