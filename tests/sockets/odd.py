"""A service that does with a socket what the name of its model says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

ITEMS = 600


def item_id(number: int) -> str:
    return f"item_{number:020d}a"


def _named(request: Request | None) -> str:
    return request.path.rpartition("=")[2] if request is not None else ""


async def _talk(connection: ServerConnection) -> None:
    match _named(connection.request):
        case "binary":
            await connection.send(b"\x00")
        case "nonsense":
            await connection.send("{")
        case "lost":
            connection.transport.abort()
        case "wrong":
            connection.transport.write(b"\xff\xff\xff\xff")
        case "items":
            chosen = json.loads(await connection.recv())["item"]["id"]
            for number in range(ITEMS):
                item = {"id": item_id(number), "type": "message", "role": "user", "content": []}
                event = {
                    "type": "conversation.item.added",
                    "item": item,
                    "previous_item_id": item_id(max(0, number - 1)),
                }
                await connection.send(json.dumps(event))
            for gone in (chosen, item_id(0)):
                await connection.send(json.dumps({"type": "conversation.item.deleted", "item_id": gone}))
        case "repeating":
            for number in range(ITEMS):
                item = {"id": item_id(number), "type": "message", "role": "user", "content": []}
                await connection.send(json.dumps({"type": "conversation.item.added", "item": item}))
            for number in range(3):
                told = {"type": "response.output_text.done", "item_id": item_id(ITEMS - 1), "content_index": 0}
                await connection.send(json.dumps(told | {"text": f"it was {item_id(number)}."}))
            await connection.send(json.dumps({"type": "conversation.item.deleted", "item_id": item_id(0)}))
    await connection.wait_closed()


def _open(connection: ServerConnection, request: Request) -> Response | None:
    match _named(request):
        case "refused":
            return connection.respond(429, "too many")
        case "dropped":
            connection.transport.abort()
    return None


@contextlib.asynccontextmanager
async def odd_service() -> AsyncIterator[str]:
    """Its base URL."""
    async with serve(_talk, "127.0.0.1", 0, process_request=_open) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
