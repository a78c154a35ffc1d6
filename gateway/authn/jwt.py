"""Access tokens of the configured issuers (RFC 9068, and OIDC providers' JWTs).

The issuer that a token names is believed only to pick whose settings and keys to check it with; whatever those do not
confirm is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gateway.authn.claims import check_dates, read_principal
from gateway.authn.issuer import IssuerSettings, mistakes
from gateway.authn.json_object import parse_object
from gateway.authn.jwks import Jwks, KeysUnavailable
from gateway.authn.jws import check_header, check_signature, take_apart
from gateway.authn.token_cache import TokenCache
from gateway.authn.verdict import NotMine, Refusal, Rejected, Verdict, Why

_NOT_MINE: Final = NotMine()


class JwtAuthenticator:
    """Verifies tokens of `issuers`; each comes with its `Jwks`. Raises ValueError for settings that must not be used."""

    def __init__(self, issuers: Sequence[tuple[IssuerSettings, Jwks]], cache_entries: int = 4096) -> None:
        for settings, _ in issuers:
            if wrong := list(mistakes(settings)):
                raise ValueError(f"issuer {settings.issuer!r}: {'; '.join(wrong)}")
        self._issuers: Mapping[str, tuple[IssuerSettings, Jwks]] = {s.issuer: (s, keys) for s, keys in issuers}
        if len(self._issuers) != len(issuers):
            raise ValueError("an issuer is set twice")
        self._cache = TokenCache(settings_digest(s for s, _ in issuers), cache_entries)

    async def authenticate(self, token: bytes, now: float) -> Verdict:
        cached = self._cache.get(token, now)
        if cached is not None:
            return cached
        if token.count(b".") != 2:
            return _NOT_MINE
        try:
            return await self._verify(token, now)
        except Refusal as refusal:
            return Rejected(refusal.why)
        except KeysUnavailable:
            return Rejected(Why.ISSUER_KEYS_UNAVAILABLE)

    async def aclose(self) -> None:
        for _, keys in self._issuers.values():
            await keys.aclose()

    async def _verify(self, token: bytes, now: float) -> Verdict:
        compact = take_apart(token)
        try:
            claims = parse_object(compact.payload)
        except ValueError:
            raise Refusal(Why.MALFORMED) from None
        named = claims.get("iss")
        if not isinstance(named, str) or named not in self._issuers:
            raise Refusal(Why.ISSUER_UNKNOWN)
        settings, jwks = self._issuers[named]
        model, kid = check_header(compact.header, settings.algorithms)
        _check_type(compact.header.get("typ"), settings.token_types)
        check_signature(compact, model, kid, await jwks.find(kid))
        principal = read_principal(claims, settings)
        try:
            expires = check_dates(claims, settings, now)
        except Refusal as refusal:
            return Rejected(refusal.why, principal if refusal.why is Why.EXPIRED else None)
        self._cache.put(token, principal, now, expires)
        return principal


def settings_digest(issuers: Iterable[IssuerSettings]) -> bytes:
    """32 bytes that change with any setting of any issuer (the settings are tuples, texts and numbers, so `repr` is whole)."""
    return hashlib.sha256(repr(tuple(issuers)).encode()).digest()


def _check_type(typ: object, accepted: Sequence[str]) -> None:
    """RFC 8725 section 3.11: a token made for another purpose is no access token. `typ` is compared without case and
    without `application/` (RFC 7515 section 4.1.9)."""
    if not isinstance(typ, str) or typ.lower().removeprefix("application/") not in accepted:
        raise Refusal(Why.TYPE_WRONG)
