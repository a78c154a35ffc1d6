"""Every key name, in one place.

A tenant's keys all carry the hash tag `{t:<tenant>}`: they share a cluster slot, so one script call reaches them all and no
call crosses slots. The keys outside tenant slots are a closed list: `TENANTS`, `DEPLOYMENT`, `OPERATOR_LOG` and `own:…`.
"""

from __future__ import annotations

from binascii import crc_hqx, hexlify
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from redis.crc import key_slot

from gateway.names import Kind, TenantId

TENANTS: Final = b"tenants"
"""Hash: tenant ID → directory record."""
DEPLOYMENT: Final = b"deployment"
"""Hash: name → wrapped secret of the deployment."""
OPERATOR_LOG: Final = b"operator:log"
"""Stream: refusals that belong to no tenant, summed."""

NO_RECORD: Final = b"id:none:"
"""Begins the last part of a key that never exists; a look-up without a root reads it, so every look-up costs two reads."""


_RECORD: Final = {kind: b":id:%b:" % kind.value.encode() for kind in Kind}


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """The names of one tenant's keys."""

    tag: bytes
    slot: int
    meta: bytes
    """Hash: status, generation, seq (of the newest event), halted."""
    log: bytes
    """Stream of events, IDs `0-<seq>`, one field `e`."""
    open: bytes
    """Sorted set: sequence number of an intent without an outcome → its deadline in UTC seconds."""
    keys: bytes
    """Hash: name → wrapped key."""
    key_tags: bytes
    """Set of the API keys' tags."""
    wait: bytes
    """Written before WAIT or WAITAOF, expires."""

    def writer(self, writer: str) -> bytes:
        """String: `<last wseq> <its seq>`, or `ended`."""
        return b"%b:w:%b" % (self.tag, writer.encode())

    def record(self, kind: Kind, h: bytes) -> bytes:
        """String: a record's bytes."""
        return self.tag + _RECORD[kind] + hexlify(h)

    def api_key(self, tag: str) -> bytes:
        """Hash: data, expires (UTC seconds, or empty), revoked (0 or 1)."""
        return b"%b:key:%b" % (self.tag, tag.encode())

    def idempotency(self, token: str) -> bytes:
        """String: what an idempotency token stands for."""
        return b"%b:idem:%b" % (self.tag, token.encode())


@lru_cache(maxsize=8192)
def tenant_keys(tenant: TenantId) -> TenantKeys:
    """Raises ValueError for what cannot be a tenant's ID, so that no name can leave its tenant's slot."""
    if not (tenant.isascii() and tenant.isalnum()):
        raise ValueError("not a tenant ID")
    tag = b"{t:%b}" % tenant.encode()
    return TenantKeys(
        tag=tag,
        slot=key_slot(tag),
        meta=tag + b":meta",
        log=tag + b":aud",
        open=tag + b":open",
        keys=tag + b":keys",
        key_tags=tag + b":keytags",
        wait=tag + b":wait",
    )


def own(digest: bytes) -> bytes:
    """String: the sealed tenant that holds a raw root ID."""
    return b"own:" + digest


def slot_of(key: bytes) -> int:
    """The cluster slot of a key outside tenant slots. None of them has a hash tag, so the whole key counts."""
    return crc_hqx(key, 0) % 16384
