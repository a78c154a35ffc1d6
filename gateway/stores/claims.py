"""Claims on raw root IDs: which tenant the service's object belongs to, whoever asks first.

Stored outside the tenants' slots under a keyed hash of the raw ID, with the tenant sealed for that very hash. Who reads
the store learns the number of claims; who writes it can delete one, but can neither name a tenant nor move a claim.
"""

from __future__ import annotations

from binascii import hexlify
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from gateway.ids.encoding import lp
from gateway.ids.keys import NONCE_BYTES, DeploymentKeys
from gateway.ids.mac import Mac
from gateway.names import TenantId

# A process has one deployment's keys, and making either costs more than using it.
_mac = lru_cache(maxsize=4)(Mac)
_box = lru_cache(maxsize=4)(AESGCMSIV)


def own_key(keys: DeploymentKeys, project: str, raw: str) -> bytes:
    """64 hex digits that stand for `raw` of the upstream `project`."""
    return hexlify(_mac(keys.own).digest(lp(project, raw)))


def seal_tenant(keys: DeploymentKeys, own: bytes, tenant: TenantId, nonce: bytes) -> bytes:
    """The value of the claim `own` (from `own_key`). `nonce`: 12 random bytes."""
    return nonce + _box(keys.claim).encrypt(nonce, tenant.encode(), own)


def claimed_by(keys: DeploymentKeys, own: bytes, sealed: bytes) -> TenantId | None:
    """The tenant that holds the claim; None where the value was not written for it by this deployment."""
    try:
        return TenantId(_box(keys.claim).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], own).decode())
    except (InvalidTag, ValueError):
        return None
