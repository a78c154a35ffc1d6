"""A client's socket as a test holds it: frames as JSON, and all that it was shown as bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.pipeline.desk import MODEL, Desk

ENDINGS = ("response.completed", "response.failed", "response.incomplete", "error")
PATIENCE_S = 30.0
"""Against a hang: no machine is so busy."""


@dataclass(slots=True)
class Wire:
    connection: ClientConnection
    shown: list[bytes] = field(default_factory=list)

    async def send(self, frame: Any) -> None:
        await self.connection.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    async def event(self) -> dict[str, Any]:
        """The next event. Raises ConnectionClosed."""
        async with asyncio.timeout(PATIENCE_S):
            text = await self.connection.recv()
        self.shown.append(text.encode() if isinstance(text, str) else text)
        read: dict[str, Any] = json.loads(text)
        return read

    async def until(self, *kinds: str) -> list[dict[str, Any]]:
        """Events up to the first of one of `kinds`, that one last."""
        events = [await self.event()]
        while events[-1]["type"] not in kinds:
            events.append(await self.event())
        return events

    async def create(self, text: str = "hello", **more: Any) -> dict[str, Any]:
        """The last event of a response that is asked for."""
        await self.send({"type": "response.create", "model": MODEL, "input": text, **more})
        return (await self.until(*ENDINGS))[-1]

    async def responded(self, text: str = "hello", **more: Any) -> dict[str, Any]:
        ending = await self.create(text, **more)
        assert ending["type"] == "response.completed", ending
        response: dict[str, Any] = ending["response"]
        return response

    async def closed(self) -> tuple[int, str]:
        """Code and reason of the gateway's close."""
        try:
            while True:
                await self.event()
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")


@contextlib.asynccontextmanager
async def opened(at: Desk, who: str = "alice", path: str = "/responses", **headers: str) -> AsyncIterator[Wire]:
    """A socket of somebody's. Raises InvalidStatus where it is refused."""
    sent = await at.headers(who, **headers)
    url = at.gateway.url.replace("http://", "ws://") + path
    async with connect(url, additional_headers=sent, proxy=None, max_size=None, user_agent_header=None) as connection:
        yield Wire(connection)


async def refused(at: Desk, headers: dict[str, str], path: str = "/responses") -> InvalidStatus:
    """How an opening is refused."""
    url = at.gateway.url.replace("http://", "ws://") + path
    try:
        async with connect(url, additional_headers=headers, proxy=None):
            raise AssertionError("it was accepted")
    except InvalidStatus as status:
        return status
