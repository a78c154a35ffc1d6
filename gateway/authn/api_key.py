"""Gateway API keys.

What a key's record says about its owner is remembered for at most a minute. Whether the key still stands is not: `begin`
reads its status in the same call as everything else (`Principal.credential`), so a revoked key is refused at once, by
every replica.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from gateway.authn.api_key_form import PREFIX, KeyId, read_key
from gateway.authn.api_key_record import ApiKeyRecord, open_api_key
from gateway.authn.token_cache import TokenCache
from gateway.authn.verdict import NotMine, Rejected, Verdict, Why
from gateway.errors import Problem, Reason
from gateway.ids.keys import KeyRefused
from gateway.stores.contract import ApiKey, Store, StoreError
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.keyring import Keyring, KeysMissing

LOOK_UP_TIMEOUT_S: Final = 0.5
"""As long as `begin` may take."""
REFUSED_FOR_S: Final = 5.0
"""How long a refusal that needed a look-up is remembered."""
MAX_REFUSED: Final = 1024
_NEVER: Final = float("inf")
_NOT_MINE: Final = NotMine()


class ApiKeyAuthenticator:
    def __init__(self, store: Store, keyring: Keyring, cache_entries: int = 4096) -> None:
        self._store = store
        self._keyring = keyring
        # A key's record is under no settings: the digest only keeps these entries apart from other caches' entries.
        self._cache = TokenCache(hashlib.sha256(b"api key").digest(), cache_entries)
        self._refused: dict[bytes, tuple[float, Rejected]] = {}

    async def authenticate(self, token: bytes, now: float) -> Verdict:
        if not token.startswith(PREFIX):
            return _NOT_MINE
        cached = self._cache.get(token, now)
        if cached is not None:
            return cached
        digest = hashlib.sha256(token).digest()
        known = self._refused.get(digest)
        if known is not None and now < known[0] <= now + REFUSED_FOR_S:
            return known[1]
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                verdict = await self._look_up(token, now)
        except (StoreError, TimeoutError, ErasuresUnreadable) as error:
            # Without the store no event could be written either; the client meets the answer of `begin`.
            raise Problem(Reason.AUDIT_UNAVAILABLE, retry_after_s=1) from error
        if isinstance(verdict, Rejected) and verdict.why is not Why.CHECKSUM_WRONG:
            self._refused.pop(digest, None)
            if len(self._refused) >= MAX_REFUSED:
                del self._refused[next(iter(self._refused))]
            self._refused[digest] = (now + REFUSED_FOR_S, verdict)
        return verdict

    async def _look_up(self, token: bytes, now: float) -> Verdict:
        key = read_key((await self._keyring.deployment()).keys.pepper, token)
        if key is None:
            return Rejected(Why.CHECKSUM_WRONG)
        stored = await self._store.api_key(key.tenant, key.tag)
        if stored is None:
            return Rejected(Why.KEY_UNKNOWN)
        record = await self._open(key, stored)
        if record is None:
            return Rejected(Why.RECORD_UNREADABLE)
        principal = record.principal(key)
        if stored.revoked:
            return Rejected(Why.REVOKED, principal)
        # Both dates count: the clear one can be shortened by a rotation, the sealed one cannot be lengthened by anyone.
        expires = min(_NEVER if date is None else date for date in (stored.expires, record.expires))
        if expires <= now:
            return Rejected(Why.EXPIRED, principal)
        self._cache.put(token, principal, now, expires)
        return principal

    async def _open(self, key: KeyId, stored: ApiKey) -> ApiKeyRecord | None:
        try:
            keys = (await self._keyring.tenant(key.tenant)).keys
        except (KeysMissing, KeyRefused):
            return None
        return open_api_key(keys.storage, key, stored.data)
