"""The form of a gateway API key: `cck_<tenant ID>_<43 base62><6 base62 checksum>`. Pure.

The tenant's ID (random, never its name) leads to the tenant's slot, and the keyed hash of the whole key names its record
there, so no directory is scanned and the key itself is stored nowhere (decisions/0005-api-keys.md).
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Final

from gateway.ids.encoding import ALPHABET, base62, lp
from gateway.names import TenantId

PREFIX: Final = b"cck_"
SECRET_CHARS: Final = 43
"""Of 62 characters each: 256 bits."""
TAG_BYTES: Final = 16
_CHECKSUM_CHARS: Final = 6
_FORM: Final = re.compile(rb"cck_([a-z2-7]{16})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})")
_ID: Final = re.compile(r"([a-z2-7]{16})_([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class KeyId:
    """What names a key without being able to use it: printed as `<tenant>_<tag>`, and told in lists and in the log."""

    tenant: TenantId
    tag: str
    """32 hex digits: the first half of HMAC-SHA256(pepper, the key). Names the record in the tenant's slot."""

    def __str__(self) -> str:
        return f"{self.tenant}_{self.tag}"

    @classmethod
    def parse(cls, text: str) -> KeyId:
        """Raises ValueError."""
        match = _ID.fullmatch(text)
        if match is None:
            raise ValueError("a key ID is <tenant>_<32 hex digits>, as `key list` prints it")
        return cls(TenantId(match[1]), match[2])


def write_key(pepper: bytes, tenant: TenantId, random: bytes) -> str:
    """The key that `random` (at least 64 random bytes) gives."""
    number = int.from_bytes(random)
    if len(random) < 64:
        raise ValueError("64 random bytes keep all 62^43 secrets as likely as each other")
    secret = ""
    for _ in range(SECRET_CHARS):
        number, digit = divmod(number, len(ALPHABET))
        secret += ALPHABET[digit]
    return f"cck_{tenant}_{secret}{_checksum(pepper, tenant, secret.encode())}"


def read_key(pepper: bytes, key: bytes) -> KeyId | None:
    """Whose record to look at; None where form or checksum are wrong.

    The checksum is keyed: whoever does not know the pepper cannot write a key that is looked up (but for 1 in 2^32), so
    a flood of invented keys never reaches the store. It adds nothing to the key's strength and need not.
    """
    match = _FORM.fullmatch(key)
    if match is None:
        return None
    tenant = TenantId(match[1].decode())
    if not hmac.compare_digest(_checksum(pepper, tenant, match[2]).encode(), match[3]):
        return None
    return KeyId(tenant, hmac.digest(pepper, lp("api key", key), "sha256")[:TAG_BYTES].hex())


def _checksum(pepper: bytes, tenant: TenantId, secret: bytes) -> str:
    return base62(hmac.digest(pepper, lp("api key checksum", tenant, secret), "sha256")[:4], _CHECKSUM_CHARS)
