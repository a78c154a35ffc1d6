"""A request for each route that makes an object."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.forms import spelt, uploaded
from tests.pipeline.desk import Desk

MODEL = "gpt-4o-mini"
UPLOAD = {"bytes": 0, "filename": "a", "mime_type": "text/plain", "purpose": "user_data"}
LINE = {"custom_id": "1", "method": "POST", "url": "/v1/responses", "body": {"model": MODEL, "input": "a"}}
FILE = uploaded()
LINES = uploaded(json.dumps(LINE).encode(), "batch")


async def _made(at: Desk, path: str, body: Any) -> str:
    return str((await at.call("POST", path, body)).json()["id"])


async def _completing(at: Desk) -> tuple[str, Any]:
    return f"/uploads/{await _made(at, '/uploads', UPLOAD)}/complete", {"part_ids": []}


async def _batch(at: Desk) -> tuple[str, Any]:
    run = {"endpoint": "/v1/responses", "completion_window": "24h"}
    return "/batches", {"input_file_id": await _made(at, "/files", LINES), **run}


async def _job(at: Desk) -> tuple[str, Any]:
    return "/fine_tuning/jobs", {"model": MODEL, "training_file": await _made(at, "/files", FILE)}


Request = tuple[str, Any] | Callable[[Desk], Awaitable[tuple[str, Any]]]

CREATES: dict[str, tuple[Request, str]] = {
    "responses.create": (("/responses", {"model": MODEL, "input": "a"}), "DELETE /responses/{}"),
    "responses.compact": (("/responses/compact", {"model": MODEL, "input": "a"}), "DELETE /responses/{}"),
    "conversations.create": (("/conversations", {}), "DELETE /conversations/{}"),
    "chat.completions.create": (
        ("/chat/completions", {"model": MODEL, "store": True, "messages": [{"role": "user", "content": "a"}]}),
        "DELETE /chat/completions/{}",
    ),
    "files.create": (("/files", FILE), "DELETE /files/{}"),
    "uploads.create": (("/uploads", UPLOAD), "POST /uploads/{}/cancel"),
    "uploads.complete": (_completing, "DELETE /files/{}"),
    "batches.create": (_batch, "POST /batches/{}/cancel"),
    "vector_stores.create": (("/vector_stores", {"name": "a"}), "DELETE /vector_stores/{}"),
    "containers.create": (("/containers", {"name": "a"}), "DELETE /containers/{}"),
    "skills.create": (("/skills", spelt({"files": b"# Fold"})), "DELETE /skills/{}"),
    "fine_tuning.jobs.create": (_job, "POST /fine_tuning/jobs/{}/cancel"),
}
"""For each route that makes an object: a request, and how the object is ended upstream."""


async def creating(at: Desk, action: str) -> tuple[str, Any]:
    """Path and body of a request that makes an object."""
    request = CREATES[action][0]
    return await request(at) if callable(request) else request
