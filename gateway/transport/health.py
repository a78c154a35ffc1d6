"""`/healthz`: the process answers. `/readyz`: it can serve, that is, its store answers and it does not drain.

No authentication and no details: whoever can reach the port may ask, and learns one word; and a second one where a tenant's log
is not the one that was signed, which its operator must not overlook. Others are served all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.errors import Problem, Reason
from gateway.transport.drain import Drain
from gateway.transport.guard import HEAD, HEALTH_PATHS, Head, Receive, Scope, Send, refuse

_READ_ONLY: Final = ((b"allow", b"GET, HEAD"),)


class Health:
    """An ASGI app of the two paths. `store_answers` is asked at most once in `fresh_s`, whoever asks and how often."""

    def __init__(
        self,
        store_answers: Callable[[], Awaitable[bool]],
        drain: Drain,
        *,
        fresh_s: float = 1.0,
        timeout_s: float = 1.0,
        audit_is_whole: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store_answers = store_answers
        self._drain = drain
        self._fresh_s = fresh_s
        self._timeout_s = timeout_s
        self._audit_is_whole = audit_is_whole
        self._lock = asyncio.Lock()
        self._answered = False
        self._asked_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head: Head = scope[HEAD]
        if head.raw_path not in HEALTH_PATHS:
            problem = Problem(Reason.ROUTE_UNKNOWN, method=head.method, path=scope["path"])
        elif head.method not in ("GET", "HEAD"):
            problem = Problem(Reason.METHOD_NOT_ALLOWED, method=head.method, headers=_READ_ONLY)
        else:
            well = head.raw_path == b"/healthz" or await self.ready()
            told = b"" if head.raw_path == b"/healthz" or self._audit_is_whole() else b',"audit":"halted"'
            await _say(b"ok" if well else b"unavailable", told, 200 if well else 503, head, send)
            return
        await refuse(problem, head.request_id, scope, send)

    async def ready(self) -> bool:
        if self._drain.draining:
            return False
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._asked_at >= self._fresh_s:
                self._answered = await self._ask()
                self._asked_at = now
        return self._answered and not self._drain.draining

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._store_answers()
        except Exception:
            # Whatever the store raises, it does not answer.
            return False


async def _say(word: bytes, told: bytes, status: int, head: Head, send: Send) -> None:
    body = b'{"status":"' + word + b'"' + told + b"}"
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-request-id", head.request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head.method == "HEAD" else body})
