"""The `[[console.issuer]]` tables: one OpenID provider each that auditors sign in with (`gateway/authn/relying_party.py`).

Tenant, subject and roles are found in its ID tokens as an `[[issuer]]` table finds them in access tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.authn.issuer import IssuerSettings
from gateway.authn.relying_party import RelyingParty, unusable
from gateway.settings.issuers import ISSUER_KEYS
from gateway.settings.readers import read_text, read_texts, read_token_file
from gateway.settings.tables import TableKey, read_table

_SHARED: Final = (
    "issuer", "tenant", "tenants", "tenant_claim", "jwks_url", "algorithms", "subject_claim", "roles_claim", "leeway_s",
    "jwks_ttl_s", "fetch_timeout_s", "allow_loopback_http",
)  # fmt: skip
_OWN: Final[dict[str, TableKey]] = {
    "client_id": TableKey(read_text, "What it calls the console; the `aud` of its ID tokens.", '"coatcheck-console"'),
    "client_secret_file": TableKey(
        read_token_file,
        "File with the client secret, readable by its owner only. Left out: a public client.",
        '"client.secret"',
    ),
    "name": TableKey(read_text, "For the sign-in page.", '"Example Corp"'),
    "auditor_roles": TableKey(read_texts, "Roles that let read.", '["auditor"]'),
    "admin_roles": TableKey(read_texts, "Roles that let read, and change streams and retention.", '["admin"]'),
    "scopes": TableKey(read_texts, "What is asked for at sign-in.", '["openid"]'),
}
CONSOLE_ISSUER_KEYS: Final[dict[str, TableKey]] = {
    "issuer": ISSUER_KEYS["issuer"], **_OWN, **{name: ISSUER_KEYS[name] for name in _SHARED},
}  # fmt: skip


def read_console_issuer(table: Mapping[str, object]) -> RelyingParty | dict[str, str]:
    """One table's settings, or what is wrong with it: the mend by key."""
    values, wrong = read_table(table, CONSOLE_ISSUER_KEYS, ("issuer", "client_id"), "a console's issuer")
    if wrong:
        return wrong
    own = {name.removesuffix("_file"): values.pop(name) for name in tuple(values) if name in _OWN}
    party = RelyingParty(IssuerSettings(audience=own.pop("client_id"), **values), **own)
    return dict(sentence.split(": ", 1) for sentence in unusable(party)) or party
