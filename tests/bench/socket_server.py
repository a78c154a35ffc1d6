"""The upstream of sockets, behind `stream_server.py`: what speaks realtime at the pace that the client's frame asks for.

`{"type": "response.create", "response": {"metadata": {"interval_ms": "<n>", "count": "<n>"}}}` is answered by that many deltas
of sound, and a `response.done`. Each delta begins with the clock's nanoseconds, so that its reader sees how long it took.
An interval of 0 sends as fast as the reader takes it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import time
from typing import Any, Final, cast

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

CLOCK_DIGITS: Final = 20
_SOUND: Final = base64.b64encode(os.urandom(750)).decode()


class Speaker(asyncio.Protocol):
    """One socket, which answers one frame after the other."""

    def __init__(self) -> None:
        self._frames = ServerProtocol(max_size=None)
        self._transport: asyncio.Transport
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._asked: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        self._frames.receive_data(data)
        for event in self._frames.events_received():
            if isinstance(event, Request):
                self._frames.send_response(self._frames.accept(event))
                self._say({"type": "session.created", "event_id": _new("event_"), "session": {"id": _new("sess_")}})
                self._task = asyncio.get_running_loop().create_task(self._answer())
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._asked.put_nowait(json.loads(bytes(event.data))["response"]["metadata"])
        self._flush()

    async def _answer(self) -> None:
        while True:
            asked = await self._asked.get()
            interval_s = int(asked["interval_ms"]) / 1000
            event: dict[str, Any] = {
                "type": "response.output_audio.delta",
                "response_id": _new("resp_"),
                "item_id": _new("item_"),
                "output_index": 0,
                "content_index": 0,
            }
            due = time.monotonic()
            for _ in range(int(asked["count"])):
                due += interval_s
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await self._may_write.wait()
                self._say(
                    {**event, "event_id": _new("event_"), "delta": f"{time.monotonic_ns():0{CLOCK_DIGITS}}{_SOUND}"}
                )
                self._flush()
            response = {"id": event["response_id"], "status": "completed", "output": []}
            self._say({"type": "response.done", "event_id": _new("event_"), "response": response})
            self._flush()

    def _say(self, event: dict[str, Any]) -> None:
        self._frames.send_text(json.dumps(event).encode())

    def _flush(self) -> None:
        for data in self._frames.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()


def _new(prefix: str) -> str:
    return prefix + secrets.token_hex(10) + "0"
