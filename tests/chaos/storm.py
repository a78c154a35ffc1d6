"""Requests while Redis is stopped, slowed, cut and restarted at random, and what must be true of the log afterwards.

Each request's input says which one it is, so that every call that the upstream got leads to the request ID that its client was
told, and from there to the log.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.admin.evidence import export_log, public_keys
from gateway.audit.checkpoint import VerifierKey
from gateway.audit.offline import verify_folder
from gateway.audit.search.query import Query
from tests.pipeline.desk import MODEL, Desk
from tests.redis_fixture import RedisServer
from tests.stores.cutting_proxy import CuttingProxy

CALLERS = 16
WHO = ("alice", "bob")


@dataclass
class Storm:
    at: Desk
    redis: RedisServer
    proxy: CuttingProxy
    chance: random.Random
    told: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By input: status and request ID that the client got."""
    troubles: Counter[str] = field(default_factory=Counter)

    async def run(self, count: int) -> None:
        """So many requests, with trouble as long as they last; returns when Redis is back for good."""
        for who in WHO:
            await self.at.created(who=who)
        numbers = iter(range(count))
        over = asyncio.Event()
        trouble = asyncio.ensure_future(self._trouble(over))
        await asyncio.gather(*(self._call(numbers) for _ in range(CALLERS)))
        over.set()
        await trouble
        for who in WHO:
            await self.at.until(lambda who=who: self._passes(who), 15)

    async def _passes(self, who: str) -> bool:
        return (await self.at.create(who=who)).status_code == 200

    async def _call(self, numbers: Any) -> None:
        for number in numbers:
            who, stream = WHO[number % 5 == 0], number % 4 == 0
            name = f"request {number}"
            body = {"model": MODEL, "input": name, "stream": stream}
            reply = await self.at.call("POST", "/responses", body, who)
            self.told[name] = reply.status_code, reply.headers["x-request-id"]
            if reply.status_code == 503:
                # As a client does: a refusal is quick, and would use the requests up while Redis is away.
                await asyncio.sleep(0.05)

    async def _trouble(self, over: asyncio.Event) -> None:
        kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "stopped": self._stop, "slowed": self._slow, "cut": self._cut, "answers lost": self._lose, "restarted": self._restart,
        }  # fmt: skip
        while not over.is_set():
            await asyncio.sleep(self.chance.uniform(0.05, 0.4))
            kind = self.chance.choice(list(kinds))
            self.troubles[kind] += 1
            await kinds[kind]()

    async def _stop(self) -> None:
        await asyncio.to_thread(self.redis.kill)
        await asyncio.sleep(self.chance.uniform(0.0, 0.7))
        await asyncio.to_thread(self.redis.start)

    async def _restart(self) -> None:
        await asyncio.to_thread(self.redis.restart)

    async def _slow(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            self.redis.pause()
            await asyncio.sleep(self.chance.choice((0.02, 0.1, 0.4, 0.8)))
            self.redis.resume()
            await asyncio.sleep(0.02)

    async def _cut(self) -> None:
        self.proxy.cut()

    async def _lose(self) -> None:
        self.proxy.cut_after = self.chance.randint(1, 20)

    async def settled(self, who: str) -> list[dict[str, Any]]:
        """The tenant's log once overdue intents are closed. AssertionError where a number or a chain is broken."""
        tenant, log = await self.at.tenant(who), self.at.gateway.gateway.shared.log
        opened = f"{{t:{tenant}}}:open"
        for seq in self.redis.command("ZRANGE", opened, 0, -1):
            self.redis.command("ZADD", opened, 1, seq)
        await log.sweep(tenant)
        return await self.at.log(who)

    async def check(self) -> dict[str, int]:
        """What must be true now. AssertionError where it is not; else what was counted."""
        counted = Counter({"requests": len(self.told)})
        intents: set[str] = set()
        for who in WHO:
            events = [event for event in await self.settled(who) if event["request"]]
            begun = {one["request"]["id"] for one in events if one["phase"] == "intent"}
            ended = {
                one["request"]["id"]
                for one in events
                if one["phase"] == "outcome" and one["outcome"]["result"] != "accepted"
            }
            assert begun <= ended, f"{len(begun - ended)} intents without an outcome"
            intents |= begun
        calls = [json.loads(one.body)["input"] for one in self.at.upstream if one.method == "POST"]
        made = [self.told[name][1] for name in calls if name in self.told]
        assert len(made) >= sum(status == 200 for status, _ in self.told.values())
        assert len(made) == len(set(made)), "no request was sent up twice"
        lost = set(made) - intents
        assert not lost, f"{len(lost)} upstream calls without an intent"
        counted |= Counter({"upstream calls": len(made)})
        counted |= Counter(f"status {status}" for status, _ in self.told.values())
        for who in WHO:
            await self.is_whole(who)
        return dict(counted)

    async def is_whole(self, who: str) -> None:
        """All of the log is signed and anchored, and an export of it verifies against the anchor."""
        tenant = await self.at.tenant(who)
        shared = self.at.gateway.gateway.shared
        await shared.checkpointer.flush()
        state = await shared.store.log.state(tenant)
        assert state is not None
        assert state.halted == ""
        assert state.size == state.seq == state.anchored
        lines = await public_keys(self.at.admin, tenant)
        keys = tuple(VerifierKey.parse(line) for line in lines)
        with tempfile.TemporaryDirectory(prefix="storm") as name:
            folder = Path(name) / "export"
            await export_log(self.at.admin, tenant, Query(), folder, lambda done, of: None)
            verdict = await asyncio.to_thread(verify_folder, folder, keys, processes=1)
        assert verdict.findings == ()
