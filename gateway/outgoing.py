"""One HTTPS client for every address that a tenant or operator sets: anchors, streams, webhooks.

An address that a tenant sets may point at what only we can reach: the metadata service, Redis, a neighbour. So a name is
resolved once, every address that it gives must be a public one, and the connection goes to one of these very addresses; a name
that resolves to something else a moment later (DNS rebinding) changes nothing. A redirect is an answer like any other and is
never followed, no proxy of the environment is used, and the certificate must be good for the name.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import SplitResult, urlsplit
from weakref import WeakValueDictionary

import h11

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_ANSWER_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 16 * 1024
_LONGEST_URL: Final = 2048


# Threads of its own: a look-up cannot be given up, and a tenant's name servers may leave it hanging. In the loop's pool that
# would take the threads that open keys for requests.
_RESOLVERS: Final = ThreadPoolExecutor(64, "resolve")
_OF_ONE: Final = 2
"""Look-ups of one tenant's names at once, those included that nobody waits for any more."""


class OutgoingRefused(Exception):
    """The address may not be called. The text says why, and can be shown to who set it."""


class OutgoingFailed(Exception):
    """No answer: out of reach, too slow, too large, a certificate that is not good. It may have been carried out."""


class Reach(StrEnum):
    """Which addresses may be called."""

    PUBLIC = "public"
    LOOPBACK = "loopback"
    """Public ones, and this machine's own, there also by plain http. Only an operator's setting gives this."""


_REFUSED: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
    )
)  # fmt: skip
"""The IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890) and multicast; what stands for another address in
it (6to4, Teredo) too. Of IPv6 only 2000::/3 is looked at further: nothing else is routed to the public (RFC 4291)."""

_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
"""RFC 6052: the last 32 bits are an IPv4 address, and that is what is reached."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    """Names in lower case."""
    body: bytes


class Outgoing:
    """`tls`: the roots to trust (None: the system's, read on first use). `resolve`: name and port → addresses (None: the
    system's)."""

    def __init__(
        self,
        reach: Reach = Reach.PUBLIC,
        *,
        timeout_s: float = 10.0,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._reach = reach
        self._timeout_s = timeout_s
        self._tls = tls
        self._resolve = resolve
        self._look_ups: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def check(self, url: str) -> None:
        """Raises OutgoingRefused for a URL that can't be called, without resolving its name."""
        parts = _parse(url)
        address = _literal(parts.hostname or "")
        if address is not None:
            self._check_address(parts, address)
        elif parts.scheme != "https" and self._reach is Reach.PUBLIC:
            raise OutgoingRefused("the address must begin with https://")

    async def send(
        self, method: str, url: str, *, headers: Sequence[tuple[str, str]] = (), body: bytes = b"", tenant: str = ""
    ) -> Answer:
        """The whole exchange within `timeout_s`. `tenant`: whose address it is, so that name servers which leave us waiting
        keep its other calls waiting and nobody else's. Raises OutgoingRefused and OutgoingFailed."""
        self.check(url)
        parts = _parse(url)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._send(method, parts, headers, body, tenant)
        except TimeoutError:
            raise OutgoingFailed(f"no answer within {self._timeout_s:g} s") from None
        except ssl.SSLCertVerificationError:
            raise OutgoingFailed("its certificate is not good for its name") from None
        except (OSError, h11.ProtocolError) as error:
            raise OutgoingFailed(f"it cannot be reached ({type(error).__name__})") from None

    async def _send(
        self, method: str, parts: SplitResult, headers: Sequence[tuple[str, str]], body: bytes, tenant: str
    ) -> Answer:
        secure, host = parts.scheme == "https", parts.hostname or ""
        port = parts.port or (443 if secure else 80)
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_READ_BYTES)
        own = [("Host", parts.netloc), ("Accept-Encoding", "identity"), ("Connection", "close")]
        length = [("Content-Length", str(len(body)))] if body or method not in ("GET", "HEAD") else []
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        request = connection.send(h11.Request(method=method, target=target, headers=[*own, *length, *headers])) or b""
        if body:
            request += connection.send(h11.Data(data=body)) or b""
        request += connection.send(h11.EndOfMessage()) or b""
        addresses = await self._addresses(parts, host, port, tenant)
        if secure and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        reader, writer = await _connect(addresses, port, self._tls if secure else None, host)
        try:
            writer.write(request)
            return await _read(connection, reader)
        finally:
            # Aborted, not closed: nothing is left to say, and a peer that never closes its side must not hold us.
            writer.transport.abort()

    async def _addresses(self, parts: SplitResult, host: str, port: int, tenant: str) -> list[Address]:
        """What the name stands for, all of it acceptable."""
        literal = _literal(host)
        if literal is not None:
            return [literal]
        try:
            names = await (self._resolve(host, port) if self._resolve else self._look_up(host, port, tenant))
            found = [ipaddress.ip_address(text) for text in names]
        except (OSError, ValueError, UnicodeError):
            found = []
        if not found:
            raise OutgoingFailed("its name does not resolve")
        for address in found:
            self._check_address(parts, address)
        return found

    async def _look_up(self, host: str, port: int, tenant: str) -> list[str]:
        loop, gate = asyncio.get_running_loop(), self._look_ups.setdefault(tenant, asyncio.Semaphore(_OF_ONE))

        def ended(job: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(gate.release)

        await gate.acquire()
        job = _RESOLVERS.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        # By the thread itself: whoever waits for it may have given up long before.
        job.add_done_callback(ended)
        return [str(row[4][0]) for row in await asyncio.wrap_future(job)]

    def _check_address(self, parts: SplitResult, address: Address) -> None:
        if self._reach is Reach.LOOPBACK and address.is_loopback:
            return
        if not is_public(address):
            raise OutgoingRefused("the address does not lead to the public internet")
        if parts.scheme != "https":
            raise OutgoingRefused("the address must begin with https://")


def is_public(address: Address) -> bool:
    """Whether the address is one of the public internet, by the registries and not by what a Python release thinks."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return False
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL_UNICAST:
            return False
    return not any(address.version == network.version and address in network for network in _REFUSED)


def _parse(url: str) -> SplitResult:
    """Raises OutgoingRefused for what is no plain http(s) URL with a host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise OutgoingRefused("this is no URL") from None
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise OutgoingRefused("a URL is at most 2,048 visible ASCII characters")
    if parts.scheme not in ("https", "http"):
        raise OutgoingRefused("the address must begin with https://")
    if not host or port == 0:
        raise OutgoingRefused("the address names no host")
    if "@" in parts.netloc or "#" in url:
        raise OutgoingRefused("the address must hold neither a user nor a fragment")
    return parts


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


async def _connect(
    addresses: Sequence[Address], port: int, tls: ssl.SSLContext | None, host: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the first address that takes the connection. Each is a literal: nothing is resolved again."""
    failure: OSError = OSError("no address")
    for address in addresses:
        try:
            return await asyncio.open_connection(
                str(address), port, ssl=tls, server_hostname=host if tls is not None else None
            )
        except ssl.SSLError:
            raise
        except OSError as error:
            failure = error
    raise failure


async def _read(connection: h11.Connection, reader: asyncio.StreamReader) -> Answer:
    status, headers, body = 0, [], bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            status, headers = event.status_code, [(bytes(name), bytes(value)) for name, value in event.headers]
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_ANSWER_BYTES:
                raise OutgoingFailed(f"its answer is larger than {MAX_ANSWER_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, tuple(headers), bytes(body))
        elif isinstance(event, h11.ConnectionClosed):
            raise OutgoingFailed("it closed the connection before the end of its answer")
