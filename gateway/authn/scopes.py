"""What a gateway API key may do beyond calling the API as its own subject. A closed list; a route of the API needs no scope."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from gateway.authn.claims import is_name


class Scope(StrEnum):
    """Scopes by name, those of services alone; one with a parameter is written `name:parameter`."""

    ACT_AS = "act_as"
    """`act_as:<issuer>`, on a service's key, at most once: the service may name the end user in `X-Coatcheck-Actor`,
    and that user of that issuer is then the owner."""
    WEBHOOKS_WRITE = "webhooks:write"
    """The service may see and change its tenant's webhooks (`gateway/admin_api/`)."""


def check_scopes(scopes: Iterable[str]) -> None:
    """Raises ValueError, with the mend in its text, where one of `scopes` is not on the list or comes twice."""
    given = list(scopes)
    issuers = [acting_issuer(scope) for scope in given if scope != Scope.WEBHOOKS_WRITE]
    if len(issuers) > 1:
        raise ValueError("a key can act for the users of one issuer: give act_as once")
    if len(set(given)) != len(given):
        raise ValueError("a scope is given once")


def acting_issuer(scope: str) -> str:
    """The issuer in `act_as:<issuer>`. Raises ValueError for any other text."""
    name, _, issuer = scope.partition(":")
    if name != Scope.ACT_AS or not is_name(issuer) or "#" in issuer:
        raise ValueError(f"unknown scope {scope!r}: the scopes are act_as:<issuer> and {Scope.WEBHOOKS_WRITE}")
    return issuer
