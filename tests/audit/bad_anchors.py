"""Anchors that do not do what they should: one takes its time, one is down."""

from __future__ import annotations

import asyncio

from gateway.audit.anchors.contract import AnchorFailed
from gateway.audit.checkpoint import Checkpoint
from gateway.audit.tree import Frontier


class Stuck:
    """An anchor that takes its time."""

    name, required, pause_s = "stuck", True, 0.0

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.sizes: list[int] = []

    async def append(self, checkpoint: Checkpoint, note: str, tree: Frontier) -> None:
        await self.free.wait()
        self.sizes.append(checkpoint.size)

    async def newest(self, log: str) -> None: ...

    async def aclose(self) -> None:
        self.free.set()


class Down(Stuck):
    name = "down"

    async def append(self, checkpoint: Checkpoint, note: str, tree: Frontier) -> None:
        raise AnchorFailed("it is down")
