"""Client-chosen tokens that share one name space upstream, replaced by keyed hashes.

Without this a guessed `prompt_cache_key` or `Idempotency-Key` would meet another tenant's. `key` is the tenant's K_token;
each result is 44 alphanumeric characters, below the 64 that the service allows, and the same for the same client value.
"""

from __future__ import annotations

import hmac
from typing import Final

from gateway.ids.encoding import base62, lp
from gateway.names import Owner, TenantId

_CHARS: Final = 44


def prompt_cache_key(key: bytes, tenant: TenantId, value: str) -> str:
    """Shared inside the tenant, as a cache is meant to be."""
    return _token(key, "prompt_cache_key", tenant, value)


def continuation_id(key: bytes, tenant: TenantId, owner: Owner, value: str) -> str:
    return _token(key, "continuation_id", tenant, owner.issuer, owner.subject, value)


def idempotency_key(key: bytes, tenant: TenantId, owner: Owner, route: str, value: str) -> str:
    """Of the principal and the `route` (its action): the same value on another route is another operation."""
    return _token(key, "idempotency_key", tenant, owner.issuer, owner.subject, route, value)


def safety_identifier(key: bytes, tenant: TenantId, owner: Owner, value: str) -> str:
    """`value`: the client's `safety_identifier`, else its `user`, else empty: one end user for the service to watch."""
    return _token(key, "safety_identifier", tenant, owner.issuer, owner.subject, value)


def user(key: bytes, tenant: TenantId, owner: Owner, value: str) -> str:
    """The older field for the same; a hash of its own, so that an answer that repeats both tells which is which."""
    return _token(key, "user", tenant, owner.issuer, owner.subject, value)


def group_id(key: bytes, tenant: TenantId, owner: Owner, value: str) -> str:
    """By which traces are put together: a stranger's session must not join one's own."""
    return _token(key, "group_id", tenant, owner.issuer, owner.subject, value)


def _token(key: bytes, name: str, *bound_to: str) -> str:
    return base62(hmac.digest(key, lp("coatcheck token 1", name, *bound_to), "sha256"), _CHARS)
