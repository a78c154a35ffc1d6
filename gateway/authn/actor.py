"""`X-Coatcheck-Actor`: the end user for whom a service calls. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.authn.bearer import Headers
from gateway.authn.claims import is_name
from gateway.authn.scopes import Scope, acting_issuer
from gateway.errors import Problem, Reason
from gateway.names import Owner, Principal, PrincipalKind

HEADER: Final = b"x-coatcheck-actor"
_WRONG: Final = "X-Coatcheck-Actor must be sent once, with 1 to 256 printable characters in UTF-8"


def with_actor(principal: Principal, headers: Headers) -> Principal:
    """The principal in whose name the request is done: without the header the credential's own, with it the named user of
    the issuer that the service's scope `act_as:<issuer>` names. That user has neither the service's roles nor its scopes,
    and the service stands in `chain`. Raises Problem: 403 without the scope (a user never has it), 400 for a bad name."""
    named = [value for name, value in headers if name == HEADER]
    if not named:
        return principal
    issuers = [acting_issuer(scope) for scope in principal.scopes if scope.partition(":")[0] == Scope.ACT_AS]
    if principal.kind is not PrincipalKind.SERVICE or len(issuers) != 1:
        raise Problem(Reason.SCOPE_MISSING, Scope.ACT_AS.value)
    try:
        subject = named[0].decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(Reason.BAD_PARAMETER, _WRONG) from None
    if len(named) > 1 or not is_name(subject):
        raise Problem(Reason.BAD_PARAMETER, _WRONG)
    return replace(
        principal,
        owner=Owner(issuers[0], subject),
        kind=PrincipalKind.USER,
        roles=frozenset(),
        scopes=frozenset(),
        chain=(str(principal.owner), *principal.chain),
    )
