"""From the claims of a token whose signature held, to a principal (RFC 7519, RFC 9068 section 4). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeGuard

from gateway.authn.issuer import IssuerSettings
from gateway.authn.verdict import Refusal, Why
from gateway.names import Owner, Principal, PrincipalKind, TenantId

MAX_NAME_CHARS: Final = 256
_MAX_ROLES: Final = 64
_MAX_AUDIENCES: Final = 32
_MAX_ACTORS: Final = 2
_MAX_DATE_S: Final = 2.0**40
"""NumericDates beyond this (the year 36,812) are a mistake or an attack, not a date."""


def is_name(value: object) -> TypeGuard[str]:
    """Whether `value` can name a person, a role or a tenant: 1 to 256 printable characters. Printable excludes control,
    bidirectional and invisible characters, which would make two names look alike in the audit log."""
    return (
        isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS and value.isprintable() and value == value.strip()
    )


def read_principal(claims: Mapping[str, object], settings: IssuerSettings) -> Principal:
    """Who the token speaks of, and for which tenant. Raises Refusal. The dates are `check_dates`'s part."""
    if claims.get("iss") != settings.issuer:
        raise Refusal(Why.ISSUER_UNKNOWN)
    _check_audience(claims.get("aud"), settings.audience)
    if "cnf" in claims:
        # A proof-of-possession token (RFC 7800, RFC 9449) sent as a plain bearer may be stolen.
        raise Refusal(Why.SENDER_CONSTRAINED)
    subject = _at(claims, settings.subject_claim)
    if not is_name(subject):
        raise Refusal(Why.CLAIM_MALFORMED)
    return Principal(
        tenant=_tenant(claims, settings),
        owner=Owner(settings.issuer, subject),
        kind=PrincipalKind.USER,
        auth="jwt",
        roles=_roles(_at(claims, settings.roles_claim)),
        chain=_actors(claims.get("act"), settings.issuer),
    )


def check_dates(claims: Mapping[str, object], settings: IssuerSettings, now: float) -> float:
    """`exp` in UTC seconds. Raises Refusal, EXPIRED last, so that whoever sees EXPIRED knows that all else was good."""
    expires, issued = _date(claims.get("exp")), _date(claims.get("iat"))
    starts = _date(claims["nbf"]) if "nbf" in claims else issued
    if max(issued, starts) > now + settings.leeway_s:
        raise Refusal(Why.NOT_YET_VALID)
    if expires - issued > settings.max_lifetime_s:
        raise Refusal(Why.LIFETIME_TOO_LONG)
    if expires + settings.leeway_s <= now:
        raise Refusal(Why.EXPIRED)
    return expires


def _date(value: object) -> float:
    """A NumericDate (RFC 7519 section 2) as seconds: a finite, bounded JSON number; `true` is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refusal(Why.CLAIM_MALFORMED)
    if not (0 <= value <= _MAX_DATE_S) or not math.isfinite(value):
        raise Refusal(Why.CLAIM_MALFORMED)
    return float(value)


def _check_audience(audience: object, ours: str) -> None:
    audiences = audience if isinstance(audience, list) else [audience]
    if len(audiences) > _MAX_AUDIENCES or not all(isinstance(one, str) for one in audiences) or ours not in audiences:
        raise Refusal(Why.AUDIENCE_WRONG)


def _tenant(claims: Mapping[str, object], settings: IssuerSettings) -> TenantId:
    """The issuer's own tenant, or the one of its closed list that the claim names; nothing else, however it is written."""
    if settings.tenant is not None:
        return settings.tenant
    named = _at(claims, settings.tenant_claim)
    if isinstance(named, str):
        for value, tenant in settings.tenants:
            if value == named:
                return tenant
    raise Refusal(Why.TENANT_NOT_LISTED)


def _roles(value: object) -> frozenset[str]:
    """A lone string is one role: splitting it at spaces would make the role "not admin" an "admin"."""
    roles = [] if value is None else value if isinstance(value, list) else [value]
    if len(roles) > _MAX_ROLES or not all(is_name(role) for role in roles):
        raise Refusal(Why.CLAIM_MALFORMED)
    return frozenset(role for role in roles if is_name(role))


def _actors(act: object, issuer: str) -> tuple[str, ...]:
    """The chain of RFC 8693 section 4.1, outermost (the present actor) first, at most two deep."""
    actors: list[str] = []
    while act is not None:
        if len(actors) == _MAX_ACTORS:
            raise Refusal(Why.ACTOR_CHAIN_TOO_DEEP)
        if not isinstance(act, dict):
            raise Refusal(Why.CLAIM_MALFORMED)
        actor_issuer, subject = act.get("iss", issuer), act.get("sub")
        if not is_name(actor_issuer) or not is_name(subject):
            raise Refusal(Why.CLAIM_MALFORMED)
        actors.append(str(Owner(actor_issuer, subject)))
        act = act.get("act")
    return tuple(actors)


def _at(claims: Mapping[str, object], path: tuple[str, ...]) -> object:
    """The value at a path of member names, None where it ends early."""
    value: object = claims
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
