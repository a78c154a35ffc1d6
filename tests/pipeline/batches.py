"""A desk's way to batches: lines, their upload, the batch run to its end, and its files read back."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from tests.pipeline.desk import MODEL, Desk

RESPONSES = "/v1/responses"


def line(custom_id: str = "one", url: str = RESPONSES, *, method: str = "POST", **body: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": method, "url": url, "body": {"model": MODEL, "input": "hello", **body}}


def spell(*lines: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


async def upload(
    at: Desk, *lines: Any, who: str = "alice", content: bytes | None = None, purpose: str = "batch"
) -> httpx2.Response:
    """Uploads `lines`, or `content` as it is."""
    data = spell(*lines) if content is None else content
    return await at.http.post(
        f"{at.gateway.url}/files",
        headers=await at.headers(who),
        data={"purpose": purpose},
        files={"file": ("lines.jsonl", data, "application/jsonl")},
    )


async def uploaded(at: Desk, *lines: Any, who: str = "alice", content: bytes | None = None) -> str:
    reply = await upload(at, *lines, who=who, content=content)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["id"])


async def create(at: Desk, file: str, who: str = "alice", endpoint: Any = RESPONSES, **more: Any) -> httpx2.Response:
    body = {"input_file_id": file, "endpoint": endpoint, "completion_window": "24h", **more}
    return await at.call("POST", "/batches", body, who)


async def run(at: Desk, *lines: Any, who: str = "alice", endpoint: str = RESPONSES) -> dict[str, Any]:
    """The batch of `lines`, as it ended."""
    made = await create(at, await uploaded(at, *lines, who=who), who, endpoint)
    assert made.status_code == 200, made.text
    ended: dict[str, Any] = made.json()
    for _ in range(2):
        reply = await at.call("GET", f"/batches/{ended['id']}", who=who)
        assert reply.status_code == 200, reply.text
        ended = reply.json()
    return ended


async def content(at: Desk, file: str, who: str = "alice") -> httpx2.Response:
    return await at.call("GET", f"/files/{file}/content", who=who)


async def lines_of(at: Desk, file: str, who: str = "alice") -> list[dict[str, Any]]:
    reply = await content(at, file, who)
    assert reply.status_code == 200, reply.text
    return [json.loads(one) for one in reply.content.splitlines()]


def stored(at: Desk) -> list[bytes]:
    """What the service holds of uploaded files, the newest last."""
    return [one.data for one in at.stand_in.provider.files.values() if one.body["purpose"] == "batch"]
