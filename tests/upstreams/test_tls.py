"""TLS towards upstreams: verified against the given roots, named, `http/1.1` only. Certificates are made here."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.upstreams import (
    Reason,
    Upstream,
    UpstreamBadAnswer,
    UpstreamLimits,
    UpstreamRequest,
    UpstreamUnavailable,
    parse_base_url,
    tls_context,
)
from tests.upstreams.peer import Peer, Wire

POST = UpstreamRequest("POST", b"/responses", body=b"{}")


class Authority:
    """A certificate authority of the test's own, and servers' contexts with certificates of it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0), days=1)
        self.roots = str(folder / f"{name}.pem")
        Path(self.roots).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, *, days: int = 1, alpn: tuple[str, ...] = ("http/1.1",)) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key, _alternative(name), days=days)
        path = self._folder / "server.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        context.set_alpn_protocols(list(alpn))
        return context

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType, *, days: int
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        edge = now + datetime.timedelta(days=days)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, edge) - datetime.timedelta(days=1))
            .not_valid_after(edge)
            .add_extension(extension, critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _alternative(name: str) -> x509.SubjectAlternativeName:
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(name)])


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def upstream_at(peer: Peer, roots: str | None, host: str = "localhost") -> Upstream:
    return Upstream(
        "main", "proj", parse_base_url(f"https://{host}:{peer.port}/v1"), UpstreamLimits(), tls=tls_context(roots)
    )


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_verified_upstream_is_called_by_name_and_speaks_http_1_1(authority: Authority, host: str) -> None:
    context = authority.server(host)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    async with Peer(context) as peer:
        upstream = upstream_at(peer, authority.roots, host)
        for _ in range(3):
            async with await upstream.send(POST) as answer:
                assert await answer.read(100) == b"hello"
        assert len(peer.wires) == 1
        assert peer.wires[0].writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        assert peer.wires[0].writer.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
        assert names == ["localhost" if host == "localhost" else None]
        await upstream.aclose()


@pytest.mark.parametrize("fault", ["unknown authority", "other name", "expired"])
async def test_an_upstream_that_cannot_prove_its_name_gets_no_byte_of_a_request(
    authority: Authority, tmp_path: Path, fault: str
) -> None:
    context = {
        "unknown authority": lambda: Authority(tmp_path, "theirs").server("localhost"),
        "other name": lambda: authority.server("other.invalid"),
        "expired": lambda: authority.server("localhost", days=-1),
    }[fault]()
    async with Peer(context) as peer:
        upstream = upstream_at(peer, authority.roots)
        with pytest.raises(UpstreamUnavailable) as caught:
            await upstream.send(POST)
        assert (caught.value.reason, caught.value.written) == (Reason.TLS_FAILED, False)
        assert peer.requests == []
        assert upstream.pool.busy == 0


async def test_the_system_s_roots_are_used_unless_others_are_given(authority: Authority) -> None:
    async with Peer(authority.server("localhost")) as peer:
        with pytest.raises(UpstreamUnavailable) as caught:
            await upstream_at(peer, None).send(POST)
        assert caught.value.reason is Reason.TLS_FAILED


async def test_a_plain_server_behind_an_https_url_is_unavailable(authority: Authority) -> None:
    async with Peer() as peer:

        async def talk_plain(wire: Wire) -> None:
            await wire.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await wire.client_left()

        peer.script = talk_plain
        with pytest.raises(UpstreamUnavailable) as caught:
            await upstream_at(peer, authority.roots).send(POST)
        assert caught.value.reason is Reason.TLS_FAILED


async def test_a_body_that_ends_with_the_connection_is_complete_only_if_tls_says_so(authority: Authority) -> None:
    """RFC 9112 §9.8: without a closure alert, an attacker on the way may have cut the body."""
    async with Peer(authority.server("localhost")) as peer:
        cut = True

        async def script(wire: Wire) -> None:
            await wire.request()
            await wire.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
            if cut:
                wire.writer.transport.abort()
            else:
                wire.close()

        peer.script = script
        upstream = upstream_at(peer, authority.roots)
        with pytest.raises(UpstreamBadAnswer) as caught:
            await (await upstream.send(POST)).read(100)
        assert caught.value.reason is Reason.TRUNCATED
        cut = False
        assert await (await upstream.send(POST)).read(100) == b"hello"
        assert upstream.pool.busy == 0


async def test_a_slow_reader_holds_back_a_tls_upstream_too(authority: Authority) -> None:
    total = 20_000_000
    sent = 0
    async with Peer(authority.server("localhost")) as peer:

        async def script(wire: Wire) -> None:
            nonlocal sent
            await wire.request()
            await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
            while sent < total:
                await wire.send(b"x" * 100_000)
                sent += 100_000
            await wire.client_left()

        peer.script = script
        upstream = upstream_at(peer, authority.roots)
        async with await upstream.send(POST) as answer:
            await asyncio.sleep(0.2)
            assert answer._buffered < 1_000_000
            assert sent < 18_000_000
            assert len(await answer.read(total)) == total
        assert upstream.pool.idle == 1
        await upstream.aclose()
