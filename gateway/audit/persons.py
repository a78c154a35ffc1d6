"""How a person stands in the log: as a pseudonym for everybody, and by name sealed for the tenant's own auditors.

Both are keyed by the tenant's audit keys, so neither says anything across tenants, and erasing the tenant's keys erases the
names while the log stays verifiable.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from gateway.audit.event import Actor
from gateway.ids.encoding import lp
from gateway.ids.keys import NONCE_BYTES, AuditKeys, Versions
from gateway.names import Owner, Principal, TenantId

SUBJECT = "subject"
NETWORK = "network"
_PSEUDONYM = re.compile(r"[0-9a-f]{24}")


def person(keys: AuditKeys, version: int, principal: Principal) -> Actor:
    """The principal as the tenant's log shows it."""
    tenant, owner = principal.tenant, principal.owner
    return Actor(
        kind=principal.kind.value,
        pseudonym=pseudonym(keys, tenant, owner),
        issuer=owner.issuer,
        auth=principal.auth,
        sealed=sealed(keys, version, tenant, SUBJECT, owner.subject),
        chain=tuple(pseudonym(keys, tenant, Owner.parse(link)) for link in principal.chain if "#" in link),
    )


def pseudonym(keys: AuditKeys, tenant: TenantId, owner: Owner) -> str:
    """24 hex digits."""
    return digest(keys, "actor", tenant, owner.issuer, owner.subject)


def is_pseudonym(text: str) -> bool:
    return _PSEUDONYM.fullmatch(text) is not None


def pseudonyms(keys: Versions[AuditKeys], tenant: TenantId, owner: Owner) -> tuple[str, ...]:
    """One for each version of the keys, the newest first: the log's events keep the one that they were written with."""
    return tuple(pseudonym(keys.keys[version], tenant, owner) for version in sorted(keys.keys, reverse=True))


def digest(keys: AuditKeys, *parts: str | bytes) -> str:
    """24 hex digits that stand for `parts` in this tenant's log."""
    return hmac.digest(keys.aud, lp(*parts), "sha256")[:12].hex()


def sealed(keys: AuditKeys, version: int, tenant: TenantId, what: str, text: str) -> str:
    """`text` for the tenant's auditors: the same each time, so that equal values can be told without opening them."""
    nonce = hmac.digest(keys.seal, lp("nonce", tenant, what, text), "sha256")[:NONCE_BYTES]
    box = AESGCMSIV(keys.seal).encrypt(nonce, text.encode("utf-8", "surrogatepass"), lp("audit field", tenant, what))
    return f"{version}.{base64.urlsafe_b64encode(nonce + box).decode().rstrip('=')}"


def unsealed(keys: Versions[AuditKeys], tenant: TenantId, what: str, text: str) -> str | None:
    """What `sealed` was given; None for all else: another tenant's or field's, cut short, of a version that is gone."""
    version, _, encoded = text.partition(".")
    if not version.isdecimal() or not version.isascii() or (opened := keys.keys.get(int(version[:4]))) is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        box = AESGCMSIV(opened.seal).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], lp("audit field", tenant, what))
    except (InvalidTag, ValueError, binascii.Error):
        return None
    return box.decode("utf-8", "replace")
