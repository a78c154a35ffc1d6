"""The `[[console.issuer]]` tables: one OpenID provider each that auditors sign in with (`gateway/authn/relying_party.py`).

Tenant, subject and roles are found in its ID tokens as an `[[issuer]]` table finds them in access tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.authn.issuer import IssuerSettings
from gateway.authn.relying_party import RelyingParty, unusable
from gateway.settings.issuers import ISSUER_KEYS, IssuerKey
from gateway.settings.readers import read_path, read_secret_file, read_text, read_texts, read_token


def _secret(value: object) -> str:
    return read_token(read_secret_file(read_path(value)))


_SHARED: Final = (
    "issuer", "tenant", "tenants", "tenant_claim", "jwks_url", "algorithms", "subject_claim", "roles_claim", "leeway_s",
    "jwks_ttl_s", "fetch_timeout_s", "allow_loopback_http",
)  # fmt: skip
_OWN: Final[dict[str, IssuerKey]] = {
    "client_id": IssuerKey(read_text, "What it calls the console; the `aud` of its ID tokens.", '"coatcheck-console"'),
    "client_secret_file": IssuerKey(
        _secret,
        "File with the client secret, readable by its owner only. Left out: a public client.",
        '"client.secret"',
    ),
    "name": IssuerKey(read_text, "For the sign-in page.", '"Example Corp"'),
    "auditor_roles": IssuerKey(read_texts, "Roles that let read.", '["auditor"]'),
    "admin_roles": IssuerKey(read_texts, "Roles that let read, and change streams and retention.", '["admin"]'),
    "scopes": IssuerKey(read_texts, "What is asked for at sign-in.", '["openid"]'),
}
CONSOLE_ISSUER_KEYS: Final[dict[str, IssuerKey]] = {
    "issuer": ISSUER_KEYS["issuer"], **_OWN, **{name: ISSUER_KEYS[name] for name in _SHARED},
}  # fmt: skip


def read_console_issuer(table: Mapping[str, object]) -> RelyingParty | dict[str, str]:
    """One table's settings, or what is wrong with it: the mend by key."""
    values: dict[str, Any] = {}
    wrong = {name: "is missing" for name in ("issuer", "client_id") if name not in table}
    for name, value in table.items():
        if name not in CONSOLE_ISSUER_KEYS:
            wrong[name] = f"is no key of a console's issuer; the keys are {', '.join(CONSOLE_ISSUER_KEYS)}"
            continue
        try:
            values[name] = CONSOLE_ISSUER_KEYS[name].read(value)
        except ValueError as error:
            wrong[name] = str(error)
    if wrong:
        return wrong
    own = {name.removesuffix("_file"): values.pop(name) for name in tuple(values) if name in _OWN}
    party = RelyingParty(IssuerSettings(audience=own.pop("client_id"), **values), **own)
    return dict(sentence.split(": ", 1) for sentence in unusable(party)) or party
