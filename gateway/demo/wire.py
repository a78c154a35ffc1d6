"""What an SDK's client really sent and received: the bytes of each exchange, noted between the SDK and the socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx2


@dataclass(slots=True)
class Exchange:
    """`received` grows while the answer is read."""

    who: str
    sent: bytes
    received: bytearray = field(default_factory=bytearray)
    request_id: str = ""


class RecordingTransport(httpx2.AsyncHTTPTransport):
    """The SDK's own transport; every exchange of `who` goes on `record`. Answers are asked for uncompressed."""

    def __init__(self, who: str, record: list[Exchange]) -> None:
        super().__init__()
        self._who = who
        self._record = record

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        head = b"".join(b"%b: %b\r\n" % pair for pair in request.headers.raw)
        sent = f"{request.method} {request.url}\r\n".encode() + head + await request.aread()
        exchange = Exchange(self._who, sent)
        self._record.append(exchange)
        response = await super().handle_async_request(request)
        exchange.request_id = response.headers.get("x-request-id", "")
        exchange.received += b"".join(b"%b: %b\r\n" % pair for pair in response.headers.raw)
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - the type knows synchronous ones too
        response.stream = _Noted(response.stream, exchange)
        return response


class _Noted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._exchange.received += chunk
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
