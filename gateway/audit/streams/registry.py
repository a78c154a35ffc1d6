"""A tenant's streams of its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from gateway.audit.receivers import NewReceiver, Receivers
from gateway.audit.sinks import Sink
from gateway.audit.streams.batch import Batch, Format, Notice, Told
from gateway.clock import now_us
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.standard_webhooks import message_id
from gateway.stores.streams import StreamState, StreamStore

MOST: Final = 8
"""Streams of a tenant."""


@dataclass(frozen=True)
class Streams(Receivers[StreamState]):
    store: StreamStore
    noun: ClassVar = "stream"
    prefix: ClassVar = "st_"
    most: ClassVar = MOST

    async def add(
        self, tenant: TenantId, keys: Versions[AuditKeys], url: str, format_: Format, *, from_start: bool = False
    ) -> NewReceiver:
        """A stream of what follows, or of the whole log. Raises ReceiverRefused, and what the store raises."""
        made, record = self.new(tenant, keys, url, format_)
        if not await self.store.add(tenant, made.id, record, MOST, from_start=from_start):
            raise self.too_many()
        return made

    def trial(self, tenant: TenantId, name: str, sink: Sink) -> tuple[str, bytes]:
        """A batch of one notice."""
        return _message(tenant, name, sink, Batch((Told(Notice.TEST, now_us()),), ()))

    async def send(self, tenant: TenantId, name: str, sink: Sink, batch: Batch) -> tuple[int, str]:
        """As `attempt`."""
        return await self.attempt(tenant, sink, *_message(tenant, name, sink, batch))


def _message(tenant: TenantId, name: str, sink: Sink, batch: Batch) -> tuple[str, bytes]:
    body = batch.body(Format(sink.format), tenant)
    return message_id(name, body), body
