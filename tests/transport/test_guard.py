"""The guard over raw sockets: what has two readings gets 400 and a closed connection, and no app hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import Problem
from gateway.transport.drain import Drain
from gateway.transport.guard import HEAD, Guard, Head, Message, Receive, Scope, Send, check_target, client_address
from gateway.transport.limits import Limits
from tests.transport.raw import EchoApp, connected, echo, exchange, request

Running = tuple[EchoApp, int]


on_one_server = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_server() -> AsyncIterator[Running]:
    async with echo() as running:
        yield running


@pytest.fixture
def running_echo(one_server: Running) -> Running:
    one_server[0].seen.clear()
    return one_server


CHUNKED = b"Transfer-Encoding: chunked"

SMUGGLED = {
    "transfer_encoding_with_content_length": request(
        "/v1", CHUNKED, "Content-Length: 5", method=b"POST", body=b"0\r\n\r\n"
    ),
    "content_length_with_transfer_encoding": request(
        "/v1", "Content-Length: 5", CHUNKED, method=b"POST", body=b"0\r\n\r\n"
    ),
    "transfer_encoding_gzip_chunked": request(
        "/v1", "Transfer-Encoding: gzip, chunked", method=b"POST", body=b"0\r\n\r\n"
    ),
    "transfer_encoding_identity": request("/v1", "Transfer-Encoding: identity", method=b"POST"),
    "transfer_encoding_gzip": request("/v1", "Transfer-Encoding: gzip", method=b"POST"),
    "transfer_encoding_twice": request("/v1", CHUNKED, CHUNKED, method=b"POST", body=b"0\r\n\r\n"),
    "transfer_encoding_with_a_blank": request("/v1", "Transfer-Encoding : chunked", method=b"POST", body=b"0\r\n\r\n"),
    "content_length_twice": request("/v1", "Content-Length: 1", "Content-Length: 1", method=b"POST", body=b"a"),
    "content_length_list": request("/v1", "Content-Length: 1, 1", method=b"POST", body=b"a"),
    "content_length_signed": request("/v1", "Content-Length: +1", method=b"POST", body=b"a"),
    "content_length_hexadecimal": request("/v1", "Content-Length: 0x1", method=b"POST", body=b"a"),
    "no_host": request(host=False),
    "empty_host": request("/v1", "Host:", host=False),
    "two_hosts": request("/v1", "Host: other"),
    "host_with_a_path": request("/v1", "Host: a/b", host=False),
    "host_with_user": request("/v1", "Host: a@b", host=False),
    "two_authorizations": request("/v1", "Authorization: Bearer a", "authorization: Bearer b"),
    "two_content_types": request("/v1", "Content-Type: application/json", "Content-Type: text/plain"),
    "two_content_encodings": request("/v1", "Content-Encoding: gzip", "Content-Encoding: identity"),
    "two_idempotency_keys": request("/v1", "Idempotency-Key: a", "Idempotency-Key: b"),
    "underscored_twin": request("/v1", "Authorization: Bearer a", "X_Forwarded_For: 1.2.3.4"),
    "underscored_content_length": request("/v1", "Content_Length: 3", method=b"POST"),
    "control_in_value": request("/v1", b"X-A: a\x01b"),
    "delete_in_value": request("/v1", b"X-A: a\x7fb"),
    "tab_in_value": request("/v1", b"Authorization: Bearer\ta"),
    "nul_in_value": request("/v1", b"X-A: a\x00b"),
    "bare_carriage_return_in_value": request("/v1", b"X-A: a\rAuthorization: b"),
    "folded_value": request("/v1", b"X-A: a\r\n b"),
    "folded_by_tab": request("/v1", b"X-A: a\r\n\tAuthorization: b"),
    "bare_line_feeds": b"GET /v1 HTTP/1.1\nHost: gateway\n\n",
    "header_name_missing": request("/v1", ": a"),
    "absolute_form": request("http://gateway/v1/models"),
    "absolute_form_https": request("https://gateway/v1/models"),
    "authority_form": request("gateway:443", method=b"CONNECT"),
    "asterisk_form": request("*", method=b"OPTIONS"),
    "fragment": request("/v1/models#a"),
    "fragment_in_query": request("/v1/models?a=b#c"),
    "encoded_slash": request("/v1/responses/a%2Fb"),
    "encoded_slash_lower": request("/v1/responses/a%2fb"),
    "encoded_backslash": request("/v1/responses/a%5Cb"),
    "encoded_dots": request("/v1/responses/%2e%2e/files"),
    "encoded_dot": request("/v1/responses/%2E/files"),
    "encoded_nul": request("/v1/responses/a%00"),
    "encoded_nul_in_query": request("/v1/responses?a=%00"),
    "encoded_line_feed": request("/v1/responses/a%0ab"),
    "encoded_percent": request("/v1/responses/a%252fb"),
    "malformed_escape": request("/v1/responses/a%2"),
    "malformed_escape_letters": request("/v1/responses/a%zz"),
    "backslash": request("/v1\\responses"),
    "backslash_in_query": request("/v1/responses?a=\\"),
    "double_slash": request("/v1//responses"),
    "leading_double_slash": request("//v1/responses"),
    "trailing_double_slash": request("/v1/responses//"),
    "dot_segments": request("/v1/responses/../files"),
    "dot_segment_at_the_end": request("/v1/responses/.."),
    "single_dot_segment": request("/v1/./responses"),
    "semicolon": request("/v1/responses;a=b"),
    "non_ascii": request("/v1/responses/é".encode()),
    "non_ascii_in_query": request("/v1/responses?a=é".encode()),
    "blank_in_target": request("/v1/re sponses"),
    "http_1_0": request(version=b"HTTP/1.0"),
    "http_1_0_without_host": request(version=b"HTTP/1.0", host=False),
    "http_0_9": b"GET /v1/models\r\n\r\n",
    "http_2_0": request(version=b"HTTP/2.0"),
    "http_2_preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no_http": b"\x16\x03\x01\x02\x00\x01\x00",
}


@on_one_server
@pytest.mark.parametrize("form", SMUGGLED)
async def test_a_request_with_two_readings_is_refused_and_its_connection_closed(
    running_echo: Running, form: str
) -> None:
    app, port = running_echo
    answer = await exchange(port, SMUGGLED[form])
    assert (answer.status, answer.closed) == (400, True)
    assert answer.error["code"] == "bad_request"
    assert (answer.header("x-request-id") or "").startswith("req_")
    assert [seen for seen in app.seen if seen.body is not None] == []


@on_one_server
@pytest.mark.parametrize("form", SMUGGLED)
async def test_what_follows_a_refused_request_on_its_connection_is_never_run(running_echo: Running, form: str) -> None:
    app, port = running_echo
    async with connected(port) as connection:
        await connection.send(SMUGGLED[form] + request("/smuggled"))
        await connection.rest()
    assert not [seen for seen in app.seen if seen.head.raw_path == b"/smuggled"]


@on_one_server
@pytest.mark.parametrize("form", SMUGGLED)
async def test_a_refusal_does_not_depend_on_how_the_bytes_come_in(running_echo: Running, form: str) -> None:
    app, port = running_echo
    async with connected(port) as connection:
        for byte in SMUGGLED[form]:
            connection.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        answer = await connection.answer()
    assert (answer.status, answer.closed) == (400, True)
    assert [seen for seen in app.seen if seen.body is not None] == []


@on_one_server
async def test_a_trailing_slash_is_accepted_in_place_without_a_redirect(running_echo: Running) -> None:
    app, port = running_echo
    answer = await exchange(port, request("/v1/responses/", "Content-Length: 2", method=b"POST", body=b"{}"))
    assert (answer.status, answer.body) == (200, b"/v1/responses")
    assert app.seen[0].body == b"{}"
    assert app.seen[0].scope["path"] == "/v1/responses"
    assert app.seen[0].scope["raw_path"] == b"/v1/responses"


@on_one_server
async def test_the_root_keeps_its_slash(running_echo: Running) -> None:
    assert (await exchange(running_echo[1], request("/"))).body == b"/"


@on_one_server
@pytest.mark.parametrize(
    "target",
    [
        "/v1/models/ft:gpt-4o:org::abc",
        "/v1/models/ft%3Agpt-4o%3Aorg",
        "/v1/responses?include%5B%5D=a&include[]=b&limit=1",
        "/v1/chat/completions?metadata%5Bk%5D=a%2Fb%5Cc%2e;d",
        "/v1/files/a..b",
        "/.well-known/openid-configuration",
    ],
)
async def test_targets_that_clients_send_pass_undecoded(running_echo: Running, target: str) -> None:
    app, port = running_echo
    assert (await exchange(port, request(target))).status == 200
    path, _, query = target.partition("?")
    assert app.seen[0].head.raw_path == path.encode()
    assert app.seen[0].scope["path"] == path
    assert app.seen[0].head.query == query.encode()


@on_one_server
async def test_repeated_headers_that_decide_nothing_are_joined(running_echo: Running) -> None:
    app, port = running_echo
    assert (await exchange(port, request("/v1", "OpenAI-Beta: a", "openai-beta: b"))).status == 200
    assert app.seen[0].head.header(b"openai-beta") == "a, b"
    assert app.seen[0].head.header(b"accept") == ""


@on_one_server
async def test_too_many_header_fields_are_refused(running_echo: Running) -> None:
    app, port = running_echo
    answer = await exchange(port, request("/v1", *[f"X-{n}: a" for n in range(100)]))
    assert (answer.status, answer.closed, app.seen) == (431, True, [])


@on_one_server
async def test_a_hundred_header_fields_pass(running_echo: Running) -> None:
    assert (await exchange(running_echo[1], request("/v1", *[f"X-{n}: a" for n in range(99)]))).status == 200


@on_one_server
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_header_that_is_too_large_is_refused_before_its_end(running_echo: Running, at_once: bool) -> None:
    app, port = running_echo
    async with connected(port) as connection:
        if at_once:
            await connection.send(request("/v1", "X-A: " + "a" * 40_000))
        else:
            await connection.send(b"GET /v1 HTTP/1.1\r\nHost: a\r\nX-A: ")
            for _ in range(40):
                await connection.send(b"a" * 1000)
        answer = await connection.answer()
    assert (answer.status, answer.closed, app.seen) == (431, True, [])


@on_one_server
async def test_a_target_that_is_too_long_is_refused(running_echo: Running) -> None:
    assert (await exchange(running_echo[1], request("/v1/" + "a" * 40_000))).status == 431


@on_one_server
async def test_only_100_continue_may_be_expected(running_echo: Running) -> None:
    app, port = running_echo
    answer = await exchange(port, request("/v1", "Expect: a-miracle"))
    assert (answer.status, answer.closed, app.seen) == (417, True, [])


@on_one_server
async def test_100_continue_is_sent_once_the_body_is_asked_for(running_echo: Running) -> None:
    async with connected(running_echo[1]) as connection:
        await connection.send(request("/v1", "Expect: 100-continue", "Content-Length: 2", method=b"POST"))
        assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await connection.send(b"{}")
        assert (await connection.answer()).status == 200


async def test_new_requests_are_refused_while_draining_but_health_is_answered() -> None:
    drain = Drain()
    async with echo(drain=drain) as (app, port):
        drain.begin()
        answer = await exchange(port, request())
        assert (answer.status, answer.closed) == (503, True)
        assert answer.error["code"] == "server_draining"
        assert (await exchange(port, request("/readyz"))).status == 200
    assert [seen.head.raw_path for seen in app.seen] == [b"/readyz"]


@on_one_server
async def test_each_request_has_an_id_of_its_own_and_keeps_what_it_was_asked_with(running_echo: Running) -> None:
    app, port = running_echo
    async with connected(port) as connection:
        for _ in range(2):
            await connection.send(request("/v1", "Authorization: Bearer secret"))
            assert (await connection.answer()).status == 200
    first, second = (seen.head for seen in app.seen)
    assert first.request_id != second.request_id
    assert "secret" not in repr(first)
    assert isinstance(first.headers, tuple)


async def test_an_app_that_fails_gets_the_tables_answer_with_a_request_id() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise LookupError("resp_secret")

    status, body = await call(app, plain_scope())
    assert status == 500
    assert b"internal_error" in body
    assert b"secret" not in body


async def test_a_scope_type_that_is_not_a_request_passes() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    await call(app, {"type": "lifespan"})
    assert seen == ["lifespan"]


async def test_a_refused_upgrade_gets_the_http_answer_before_accept() -> None:
    scope = plain_scope(type="websocket", headers=[], extensions={"websocket.http.response": {}})
    status, body = await call(EchoApp(), scope)
    assert status == 400
    assert b"Host" in body


async def test_a_refused_upgrade_is_closed_where_the_server_cannot_answer() -> None:
    sent = await messages(EchoApp(), plain_scope(type="websocket", headers=[]))
    assert [message["type"] for message in sent] == ["websocket.close"]


TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.9", b"1.2.3.4", "203.0.113.9"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", b"198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", b"1.2.3.4, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", b"1.2.3.4, nonsense, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", b"198.51.100.7:1234", "198.51.100.7"),
        ("::ffff:10.0.0.1", b"[2001:db8::1]:1234", "2001:db8::1"),
        ("fd00::1", b"2001:db8::1", "2001:db8::1"),
        ("10.0.0.1", b"10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", b"", "10.0.0.1"),
    ],
)
def test_forwarded_addresses_count_only_as_far_as_trusted_proxies_vouch(
    peer: str, forwarded: bytes | None, expected: str
) -> None:
    assert client_address((peer, 1), forwarded, TRUSTED) == expected


def test_without_trusted_proxies_the_client_is_the_peer() -> None:
    assert client_address(("10.0.0.1", 1), b"1.2.3.4", ()) == "10.0.0.1"
    assert client_address(None, b"1.2.3.4", TRUSTED) == ""


# Whatever is sent, the app is not called, or has one reading.

TOKENS = st.sampled_from(
    [
        b"Host: a", b"Host: b", b"host:c", b"Authorization: Bearer a", b"authorization: b", b"Content-Type: application/json",
        b"Content-Length: 3", b"Content-Length: 0", b"content_length: 3", CHUNKED, b"Transfer-Encoding: x, chunked",
        b"Content-Encoding: gzip", b"Idempotency-Key: 1", b"Connection: keep-alive", b"Connection: close", b"X: \x0b",
        b"X-Forwarded-For: 1.1.1.1", b" folded", b"Upgrade: h2c\r\nConnection: upgrade", b"A:" + b"b" * 20,
    ]
)  # fmt: skip
TARGETS = st.one_of(
    st.sampled_from([b"/v1", b"/v1/", b"//v1", b"/%2e%2e", b"http://a/b", b"*", b"/a#b", b"/a?b", b"/..", b"/a;b"]),
    st.binary(max_size=12).map(lambda tail: b"/" + tail),
    st.text("/%.25efcF;#?\\ab", max_size=12).map(lambda tail: b"/" + tail.encode()),
)


@on_one_server
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    target=TARGETS,
    headers=st.lists(st.one_of(TOKENS, st.binary(max_size=10)), max_size=6),
    version=st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/3.0", b""]),
    body=st.one_of(
        st.binary(max_size=30), st.sampled_from([b"abc", b"3\r\nabc\r\n0\r\n\r\n", b"0\r\nAuthorization: c\r\n\r\n"])
    ),
)
async def test_an_app_behind_the_guard_sees_one_reading_or_nothing(
    running_echo: Running, target: bytes, headers: list[bytes], version: bytes, body: bytes
) -> None:
    app, port = running_echo
    app.seen.clear()
    async with connected(port) as connection:
        await connection.send(request(target, "Host: gateway", *headers, version=version, body=body, host=False))
        connection.writer.write_eof()
        await connection.rest()
    for seen in app.seen:
        names = [name for name, _ in seen.head.headers]
        for single in (b"authorization", b"content-type", b"content-length", b"content-encoding", b"idempotency-key"):
            assert names.count(single) <= 1
        assert names.count(b"host") == 1
        assert not {b"content-length", b"transfer-encoding"} <= set(names)
        assert seen.head.by_name.get(b"transfer-encoding", b"chunked").lower() == b"chunked"
        assert not any(b"_" in name for name in names)
        assert seen.head.raw_path.startswith(b"/")
        assert seen.head.raw_path.isascii()
        assert not any(
            bad in seen.head.raw_path.lower() for bad in (b"\\", b"%2f", b"%5c", b"%2e", b"%00", b"//", b";", b"#")
        )
        assert b".." not in seen.head.raw_path.split(b"/")


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_an_accepted_target_is_accepted_again_and_stays_the_same(path: bytes, query: bytes) -> None:
    try:
        trimmed = check_target(path, query)
    except Problem:
        return
    assert check_target(trimmed, query) == trimmed


def plain_scope(**more: object) -> Scope:
    scope: Scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "raw_path": b"/v1", "path": "/v1", "query_string": b"",
        "headers": [(b"host", b"a")], "client": ("127.0.0.1", 1),
    }  # fmt: skip
    scope.update(more)
    return scope


async def messages(app: object, scope: Scope) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await Guard(app, Limits(), Drain())(scope, receive, send)  # type: ignore[arg-type]
    return sent


async def call(app: object, scope: Scope) -> tuple[int, bytes]:
    sent = await messages(app, scope)
    return (sent[0]["status"], sent[1]["body"]) if sent else (0, b"")


async def test_headers_that_change_later_do_not_reach_the_app() -> None:
    headers = [(b"host", b"a")]
    heads: list[Head] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers.append((b"authorization", b"from a trailer"))
        heads.append(scope[HEAD])
        assert scope["headers"] == ((b"host", b"a"),)

    await messages(app, plain_scope(headers=headers))
    assert heads[0].headers == ((b"host", b"a"),)
