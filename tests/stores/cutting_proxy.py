"""A TCP proxy before Redis that can cut every connection right after a request went through, so that its answer is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.redis_fixture import free_port


class CuttingProxy:
    """`port` on loopback → a unix socket. `cut_after` requests with `marker` the connection is cut (0: never)."""

    def __init__(self, upstream: Path, marker: bytes = b"EVALSHA") -> None:
        self.port = free_port()
        self._upstream = upstream
        self._marker = marker
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self.cut_after = 0
        self.cuts = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def cut(self) -> None:
        for writer in self._connections:
            writer.transport.abort()
        self._connections.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(str(self._upstream))
        except OSError:
            writer.transport.abort()
            return
        self._connections |= {writer, up_writer}
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, up_writer, writer))
                group.create_task(self._answers(up_reader, writer))
        except* OSError:
            pass
        finally:
            writer.transport.abort()
            up_writer.transport.abort()
            self._pumps.discard(task)

    async def _requests(
        self, reader: asyncio.StreamReader, up_writer: asyncio.StreamWriter, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            if self.cut_after and self._marker in data:
                self.cut_after -= 1
                if self.cut_after == 0:
                    self.cuts += 1
                    # The client hears no answer, while Redis gets the whole request.
                    writer.transport.abort()
                    up_writer.write(data)
                    await up_writer.drain()
                    up_writer.write_eof()
                    await asyncio.sleep(0.02)
                    return
            up_writer.write(data)
            await up_writer.drain()
        up_writer.transport.abort()

    async def _answers(self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await up_reader.read(65536):
            if writer.transport.is_closing():
                return
            writer.write(data)
            await writer.drain()
        writer.transport.abort()
