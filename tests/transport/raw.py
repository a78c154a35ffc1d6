"""A client that sends bytes, not requests, and a server whose app tells what reached it. For every test that attacks the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway.transport.guard import HEAD, Head, Message, Receive, Scope, Send
from gateway.transport.limits import Limits
from gateway.transport.server import running


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP/1.1 answer as it stood on the wire. `closed`: the server ended the connection after it."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    closed: bool

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)

    @property
    def error(self) -> Any:
        return json.loads(self.body)["error"]


def request(
    target: str | bytes = b"/v1/models",
    *headers: str | bytes,
    method: bytes = b"GET",
    version: bytes = b"HTTP/1.1",
    body: bytes = b"",
    host: bool = True,
) -> bytes:
    """The bytes of a request: nothing is checked, completed or escaped but for one Host, which `host=False` leaves out."""

    def raw(text: str | bytes) -> bytes:
        return text if isinstance(text, bytes) else text.encode("latin-1")

    lines = [b"%b %b %b" % (method, raw(target), version)]
    lines += [b"Host: gateway"] if host else []
    lines += [raw(header) for header in headers]
    return b"\r\n".join([*lines, b"", body])


class RawConnection:
    """One connection to `port` on loopback: bytes out, answers in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, timeout_s: float = 5.0) -> Answer:
        """The next answer, read by its own Content-Length or chunks. Raises EOFError where the server closed without one."""
        async with asyncio.timeout(timeout_s):
            try:
                head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            except asyncio.IncompleteReadError as error:
                raise EOFError(f"closed after {error.partial!r}") from None
            first, *lines = head[:-4].split("\r\n")
            headers = tuple((name.lower(), value) for name, value in (line.split(": ", 1) for line in lines))
            fields = dict(headers)
            if fields.get("transfer-encoding") == "chunked":
                body = await self._chunks()
            else:
                body = await self.reader.readexactly(int(fields.get("content-length", "0")))
            closed = fields.get("connection") == "close" and await self.reader.read(1) == b""
            return Answer(int(first.split(" ")[1]), headers, body, closed)

    async def _chunks(self) -> bytes:
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return body

    async def rest(self, timeout_s: float = 5.0) -> bytes:
        """Everything up to the server's close."""
        async with asyncio.timeout(timeout_s):
            return await self.reader.read()

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[RawConnection]:
    connection = RawConnection(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield connection
    finally:
        connection.close()


async def exchange(port: int, data: bytes, timeout_s: float = 5.0) -> Answer:
    """The answer to `data`, sent over a connection of its own."""
    async with connected(port) as connection:
        await connection.send(data)
        return await connection.answer(timeout_s)


@dataclass(slots=True)
class Seen:
    """One request as it reached the app behind the guard. `body` is None where the client left before its end."""

    head: Head
    scope: Scope
    body: bytes | None = b""


@dataclass(slots=True)
class EchoApp:
    """Reads every request to its end, remembers it, and answers 200 with the path."""

    seen: list[Seen] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            raise RuntimeError("no lifespan")
        entry = Seen(scope[HEAD], scope)
        self.seen.append(entry)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        body = b""
        more = True
        while more:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                entry.body = None
                return
            body += message["body"]
            more = message["more_body"]
        entry.body = body
        path = entry.head.raw_path
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(path))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else path})


@asynccontextmanager
async def echo(limits: Limits | None = None, **more: Any) -> AsyncIterator[tuple[EchoApp, int]]:
    """An `EchoApp` behind the real server and guard: the app and its port."""
    app = EchoApp()
    async with running(app, limits or Limits(), **more) as server:
        yield app, server.port
