"""Confirms calls at a stronger durability than the primary's memory: by WAIT (replicas) or WAITAOF (the primary's file).

Both cover the writes of the connection that asks, up to its own last one. So a second connection to the same primary writes a
small key and asks, as a pair: that write is later than every call that the primary had answered before, so it covers all of
them. One pair is on its way at a time; calls answered meanwhile share the next.
https://redis.io/docs/latest/commands/wait/, https://redis.io/docs/latest/commands/waitaof/
"""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.stores.address import Address
from gateway.stores.contract import NotDurable
from gateway.stores.node import LinkSettings, Node
from gateway.stores.server import Level
from gateway.stores.wire import Call, Reply, Wire

_KEY_LIFE_S: Final = 60
_Covered = tuple[Call, Reply, bytes]
"""The call, its reply, and which start of which server gave it."""


class Waiter:
    def __init__(self, primary: Node, settings: LinkSettings) -> None:
        async def locate() -> Address:
            await primary.found.wait()
            assert primary.address is not None  # noqa: S101 - found
            return primary.address

        self._settings = settings
        self.node = Node(self, locate, settings, (), lambda _: None)
        self._waiting: list[_Covered] = []
        self._asked: list[_Covered] = []

    async def run(self) -> None:
        await self.node.run()

    def cover(self, call: Call, reply: Reply, run_id: bytes) -> None:
        """`call` is resolved with `reply` once it is durable, or fails with NotDurable."""
        self._waiting.append((call, reply, run_id))
        if not self._asked:
            self._ask()

    def close(self) -> None:
        _fail([*self._asked, *self._waiting])

    def _ask(self) -> None:
        wire = self.node.wire
        if wire is None:
            _fail(self._waiting)
            self._waiting = []
            return
        self._asked, self._waiting = self._waiting, []
        timeout_ms = int(self._settings.durable_timeout_s * 1000)
        durability = self._settings.durability
        written = wire.ask("SET", self._asked[0][0].tag + b":wait", b"", "EX", _KEY_LIFE_S)
        if durability.level is Level.WAITAOF:
            # Only the primary's own file counts here; replicas are WAIT's.
            reached = wire.ask("WAITAOF", 1, 0, timeout_ms)
        else:
            reached = wire.ask("WAIT", durability.replicas, timeout_ms)
        reached.add_done_callback(lambda _: self._answered(wire, written, reached))

    def _answered(self, wire: Wire, written: asyncio.Future[Reply], reached: asyncio.Future[Reply]) -> None:
        asked, self._asked = self._asked, []
        reply = None if _failed(written) or _failed(reached) else reached.result()
        count, wanted = (reply[0], 1) if isinstance(reply, list) else (reply or 0, self._settings.durability.replicas)
        for call, answer, run_id in asked:
            if count >= max(1, wanted) and run_id == wire.run_id:
                call.resolve(answer)
            else:
                _fail([(call, answer, run_id)])
        if self._waiting:
            self._ask()

    def on_reply(self, wire: Wire, call: Call, reply: Reply) -> None: ...

    def on_error(self, wire: Wire, call: Call, text: str) -> None: ...

    def on_lost(self, wire: Wire, unanswered: list[Call]) -> None:
        self.node.lost(wire)


def _failed(future: asyncio.Future[Reply]) -> bool:
    return not future.done() or future.cancelled() or future.exception() is not None


def _fail(covered: list[_Covered]) -> None:
    for call, reply, _ in covered:
        seq = reply[0] if isinstance(reply, list) and reply and isinstance(reply[0], int) else 0
        call.fail(NotDurable("the write was not confirmed at the configured durability", seq))
