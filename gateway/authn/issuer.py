"""What an operator says about one identity provider: a `[[issuer]]` table of the configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gateway.names import TenantId

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519", "Ed448",
)  # fmt: skip
"""Every signature algorithm that an issuer may list (RFC 7518 section 3.1, RFC 8037, RFC 9864). All are asymmetric: a
shared secret would let whoever verifies also sign, and is how a public key becomes an HMAC key."""

MAX_JWKS_TTL_S: Final = 600.0
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts of this machine."""


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """One identity provider, and for which tenants it may speak. `mistakes` names what is wrong with it."""

    issuer: str
    """The exact `iss` of its tokens: an https URL without query or fragment (RFC 8414 section 2). No trailing slash is
    added or removed."""
    audience: str
    """The exact string that a token's `aud` is, or holds."""
    tenant: TenantId | None = None
    """The one tenant that this issuer speaks for. Either this or `tenants`, never both."""
    tenants: tuple[tuple[str, TenantId], ...] = ()
    """The closed list (value of the tenant claim, tenant). In the file: a table, or a list of tenant IDs where the claim
    holds the tenant ID itself."""
    tenant_claim: tuple[str, ...] = ()
    """The path of member names to the tenant claim, such as ("org_id",) or ("https://example.com/org", "id"); required
    with `tenants`. A path and not a dotted name, because claim names may hold dots."""
    jwks_url: str | None = None
    """Where its keys are. None: by discovery, `<issuer>/.well-known/openid-configuration`."""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    """The signature algorithms that it uses, out of `ALGORITHMS`."""
    token_types: tuple[str, ...] = ("at+jwt", "jwt")
    """Accepted `typ` values in lower case, without `application/`. ("at+jwt",) shuts out ID tokens (RFC 9068 section 2.1)."""
    subject_claim: tuple[str, ...] = ("sub",)
    """The path to the claim that names the person; the value is a string."""
    roles_claim: tuple[str, ...] = ("roles",)
    """The path to the claim that lists the roles (an array of strings, or one string that is one role); may be absent in
    a token. Keycloak: ("realm_access", "roles")."""
    leeway_s: float = 30.0
    """How far the issuer's clock may be off, in seconds, 0 to 120."""
    max_lifetime_s: float = 86_400.0
    """The longest accepted `exp` - `iat`, in seconds."""
    jwks_ttl_s: float = MAX_JWKS_TTL_S
    """How long fetched keys are fresh, in seconds, 10 to 600; they are fetched again ahead of that."""
    fetch_timeout_s: float = 5.0
    """Limit of one fetch (discovery or keys) from connect to last byte, in seconds, above 0 up to 30."""
    allow_loopback_http: bool = False
    """Whether `http` is accepted for a loopback host: for a provider on the same machine and for tests."""

    def discovery_url(self) -> str:
        """OpenID Connect Discovery 1.0 section 4."""
        return self.issuer.removesuffix("/") + "/.well-known/openid-configuration"


def acceptable_url(url: str, *, allow_loopback_http: bool) -> bool:
    """Whether keys may be fetched from `url`: https, or http on a loopback host by setting; no user, no fragment."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    if (
        not url.isascii()
        or not url.isprintable()
        or " " in url
        or not host
        or port == 0
        or "@" in parts.netloc
        or "#" in url
    ):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and allow_loopback_http and host in LOOPBACK)


def mistakes(settings: IssuerSettings) -> Iterator[str]:
    """What is wrong with these settings, one sentence each, opened by the field's name; none where they may be used."""
    loopback = settings.allow_loopback_http
    if not acceptable_url(settings.issuer, allow_loopback_http=loopback) or "?" in settings.issuer:
        yield "issuer: must be an https URL without query or fragment (http only on loopback, with allow_loopback_http)"
    if not settings.audience:
        yield "audience: must not be empty; a token for another service would be accepted here"
    if (settings.tenant is None) == (not settings.tenants):
        yield "tenant: set either tenant or tenants, so that it is certain for whom this issuer speaks"
    if bool(settings.tenants) != bool(settings.tenant_claim):
        yield "tenant_claim: goes together with tenants"
    if len({value for value, _ in settings.tenants}) != len(settings.tenants) or any(
        not v for v, _ in settings.tenants
    ):
        yield "tenants: every value of the claim must be there once, and none may be empty"
    if settings.jwks_url is not None and not acceptable_url(settings.jwks_url, allow_loopback_http=loopback):
        yield "jwks_url: must be an https URL (http only on loopback, with allow_loopback_http)"
    if not settings.algorithms or not set(settings.algorithms) <= set(ALGORITHMS):
        yield f"algorithms: at least one out of {', '.join(ALGORITHMS)}"
    if not settings.token_types or any(t != t.lower() or "/" in t or not t for t in settings.token_types):
        yield "token_types: lower case, without application/, at least one"
    for name, path in (("subject_claim", settings.subject_claim), ("roles_claim", settings.roles_claim)):
        if not path or not all(path):
            yield f"{name}: must name a claim"
    if settings.tenant_claim and not all(settings.tenant_claim):
        yield "tenant_claim: must name a claim"
    for name, value, low, high in (
        ("leeway_s", settings.leeway_s, 0.0, 120.0),
        ("max_lifetime_s", settings.max_lifetime_s, 60.0, 31_622_400.0),
        ("jwks_ttl_s", settings.jwks_ttl_s, 10.0, MAX_JWKS_TTL_S),
        ("fetch_timeout_s", settings.fetch_timeout_s, 0.01, 30.0),
    ):
        if not low <= value <= high:
            yield f"{name}: must be {low:g} to {high:g} seconds"
