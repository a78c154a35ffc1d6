"""What a gateway API key's record says, sealed for its tenant and its place.

    version ‖ storage-key version ‖ nonce[12] ‖ AES-256-GCM-SIV(K_rec; AAD = lp(key name, all clear bytes before); JSON)

Who reads the store learns how many keys a tenant has, when they expire and which are revoked. Who writes it can revoke a
key, or bring back one that was revoked; it cannot make a key, lengthen its life, or change whose it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag

from gateway.authn.api_key_form import KeyId
from gateway.ids.encoding import lp
from gateway.ids.keys import NONCE_BYTES, StorageKeys, Versions
from gateway.names import Owner, Principal, PrincipalKind
from gateway.stores.keyspace import tenant_keys

_VERSION: Final = 1
_BLOCK: Final = 64
# The JSON is padded with spaces to whole blocks, so that the length says little about the owner's name.


@dataclass(frozen=True, slots=True)
class ApiKeyRecord:
    """Who calls with the key."""

    owner: Owner
    kind: PrincipalKind
    scopes: tuple[str, ...]
    created: int
    """UTC seconds."""
    expires: int | None
    """UTC seconds; None: never."""

    def principal(self, key: KeyId) -> Principal:
        return Principal(
            key.tenant, self.owner, self.kind, "api_key", scopes=frozenset(self.scopes), credential=key.tag
        )


def seal_api_key(keys: Versions[StorageKeys], key: KeyId, record: ApiKeyRecord, nonce: bytes) -> bytes:
    """The stored bytes. `nonce`: 12 random bytes."""
    fields = {
        "created": record.created,
        "expires": record.expires,
        "issuer": record.owner.issuer,
        "kind": record.kind.value,
        "scopes": record.scopes,
        "subject": record.owner.subject,
    }
    text = json.dumps(fields).encode()
    clear = bytes([_VERSION, keys.current])
    padded = text + b" " * (-len(text) % _BLOCK)
    return clear + nonce + keys.newest.box.encrypt(nonce, padded, _bound_to(key, clear))


def open_api_key(keys: Versions[StorageKeys], key: KeyId, data: bytes) -> ApiKeyRecord | None:
    """What `data`, stored for `key`, says; None where it was not written for it under one of `keys`."""
    clear, nonce, sealed = data[:2], data[2 : 2 + NONCE_BYTES], data[2 + NONCE_BYTES :]
    try:
        version, key_version = clear
        if version != _VERSION:
            return None
        fields = json.loads(keys.keys[key_version].box.decrypt(nonce, sealed, _bound_to(key, clear)))
        return ApiKeyRecord(
            Owner(fields["issuer"], fields["subject"]),
            PrincipalKind(fields["kind"]),
            tuple(fields["scopes"]),
            fields["created"],
            fields["expires"],
        )
    except (InvalidTag, ValueError, KeyError):
        return None


def _bound_to(key: KeyId, clear: bytes) -> bytes:
    return lp(tenant_keys(key.tenant).api_key(key.tag), clear)
