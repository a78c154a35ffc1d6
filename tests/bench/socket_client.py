"""Load over sockets: `python -m tests.bench.socket_client JOB.json`, one process on uvloop.

A job names `port`, `key`, `count` and its `mode`. `idle`: sockets that say nothing; `slow`: sockets that ask for much and read
nothing of it; both print `{"open": n}` and end when standard input does. `busy`: each asks once for an event every `interval_ms`
during `seconds`; prints `events`, the time from an event's making to its reading as `p50_ms` and `p99_ms`, and what process `pid`
took for each event, the openings left out, as `cpu_us`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final, cast

import uvloop
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from tests.bench.processes import cpu_s
from tests.bench.socket_server import CLOCK_DIGITS

_DELTA: Final = b'"delta":"'
_DONE: Final = b'"response.done"'
_AT_ONCE: Final = 20
_OPENS_S: Final = 30.0
_FLOOD: Final = 100_000
"""Events that a slow one asks for, of a kilobyte each."""


class Socket(asyncio.Protocol):
    """One session. `greeted` is done with its first event, `over` with the end of its answer."""

    def __init__(self, job: dict[str, Any], took: list[float]) -> None:
        self._frames = ClientProtocol(
            parse_uri(f"ws://127.0.0.1:{job['port']}/v1/realtime?model=gpt-realtime"), max_size=None
        )
        self._key = job["key"]
        self._took = took
        self.transport: asyncio.Transport
        loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        request = self._frames.connect()
        request.headers["Authorization"] = f"Bearer {self._key}"
        self._frames.send_request(request)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.greeted, self.over):
            if not future.done():
                future.set_exception(ConnectionError("the socket was closed"))
                future.exception()

    def data_received(self, data: bytes) -> None:
        self._frames.receive_data(data)
        self._flush()
        for event in self._frames.events_received():
            if isinstance(event, Response) and event.status_code != 101:
                self.greeted.set_exception(ConnectionError(f"status {event.status_code}: {bytes(event.body or b'')!r}"))
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._read(bytes(event.data))

    def _read(self, event: bytes) -> None:
        if not self.greeted.done():
            self.greeted.set_result(None)
        begin = event.replace(b'": "', b'":"', 12).partition(_DELTA)[2]
        if begin:
            self._took.append((time.monotonic_ns() - int(begin[:CLOCK_DIGITS])) / 1e6)
        elif _DONE in event and not self.over.done():
            self.over.set_result(None)

    def ask(self, interval_ms: int, count: int) -> None:
        metadata = {"interval_ms": str(interval_ms), "count": str(count)}
        response = {"conversation": "none", "metadata": metadata}
        self._frames.send_text(json.dumps({"type": "response.create", "response": response}).encode())
        self._flush()

    def _flush(self) -> None:
        for data in self._frames.data_to_send():
            if data:
                self.transport.write(data)


async def _opened(job: dict[str, Any], took: list[float]) -> list[Socket]:
    """A few at a time."""

    async def one() -> Socket:
        _, made = await asyncio.get_running_loop().create_connection(
            lambda: Socket(job, took), "127.0.0.1", job["port"]
        )
        async with asyncio.timeout(_OPENS_S):
            await made.greeted
        return made

    sockets: list[Socket] = []
    while len(sockets) < job["count"]:
        sockets += await asyncio.gather(*[one() for _ in range(min(_AT_ONCE, job["count"] - len(sockets)))])
    return sockets


async def _run(job: dict[str, Any]) -> None:
    took: list[float] = []
    sockets = await _opened(job, took)
    if job["mode"] == "busy":
        interval_ms, before = job["interval_ms"], cpu_s(job["pid"])
        for number, socket in enumerate(sockets):
            socket.ask(interval_ms, round(job["seconds"] * 1000 / interval_ms))
            # Spread over one interval: people do not speak in step.
            await asyncio.sleep(interval_ms / 1000 / len(sockets) if number else 0)
        await asyncio.gather(*[socket.over for socket in sockets])
        cuts = statistics.quantiles(took, n=100)
        cpu_us = (cpu_s(job["pid"]) - before) / len(took) * 1e6
        print(json.dumps({"events": len(took), "p50_ms": cuts[49], "p99_ms": cuts[98], "cpu_us": cpu_us}), flush=True)
        return
    if job["mode"] == "slow":
        for socket in sockets:
            socket.ask(0, _FLOOD)
            socket.transport.pause_reading()
    print(json.dumps({"open": len(sockets)}), flush=True)
    with contextlib.suppress(EOFError):
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(_run(json.loads(Path(sys.argv[1]).read_text())))


if __name__ == "__main__":
    main()
