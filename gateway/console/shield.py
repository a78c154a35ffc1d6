"""The outermost layer of the console: one set of headers on every answer, and requests of other sites turned away.

Cross-site request forgery ends here: what a browser says about where a request comes from (Fetch Metadata,
https://www.w3.org/TR/fetch-metadata/, or `Origin` of older browsers) decides, before any page is asked. A page of ours asks
from its own origin; another site may only lead a person here, by a link.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        b"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-embedder-policy", b"require-corp"),
    (b"origin-agent-cluster", b"?1"),
    (b"permissions-policy", b"camera=(), clipboard-read=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"strict-transport-security", b"max-age=31536000"),
    (b"cache-control", b"no-store"),
)
"""Of every answer, in this order, before anything else."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_SAID: Final = frozenset({b"host", b"origin", b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site"})
"""What a request says of where it comes from and goes to. No browser says one of them twice."""


@dataclass(frozen=True, slots=True)
class Shield:
    app: App
    origin: str
    """Ours, as a browser writes it: `https://audit.example.com`."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_shielded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*HEADERS, *message.get("headers", ())]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send_shielded)
            return
        status, text = refusal
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
        await send_shielded({"type": "http.response.start", "status": status, "headers": headers})
        await send_shielded({"type": "http.response.body", "body": text})

    def _refusal(self, scope: Message) -> tuple[int, bytes] | None:
        headers = dict(scope["headers"])
        said = [name for name, _ in scope["headers"] if name in _SAID]
        if len(said) != len(set(said)):
            return 400, b"The request says twice where it comes from.\n"
        if headers.get(b"host", b"").decode("latin-1") != urlsplit(self.origin).netloc:
            # Also what keeps another site's name, made to lead here, from reading pages (DNS rebinding).
            return 421, b"This address is not the console's.\n"
        if scope["method"] not in _METHODS:
            return 405, b"Only GET, HEAD and POST are known here.\n"
        if not self._is_ours(scope["method"], headers):
            return 403, b"The request came from another site.\n"
        return None

    def _is_ours(self, method: str, headers: dict[bytes, bytes]) -> bool:
        site = headers.get(b"sec-fetch-site")
        if site is None:
            # An older browser, or none: what changes something must say that it comes from here.
            said = headers.get(b"origin")
            return said == self.origin.encode() or (said is None and method != "POST")
        if site == b"same-origin":
            return True
        if site == b"none":
            return method != "POST"
        navigates = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
        return method != "POST" and navigates
