"""The control door, for tests and demos in another process. It is not under /v1, needs no key and records nothing.

| request | answer |
|---|---|
| `GET /_stand_in/requests` | what was received under /v1, oldest first; bodies as text |
| `GET /_stand_in/issued` | every raw ID with its place and whether a client may see it |
| `GET /_stand_in/words` | the words that scripts may hold |
| `POST /_stand_in/script` | `{"default": "words"}` for all requests, `{"next": ["words", …]}` for the next ones |
| `POST /_stand_in/attachment` | for `{"prefix": "file-"}`, a raw ID of that kind that exists and may be named |
| `POST /_stand_in/webhooks` | `{"url": …, "secret": "whsec_…"}`: where the project's webhooks go |
| `POST /_stand_in/reset` | forgets everything |
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gateway.demo.stand_in.faults import SPOILERS
from gateway.demo.stand_in.items import BUILDERS
from gateway.demo.stand_in.provider import Provider, Received
from gateway.demo.stand_in.webhooks import Sender
from gateway.demo.stand_in.words import MODIFIERS

PREFIX = "/_stand_in/"


def _requests(provider: Provider, body: bytes) -> Any:
    return [
        {
            "method": one.method,
            "path": one.path,
            "query": one.query,
            "headers": one.headers,
            "body": one.body.decode("utf-8", "replace"),
            "status": one.status,
            "bytes_sent": one.bytes_sent,
            "client_left": one.disconnected_at is not None,
        }
        for one in provider.received
    ]


def _issued(provider: Provider, body: bytes) -> Any:
    return [{"raw": one.raw, "place": one.place, "exposure": one.exposure} for one in provider.issued.values()]


def _words(provider: Provider, body: bytes) -> Any:
    return {"items": list(BUILDERS), "faults": list(SPOILERS), "modifiers": MODIFIERS}


def _script(provider: Provider, body: bytes) -> Any:
    wanted = json.loads(body)
    if "default" in wanted:
        provider.set_script(wanted["default"])
    for words in wanted.get("next", []):
        provider.next_answer(words)
    return {"waiting": len(provider.next_scripts)}


def _attachment(provider: Provider, body: bytes) -> Any:
    return {"id": provider.new_attachment(json.loads(body)["prefix"])}


def _webhooks(provider: Provider, body: bytes) -> Any:
    wanted = json.loads(body)
    provider.send_webhooks(Sender(str(wanted["url"]), str(wanted["secret"])))
    return {"url": wanted["url"]}


def _reset(provider: Provider, body: bytes) -> Any:
    provider.reset()
    return {"reset": True}


_DOORS: dict[tuple[str, str], Callable[[Provider, bytes], Any]] = {
    ("GET", "requests"): _requests,
    ("GET", "issued"): _issued,
    ("GET", "words"): _words,
    ("POST", "script"): _script,
    ("POST", "attachment"): _attachment,
    ("POST", "webhooks"): _webhooks,
    ("POST", "reset"): _reset,
}


async def answer(
    provider: Provider, received: Received, send: Callable[[MutableMapping[str, Any]], Awaitable[None]]
) -> None:
    """Writes the answer to a control request: 404 for an unknown one, 400 for a body that is not as described."""
    door = _DOORS.get((received.method, received.path.removeprefix(PREFIX)))
    status, value = 200, None
    try:
        value = door(provider, received.body) if door else {"error": "unknown control request"}
        status = 200 if door else 404
    except (ValueError, KeyError, TypeError, AttributeError) as mistake:
        status, value = 400, {"error": str(mistake)}
    data = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
