"""Calls on one upstream: builds the request's head, lends a connection, resends only what cannot have been acted on twice.

No cookies, no redirects, no proxies from the environment: the client has no code for them, and a test keeps it so.
"""

from __future__ import annotations

import asyncio
import random
import re
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import lru_cache

from gateway.upstreams.answer import Headers, UpstreamAnswer
from gateway.upstreams.breaker import Breaker, Verdict
from gateway.upstreams.failures import KEY_REFUSED, Reason, UpstreamBadAnswer, UpstreamError, UpstreamUnavailable
from gateway.upstreams.limits import Deadlines, UpstreamLimits
from gateway.upstreams.origin import Origin, is_safe_target
from gateway.upstreams.pool import Pool
from gateway.upstreams.socket import SocketRefused, UpstreamSocket, open_socket

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_IDEMPOTENT = frozenset({"GET", "HEAD", "DELETE"})
_BODILESS = frozenset({"GET", "HEAD", "DELETE"})
_RESENDS = 2

_NAME = re.compile(rb"[a-z0-9][a-z0-9-]*")
# The connection's own business: nobody above may set these.
_RESERVED = frozenset(
    {
        b"accept-encoding", b"connection", b"content-length", b"cookie", b"expect", b"host", b"keep-alive",
        b"proxy-authorization", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip

_UNREACHABLE = frozenset({Reason.CONNECT_FAILED, Reason.TLS_FAILED, Reason.CONNECT_TIMEOUT})


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """A request as it leaves.

    `target` is path and query relative to the base URL's path, already encoded; header names are in lower case. A body
    of bytes is sent with Content-Length, an iterator's pieces in chunks as they come; to close it stays the caller's.
    """

    method: str
    target: bytes
    headers: Headers = ()
    body: bytes | AsyncIterator[bytes] | None = None


class Upstream:
    """One upstream key.

    `name` is what records and logs call it, `project` the identity of the upstream project whose objects it sees.
    """

    def __init__(
        self,
        name: str,
        project: str,
        origin: Origin,
        limits: UpstreamLimits,
        *,
        tls: ssl.SSLContext | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.project = project
        self.origin = origin
        self._limits = limits
        self._jitter = jitter
        self._breaker = Breaker(limits.breaker_failures, limits.breaker_open_s)
        self._tls = tls
        self.pool = Pool(origin, limits, tls)
        self._fixed = b" HTTP/1.1\r\nhost: " + origin.authority + b"\r\naccept-encoding: identity\r\n"

    async def send(
        self,
        request: UpstreamRequest,
        *,
        connect_timeout_s: float | None = None,
        headers_timeout_s: float | None = None,
        idle_timeout_s: float | None = None,
        total_timeout_s: float | None = None,
    ) -> UpstreamAnswer:
        """The answer, once its head is complete; its status may be anything from 200 to 599, redirects included.

        Raises UpstreamUnavailable, UpstreamTimeout or UpstreamBadAnswer; ValueError for a request that must not be
        built; and what a streamed body raised. Cancelling closes the connection. Time-outs not given are the pool's.

        A request is sent again (twice at most, on a fresh connection, after a random pause, inside `total_timeout_s`)
        only if no byte of it was written, or if its method is idempotent and not a byte of an answer came.
        """
        limits = self._limits
        clock = asyncio.get_running_loop().time
        head = self._head(request)
        deadlines = Deadlines(
            headers_timeout_s=headers_timeout_s or limits.headers_timeout_s,
            idle_timeout_s=idle_timeout_s or limits.idle_timeout_s,
            ends_at=clock() + (total_timeout_s or limits.total_timeout_s),
        )
        connect_s = connect_timeout_s or limits.connect_timeout_s
        resends = 0
        while True:
            try:
                return await self._attempt(request, head, deadlines, connect_s, fresh=resends > 0)
            except UpstreamUnavailable as failure:
                pause = self._jitter() * limits.retry_pause_s * 2**resends
                if resends == _RESENDS or not _may_resend(request, failure) or clock() + pause >= deadlines.ends_at:
                    raise
            resends += 1
            await asyncio.sleep(pause)

    async def open_socket(self, target: bytes, headers: Headers, max_bytes: int) -> UpstreamSocket:
        """A WebSocket of its own, outside the pool. `max_bytes`: of one message. Raises UpstreamError."""
        clock = asyncio.get_running_loop().time
        permit = self._breaker.admit(clock())
        if permit is None:
            wait_s = self._breaker.retry_after_s(clock())
            raise UpstreamUnavailable(Reason.BREAKER_OPEN, written=False, retry_after_s=wait_s)
        verdict = Verdict.NOTHING
        try:
            opened = await open_socket(
                self.origin,
                target,
                headers,
                timeout_s=self._limits.connect_timeout_s,
                max_bytes=max_bytes,
                tls=self._tls,
            )
            verdict = Verdict.REACHED
        except UpstreamError as failure:
            shut = isinstance(failure, SocketRefused) and failure.status in KEY_REFUSED
            verdict = Verdict.UNREACHABLE if shut or failure.reason in _UNREACHABLE else Verdict.REACHED
            raise
        finally:
            self._breaker.record(permit, verdict, clock())
        return opened

    @property
    def is_down(self) -> bool:
        """Whether calls are refused at present because it could not be reached, or took its key no more."""
        return self._breaker.is_open(asyncio.get_running_loop().time())

    async def aclose(self) -> None:
        """Close all connections; calls in flight fail."""
        self.pool.close()

    async def _attempt(
        self, request: UpstreamRequest, head: bytes, deadlines: Deadlines, connect_timeout_s: float, *, fresh: bool
    ) -> UpstreamAnswer:
        clock = asyncio.get_running_loop().time
        permit = self._breaker.admit(clock())
        if permit is None:
            wait_s = self._breaker.retry_after_s(clock())
            raise UpstreamUnavailable(Reason.BREAKER_OPEN, written=False, retry_after_s=wait_s)
        verdict = Verdict.NOTHING
        reused = False
        try:
            connection = await self.pool.acquire(
                fresh=fresh, connect_timeout_s=connect_timeout_s, ends_at=deadlines.ends_at
            )
            reused = connection.reused
            answer = await connection.exchange(head, request.body, deadlines, head_only=request.method == "HEAD")
            verdict = Verdict.UNREACHABLE if answer.status in KEY_REFUSED else Verdict.REACHED
        except UpstreamError as failure:
            # A kept connection that the peer has closed meanwhile tells nothing about the next one.
            if isinstance(failure, UpstreamBadAnswer):
                verdict = Verdict.REACHED
            elif failure.reason in _UNREACHABLE or (failure.reason is Reason.CONNECTION_LOST and not reused):
                verdict = Verdict.UNREACHABLE
            raise
        finally:
            self._breaker.record(permit, verdict, clock())
        return answer

    def _head(self, request: UpstreamRequest) -> bytes:
        """The header block with its empty line (RFC 9112 §2.1). ValueError for whatever could change the request's shape."""
        if request.method not in _METHODS or not is_safe_target(request.target):
            raise ValueError("a request's method or target is not one that this client sends")
        parts = [request.method.encode(), b" ", self.origin.prefix, request.target, self._fixed]
        for name, value in request.headers:
            if not _may_be_set(name):
                raise ValueError("a request's header name is not one that callers may set")
            parts += (name, b": ", value, b"\r\n")
        body = request.body
        if body is None:
            parts.append(b"\r\n" if request.method in _BODILESS else b"content-length: 0\r\n\r\n")
        elif isinstance(body, bytes):
            parts.append(b"content-length: %d\r\n\r\n" % len(body))
        else:
            parts.append(b"transfer-encoding: chunked\r\n\r\n")
        head = b"".join(parts)
        # Three fixed lines, one a header, and the end, of two lines if it tells of a body: a line break in a value shows.
        lines = 3 + len(request.headers) + (2 if parts[-1] != b"\r\n" else 1)
        if not head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") == lines or b"\0" in head:
            raise ValueError("a request's header value holds a line break or a NUL")
        return head


def _may_resend(request: UpstreamRequest, failure: UpstreamUnavailable) -> bool:
    if failure.reason is Reason.CONNECTION_LOST and not failure.written:
        return True
    replayable = request.method in _IDEMPOTENT and (request.body is None or isinstance(request.body, bytes))
    return replayable and failure.reason in (Reason.CONNECT_FAILED, Reason.CONNECTION_LOST)


@lru_cache(maxsize=256)
def _may_be_set(name: bytes) -> bool:
    return name not in _RESERVED and _NAME.fullmatch(name) is not None
