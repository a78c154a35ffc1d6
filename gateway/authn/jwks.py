"""The signing keys of one issuer, fetched, kept fresh, and rotated without a restart (RFC 7517 section 5).

One fetch at a time. Keys are fetched again ahead of their time to live, behind the requests' backs; a failed fetch leaves
the keys in use for up to an hour. A token with an unknown key ID may force one fetch per 30 seconds, so a rotation is seen
at once and a flood of invented key IDs is not a flood of fetches; and while it lasts, known keys go on verifying.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from gateway.authn.issuer import IssuerSettings
from gateway.authn.json_object import parse_object
from gateway.authn.jwks_fetch import Fetcher, FetchFailed
from gateway.authn.jws import VerificationKey, import_key
from gateway.tasks import Tasks

FORCED_FETCH_INTERVAL_S: Final = 30.0
RETRY_INTERVAL_S: Final = 5.0
MAX_STALE_S: Final = 3600.0
"""Age of the keys beyond which they no longer count, however long the issuer cannot be reached."""
_REFRESH_AHEAD: Final = 0.8
"""The share of the time to live after which keys are fetched again in the background."""
MAX_KEYS: Final = 64
MAX_UNKNOWN_KIDS: Final = 256
_UNKNOWN_KID_S: Final = 60.0

LOG = logging.getLogger(__name__)


class KeysUnavailable(Exception):
    """No keys of this issuer that may be used: never fetched, or older than an hour."""


class Jwks:
    """Keys by key ID. Belongs to one event loop; `aclose` ends it."""

    def __init__(
        self, settings: IssuerSettings, fetcher: Fetcher, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._clock_s = clock_s
        self._keys: Mapping[str | None, tuple[VerificationKey, ...]] = {}
        self._fetched_at = -math.inf
        self._tried_at = -math.inf
        self._forced_at = -math.inf
        self._failing = False
        self._flight: asyncio.Task[None] | None = None
        self._unknown: dict[str | None, float] = {}
        self._tasks = Tasks()

    async def find(self, kid: str | None) -> tuple[VerificationKey, ...]:
        """The keys under `kid`, for None all keys; empty where there are none. Raises KeysUnavailable."""
        await self._keep_fresh()
        keys = self._keys.get(kid, ())
        if not keys and self._may_force(kid):
            await self._joined(self._start())
            keys = self._keys.get(kid, ())
            if not keys:
                self._remember_unknown(kid)
        if self._age() > MAX_STALE_S:
            raise KeysUnavailable
        return keys

    async def aclose(self) -> None:
        """Ends a fetch that is under way."""
        await self._tasks.aclose()

    def _age(self) -> float:
        return self._clock_s() - self._fetched_at

    async def _keep_fresh(self) -> None:
        """Starts a fetch where one is due; waits for it only where there is nothing to serve meanwhile."""
        age = self._age()
        if age < self._settings.jwks_ttl_s * _REFRESH_AHEAD:
            return
        if not self._failing or self._clock_s() - self._tried_at >= RETRY_INTERVAL_S:
            self._start()
        if age >= MAX_STALE_S or (age >= self._settings.jwks_ttl_s and not self._failing):
            await self._joined(self._flight)

    def _may_force(self, kid: str | None) -> bool:
        """Whether this unknown `kid` is worth a fetch now: its own absence is remembered for a minute, and all unknown
        ones together get one fetch per 30 s. A fetch that is under way may be joined by anyone."""
        now = self._clock_s()
        if self._flight is not None and not self._flight.done():
            return True
        if now < self._unknown.get(kid, -math.inf) or now - self._forced_at < FORCED_FETCH_INTERVAL_S:
            return False
        if self._failing and now - self._tried_at < RETRY_INTERVAL_S:
            return False
        self._forced_at = now
        return True

    def _remember_unknown(self, kid: str | None) -> None:
        self._unknown.pop(kid, None)
        if len(self._unknown) >= MAX_UNKNOWN_KIDS:
            del self._unknown[next(iter(self._unknown))]
        self._unknown[kid] = self._clock_s() + _UNKNOWN_KID_S

    def _start(self) -> asyncio.Task[None]:
        """The fetch that is under way, or a new one, which outlives the request that started it."""
        if self._flight is None or self._flight.done():
            self._tried_at = self._clock_s()
            self._flight = self._tasks.spawn("jwks", self._refresh())
        return self._flight

    @staticmethod
    async def _joined(flight: asyncio.Task[None] | None) -> None:
        if flight is not None:
            await asyncio.shield(flight)

    async def _refresh(self) -> None:
        try:
            self._keys = read_keys(await self._fetch(await self._url()))
        except (FetchFailed, ValueError) as error:
            self._failing = True
            LOG.warning("jwks.fetch_failed", extra={"fields": {"issuer": self._settings.issuer, "reason": str(error)}})
        else:
            self._failing = False
            self._fetched_at = self._clock_s()

    async def _url(self) -> str:
        """Where the keys are: as set, or as discovered in a document that names this very issuer (RFC 8414 section 3.3:
        else one tenant of a shared provider could serve another's keys)."""
        if self._settings.jwks_url is not None:
            return self._settings.jwks_url
        document = parse_object(await self._fetch(self._settings.discovery_url()))
        url = document.get("jwks_uri")
        if document.get("issuer") != self._settings.issuer or not isinstance(url, str):
            raise FetchFailed("the discovery document is not this issuer's")
        return url

    async def _fetch(self, url: str) -> bytes:
        settings = self._settings
        return await self._fetcher.get(
            url, timeout_s=settings.fetch_timeout_s, allow_loopback_http=settings.allow_loopback_http
        )


def read_keys(document: bytes) -> dict[str | None, tuple[VerificationKey, ...]]:
    """The usable keys of a JWK Set by key ID, and all of them under None. Raises ValueError for what is no JWK Set or
    has more than 64 keys. Keys that cannot verify for us are passed over (RFC 7517 section 5)."""
    entries = parse_object(document).get("keys")
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise ValueError("not a JWK Set of at most 64 keys")
    found: dict[str | None, tuple[VerificationKey, ...]] = {}
    for entry in entries:
        key = import_key(entry) if isinstance(entry, dict) else None
        if key is not None:
            found[None] = (*found.get(None, ()), key)
            if isinstance(key.kid, str):
                found[key.kid] = (*found.get(key.kid, ()), key)
    return found
