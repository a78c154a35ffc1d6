"""The request as it leaves: its head, its target, and what never happens to it."""

from __future__ import annotations

import os
from unittest import mock

import pytest

from gateway.upstreams import UpstreamLimits, UpstreamRequest
from tests.upstreams.calls import Connect
from tests.upstreams.peer import Peer, ok


async def test_the_whole_head_of_a_request_is_this(peer: Peer, connect: Connect) -> None:
    upstream = connect()
    headers = ((b"authorization", b"Bearer sk-test"), (b"content-type", b"application/json"))
    for request in (
        UpstreamRequest("POST", b"/responses?a=b%20c", headers, b"{}"),
        UpstreamRequest("POST", b"/conversations", headers),
        UpstreamRequest("DELETE", b"/responses/resp_1"),
    ):
        async with await upstream.send(request):
            pass
    fixed = b"host: 127.0.0.1:%d\r\naccept-encoding: identity\r\n" % peer.port
    auth = b"authorization: Bearer sk-test\r\ncontent-type: application/json\r\n"
    assert peer.requests == [
        b"POST /v1/responses?a=b%20c HTTP/1.1\r\n" + fixed + auth + b"content-length: 2\r\n\r\n{}",
        b"POST /v1/conversations HTTP/1.1\r\n" + fixed + auth + b"content-length: 0\r\n\r\n",
        b"DELETE /v1/responses/resp_1 HTTP/1.1\r\n" + fixed + b"\r\n",
    ]


@pytest.mark.parametrize(
    "target",
    [
        b"", b"x", b"//evil.invalid/", b"/a//b", b"/..", b"/../admin", b"/a/..", b"/a/../../b?x", b"/a/%2e%2E/b", b"/./a",
        b"/a/.", b"/.%2e", b"/%2E?x", b"/a b", b"/a\r\nhost: x", b"/a\n", b"/a\t", b"/a#b", b"/a\\b", b"/\xc3\xa9", b"/a\x00", b"http://evil.invalid/",
        b"*", b"/a?x=\r\ny", b"/a?\x7f",
    ],
)  # fmt: skip
async def test_a_target_that_could_leave_the_base_url_or_split_the_head_is_not_sent(
    peer: Peer, connect: Connect, target: bytes
) -> None:
    with pytest.raises(ValueError, match="target"):
        await connect().send(UpstreamRequest("GET", target))
    assert peer.wires == []


@pytest.mark.parametrize(
    "target",
    [
        b"/",
        b"/models",
        b"/responses/resp_1/input_items?after=msg_1&include[]=a.b",
        b"/a/..b/.c./d..",
        b"/a?x=//..//",
        b"/a:b/~c",
    ],
)
async def test_ordinary_targets_are_sent(peer: Peer, connect: Connect, target: bytes) -> None:
    async with await connect().send(UpstreamRequest("GET", target)) as answer:
        assert answer.status == 200
    assert peer.requests[0].startswith(b"GET /v1" + target + b" HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "header",
    [
        (b"x", b"a\r\nauthorization: Bearer other"), (b"x", b"a\n"), (b"x", b"a\r"), (b"x", b"\r\n\r\n"), (b"x", b"\x00"),
        (b"x: a\r\ny", b"b"), (b"x ", b"a"), (b"", b"a"), (b"X-Upper", b"a"), (b"x_y", b"a"), (b"cookie", b"a"), (b"host", b"a"),
        (b"content-length", b"0"), (b"transfer-encoding", b"chunked"), (b"accept-encoding", b"gzip"), (b"connection", b"close"),
        (b"upgrade", b"h2c"), (b"expect", b"100-continue"), (b"te", b"trailers"), (b"trailer", b"x"),
        (b"proxy-authorization", b"a"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [None, b"", b"{}"])
async def test_a_header_that_could_change_the_request_s_shape_is_not_sent(
    peer: Peer, connect: Connect, header: tuple[bytes, bytes], body: bytes | None
) -> None:
    for method in ("GET", "POST"):
        with pytest.raises(ValueError, match="header"):
            await connect().send(UpstreamRequest(method, b"/a", ((b"accept", b"*/*"), header), body))
    assert peer.wires == []


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "GET / HTTP/1.1\r\n", "", "OPTIONS"])
async def test_a_method_outside_the_list_is_not_sent(peer: Peer, connect: Connect, method: str) -> None:
    with pytest.raises(ValueError, match="method"):
        await connect().send(UpstreamRequest(method, b"/a"))
    assert peer.wires == []


async def test_redirects_are_reported_not_followed(peer: Peer, connect: Connect) -> None:
    peer.answers(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /v1/elsewhere\r\ncontent-length: 0\r\n\r\n", ok(b"no"))
    async with await connect().send(UpstreamRequest("POST", b"/responses", body=b"{}")) as answer:
        assert (answer.status, answer.header(b"location")) == (307, b"/v1/elsewhere")
    assert len(peer.requests) == 1


async def test_proxies_of_the_environment_are_ignored(peer: Peer, connect: Connect) -> None:
    async with Peer() as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        names = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
        with mock.patch.dict(os.environ, dict.fromkeys(names, url)):
            async with await connect().send(UpstreamRequest("GET", b"/models")) as answer:
                assert answer.status == 200
        assert (len(peer.requests), proxy.wires) == (1, [])


async def test_errors_429_and_503_are_answers_and_not_retried(peer: Peer, connect: Connect) -> None:
    peer.answers(
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 3\r\ncontent-length: 2\r\n\r\n{}",
    )
    upstream = connect()
    for status in (429, 503):
        async with await upstream.send(UpstreamRequest("GET", b"/models")) as answer:
            assert (answer.status, answer.header(b"retry-after")) == (status, b"3")
    assert len(peer.requests) == 2


@pytest.mark.parametrize("name", ["max_connections", "headers_timeout_s", "breaker_open_s"])
def test_limits_must_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        UpstreamLimits(**{name: 0})
