"""Brings each new checkpoint to every anchor, in the background: an anchor that is slow or down lags by itself alone.

Of a tenant only the newest note waits, so what waits is bounded by the number of tenants; a note that is passed over is covered
by the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.audit.anchors.contract import Anchor, AnchorFailed, AnchorForked, age
from gateway.audit.checkpoint import Checkpoint
from gateway.audit.consistency import Standing
from gateway.names import TenantId
from gateway.tasks import Tasks

LOG = logging.getLogger(__name__)

AT_ONCE: Final = 8
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0

Told = Callable[[TenantId, Checkpoint], Awaitable[None]]


class Anchoring:
    """`anchored` is called when a checkpoint is in every required anchor, `forked` when one holds another tree."""

    def __init__(self, anchors: tuple[Anchor, ...], anchored: Told, forked: Told) -> None:
        self._lanes = tuple(_Lane(anchor, self._kept, forked) for anchor in anchors)
        self._anchored = anchored

    def start(self, tasks: Tasks) -> None:
        for lane in self._lanes:
            tasks.spawn(f"anchor {lane.anchor.name}", lane.run())

    def add(self, standing: Standing) -> None:
        for lane in self._lanes:
            lane.add(standing)

    def drop(self, tenant: TenantId) -> None:
        """What was not brought there yet is not: the log has gone another way."""
        for lane in self._lanes:
            lane.pending.pop(tenant, None)

    @property
    def behind(self) -> dict[str, int]:
        """By required anchor, how many tenants' newest checkpoint is not there yet."""
        return {lane.anchor.name: len(lane.pending) for lane in self._lanes if lane.anchor.required}

    async def flush(self) -> None:
        """Sends what waits, once and without pauses. Failures are logged."""
        await asyncio.gather(*(lane.send() for lane in self._lanes))

    async def aclose(self) -> None:
        for lane in self._lanes:
            await lane.anchor.aclose()

    async def _kept(self, tenant: TenantId, checkpoint: Checkpoint) -> None:
        required = [lane.kept.get(tenant) for lane in self._lanes if lane.anchor.required]
        if required and all(one is not None and age(one) >= age(checkpoint) for one in required):
            await self._anchored(tenant, checkpoint)


class _Lane:
    """One anchor's."""

    def __init__(self, anchor: Anchor, told: Told, forked: Told) -> None:
        self.anchor = anchor
        self.pending: dict[TenantId, Standing] = {}
        self.kept: dict[TenantId, Checkpoint] = {}
        self._told = told
        self._forked = forked
        self._wake = asyncio.Event()
        self._sending = asyncio.Lock()

    def add(self, standing: Standing) -> None:
        tenant = standing.checkpoint.tenant
        kept = self.kept.get(tenant)
        if kept is None or age(standing.checkpoint) > age(kept):
            self.pending[tenant] = standing
            self._wake.set()

    async def run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._wake.wait()
            self._wake.clear()
            if await self.send():
                pause_s = _FIRST_PAUSE_S
                await asyncio.sleep(self.anchor.pause_s)
            else:
                await asyncio.sleep(max(pause_s, self.anchor.pause_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                self._wake.set()

    async def send(self) -> bool:
        """One round; whether everything that waited is there."""
        async with self._sending:
            gate = asyncio.Semaphore(AT_ONCE)
            rounds = [self._send(tenant, gate) for tenant in self.pending]
            return all(await asyncio.gather(*rounds))

    async def _send(self, tenant: TenantId, gate: asyncio.Semaphore) -> bool:
        async with gate:
            sent = self.pending.get(tenant)
            if sent is None:
                return True
            checkpoint = sent.checkpoint
            try:
                await self.anchor.append(checkpoint, sent.note, sent.tree)
            except AnchorFailed as error:
                fields = {"anchor": self.anchor.name, "tenant": tenant, "reason": str(error)}
                LOG.warning("audit.not_anchored", extra={"fields": fields})
                return False
            except AnchorForked:
                self._done(tenant, sent)
                await self._forked(tenant, checkpoint)
                return True
            self._done(tenant, sent)
            self.kept[tenant] = checkpoint
            await self._told(tenant, checkpoint)
            return True

    def _done(self, tenant: TenantId, sent: Standing) -> None:
        """A newer note may have come meanwhile."""
        if self.pending.get(tenant) is sent:
            del self.pending[tenant]
