"""The client for addresses that tenants set: what it refuses to call, and that it calls nothing but what it has checked."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from gateway.outgoing import MAX_ANSWER_BYTES, Outgoing, OutgoingFailed, OutgoingRefused, Reach, is_public
from tests.upstreams.test_tls import Authority

NOT_PUBLIC = {
    "this network": "0.0.0.0",
    "private 10": "10.1.2.3",
    "shared": "100.64.0.1",
    "loopback": "127.0.0.1",
    "loopback, not the first": "127.8.9.10",
    "link-local": "169.254.0.1",
    "metadata": "169.254.169.254",
    "private 172": "172.16.0.1",
    "private 172, its end": "172.31.255.255",
    "protocol assignments": "192.0.0.192",
    "documentation": "192.0.2.1",
    "6to4 relay": "192.88.99.1",
    "private 192": "192.168.1.1",
    "benchmark": "198.18.0.1",
    "documentation 2": "198.51.100.1",
    "documentation 3": "203.0.113.1",
    "multicast": "224.0.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "v6 unspecified": "::",
    "v6 loopback": "::1",
    "v4-mapped loopback": "::ffff:127.0.0.1",
    "v4-mapped private": "::ffff:10.0.0.1",
    "v4-mapped metadata": "::ffff:a9fe:a9fe",
    "v4-mapped public": "::ffff:8.8.8.8",
    "v4-compatible": "::127.0.0.1",
    "v4-translated": "::ffff:0:127.0.0.1",
    "NAT64 of loopback": "64:ff9b::127.0.0.1",
    "NAT64 of a private one": "64:ff9b::10.0.0.1",
    "NAT64 of metadata": "64:ff9b::a9fe:a9fe",
    "NAT64 of this place": "64:ff9b:1::1",
    "6to4 of loopback": "2002:7f00:1::",
    "Teredo": "2001:0:1::1",
    "ORCHID": "2001:20::1",
    "v6 documentation": "2001:db8::1",
    "v6 documentation 2": "3fff::1",
    "discard": "100::1",
    "SRv6": "5f00::1",
    "unique local": "fd00::1",
    "link-local v6": "fe80::1",
    "link-local v6 of an interface": "fe80::1%eth0",
    "public v6 of an interface": "2606:4700::1%eth0",
    "site-local": "fec0::1",
    "v6 multicast": "ff02::1",
}
PUBLIC = ("8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "2a00:1450:4001::1", "64:ff9b::8.8.8.8")


@pytest.mark.parametrize("address", NOT_PUBLIC.values(), ids=NOT_PUBLIC.keys())
async def test_what_is_not_the_public_internet_is_refused_as_a_literal_and_behind_a_name(address: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return [address]

    assert not is_public(ipaddress.ip_address(address))
    literal = f"[{address}]" if ":" in address else address
    outgoing = Outgoing(resolve=resolve)
    with pytest.raises(OutgoingRefused):
        outgoing.check(f"https://{literal}/hook")
    for url in (f"https://{literal}/hook", "https://harmless.example/hook"):
        with pytest.raises(OutgoingRefused):
            await outgoing.send("POST", url)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_not_refused(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
    Outgoing().check(f"https://{f'[{address}]' if ':' in address else address}:8443/hook?x=1")


async def test_one_refused_address_among_good_ones_is_enough() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(OutgoingRefused):
        await Outgoing(resolve=resolve).send("POST", "https://mixed.example/")


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "0177.0.0.1", "localhost"])
async def test_other_spellings_of_loopback_are_refused_by_what_they_resolve_to(host: str) -> None:
    with pytest.raises(OutgoingRefused):
        await Outgoing().send("POST", f"https://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "https://", "https:///x", "//example.com/", "",
        "https://user@example.com/", "https://user:pw@example.com/", "https://example.com/#f", "https://example.com:0/",
        "https://example.com:99999/", "https://exa mple.com/", "https://example.com\\@10.0.0.1/", "https://[::1/",
        "https://exämple.com/", "https://example.com/\r\nX: y", "https://example.com/" + "a" * 2048, "gopher://x", "unix:/s",
    ],
)  # fmt: skip
async def test_what_is_no_plain_https_url_is_refused(url: str) -> None:
    with pytest.raises(OutgoingRefused):
        Outgoing().check(url)
    with pytest.raises(OutgoingRefused):
        await Outgoing().send("POST", url)


class Server:
    """Answers each connection with `answer` (None: with silence), and remembers what it was sent."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.received: list[bytes] = []
        self.port = 0
        self.open: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(task := asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next((int(line[15:]) for line in lines if line.startswith(b"content-length")), 0)
            self.received.append(head + await reader.readexactly(length))
            writer.write(self.answer if self.answer is not None else b"")
            await (writer.drain() if self.answer is not None else reader.read())
        writer.close()
        self.open.discard(task)


@contextlib.asynccontextmanager
async def serving(answer: bytes | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    made = Server(answer)
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    made.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield made
        async with asyncio.timeout(5):
            while made.open:  # noqa: ASYNC110 - the connections end on their own
                await asyncio.sleep(0.01)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Y: z\r\n\r\nok"


async def test_loopback_is_called_where_the_operator_allows_it() -> None:
    async with serving(OK) as server:
        url = f"http://127.0.0.1:{server.port}/a/b?c=d"
        answer = await Outgoing(Reach.LOOPBACK).send("POST", url, headers=(("X-A", "b"),), body=b"hello")
        assert (answer.status, answer.body) == (200, b"ok")
        assert (b"x-y", b"z") in answer.headers
        (received,) = server.received
        assert received.startswith(b"POST /a/b?c=d HTTP/1.1\r\n")
        assert received.endswith(b"\r\n\r\nhello")
        with pytest.raises(OutgoingRefused):
            await Outgoing().send("POST", url)


async def test_leave_for_loopback_is_none_for_private_networks_or_plain_http_elsewhere() -> None:
    outgoing = Outgoing(Reach.LOOPBACK)
    for url in ("https://10.0.0.1/", "https://169.254.169.254/", "http://8.8.8.8/"):
        with pytest.raises(OutgoingRefused):
            await outgoing.send("POST", url)


async def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked() -> None:
    """DNS rebinding: the second answer would be another host, and nobody asks for it."""
    asked = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async with serving(OK) as server:
        url = f"http://rebind.example:{server.port}/"
        answer = await Outgoing(Reach.LOOPBACK, resolve=resolve).send("GET", url)
        assert answer.status == 200
        assert asked == ["rebind.example"]
        assert f"host: rebind.example:{server.port}".encode() in server.received[0].lower()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_never_followed(status: int) -> None:
    async with serving(OK) as elsewhere:
        location = f"http://127.0.0.1:{elsewhere.port}/secret"
        redirect = f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
        async with serving(redirect) as server:
            answer = await Outgoing(Reach.LOOPBACK).send("POST", f"http://127.0.0.1:{server.port}/")
            assert answer.status == status
        assert elsewhere.received == []


async def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(OK) as proxy, serving(OK) as server:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await Outgoing(Reach.LOOPBACK).send("POST", f"http://127.0.0.1:{server.port}/")
        assert len(server.received) == 1
        assert proxy.received == []


async def test_the_certificate_must_be_good_for_the_name(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path, "ours"), Authority(tmp_path, "strangers")

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with serving(OK, authority.server("hook.example")) as server:

        async def call(host: str, roots: str) -> int:
            outgoing = Outgoing(Reach.LOOPBACK, tls=ssl.create_default_context(cafile=roots), resolve=resolve)
            return (await outgoing.send("POST", f"https://{host}:{server.port}/")).status

        assert await call("hook.example", authority.roots) == 200
        for host, roots in (("other.example", authority.roots), ("hook.example", stranger.roots)):
            with pytest.raises(OutgoingFailed, match="certificate"):
                await call(host, roots)
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed the connection|cannot be reached"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "cannot be reached|closed"),
        (b"nonsense\r\n\r\n", "cannot be reached"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * (MAX_ANSWER_BYTES + 1), "larger"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", "cannot be reached"),
    ],
)
async def test_a_broken_or_endless_answer_is_a_failure(answer: bytes, why: str) -> None:
    async with serving(answer) as server:
        with pytest.raises(OutgoingFailed, match=why):
            await Outgoing(Reach.LOOPBACK).send("POST", f"http://127.0.0.1:{server.port}/")


async def test_a_server_that_says_nothing_is_left_in_time() -> None:
    async with serving(None) as server:
        with pytest.raises(OutgoingFailed, match="no answer within"):
            await Outgoing(Reach.LOOPBACK, timeout_s=0.2).send("POST", f"http://127.0.0.1:{server.port}/")


async def test_a_name_that_does_not_resolve_or_a_closed_port_is_a_failure() -> None:
    async def nothing(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(OutgoingFailed, match="resolve"):
        await Outgoing(resolve=nothing).send("POST", "https://nowhere.example/")
    async with serving(OK) as server:
        pass
    with pytest.raises(OutgoingFailed, match="reached"):
        await Outgoing(Reach.LOOPBACK).send("POST", f"http://127.0.0.1:{server.port}/")


async def test_a_header_with_a_line_end_is_not_sent() -> None:
    async with serving(OK) as server:
        with pytest.raises(OutgoingFailed):
            await Outgoing(Reach.LOOPBACK).send(
                "POST", f"http://127.0.0.1:{server.port}/", headers=(("X-A", "b\r\nX-C: d"),)
            )
        assert server.received == []


async def test_one_tenants_names_that_hang_keep_no_other_tenant_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, looked_for = threading.Event(), list[object]()

    def hang(host: str, *arguments: object, **options: object) -> list[object]:
        looked_for.append(host)
        if host != "good.example":
            answers.wait(5)
        return [(0, 0, 0, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    client = Outgoing(Reach.LOOPBACK, timeout_s=0.3)
    try:
        async with serving(OK) as server:
            calls = [client.send("POST", f"https://{at}.evil.example/", tenant="evil") for at in range(100)]
            evil = asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(0)
            answer = await client.send("POST", f"http://good.example:{server.port}/", tenant="good")
            assert answer.status == 200
        assert all(isinstance(one, OutgoingFailed) for one in await evil)
        assert len(looked_for) < 5
    finally:
        answers.set()
    # Once its names answer, it is called again.
    async with serving(OK) as server, asyncio.timeout(2):
        while True:
            with contextlib.suppress(OutgoingFailed):
                await client.send("POST", f"http://0.evil.example:{server.port}/", tenant="evil")
                break


async def test_names_that_hang_take_no_thread_that_others_need(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def hang(*arguments: object, **options: object) -> list[object]:
        answers.wait(5)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    client = Outgoing(timeout_s=0.2)
    try:
        calls = [client.send("POST", "https://example.com/") for _ in range(40)]
        failed = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, OutgoingFailed) for one in failed)
        async with asyncio.timeout(1):
            await asyncio.gather(*(asyncio.to_thread(int) for _ in range(8)))
    finally:
        answers.set()
