"""Where something of a tenant's goes: an address and its secrets, sealed under the tenant's audit keys; and sending it there.

Whoever reads the store learns neither, a record put in another place does not open, and all of them end with the tenant's keys.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import orjson

from gateway.audit.persons import sealed, unsealed
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.outgoing import Outgoing
from gateway.standard_webhooks import headers

OVERLAP_S: Final = 86_400
"""How long a secret that was replaced is signed with as well."""


@dataclass(frozen=True, slots=True)
class Sink:
    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    created_s: int
    format: str = "json"
    former: bytes = field(default=b"", repr=False)
    """The secret before this one; empty: there was none."""
    replaced_s: int = 0

    @property
    def shown(self) -> str:
        """The address without its query, where receivers like to have their tokens."""
        parts = urlsplit(self.url)
        return parts._replace(query="…" if parts.query else "").geturl()

    def secrets(self, now_s: int) -> tuple[bytes, ...]:
        """Those that what is sent now is signed with."""
        return (self.secret, self.former) if self.former and now_s < self.replaced_s + OVERLAP_S else (self.secret,)


def seal(keys: Versions[AuditKeys], tenant: TenantId, what: str, sink: Sink) -> bytes:
    """The record of `what` ("stream st_…"), bound to it and to its tenant."""
    held = {
        "created": sink.created_s,
        "format": sink.format,
        "secret": base64.b64encode(sink.secret).decode(),
        "url": sink.url,
    }
    if sink.former:
        held |= {"former": base64.b64encode(sink.former).decode(), "replaced": sink.replaced_s}
    return sealed(keys.newest, keys.current, tenant, what, orjson.dumps(held).decode()).encode()


def unseal(keys: Versions[AuditKeys], tenant: TenantId, what: str, record: bytes) -> Sink | None:
    text = unsealed(keys, tenant, what, record.decode("utf-8", "replace"))
    if text is None:
        return None
    held = orjson.loads(text)
    return Sink(
        held["url"],
        base64.b64decode(held["secret"]),
        held["created"],
        held["format"],
        base64.b64decode(held.get("former", "")),
        held.get("replaced", 0),
    )


async def send(outgoing: Outgoing, tenant: TenantId, sink: Sink, id_: str, body: bytes) -> int:
    """Posts `body`, signed, under the message's ID; the receiver's status. Raises OutgoingFailed and OutgoingRefused."""
    now_s = int(time.time())
    signed = headers(id_, sink.secrets(now_s), body, now_s)
    return (await outgoing.send("POST", sink.url, headers=signed, body=body, tenant=tenant)).status
