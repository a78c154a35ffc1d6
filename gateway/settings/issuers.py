"""The `[[issuer]]` tables: one identity provider each (`gateway/authn/issuer.py`), and its users' web origins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.authn.issuer import IssuerSettings, mistakes
from gateway.names import TenantId, is_tenant_id
from gateway.settings.readers import is_written_as_origin, read_bool, read_float, read_text, read_texts
from gateway.settings.tables import TableKey, read_table


def _tenant(value: object) -> TenantId:
    text = read_text(value)
    if not is_tenant_id(text):
        raise ValueError("must be a tenant's ID, 16 of a-z and 2-7, as 'tenant list' shows it")
    return TenantId(text)


def _tenants(value: object) -> tuple[tuple[str, TenantId], ...]:
    """A table from the claim's value to a tenant ID, or a list of tenant IDs where the claim holds those."""
    if isinstance(value, dict):
        return tuple((name, _tenant(tenant)) for name, tenant in value.items())
    if isinstance(value, list):
        return tuple((text, _tenant(text)) for text in read_texts(value))
    raise ValueError("must be a table from the claim's value to a tenant's ID, or a list of tenants' IDs")


def _path(value: object) -> tuple[str, ...]:
    """A claim's name, or the list of names that leads to it. A dot in a name means nothing."""
    return (read_text(value),) if isinstance(value, str) else read_texts(value)


def _origins(value: object) -> tuple[str, ...]:
    origins = read_texts(value)
    if not all(map(is_written_as_origin, origins)):
        raise ValueError(
            "must hold origins such as https://app.example.com, as browsers send them: lower case, no path, no wildcard, no :443"
        )
    return origins


ISSUER_KEYS: Final[dict[str, TableKey]] = {
    "issuer": TableKey(read_text, "The exact `iss` of its tokens.", '"https://id.example.com"'),
    "audience": TableKey(read_text, "What a token's `aud` must be, or hold.", '"https://gateway.example.com"'),
    "tenant": TableKey(
        _tenant,
        "The ID of the one tenant that it speaks for (`tenant list`). Either this or tenants.",
        '"abcdefgh234567ab"',
    ),
    "tenants": TableKey(
        _tenants, "The closed list of tenants: an ID for each value of tenant_claim.", '{ acme = "abcdefgh234567ab" }'
    ),
    "tenant_claim": TableKey(_path, "The claim that names the tenant: a name, or a list of names.", '"org_id"'),
    "jwks_url": TableKey(
        read_text, "Its keys. Left out: by OpenID Connect discovery.", '"https://id.example.com/keys"'
    ),
    "algorithms": TableKey(read_texts, "Signature algorithms that it uses.", '["RS256", "ES256"]'),
    "token_types": TableKey(read_texts, 'Accepted `typ` values. ["at+jwt"] shuts out ID tokens.', '["at+jwt", "jwt"]'),
    "subject_claim": TableKey(_path, "The claim that names the person: a name, or a list of names.", '"sub"'),
    "roles_claim": TableKey(_path, "The claim that lists the roles.", '["realm_access", "roles"]'),
    "leeway_s": TableKey(read_float, "How far its clock may be off, in seconds.", "30.0"),
    "max_lifetime_s": TableKey(read_float, "The longest lifetime of a token, in seconds.", "86400.0"),
    "jwks_ttl_s": TableKey(read_float, "How long fetched keys are fresh, in seconds.", "600.0"),
    "fetch_timeout_s": TableKey(read_float, "Limit of one fetch of its keys, in seconds.", "5.0"),
    "allow_loopback_http": TableKey(
        read_bool, "Accepts http for a provider on this machine; refused in production.", "false"
    ),
    "cors_origins": TableKey(
        _origins, "Web origins whose pages may call the gateway with its tokens.", '["https://app.example.com"]'
    ),
}


def read_issuer(table: Mapping[str, object]) -> tuple[IssuerSettings, tuple[str, ...]] | dict[str, str]:
    """One table's settings and origins, or what is wrong with it: the mend by key."""
    values, wrong = read_table(table, ISSUER_KEYS, ("issuer", "audience"), "an issuer")
    origins = values.pop("cors_origins", ())
    if wrong:
        return wrong
    settings = IssuerSettings(**values)
    found = dict(mistake.split(": ", 1) for mistake in mistakes(settings))
    return found or (settings, origins)
