"""The load that wrk cannot give: `python -m tests.bench.client JOB.json`, one process on uvloop; prints one line of JSON.

A job names `port`, `request` (the bytes, as text), `seconds` and its `mode`:

- `alone`: one request after the other on one connection; latencies.
- `rate`: `rate` requests a second by the clock, whether or not earlier ones are answered (an open loop); latencies from the
  moment that a request was due.
- `streams`: `count` streams at a time until the time is over, the last ones read to their end; events.
- `hold`: `count` streams opened and kept; prints `{"open": n}`, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count as numbers
from pathlib import Path
from time import perf_counter  # the loop's own clock counts whole milliseconds
from typing import Any, Final, cast

import httptools
import uvloop

_EVENT_END: Final = b"\n\n"
_TIMEOUT_S: Final = 60.0
_TIMER_S: Final = 0.002
"""How late a timer of the loop may be; the rest of a wait is spent looking at the clock."""


class Failed(Exception):
    """An answer that is not 200, or none."""


class Connection(asyncio.Protocol):
    """A keep-alive connection with one request at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._answered: asyncio.Future[None]
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._tail = b""
        self.first_byte = self._loop.create_future()
        self.events = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.events += (self._tail + body).count(_EVENT_END)
        self._tail = b"\n" if body[-1:] == b"\n" and body[-2:] != _EVENT_END else b""
        if not self.first_byte.done():
            self.first_byte.set_result(None)

    def on_message_complete(self) -> None:
        status, keeps = self._parser.get_status_code(), self._parser.should_keep_alive()
        self._parser = httptools.HttpResponseParser(self)
        if self._answered.done():
            return
        if status == 200 and keeps:
            self._answered.set_result(None)
        else:
            self._answered.set_exception(Failed(f"status {status}"))

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self._answered, self.first_byte):
            if not future.done():
                future.set_exception(Failed("the connection was closed"))
            future.exception()

    def ask(self, request: bytes) -> asyncio.Future[None]:
        """Sends the request; done when its answer is complete, Failed where that is not a 200."""
        self._answered = self._loop.create_future()
        self._transport.write(request)
        return self._answered

    def close(self) -> None:
        self._transport.abort()


class Client:
    def __init__(self, port: int, request: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._port = port
        self._request = request
        self._idle: list[Connection] = []

    async def connect(self) -> Connection:
        return (await self._loop.create_connection(Connection, "127.0.0.1", self._port))[1]

    async def alone(self, seconds: float) -> dict[str, Any]:
        connection = await self.connect()
        latencies: list[float] = []
        end = perf_counter() + seconds
        while (start := perf_counter()) < end:
            await connection.ask(self._request)
            latencies.append(perf_counter() - start)
        return _latencies(latencies)

    async def rate(self, seconds: float, rate: float) -> dict[str, Any]:
        latencies: list[float] = []
        begin = perf_counter() + 0.05
        async with asyncio.TaskGroup() as group:
            for number in numbers():
                if number / rate >= seconds:
                    break
                due = begin + number / rate
                while (left_s := due - perf_counter()) > 0:  # noqa: ASYNC110 - the clock sets no event
                    await asyncio.sleep(max(0.0, left_s - _TIMER_S))
                group.create_task(self._one(due, latencies))
        return _latencies(latencies)

    async def _one(self, due: float, latencies: list[float]) -> None:
        connection = self._idle.pop() if self._idle else await self.connect()
        await connection.ask(self._request)
        latencies.append(perf_counter() - due)
        self._idle.append(connection)

    async def streams(self, seconds: float, count: int, spread_s: float) -> dict[str, Any]:
        begin = self._loop.time()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._repeat(spread_s * i / count, begin + seconds)) for i in range(count)]
        streams, events = (sum(column) for column in zip(*(task.result() for task in tasks), strict=True))
        return {"streams": streams, "events": events, "seconds": self._loop.time() - begin}

    async def _repeat(self, delay_s: float, end: float) -> tuple[int, int]:
        await asyncio.sleep(delay_s)
        connection, streams = await self.connect(), 0
        while streams == 0 or self._loop.time() < end:
            await connection.ask(self._request)
            streams += 1
        connection.close()
        return streams, connection.events

    async def hold(self, count: int) -> dict[str, Any]:
        connections = [await self.connect() for _ in range(count)]
        for connection in connections:
            connection.ask(self._request)
            await connection.first_byte
        print(json.dumps({"open": len(connections)}), flush=True)
        await self._loop.run_in_executor(None, sys.stdin.read)
        return {}


def _latencies(seconds: list[float]) -> dict[str, Any]:
    ordered = sorted(seconds)
    at = {f"p{percent}_ms": ordered[int(len(ordered) * percent / 100)] * 1e3 for percent in (50, 99)}
    return {"requests": len(ordered), **at}


async def work(job: dict[str, Any]) -> dict[str, Any]:
    client, seconds = Client(job["port"], job["request"].encode()), job["seconds"]
    if job["mode"] == "hold":
        return await client.hold(job["count"])
    async with asyncio.timeout(seconds + _TIMEOUT_S):
        if job["mode"] == "streams":
            return await client.streams(seconds, job["count"], job["spread_s"])
        if job["mode"] == "rate":
            return await client.rate(seconds, job["rate"])
        return await client.alone(seconds)


if __name__ == "__main__":
    try:
        print(json.dumps(uvloop.run(work(json.loads(Path(sys.argv[1]).read_text())))))
    except* (Failed, OSError, TimeoutError) as failures:
        sys.exit(f"{failures.exceptions[0]}")
