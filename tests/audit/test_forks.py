"""Two replicas through random failovers that lose events: whatever happens, no two histories of one epoch are signed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.anchors.bucket import Bucket
from gateway.audit.anchors.s3 import S3Anchor
from gateway.audit.checkpoint import split_notes
from gateway.audit.event import Actor
from gateway.audit.resealing import reseal
from gateway.errors import Problem
from gateway.stores.contract import StoreError
from tests.audit.logbook import TENANT, Replica, replica, restored, saved
from tests.audit.s3_server import S3Server
from tests.audit.test_anchors import settings
from tests.redis_fixture import RedisServer, until

STEPS = 60


class Walk:
    """Two gateways on machines of their own, one bucket, one Redis that sometimes is an older copy of itself."""

    def __init__(self, server: RedisServer, folder: Path, s3: S3Server, seed: int) -> None:
        self.server = server
        self.folder = folder
        self.s3 = s3
        self.chance = random.Random(seed)
        self.replicas: list[Replica] = []
        self.stacks: list[contextlib.AsyncExitStack] = []
        self.copies: list[dict[str, bytes]] = []
        self.failovers = self.reseals = 0

    async def start(self, number: int) -> None:
        stack = contextlib.AsyncExitStack()
        anchor = S3Anchor(Bucket(settings(self.s3)))
        one = await stack.enter_async_context(replica(self.server, self.folder / str(number), anchor))
        await one.checkpointer.check([TENANT])
        self.replicas[number:number], self.stacks[number:number] = [one], [stack]

    async def stop(self, number: int) -> None:
        """As a crash: nothing is signed at its end."""
        one, stack = self.replicas.pop(number), self.stacks.pop(number)
        one.checkpointer._new.clear()
        await stack.aclose()

    async def run(self) -> None:
        for number in range(2):
            await self.start(number)
        steps: list[Any] = [self.write, self.write, self.sign, self.sign, self.copy, self.fail_over, self.crash]
        for _ in range(STEPS):
            await self.chance.choice(steps)(self.chance.randrange(2))
            await self.mend()
        for number in (0, 1):
            await self.replicas[number].checkpointer.flush()
        await self.mend()

    async def write(self, number: int) -> None:
        for _ in range(self.chance.randint(1, 6)):
            with contextlib.suppress(Problem):
                await self.replicas[number].write(1)

    async def sign(self, number: int) -> None:
        await self.replicas[number].checkpointer.flush()

    async def copy(self, number: int) -> None:
        self.copies = [*self.copies[-2:], saved(self.server)]

    async def fail_over(self, number: int) -> None:
        if self.copies:
            self.failovers += 1
            restored(self.server, self.chance.choice(self.copies))
            await asyncio.to_thread(self.server.restart)
            await until(lambda: all(one.store.ready(TENANT) for one in self.replicas))

    async def crash(self, number: int) -> None:
        await self.stop(number)
        await self.start(number)

    async def mend(self) -> None:
        """An operator who accepts each loss at once."""
        one = self.replicas[0]
        with contextlib.suppress(StoreError):
            state = await one.store.log.state(TENANT)
            if state is not None and state.halted:
                deployment, audit = (await one.audit_keys.deployment()).deployment, await one.audit_keys.tenant(TENANT)
                await reseal(one.store, one.anchors, TENANT, deployment, audit, Actor("operator"), 1)
                self.reseals += 1
                self.copies = []

    async def signed(self) -> dict[tuple[int, int], set[bytes]]:
        """By epoch and size, every root in the bucket and in both machines' files."""
        notes = [data.decode() for name, data in self.s3.objects.items() if "archive" not in name]
        for number in (0, 1):
            path = self.folder / str(number) / "anchors" / f"{TENANT}.notes"
            if await asyncio.to_thread(path.exists):
                notes += split_notes(await asyncio.to_thread(path.read_text)) or []
        found: dict[tuple[int, int], set[bytes]] = {}
        for note in notes:
            checkpoint = await self.replicas[0].opened(note)
            found.setdefault((checkpoint.epoch, checkpoint.size), set()).add(checkpoint.root)
        return found


@pytest.mark.parametrize("seed", [0, 1, 111])
async def test_no_fork_is_signed_whatever_redis_loses(own_redis_server: RedisServer, tmp_path: Path, seed: int) -> None:
    with S3Server().running() as s3:
        walk = Walk(own_redis_server, tmp_path, s3, seed)
        try:
            await walk.run()
            signed, one = await walk.signed(), walk.replicas[0]
            assert all(len(roots) == 1 for roots in signed.values())
            state = await one.state()
            assert state.halted == ""
            for (epoch, size), roots in signed.items():
                if epoch == state.epoch:
                    assert roots == {await one.root(size)}, "what is signed in this epoch is the log as it is now"
        finally:
            for stack in walk.stacks:
                await stack.aclose()
        assert walk.failovers > 0
        assert len(signed) > 2
