"""The HTTP/1.1 protocol over raw sockets: what never reaches an ASGI scope, and what it leans on inside uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import time
from dataclasses import replace
from typing import Any, ClassVar, cast

import httptools
import pytest
import uvicorn.protocols.http.httptools_impl as parent
from uvicorn.config import Config

from gateway.transport.client import CLIENT
from gateway.transport.drain import Drain
from gateway.transport.guard import Receive, Scope, Send
from gateway.transport.limits import Limits
from gateway.transport.protocol import StrictProtocol
from gateway.transport.server import DrainingServer, Listen, ServerConfig, running
from tests.transport.raw import EchoApp, connected, echo, exchange, request

QUICK = Limits(head_s=0.15, linger_s=0.2, keep_alive_s=1)
CHUNKED = "Transfer-Encoding: chunked"


def chunked_post(body: bytes, target: str = "/v1/responses") -> bytes:
    return request(target, CHUNKED, method=b"POST", body=body)


async def test_a_chunked_body_arrives_whole() -> None:
    async with echo() as (app, port):
        await exchange(port, chunked_post(b"3\r\nabc\r\n2;name=value\r\nde\r\n0\r\n\r\n"))
    assert app.seen[0].body == b"abcde"


@pytest.mark.parametrize("trailer", [b"Authorization: Bearer evil", b"X-A: b", b"Host: other"])
async def test_trailers_never_become_headers_and_end_the_request(trailer: bytes) -> None:
    async with echo() as (app, port):
        answer = await exchange(port, chunked_post(b"3\r\nabc\r\n0\r\n" + trailer + b"\r\n\r\n"))
    assert (answer.status, answer.closed) == (400, True)
    assert app.seen[0].body is None
    assert [name for name, _ in app.seen[0].head.headers] == [b"host", b"transfer-encoding"]
    assert list(app.seen[0].scope["headers"]) == list(app.seen[0].head.headers)


@pytest.mark.parametrize(
    "body",
    [
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\r\nabc\r\nzz\r\n",
        b"3\r\nabc\r\n-1\r\n",
        b"3\r\nabc\r\n0x3\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabc\r\n fffffffffffffffff\r\n",
        b"3\r\nabc\r\n0\n\n",
    ],
)
async def test_a_malformed_chunk_never_becomes_a_shorter_body(body: bytes) -> None:
    async with echo() as (app, port):
        answer = await exchange(port, chunked_post(body))
    assert (answer.status, answer.closed) == (400, True)
    assert [seen.body for seen in app.seen] == [None]


@pytest.mark.parametrize(
    "head", [chunked_post(b"3\r\nab"), request("/v1", "Content-Length: 5", method=b"POST", body=b"ab")]
)
async def test_a_client_that_leaves_within_its_body_is_a_disconnect(head: bytes) -> None:
    async with echo() as (app, port), connected(port) as connection:
        await connection.send(head)
        connection.writer.write_eof()
        assert await connection.rest() == b""
    assert [seen.body for seen in app.seen] == [None]


@pytest.mark.parametrize("line", [b"0;" + b"a" * 40_000, b"0\r\nX-A: " + b"a" * 40_000])
async def test_endless_chunk_extensions_and_trailers_are_cut_off(line: bytes) -> None:
    async with echo() as (app, port), connected(port) as connection:
        await connection.send(chunked_post(b"3\r\nabc\r\n"))
        for start in range(0, len(line), 1000):
            await connection.send(line[start : start + 1000])
            await asyncio.sleep(0)
        answer = await connection.answer()
    assert (answer.status, answer.closed, app.seen[0].body) == (400, True, None)


@pytest.mark.parametrize(
    "beginning", [b"GET /v1 HTTP/1.1\r\nHost: a\r\n", b"G", b"GET /v1 HTTP/1.1\r\nHost: a\r\nX-A: "]
)
async def test_a_header_that_comes_too_slowly_is_timed_out_however_its_bytes_drip(beginning: bytes) -> None:
    async with echo(QUICK) as (app, port), connected(port) as connection:
        started = time.monotonic()
        await connection.send(beginning)
        drip = asyncio.get_running_loop().call_later(0.1, connection.writer.write, b"E")
        answer = await connection.answer()
        drip.cancel()
    assert (answer.status, answer.closed, app.seen) == (408, True, [])
    assert time.monotonic() - started > 0.1


@pytest.mark.parametrize("silence", [b"", b"\r\n", b"\r\n\r\n\r\n"])
async def test_a_connection_that_says_nothing_is_closed_without_a_word(silence: bytes) -> None:
    async with echo(QUICK) as (_, port), connected(port) as connection:
        await connection.send(silence)
        assert await connection.rest() == b""


async def test_the_second_header_of_a_connection_has_a_time_limit_too() -> None:
    async with echo(QUICK) as (_, port), connected(port) as connection:
        await connection.send(request())
        assert (await connection.answer()).status == 200
        await connection.send(b"GET /v1 HTTP/1.1\r\n")
        assert (await connection.answer()).status == 408


async def test_a_blank_line_between_requests_does_not_hold_the_connection() -> None:
    async with echo(QUICK) as (_, port), connected(port) as connection:
        await connection.send(request())
        assert (await connection.answer()).status == 200
        await connection.send(b"\r\n")
        assert await connection.rest() == b""


async def test_an_idle_connection_outlives_the_header_time_and_ends_at_its_own() -> None:
    async with echo(QUICK) as (_, port), connected(port) as connection:
        await connection.send(request())
        assert (await connection.answer()).status == 200
        await asyncio.sleep(0.3)
        await connection.send(request())
        assert (await connection.answer()).status == 200
        started = time.monotonic()
        assert await connection.rest(3.0) == b""
        assert time.monotonic() - started > 0.8


async def test_a_pipelined_request_is_not_run_and_the_connection_closes_after_the_first() -> None:
    async with echo() as (app, port), connected(port) as connection:
        await connection.send(request("/first") + request("/second"))
        answer = await connection.answer()
        assert (answer.body, answer.closed) == (b"/first", True)
    assert [seen.head.raw_path for seen in app.seen] == [b"/first"]


async def test_garbage_after_a_whole_request_does_not_touch_its_answer() -> None:
    async with echo() as (_app, port), connected(port) as connection:
        await connection.send(request("/first") + b"\x00\x01 garbage\r\n\r\n")
        answer = await connection.answer()
        assert (answer.status, answer.body, answer.closed) == (200, b"/first", True)


async def test_endless_blank_lines_after_a_whole_request_do_not_touch_its_answer() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.1)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"slow"})

    async with running(slow, QUICK) as server, connected(server.port) as connection:
        await connection.send(request("/first"))
        await asyncio.sleep(0.02)
        await connection.send(b"\r\n" * 20_000)
        answer = await connection.answer()
        assert (answer.status, answer.body, answer.closed) == (200, b"slow", True)


async def test_nothing_is_written_into_an_answer_that_is_under_way() -> None:
    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"event", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    async with running(early, QUICK) as server, connected(server.port) as connection:
        await connection.send(chunked_post(b"3\r\nabc\r\n"))
        await connection.reader.readuntil(b"event\r\n")
        await connection.send(b"broken\r\n")
        assert await connection.rest() == b""


async def test_an_app_cannot_answer_once_its_request_was_refused() -> None:
    answered = asyncio.Event()

    async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})
        answered.set()

    async with running(stubborn, QUICK) as server, connected(server.port) as connection:
        await connection.send(chunked_post(b"3\r\nabc\r\n"))
        await asyncio.sleep(0.05)
        await connection.send(b"broken\r\n")
        rest = await connection.rest()
        async with asyncio.timeout(2):
            await answered.wait()
    assert rest.startswith(b"HTTP/1.1 400 ")
    assert rest.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("reads", [False, True])
async def test_a_client_that_reads_nothing_for_too_long_is_cut_off_and_one_that_reads_is_not(
    reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StrictProtocol, "write_s", 0.2)
    left = asyncio.Event()

    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(200):
            await send({"type": "http.response.body", "body": b"a" * 100_000, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        if (await receive())["type"] == "http.disconnect":
            left.set()

    limits = replace(QUICK, drain_s=0.1)
    async with running(flood, limits) as server, connected(server.port) as connection:
        await connection.send(request("/v1", "Connection: close"))
        if reads:
            assert (await connection.rest()).endswith(b"0\r\n\r\n")
        else:
            async with asyncio.timeout(2):
                await left.wait()
            with contextlib.suppress(OSError):
                assert not (await connection.rest()).endswith(b"0\r\n\r\n")


async def test_an_early_refusal_is_readable_although_its_sender_goes_on_sending() -> None:
    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"5"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": b"large"})

    async with running(refusing, QUICK) as server, connected(server.port) as connection:
        connection.writer.write(request("/v1", "Content-Length: 4000000", method=b"POST", body=b"a" * 3_000_000))
        answer = await connection.answer()
        assert (answer.status, answer.body, answer.closed) == (413, b"large", True)


async def test_a_connection_whose_body_was_not_awaited_is_not_reused() -> None:
    async def hasty(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async with running(hasty, QUICK) as server, connected(server.port) as connection:
        await connection.send(request("/v1", "Content-Length: 50", method=b"POST", body=b"a"))
        assert (await connection.answer()).status == 404
        started = time.monotonic()
        assert await connection.rest() == b""
        await connection.send(b"a" * 49 + request("/second"))
        assert time.monotonic() - started < 1


async def test_an_upgrade_that_is_not_to_websocket_is_ignored_and_ends_the_connection() -> None:
    async with echo() as (app, port), connected(port) as connection:
        await connection.send(request("/v1", "Upgrade: h2c", "Connection: upgrade") + request("/second"))
        answer = await connection.answer()
        assert (answer.status, answer.closed) == (200, True)
    assert len(app.seen) == 1


async def test_answers_name_neither_server_nor_date() -> None:
    async with echo() as (_, port):
        answer = await exchange(port, request())
        refused = await exchange(port, request(host=False))
    for headers in (answer.headers, refused.headers):
        assert not {"server", "date", "set-cookie"} & {name for name, _ in headers}


class Handover(asyncio.Protocol):
    """Stands where a WebSocket library would: notes what it is handed and answers 101."""

    handed: ClassVar[list[bytes]] = []

    def __init__(self, config: Config, server_state: Any, app_state: dict[str, Any]) -> None:
        pass

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no asyncio.Transport

    def data_received(self, data: bytes) -> None:
        self.handed.append(data)
        self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n")
        self.transport.close()


UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)

UPGRADES_WITH_SINS = {
    "absolute_form": request("http://gateway/v1/responses", *UPGRADE),
    "asterisk_form": request("*", *UPGRADE),
    "fragment": request("/v1/responses#a", *UPGRADE),
    "encoded_slash": request("/v1/responses%2f", *UPGRADE),
    "encoded_dots": request("/v1/%2e%2e/responses", *UPGRADE),
    "double_slash": request("//v1/responses", *UPGRADE),
    "semicolon": request("/v1/responses;a", *UPGRADE),
    "no_host": request("/v1/responses", *UPGRADE, host=False),
    "two_hosts": request("/v1/responses", "Host: b", *UPGRADE),
    "two_authorizations": request("/v1/responses", "Authorization: Bearer a", "Authorization: Bearer b", *UPGRADE),
    "underscored_header": request("/v1/responses", "X_A: b", *UPGRADE),
    "tab_in_value": request("/v1/responses", "X-A: b\tc", *UPGRADE),
    "body_by_length": request("/v1/responses", "Content-Length: 3", *UPGRADE, body=b"abc"),
    "body_by_chunks": request("/v1/responses", CHUNKED, *UPGRADE, body=b"0\r\n\r\n"),
    "http_1_0": request("/v1/responses", *UPGRADE, version=b"HTTP/1.0"),
    "header_too_large": request("/v1/responses", "X-A: " + "a" * 40_000, *UPGRADE),
}


async def test_an_upgrade_to_websocket_is_handed_over_as_it_came() -> None:
    Handover.handed.clear()
    async with echo(websocket=Handover) as (app, port), connected(port) as connection:
        await connection.send(request("/v1/responses?a=b", *UPGRADE))
        assert (await connection.answer()).status == 101
    assert app.seen == []
    assert Handover.handed[0].startswith(b"GET /v1/responses?a=b HTTP/1.1\r\nhost: gateway\r\n")


@pytest.mark.parametrize("sin", UPGRADES_WITH_SINS)
async def test_an_upgrade_with_two_readings_is_refused_before_the_websocket_library_sees_it(sin: str) -> None:
    Handover.handed.clear()
    async with echo(websocket=Handover) as (app, port):
        answer = await exchange(port, UPGRADES_WITH_SINS[sin])
    assert answer.status in (400, 431)
    assert (answer.closed, Handover.handed, app.seen) == (True, [], [])


# The contract with uvicorn: what the subclass overrides and reads must be there and mean what it meant.


def test_every_overridden_method_exists_in_the_parent() -> None:
    ours = {
        name
        for name, value in vars(StrictProtocol).items()
        if (inspect.isfunction(value) and not name.startswith("_")) or name == "__init__"
    }
    assert ours <= set(dir(parent.HttpToolsProtocol))


def test_the_parent_reads_no_more_of_an_answers_transport_than_we_give_it() -> None:
    source = inspect.getsource(parent.RequestResponseCycle)
    assert set(re.findall(r"self\.transport\.(\w+)", source)) == {"close", "is_closing", "write"}


def test_the_parent_keeps_the_state_that_we_read_and_set() -> None:
    protocol, cycle = inspect.getsource(parent.HttpToolsProtocol), inspect.getsource(parent.RequestResponseCycle)
    for name in ("url", "headers", "cycle", "parser", "transport", "flow", "loop", "connections"):
        assert f"self.{name}" in protocol, name
    for name in ("disconnected", "message_event", "keep_alive", "response_started", "response_complete", "transport"):
        assert f"self.{name}" in cycle, name


def test_an_answer_is_complete_before_its_protocol_is_told() -> None:
    assert re.search(
        r"self\.response_complete = True(?s:.*)self\.on_response\(\)",
        inspect.getsource(parent.RequestResponseCycle.send),
    )


async def test_a_request_begins_in_the_state_in_which_the_parent_begins_one() -> None:
    differs: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        ours = scope[CLIENT].wire
        given = (
            "scope",
            "transport",
            "flow",
            "logger",
            "access_logger",
            "access_log",
            "default_headers",
            "message_event",
        )
        theirs = parent.RequestResponseCycle(
            **{name: getattr(ours, name) for name in (*given, "on_response")}, expect_100_continue=True, keep_alive=True
        )
        differs.extend(name for name, value in vars(theirs).items() if getattr(ours, name) != value)
        ours.answer(204, [], b"")

    head = request("/v1", "Expect: 100-continue", "Content-Length: 1", method=b"POST")
    async with running(app, Limits()) as server:
        assert (await exchange(server.port, head)).status == 204
    assert differs == []


@pytest.mark.parametrize("target", ["/", "/v1?a=b?c&d=/e", "/v1?", "/%61?%62", "/a//b", "/a:80@b?c:d"])
async def test_a_target_is_split_where_the_parent_splits_it(target: str) -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        scope[CLIENT].wire.answer(204, [], b"")

    server = DrainingServer(ServerConfig(app, Limits(), Listen()), Drain())  # without the guard
    server.config.load()
    protocol = StrictProtocol(cast(ServerConfig, server.config), server_state=server.server_state, app_state={})
    protocol.connection_made(Nowhere())
    protocol.data_received(request(target))
    await asyncio.wait(server.server_state.tasks)
    parsed = httptools.parse_url(target.encode())
    assert (scopes[0]["raw_path"], scopes[0]["query_string"]) == (parsed.path, parsed.query or b"")
    protocol.connection_lost(None)


class Nowhere(asyncio.Transport):
    """A connection whose other end is not looked at."""

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False


async def test_the_app_behind_the_server_reads_its_body_from_the_parent() -> None:
    app = EchoApp()
    async with running(app, Limits()) as server:
        await exchange(server.port, request("/v1", "Content-Length: 3", method=b"POST", body=b"abc"))
    assert app.seen[0].body == b"abc"
