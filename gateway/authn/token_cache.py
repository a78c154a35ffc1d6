"""Principals of credentials that were verified a moment ago."""

from __future__ import annotations

import hashlib
from typing import Final

from gateway.names import Principal

MAX_AGE_S: Final = 60.0


class TokenCache:
    """Keyed by SHA-256 over the settings' digest and the whole token: a part of a token never stands for it, and no entry
    outlives the settings (issuers, audiences, tenants) that it was verified under. Bounded; the oldest entry goes first."""

    def __init__(self, settings_digest: bytes, max_entries: int) -> None:
        # The digest is of fixed length, so digest and token cannot be confused when one follows the other.
        self._hash = hashlib.sha256(settings_digest)
        self._max_entries = max_entries
        self._entries: dict[bytes, tuple[float, float, Principal]] = {}

    def get(self, token: bytes, now: float) -> Principal | None:
        """The principal, while the entry is at most 60 s old and its credential has not expired at `now` (UTC seconds).
        A clock that was set back finds nothing."""
        entry = self._entries.get(self._key(token))
        return entry[2] if entry is not None and entry[0] <= now < entry[1] else None

    def put(self, token: bytes, principal: Principal, now: float, expires: float) -> None:
        """Keeps a verified principal until 60 s from `now`, and never beyond `expires`."""
        if len(self._entries) >= self._max_entries:
            del self._entries[next(iter(self._entries))]
        self._entries[self._key(token)] = (now, min(now + MAX_AGE_S, expires), principal)

    def _key(self, token: bytes) -> bytes:
        digest = self._hash.copy()
        digest.update(token)
        return digest.digest()
