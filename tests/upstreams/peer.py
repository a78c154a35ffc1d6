"""A raw TCP server for tests of the client: each accepted connection runs the test's script, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Self


class Wire:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.closed_by_client = asyncio.Event()

    async def request(self) -> bytes:
        """The next request, head and body; b"" if the client closed instead."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            if b"\r\ncontent-length:" in lower:
                return head + await self.reader.readexactly(
                    int(lower.split(b"\r\ncontent-length:")[1].split(b"\r\n")[0])
                )
            if b"\r\ntransfer-encoding: chunked" in lower:
                return head + await self.reader.readuntil(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        return head

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def client_left(self) -> bool:
        """Waits until the client has closed or reset the connection; what it still sends is dropped."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass
        return True

    def reset(self) -> None:
        """Close with a TCP RST."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


Script = Callable[[Wire], Awaitable[None]]


class Peer:
    """Listens on a free loopback port, and runs `script` on every connection.

    `wires` are the connections in their order, `requests` what came, `live` the number of scripts that still run.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.wires: list[Wire] = []
        self.requests: list[bytes] = []
        self.script: Script = self.echo_ok
        self.port = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self.accept, "127.0.0.1", 0, ssl=self._tls, backlog=2048)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for wire in self.wires:
            wire.writer.transport.abort()
        await asyncio.sleep(0)

    @property
    def live(self) -> int:
        return len(self._running)

    def answers(self, *answers: bytes) -> None:
        """Each connection gives these answers, one a request, the last for ever; one that ends in b"EOF" closes after it."""

        async def script(wire: Wire) -> None:
            for index in range(1_000_000):
                request = await wire.request()
                if not request:
                    return
                self.requests.append(request)
                answer = answers[min(index, len(answers) - 1)]
                await wire.send(answer.removesuffix(b"EOF"))
                if answer.endswith(b"EOF"):
                    wire.close()
                    return

        self.script = script

    async def echo_ok(self, wire: Wire) -> None:
        while request := await wire.request():
            self.requests.append(request)
            await wire.send(ok(b"hello"))

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        self.wires.append(wire)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            # A cancelled task would be logged as an error by asyncio's own stream server.
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await self.script(wire)
        finally:
            self._running.discard(task)


def ok(body: bytes, *headers: bytes) -> bytes:
    """A whole 200 answer with Content-Length."""
    lines = b"".join(line + b"\r\n" for line in headers)
    return b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b" % (lines, len(body), body)


def chunked(*pieces: bytes) -> bytes:
    """A whole 200 answer in chunks."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return CHUNKED_HEAD + body + b"0\r\n\r\n"


CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
