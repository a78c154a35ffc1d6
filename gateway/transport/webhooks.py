"""The endpoints that the service sends its webhooks to, one for each upstream project that has a secret for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gateway.errors import Problem, Reason
from gateway.transport.bodies import read_body
from gateway.transport.budget import Budget
from gateway.transport.drain import Drain
from gateway.transport.guard import HEAD, App, Head, Receive, Scope, Send
from gateway.transport.limits import Limits
from gateway.webhooks.intake import Intake, Source

PATH: Final = "/webhooks/"
"""The upstream's name follows."""
_MOST_BYTES: Final = 256 * 1024
_ALLOWED: Final = ((b"allow", b"POST"),)


@dataclass(frozen=True, slots=True)
class WebhookDoors:
    """`app`, with the endpoints of `sources` beside it. A path without a source is the app's like any other."""

    app: App
    intake: Intake
    sources: Mapping[bytes, Source]
    """By path."""
    limits: Limits
    drain: Drain
    budget: Budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head: Head = scope[HEAD]
        source = self.sources.get(head.raw_path) if scope["type"] == "http" else None
        if source is None:
            await self.app(scope, receive, send)
            return
        if head.method != "POST":
            raise Problem(Reason.METHOD_NOT_ALLOWED, method=head.method, headers=_ALLOWED)
        async with self.drain.work():
            # The signature is over these very bytes: they are not decoded.
            if head.by_name.get(b"content-encoding", b"identity").strip().lower() != b"identity":
                raise Problem(Reason.UNSUPPORTED_ENCODING)
            lease = self.budget.lease()
            try:
                body = await read_body(receive, head, replace(self.limits, body_bytes=_MOST_BYTES), lease)
                headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.by_name.items()}
                await self.intake.take(source, headers, body, head.client)
            finally:
                lease.give_back()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})


def path_of(upstream: str) -> bytes:
    return f"{PATH}{upstream}".encode()
