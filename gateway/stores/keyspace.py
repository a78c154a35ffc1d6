"""Every key name, in one place.

A tenant's keys all carry the hash tag `{t:<tenant>}`: they share a cluster slot, so one script call reaches them all and no
call crosses slots. The keys outside tenant slots are a closed list: `TENANTS`, `DEPLOYMENT`, `OPERATOR_LOG`, `STREAMING`,
`HOOKED`, `own:…` and `signin:…`.
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

STREAMING: Final = b"streaming"
"""Set of the tenants that may have streams of their log."""
HOOKED: Final = b"hooked"
"""Set of the tenants that may have webhooks."""

NO_RECORD: Final = b"id:none:"
"""Begins the last part of a key that never exists; a look-up without a root reads it, so every look-up costs two reads."""


_RECORD: Final = {kind: b":id:%b:" % kind.value.encode() for kind in Kind}


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """The names of one tenant's keys."""

    tag: bytes
    slot: int
    meta: bytes
    """Hash: status, generation, seq (of the newest event), halted (why), resealed (seq) and resealed_at (UTC seconds), listed
    (position of the newest entry of a list)."""
    log: bytes
    """Stream of events, IDs `0-<seq>`, one field `e`."""
    open: bytes
    """Sorted set: sequence number of an intent without an outcome → its deadline in UTC seconds."""
    checkpoint: bytes
    """Hash: the log's newest checkpoint, what is anchored and what was trimmed (`LogState`)."""
    rules: bytes
    """Hash: how the log is kept (`Rules`)."""
    keys: bytes
    """Hash: name → wrapped key."""
    key_tags: bytes
    """Set of the API keys' tags."""
    session_names: bytes
    """Set of the console sessions' names; some may be over."""
    streams: bytes
    """Hash: name of a stream of the log → its sealed record."""
    webhooks: bytes
    """Hash: name of a webhook → its sealed record."""
    wait: bytes
    """Written before WAIT or WAITAOF, expires."""

    def writer(self, writer: str) -> bytes:
        """String: `<last wseq> <its seq>`, or `ended`."""
        return b"%b:w:%b" % (self.tag, writer.encode())

    def record(self, kind: Kind, h: bytes) -> bytes:
        """String: a record's bytes. Beside it, `…:gone`, as long as the service does not know its object."""
        return self.tag + _RECORD[kind] + hexlify(h)

    def listed(self, kind: Kind, scope: str) -> bytes:
        """Sorted set: h in hexadecimal → position. Beside it, `…:<h>`, a deleted entry's position."""
        return b"%b:idx:%b:%b" % (self.tag, kind.value.encode(), scope.encode())

    def api_key(self, tag: str) -> bytes:
        """Hash: data, expires (UTC seconds, or empty), revoked (0 or 1)."""
        return b"%b:key:%b" % (self.tag, tag.encode())

    def session(self, name: str) -> bytes:
        """String: a console session, sealed; expires."""
        return b"%b:session:%b" % (self.tag, name.encode())

    def stream(self, name: str) -> bytes:
        """Hash: how far a stream is, and who sends it (`StreamState`)."""
        return b"%b:stream:%b" % (self.tag, name.encode())

    def webhook(self, name: str) -> bytes:
        """Hash: what waits for a webhook and how its receiver does (`WebhookState`), and for each lane its owner and attempts.
        Beside it `…:due` (sorted set: lane → when it is due, in ms), `…:q:<lane>` (list: its messages, the oldest first),
        `…:seen` (sorted set: message → when it was put, in ms) and `…:dead` (hash: message → its dead letter)."""
        return b"%b:hook:%b" % (self.tag, name.encode())

    def idempotency(self, token: str) -> bytes:
        """String: what an idempotency token stands for."""
        return b"%b:idem:%b" % (self.tag, token.encode())


def is_safe_name(text: str) -> bool:
    """Whether a name made of it stays in its slot and its folder."""
    return text.isascii() and text.isalnum()


@lru_cache(maxsize=8192)
def tenant_keys(tenant: TenantId) -> TenantKeys:
    """Raises ValueError for what cannot be a tenant's ID, so that no name can leave its tenant's slot."""
    if not is_safe_name(tenant):
        raise ValueError("not a tenant ID")
    tag = b"{t:%b}" % tenant.encode()
    return TenantKeys(
        tag=tag,
        slot=key_slot(tag),
        meta=tag + b":meta",
        log=tag + b":aud",
        open=tag + b":open",
        checkpoint=tag + b":ckpt",
        rules=tag + b":rules",
        keys=tag + b":keys",
        key_tags=tag + b":keytags",
        session_names=tag + b":sessions",
        streams=tag + b":streams",
        webhooks=tag + b":hooks",
        wait=tag + b":wait",
    )


def own(digest: bytes) -> bytes:
    """String: the sealed tenant that holds a raw root ID."""
    return b"own:" + digest


def sign_in(name: str) -> bytes:
    """String: a sign-in to the console that has begun, sealed; expires."""
    return b"signin:" + name.encode()


def slot_of(key: bytes) -> int:
    """The cluster slot of a key outside tenant slots. None of them has a hash tag, so the whole key counts."""
    return crc_hqx(key, 0) % 16384
