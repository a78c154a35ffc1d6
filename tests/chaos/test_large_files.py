"""A gigabyte up and down through the program itself: it holds some hundred kilobytes of it at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.demo.stand_in.server import Running
from tests.chaos.test_shutdown import program
from tests.forms import BOUNDARY, END, file, text
from tests.pipeline.desk import Desk
from tests.redis_fixture import RedisServer
from tests.transport.raw import connected, request

GIGABYTE = 1 << 30
PIECE = bytes(range(256)) * 1024
MOST_BYTES = 200 * 1024 * 1024
MOST_GROWTH_BYTES = 60 * 1024 * 1024
"""A quarter of the smallest file that is sent whole."""
LITTLE = 64 * 1024 * 1024


def peak_bytes(pid: int) -> int:
    """The most memory that the process has had (`VmHWM`, proc_pid_status(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@dataclass(slots=True)
class Service:
    """Takes a file of any size and forgets it, and makes one of any size up."""

    size: int = 0
    taken: int = 0
    paused: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody left in the middle."""
    url: str = ""

    @property
    def api_url(self) -> str:
        return self.url

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                try:
                    if head.startswith("POST"):
                        await self._take(reader)
                        await self._tell(writer)
                    else:
                        await (self._give if "/content" in head else self._tell)(writer)
                except (asyncio.IncompleteReadError, ConnectionError):
                    self.left.set()
                    raise
        writer.close()

    async def _take(self, reader: asyncio.StreamReader) -> None:
        """A chunked body, counted."""
        self.taken = 0
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await self.paused.wait()
            await reader.readexactly(size + 2)
            self.taken += size
        await reader.readexactly(2)

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        told = b'{"id":"file-0123456789abcdefghijkl","object":"file","filename":"a","purpose":"user_data"}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(told))
        writer.write(told)
        await writer.drain()

    async def _give(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n")
        writer.write(b"content-length: %d\r\n\r\n" % self.size)
        for _ in range(0, self.size, len(PIECE)):
            writer.write(PIECE)
            await writer.drain()


@contextlib.asynccontextmanager
async def service() -> AsyncIterator[Service]:
    made = Service()
    made.paused.set()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 20)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield made
    finally:
        server.close()


async def form(size: int, *, first: bool) -> AsyncIterator[bytes]:
    """A file of that size, its purpose before or behind it."""
    purpose = text("purpose", "user_data")
    before, after = file("file", b"|").split(b"|")
    yield (purpose if first else b"") + before
    for _ in range(0, size, len(PIECE)):
        yield PIECE
    yield after + (b"" if first else purpose) + END


async def upload(at: Desk, size: int, *, first: bool = True) -> Any:
    headers = await at.headers(content_type=f"multipart/form-data; boundary={BOUNDARY}")
    return await at.http.post(f"{at.gateway.url}/files", headers=headers, content=form(size, first=first), timeout=300)


@pytest.mark.parametrize(("first", "size"), [(True, GIGABYTE), (False, GIGABYTE // 4)])
async def test_a_gigabyte_is_uploaded_without_being_held(
    redis_server: RedisServer, tmp_path: Path, first: bool, size: int
) -> None:
    async with service() as up, program(redis_server, cast(Running, up), tmp_path) as (process, at):
        assert (await upload(at, 1 << 20, first=first)).status_code == 200
        before = peak_bytes(process.pid)
        reply = await upload(at, size, first=first)
        assert reply.status_code == 200, reply.text
        peak = peak_bytes(process.pid)
    assert up.taken > size
    assert peak - before < MOST_GROWTH_BYTES
    assert peak < MOST_BYTES


async def test_a_gigabyte_is_downloaded_without_being_held(redis_server: RedisServer, tmp_path: Path) -> None:
    async with service() as up, program(redis_server, cast(Running, up), tmp_path) as (process, at):
        made = (await upload(at, 1 << 20)).json()["id"]
        up.size, got = GIGABYTE, 0
        before = peak_bytes(process.pid)
        url, headers = f"{at.gateway.url}/files/{made}/content", await at.headers()
        async with at.http.stream("GET", url, headers=headers, timeout=300) as reply:
            async for piece in reply.aiter_bytes(1 << 20):
                assert piece[:256] == PIECE[:256]
                got += len(piece)
        peak = peak_bytes(process.pid)
    assert got == GIGABYTE
    assert peak - before < MOST_GROWTH_BYTES
    assert peak < MOST_BYTES


@pytest.mark.parametrize("way", ["up", "down"])
async def test_who_leaves_in_the_middle_of_a_file_ends_the_upstream_call(
    redis_server: RedisServer, tmp_path: Path, way: str
) -> None:
    async with service() as up, program(redis_server, cast(Running, up), tmp_path) as (_, at):
        made = (await upload(at, 1 << 20)).json()["id"]
        up.size = GIGABYTE
        key = (await at.headers())["authorization"]
        lines = f"Authorization: {key}", f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
        async with connected(at.port) as connection:
            if way == "up":
                head = request("/v1/files", *lines, f"Content-Length: {GIGABYTE}", method=b"POST")
                before, _ = file("file", b"|").split(b"|")
                await connection.send(head + text("purpose", "user_data") + before + PIECE * 8)
            else:
                await connection.send(request(f"/v1/files/{made}/content", lines[0]))
            await connection.reader.read(1) if way == "down" else await asyncio.sleep(0.3)
            assert not up.left.is_set()
        async with asyncio.timeout(1):
            await up.left.wait()

        async def told() -> bool:
            return await at.last_outcome() == ("error", "client_closed")

        await at.until(told)
        assert await at.unanswered() == []


async def test_a_service_that_takes_no_more_holds_the_sender_back(redis_server: RedisServer, tmp_path: Path) -> None:
    async with service() as up, program(redis_server, cast(Running, up), tmp_path) as (process, at):
        await upload(at, 1 << 20)
        sent, up.taken = 0, 0
        up.paused.clear()

        async def counted() -> AsyncIterator[bytes]:
            nonlocal sent
            async for piece in form(LITTLE, first=True):
                sent += len(piece)
                yield piece

        headers = await at.headers(content_type=f"multipart/form-data; boundary={BOUNDARY}")
        before = peak_bytes(process.pid)
        async with asyncio.TaskGroup() as group:
            uploading = group.create_task(
                at.http.post(f"{at.gateway.url}/files", headers=headers, content=counted(), timeout=60)
            )
            await asyncio.sleep(0.7)
            held_back = sent
            up.paused.set()
        assert held_back < LITTLE // 2
        assert peak_bytes(process.pid) - before < LITTLE // 4
        assert uploading.result().status_code == 200
        assert up.taken > LITTLE


async def test_a_slow_reader_of_a_download_holds_the_service_back(redis_server: RedisServer, tmp_path: Path) -> None:
    async with service() as up, program(redis_server, cast(Running, up), tmp_path) as (process, at):
        made = (await upload(at, 1 << 20)).json()["id"]
        up.size, got = LITTLE, 0
        before = peak_bytes(process.pid)
        url, headers = f"{at.gateway.url}/files/{made}/content", await at.headers()
        async with at.http.stream("GET", url, headers=headers, timeout=60) as reply:
            pieces = reply.aiter_bytes()
            got += len(await anext(pieces))
            await asyncio.sleep(0.7)
            assert peak_bytes(process.pid) - before < LITTLE // 4
            async for piece in pieces:
                got += len(piece)
    assert got == LITTLE


async def test_events_of_ten_megabytes_pass_in_little_memory(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with program(redis_server, stand_in, tmp_path) as (process, at):
        asked = "[[script: message, words=1700000, delta=20000000]] speak"
        data = await at.streamed(input=asked)
        assert max(map(len, data.split(b"\n\n"))) >= 10_000_000
        assert data.rstrip().splitlines()[-2] == b"event: response.completed"
        assert peak_bytes(process.pid) <= MOST_BYTES
