"""One WebSocket to an upstream (RFC 6455): opened for one client's socket, never pooled, never used again.

As in the HTTP client there are no cookies, no redirects and no proxies from the environment, and everything that fails is an
`UpstreamError`.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.http11 import Response
from websockets.uri import parse_uri

from gateway.upstreams.answer import Headers
from gateway.upstreams.failures import Reason, UpstreamBadAnswer, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from gateway.upstreams.origin import Origin, is_safe_target
from gateway.websocket import QUIET, Endpoint


class SocketRefused(UpstreamError):
    """The upstream answered the opening handshake as an HTTP error."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        super().__init__(Reason.MALFORMED, written=True)
        self.status = status
        self.headers = headers
        self.body = body


class UpstreamSocket(Endpoint):
    """An open connection. A message that is not read holds the upstream back."""

    __slots__ = ("_opening",)

    def __init__(self, frames: ClientProtocol, headers: Headers) -> None:
        super().__init__(frames)
        self._opening: asyncio.Future[None] | None = self._loop.create_future()
        request = frames.connect()
        for name, value in headers:
            request.headers[name.decode("latin-1")] = value.decode("latin-1")
        frames.send_request(request)

    async def handshake(self) -> None:
        """Raises InvalidHandshake, OSError, and EOFError."""
        if self._opening is not None:
            await self._opening
            self._opening = None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes, and waits for the upstream's own close for some seconds at most. May be called again."""
        self.begin_close(code, reason)
        await self.wait_ended()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._opens(exc or EOFError())

    def take_turn(self, allowance: int) -> int:
        cost = super().take_turn(allowance)
        if (refused := self._frames.handshake_exc) is not None:
            self._opens(refused)
        return cost

    def _hear(self, event: Any) -> None:
        if not isinstance(event, Response):
            super()._hear(event)
        elif self._frames.handshake_exc is None:
            event.headers.clear()  # the parser keeps them, and idle sockets are many
            self._opens(None)
            self._opened()

    def _opens(self, failure: Exception | None) -> None:
        opening = self._opening
        if opening is None or opening.done():
            return
        if failure is None:
            opening.set_result(None)
        else:
            opening.set_exception(failure)
            opening.exception()  # nobody may wait for it any more


async def open_socket(
    origin: Origin, target: bytes, headers: Headers, *, timeout_s: float, max_bytes: int, tls: ssl.SSLContext | None
) -> UpstreamSocket:
    """A socket at `target` below the base URL. `max_bytes`: of one message. Raises UpstreamError."""
    if not is_safe_target(target):
        raise ValueError("not a target below the base URL")
    scheme = "wss" if origin.tls else "ws"
    uri = f"{scheme}://{origin.authority.decode()}{origin.prefix.decode()}{target.decode()}"
    frames = ClientProtocol(parse_uri(uri), max_size=max_bytes, logger=QUIET)
    made: UpstreamSocket | None = None
    try:
        async with asyncio.timeout(timeout_s):
            _, made = await asyncio.get_running_loop().create_connection(
                lambda: UpstreamSocket(frames, headers),
                origin.host,
                origin.port,
                ssl=tls if origin.tls else None,
                server_hostname=origin.host if origin.tls else None,
            )
            await made.handshake()
            opened, made = made, None
            return opened
    except InvalidStatus as refused:
        told = refused.response
        shown = tuple(
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in told.headers.raw_items()
        )
        raise SocketRefused(told.status_code, shown, bytes(told.body or b"")) from None
    except TimeoutError:
        raise UpstreamTimeout(Reason.CONNECT_TIMEOUT, written=True) from None
    except ssl.SSLError:
        raise UpstreamUnavailable(Reason.TLS_FAILED, written=False) from None
    except InvalidHandshake:
        raise UpstreamBadAnswer(Reason.MALFORMED) from None
    except (OSError, EOFError):
        raise UpstreamUnavailable(Reason.CONNECT_FAILED, written=False) from None
    finally:
        if made is not None:
            made.transport.abort()
