"""A day of a client with batches, for the canary: one at each endpoint runs to its end and is read back, others are cancelled or
fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gateway.surfaces.batches import ENDPOINTS
from tests.attack.belongings import MODEL
from tests.attack.canary_words import INCLUDE, ITEMS
from tests.attack.house import Caller
from tests.forms import uploaded

if TYPE_CHECKING:
    from tests.attack.canary_haul import Haul

WORDS = ("", ITEMS, "annotations, code_interpreter", "quote", "say=hello", "refusal", "recall", "plant=a coat")

OTHERS: dict[str, tuple[dict[str, Any], ...]] = {
    "/v1/responses": (
        {"model": "no-such-model"},
        {"metadata": {"k": 7}},
        {"input": [{"type": "function_call_output", "call_id": "call_x", "output": "7"}]},
        {"store": False},
    ),
    "/v1/chat/completions": ({"model": "no-such-model"}, {"store": True}, {"logprobs": True}, {"messages": 7}),
    "/v1/completions": ({"prompt": "a"},),
    "/v1/embeddings": ({"input": ["a", "b"]},),
    "/v1/moderations": ({},),
    "/v1/images/generations": ({"prompt": "a coat"}, {"prompt": "a coat", "response_format": "url"}),
    "/v1/images/edits": ({"prompt": "a coat", "images": [{"image_url": "https://example.org/7.png"}]},),
}


def bodies(url: str) -> list[dict[str, Any]]:
    """Requests that make the service say all it can."""
    made: list[dict[str, Any]] = [{"model": MODEL, "input": "hello", **more} for more in OTHERS[url]]
    for words in WORDS if url in ("/v1/responses", "/v1/chat/completions") else ():
        text = f"[[script: {words}]] go"
        made.append({"model": MODEL, "input": text, "include": INCLUDE})
    if url == "/v1/chat/completions":
        for body in made:
            body.setdefault("messages", [{"role": "user", "content": body["input"]}])
            body.pop("input")
            body.pop("include", None)
    return made


def run(haul: Haul, caller: Caller) -> None:
    """All of it."""
    for url in ENDPOINTS:
        made = _batch(haul, caller, url, bodies(url))
        read = [_read(haul, caller, made["id"]) for _ in range(2)][-1]
        assert read["status"] == "completed", read
        named = [read[f"{name}_file_id"] for name in ("input", "output", "error")]
        for file in filter(None, named):
            haul.json(caller, "GET", f"/files/{file}")
            told = haul.ask(caller, "GET", f"/files/{file}/content")
            assert told.startswith(b"HTTP/1.1 200"), told
        haul.ask(caller, "POST", f"/batches/{made['id']}/cancel")
    embedded = {"model": MODEL, "input": "x"}
    other = _batch(haul, caller, "/v1/embeddings", [embedded])["id"]
    haul.json(caller, "POST", f"/batches/{other}/cancel")
    assert _read(haul, caller, other)["status"] == "cancelled"
    twice = _batch(haul, caller, "/v1/embeddings", [embedded, embedded], "c", "c")["id"]
    assert _read(haul, caller, twice)["status"] == "failed"
    for query in ("", "?limit=1", f"?after={twice}"):
        haul.json(caller, "GET", f"/batches{query}")
    provider = haul.house.stand_in.provider
    provider.batches.pop(haul.house.raw_of(caller.tenant, other))  # gone upstream, behind the gateway's back
    for method, path in (("GET", ""), ("POST", "/cancel")):
        haul.ask(caller, method, f"/batches/{other}{path}")
    haul.json(caller, "GET", "/batches")


def _batch(haul: Haul, caller: Caller, url: str, asked: list[dict[str, Any]], *custom: str) -> Any:
    """A new batch of these requests, each called what `custom` says or by its number."""
    names = custom or [str(number) for number in range(len(asked))]
    lines = [
        {"custom_id": name, "method": "POST", "url": url, "body": body} for name, body in zip(names, asked, strict=True)
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    file = haul.json(caller, "POST", "/files", uploaded(data, "batch", "lines.jsonl"))["id"]
    told = {"input_file_id": file, "endpoint": url, "completion_window": "24h", "metadata": {"k": "v"}}
    return haul.json(caller, "POST", "/batches", told)


def _read(haul: Haul, caller: Caller, batch: str) -> Any:
    return haul.json(caller, "GET", f"/batches/{batch}")
