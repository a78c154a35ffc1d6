"""The connections of one upstream key: at most so many, reused last-in first-out, handed to waiters in their order."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque

from gateway.upstreams.connection import Connection
from gateway.upstreams.failures import Reason, UpstreamTimeout, UpstreamUnavailable
from gateway.upstreams.limits import UpstreamLimits
from gateway.upstreams.origin import Origin


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Client TLS with certificate and name verification, 1.2 at least, ALPN `http/1.1`; `ca_file` replaces the system's roots."""
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class Pool:
    """Opens, lends and keeps connections to `origin`. A connection comes back by itself when its exchange is over."""

    def __init__(self, origin: Origin, limits: UpstreamLimits, tls: ssl.SSLContext | None) -> None:
        self._origin = origin
        self._limits = limits
        self._tls = (tls or tls_context()) if origin.tls else None
        self._open: set[Connection] = set()
        self._idle: list[Connection] = []
        self._reserved = 0
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._closed = False

    @property
    def busy(self) -> int:
        """Connections that are being opened or serve a call."""
        return len(self._open) + self._reserved - len(self._idle)

    @property
    def idle(self) -> int:
        """Connections that are open and wait for a call."""
        return len(self._idle)

    async def acquire(self, *, fresh: bool, connect_timeout_s: float, ends_at: float) -> Connection:
        """A connection for one exchange: an idle one unless `fresh`, else a new one, else the next that comes free.

        Raises UpstreamUnavailable (CONNECT_FAILED, TLS_FAILED, POOL_FULL, CLOSED) or UpstreamTimeout(CONNECT_TIMEOUT),
        all with `written` False.
        """
        if self._closed:
            raise UpstreamUnavailable(Reason.CLOSED, written=False)
        while True:
            if fresh and self._idle and self._is_full():
                self._idle[0].abort()
            while self._idle and not fresh:
                connection = self._idle.pop()
                if not connection.is_stale():
                    return connection
                connection.abort()
            if not self._is_full():
                self._reserved += 1
                return await self._connect(connect_timeout_s, ends_at)
            turn = await self._wait_for_turn(ends_at)
            if turn is None:
                return await self._connect(connect_timeout_s, ends_at)
            if not turn.is_stale():
                return turn
            turn.abort()  # its place goes to whoever is next, perhaps to this caller

    def close(self) -> None:
        """Close every connection at once; calls in flight and waiting fail with CLOSED."""
        self._closed = True
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(UpstreamUnavailable(Reason.CLOSED, written=False))
        for connection in list(self._open):
            connection.fail(UpstreamUnavailable(Reason.CLOSED, written=True))

    def _is_full(self) -> bool:
        return len(self._open) + self._reserved >= self._limits.max_connections

    async def _wait_for_turn(self, ends_at: float) -> Connection | None:
        """A freed connection, or None: a place in the pool, reserved for the caller."""
        if len(self._waiters) >= self._limits.max_waiting:
            raise UpstreamUnavailable(Reason.POOL_FULL, written=False)
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Connection | None] = loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout_at(min(loop.time() + self._limits.wait_timeout_s, ends_at)):
                return await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._pass_on(waiter.result())
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            if isinstance(error, TimeoutError):
                raise UpstreamUnavailable(Reason.POOL_FULL, written=False) from None
            raise

    async def _connect(self, connect_timeout_s: float, ends_at: float) -> Connection:
        """Open a connection on a reserved place; gives the place back if that fails."""
        loop = asyncio.get_running_loop()
        origin = self._origin
        try:
            async with asyncio.timeout_at(min(loop.time() + connect_timeout_s, ends_at)):
                _, connection = await loop.create_connection(
                    lambda: Connection(loop, self._limits, self._freed, self._died),
                    origin.host,
                    origin.port,
                    ssl=self._tls,
                    server_hostname=origin.host if origin.tls else None,
                )
        except BaseException as error:
            self._pass_on(None)
            if isinstance(error, TimeoutError):
                raise UpstreamTimeout(Reason.CONNECT_TIMEOUT, written=False) from None
            if isinstance(error, ssl.SSLError):
                raise UpstreamUnavailable(Reason.TLS_FAILED, written=False) from None
            if isinstance(error, OSError):
                raise UpstreamUnavailable(Reason.CONNECT_FAILED, written=False) from None
            raise
        if connection.is_closed() or self._closed:
            connection.abort()
            self._pass_on(None)
            raise UpstreamUnavailable(Reason.CLOSED if self._closed else Reason.CONNECT_FAILED, written=False)
        self._reserved -= 1
        self._open.add(connection)
        return connection

    def _freed(self, connection: Connection) -> None:
        if self._closed or (not self._waiters and len(self._idle) >= self._limits.max_idle):
            connection.abort()
        elif not self._hand_over(connection):
            self._idle.append(connection)

    def _died(self, connection: Connection) -> None:
        if connection not in self._open:
            return
        self._open.remove(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._reserved += 1
        self._pass_on(None)

    def _pass_on(self, turn: Connection | None) -> None:
        """Give a connection or a reserved place to the next waiter, or take it back."""
        if turn is not None:
            self._freed(turn)
        elif not self._hand_over(None):
            self._reserved -= 1

    def _hand_over(self, turn: Connection | None) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(turn)
                return True
        return False
