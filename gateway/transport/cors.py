"""Browsers (Fetch standard, "CORS protocol"): which page may call the gateway with its user's token.

Off until an issuer has origins. A preflight carries no credential, so it is answered from the union of all issuers' origins;
the request itself is held against the list of its own issuer once that is known. Credentials mode is never allowed: the
gateway knows no cookies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.errors import Problem, Reason
from gateway.transport.guard import Head, Headers

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
"""RFC 6454 section 6.2, as browsers write it: lower case, no path, no default port."""

_REQUEST_HEADERS: Final = frozenset(
    {
        "accept", "authorization", "content-type", "idempotency-key", "openai-beta", "openai-organization", "openai-project",
        "traceparent", "user-agent", "x-client-request-id",
    }
)  # fmt: skip
_SDK_PREFIX: Final = "x-stainless-"
"""What the OpenAI SDKs tell of themselves; one header more every few releases."""

_EXPOSED: Final = (
    b"openai-poll-after-ms, retry-after, retry-after-ms, x-ratelimit-limit-requests, x-ratelimit-limit-tokens, "
    b"x-ratelimit-remaining-requests, x-ratelimit-remaining-tokens, x-ratelimit-reset-requests, x-ratelimit-reset-tokens, "
    b"x-request-id, x-should-retry"
)
_METHODS: Final = b"GET, POST, DELETE"
_PREFLIGHT_AGE_S: Final = b"600"


@dataclass(frozen=True, slots=True)
class Cors:
    """`origins` by issuer. Raises ValueError for what is no origin; `*` and `null` are none."""

    origins: Mapping[str, frozenset[str]]
    _union: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        union = frozenset(origin for allowed in self.origins.values() for origin in allowed)
        for origin in union:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"not an origin (scheme://host[:port] in lower case): {origin!r}")
        object.__setattr__(self, "_union", union)

    @classmethod
    def of(cls, origins: Mapping[str, Iterable[str]]) -> Cors:
        return cls({issuer: frozenset(allowed) for issuer, allowed in origins.items()})

    def preflight(self, head: Head) -> Headers | None:
        """Headers of the 204 that answers a preflight from an allowed origin; None where this is not one, and the request goes
        its way (to a 404 or 405, which a browser takes for a no)."""
        if head.method != "OPTIONS" or b"access-control-request-method" not in head.by_name:
            return None
        if head.header(b"origin") not in self._union:
            return None
        wanted = head.header(b"access-control-request-headers").lower().split(",")
        allowed = [name for name in map(str.strip, wanted) if name in _REQUEST_HEADERS or name.startswith(_SDK_PREFIX)]
        allowed = [name for name in allowed if re.fullmatch(r"[a-z0-9-]{1,64}", name)]
        return (
            (b"access-control-allow-origin", head.by_name[b"origin"]),
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", ", ".join(allowed).encode()),
            (b"access-control-max-age", _PREFLIGHT_AGE_S),
            (b"vary", b"Origin, Access-Control-Request-Headers"),
            (b"x-request-id", head.request_id.encode()),
        )

    def answer_headers(self, head: Head) -> Headers:
        """What every answer to a page gets, errors included, so that the page can read it. Nothing while CORS is off."""
        if not self._union:
            return ()
        if head.header(b"origin") not in self._union:
            return ((b"vary", b"Origin"),)
        return (
            (b"access-control-allow-origin", head.by_name[b"origin"]),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"Origin"),
        )

    def check(self, head: Head, issuer: str) -> None:
        """Raise ORIGIN_NOT_ALLOWED where the request comes from a page that the principal's `issuer` did not list.

        While CORS is off an Origin means nothing: no page gets past its preflight, and some programs send the header.
        """
        origin = head.header(b"origin")
        if self._union and origin and origin not in self.origins.get(issuer, ()):
            raise Problem(Reason.ORIGIN_NOT_ALLOWED)
