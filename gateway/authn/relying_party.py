"""What an operator says about one identity provider that auditors sign in with: a `[[console.issuer]]` table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.authn.issuer import IssuerSettings, mistakes


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The console as a client of one OpenID provider, and whom that provider's ID tokens let in."""

    provider: IssuerSettings
    """Its `audience` is our client ID: the `aud` of an ID token (OpenID Connect Core 1.0 section 2)."""
    name: str = ""
    """For the sign-in page; empty: the issuer."""
    client_secret: str | None = field(default=None, repr=False)
    """None: a public client, which PKCE alone protects."""
    auditor_roles: tuple[str, ...] = ("auditor",)
    """Roles of the ID token, any of which lets read."""
    admin_roles: tuple[str, ...] = ("admin",)
    """And any of which lets change what the console can change."""
    scopes: tuple[str, ...] = ("openid",)

    @property
    def client_id(self) -> str:
        return self.provider.audience

    @property
    def label(self) -> str:
        return self.name or self.provider.issuer


def unusable(party: RelyingParty) -> Iterator[str]:
    """What is wrong, one sentence each, opened by the name of the key in the table; none where it may be used."""
    for sentence in mistakes(party.provider):
        yield sentence.replace("audience:", "client_id:", 1)
    if "openid" not in party.scopes:
        yield "scopes: must hold openid, or there is no ID token"
    if not party.auditor_roles and not party.admin_roles:
        yield "auditor_roles: nobody could sign in"
    if set(party.auditor_roles) & set(party.admin_roles):
        yield "admin_roles: a role is either an auditor's or an admin's"
