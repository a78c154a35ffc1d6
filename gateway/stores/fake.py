"""The link to a Redis in this process (fakeredis): for a first look and for tests. Nothing of it survives the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import fakeredis
from redis.exceptions import RedisError

from gateway.stores.contract import Sink
from gateway.stores.link import AnyLink
from gateway.stores.wire import Argument, Reply, refusal


class FakeLink(AnyLink):
    """Carries each call out before it returns. Use `await FakeLink.open(scripts)`: fakeredis reads files when it starts."""

    def __init__(self, scripts: Sequence[bytes]) -> None:
        self.connections = 1
        # The replies of the connection are those of the wire; a client would turn them into other shapes.
        self._connection: Any = fakeredis.FakeRedis(
            server=fakeredis.FakeServer(version=(7,)), protocol=2
        ).connection_pool.get_connection()
        for script in scripts:
            self._execute("SCRIPT", "LOAD", script)

    @classmethod
    async def open(cls, scripts: Sequence[bytes]) -> FakeLink:
        return await asyncio.to_thread(cls, scripts)

    def ready(self, slot: int) -> bool:
        return True

    def send(
        self,
        slot: int,
        arguments: tuple[Argument, ...],
        sink: Sink[Any],
        parse: Callable[[Reply], Any] | None,
        tag: bytes,
        *,
        durable: bool,
    ) -> None:
        try:
            reply = self._execute(*arguments)
        except RedisError as error:
            sink.set_exception(refusal(str(error).partition(" ")[0]))
        else:
            sink.set_result(reply if parse is None else parse(reply))

    async def aclose(self) -> None:
        self._connection.disconnect()

    def _execute(self, *arguments: Argument) -> Reply:
        self._connection.send_command(*arguments)
        return self._connection.read_response()
