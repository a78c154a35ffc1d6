"""The upstream of streams: `python -m tests.bench.stream_server PORT`, one process on uvloop, until SIGTERM.

How fast a stream goes stands in the request's metadata as `"interval_ms": "<n>"`: 0 sends one event a turn of the loop, each
in a write of its own. A request without `"stream": true` is answered in one piece, so that a first object can be made.
An upgrade to WebSocket goes to `socket_server.py`.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
import sys
from typing import Final, cast

import uvloop

from tests.bench.answers import UNIQUE, json_answer, stream_events
from tests.bench.socket_server import Speaker

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_UPGRADE: Final = re.compile(rb"\r\nupgrade: *websocket", re.IGNORECASE)
_STREAM: Final = re.compile(rb'"stream" *: *true')
_INTERVAL: Final = re.compile(rb'"interval_ms" *: *"(\d+)"')
_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_UNIQUE: Final = UNIQUE.encode()
_ANSWER: Final = json_answer().encode()
_CHUNKS: Final = tuple(b"%x\r\n%b\r\n" % (len(event), event) for event in stream_events())


class Upstream(asyncio.Protocol):
    """One connection: a request at a time, its body read whole before the answer begins."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._transport: asyncio.Transport
        self._timer: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(_HEAD_END)
        if end and _UPGRADE.search(head):
            speaker = Speaker()
            speaker.connection_made(self._transport)
            self._transport.set_protocol(speaker)
            speaker.data_received(self._received)
            return
        length = _LENGTH.search(head)
        if not end or length is None or len(body) < int(length[1]):
            return
        self._received = b""
        unique = secrets.token_hex(16).encode()
        if _STREAM.search(body) is None:
            answer = _ANSWER.replace(_UNIQUE, unique)
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (len(answer), answer)
            )
            return
        interval = _INTERVAL.search(body)
        self._transport.write(_STREAM_HEAD)
        self._send(0, unique, int(interval[1]) / 1000 if interval else 0.0)

    def _send(self, number: int, unique: bytes, interval_s: float) -> None:
        """The event of that number now, and the next one after the interval."""
        if self._transport.is_closing():
            return
        if number == len(_CHUNKS):
            self._transport.write(b"0\r\n\r\n")
            self._timer = None
            return
        self._transport.write(_CHUNKS[number].replace(_UNIQUE, unique))
        if interval_s:
            self._timer = self._loop.call_later(interval_s, self._send, number + 1, unique, interval_s)
        else:
            self._timer = self._loop.call_soon(self._send, number + 1, unique, interval_s)


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    server = await loop.create_server(Upstream, "127.0.0.1", port, backlog=2048)
    await stopped.wait()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
