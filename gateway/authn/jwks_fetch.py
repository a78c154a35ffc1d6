"""One small HTTPS GET for discovery documents and keys: no redirects, no proxies, no cookies, a size and a time limit.

Written on h11 because that is all there is to it: what a general client does on top (following, decoding, environment
proxies) is what must not happen here.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

import h11

from gateway.authn.issuer import acceptable_url

MAX_DOCUMENT_BYTES: Final = 256 * 1024
_READ_BYTES: Final = 16 * 1024


class FetchFailed(Exception):
    """The document cannot be had. The text is for the operator."""


class Fetcher:
    """Fetches documents; one TLS context for all, made on first use, in a thread, because it reads the roots' files."""

    def __init__(self) -> None:
        self._tls: ssl.SSLContext | None = None

    async def get(self, url: str, *, timeout_s: float, allow_loopback_http: bool) -> bytes:
        """The body of a 200 answer, at most 256 KiB. Raises FetchFailed for all else, a redirect too."""
        if not acceptable_url(url, allow_loopback_http=allow_loopback_http):
            raise FetchFailed("the address is not acceptable")
        try:
            async with asyncio.timeout(timeout_s):
                return await self._get(url)
        except TimeoutError:
            raise FetchFailed(f"no answer within {timeout_s:g} s") from None
        except (OSError, h11.ProtocolError) as error:
            raise FetchFailed(type(error).__name__) from error

    async def _get(self, url: str) -> bytes:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        if secure and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        reader, writer = await asyncio.open_connection(
            parts.hostname or "", parts.port or (443 if secure else 80), ssl=self._tls if secure else None
        )
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_READ_BYTES)
            request = h11.Request(
                method="GET",
                target=target,
                headers=[
                    ("Host", parts.netloc),
                    ("Accept", "application/json, application/jwk-set+json"),
                    ("Accept-Encoding", "identity"),
                    ("Connection", "close"),
                ],
            )
            writer.write((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
            return await _read_body(connection, reader)
        finally:
            # Aborted, not closed: nothing is left to say, and a peer that never closes its side must not hold us.
            writer.transport.abort()


async def _read_body(connection: h11.Connection, reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            if event.status_code != 200:
                raise FetchFailed(f"status {event.status_code}")
            if any(name == b"content-encoding" and value != b"identity" for name, value in event.headers):
                raise FetchFailed("the answer is compressed, which was not asked for")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_DOCUMENT_BYTES:
                raise FetchFailed(f"larger than {MAX_DOCUMENT_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return bytes(body)
        elif isinstance(event, h11.ConnectionClosed):
            raise FetchFailed("closed before the end")
