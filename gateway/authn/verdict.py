"""What an authenticator may answer, and the closed list of reasons for a refusal.

`NotMine` is the third answer beside yes and no: the credential has another form, ask the next authenticator. A credential
that nobody claims is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from gateway.errors import Problem, Reason
from gateway.names import Principal


class Why(StrEnum):
    """Why a credential was refused: for the operator's log, never for the client, who reads one and the same 401."""

    ACTOR_CHAIN_TOO_DEEP = "actor_chain_too_deep"
    ALGORITHM_NOT_ALLOWED = "algorithm_not_allowed"
    AUDIENCE_WRONG = "audience_wrong"
    CHECKSUM_WRONG = "checksum_wrong"
    CLAIM_MALFORMED = "claim_malformed"
    CRITICAL_HEADER = "critical_header"
    EXPIRED = "expired"
    HEADER_MALFORMED = "header_malformed"
    ISSUER_KEYS_UNAVAILABLE = "issuer_keys_unavailable"
    ISSUER_UNKNOWN = "issuer_unknown"
    KEY_UNKNOWN = "key_unknown"
    LIFETIME_TOO_LONG = "lifetime_too_long"
    MALFORMED = "malformed"
    NOT_YET_VALID = "not_yet_valid"
    NO_CREDENTIAL = "no_credential"
    RECORD_UNREADABLE = "record_unreadable"
    REVOKED = "revoked"
    SENDER_CONSTRAINED = "sender_constrained"
    SIGNATURE_WRONG = "signature_wrong"
    TENANT_NOT_LISTED = "tenant_not_listed"
    TOO_LARGE = "too_large"
    TYPE_WRONG = "type_wrong"
    UNCLAIMED = "unclaimed"


_CLIENT_REASON: Final = {
    Why.EXPIRED: Reason.CREDENTIAL_EXPIRED,
    Why.REVOKED: Reason.CREDENTIAL_REVOKED,
    # The token may well be good: a 503 keeps the client's credential alive, where a 401 would make it sign in again.
    Why.ISSUER_KEYS_UNAVAILABLE: Reason.UPSTREAM_UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class NotMine:
    """The credential is not of this authenticator's form."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The credential is of this authenticator's form, and refused."""

    why: Why
    principal: Principal | None = None
    """Whose it is, where the credential is genuine but expired or revoked: that refusal belongs to the tenant's log."""


Verdict = Principal | NotMine | Rejected


class Refusal(Exception):
    """Raised inside an authenticator, which turns it into `Rejected`."""

    def __init__(self, why: Why) -> None:
        super().__init__(why.value)
        self.why = why


class Authenticator(Protocol):
    """One kind of credential."""

    async def authenticate(self, token: bytes, now: float) -> Verdict:
        """The verdict on a bearer token at `now` (UTC seconds). Raises Problem where a part it needs is down."""
        ...


@dataclass(slots=True, eq=False)
class CredentialRefused(Problem):
    """The Problem of a refused credential; it is recorded in the log of the tenant of `principal` (None: the
    operator's), and `why` in the program's own log at the level debug."""

    why: Why = Why.UNCLAIMED
    principal: Principal | None = None


def refused(why: Why, principal: Principal | None = None) -> CredentialRefused:
    """The failure that a client meets for `why`."""
    return CredentialRefused(_CLIENT_REASON.get(why, Reason.UNAUTHENTICATED), why=why, principal=principal)
