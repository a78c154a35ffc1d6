"""Everything that comes out of a gateway behind a service that writes fresh raw IDs everywhere: answers, log, metrics."""

from __future__ import annotations

import io
import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.app import redact
from gateway.demo.stand_in.provider import Options
from gateway.demo.stand_in.raw_ids import IdStyle
from gateway.names import Kind
from gateway.surfaces.route import Route
from gateway.surfaces.table import PREFIX, ROUTES, Matched, match
from gateway.telemetry import JsonFormatter
from tests.attack.belongings import MODEL
from tests.attack.canary_batches import run
from tests.attack.canary_resources import keep
from tests.attack.canary_search import Search, readings, said
from tests.attack.canary_sockets import converse
from tests.attack.canary_words import INCLUDE, ITEMS, SILENT
from tests.attack.house import Caller, House, house
from tests.forms import Form, file, form, text, uploaded


@dataclass(frozen=True, slots=True)
class Exchange:
    what: str
    data: bytes
    """All that the client received."""
    upstream: bytes
    """Path, query and body of what the service received for it."""
    succeeded: frozenset[str] = frozenset()
    """The rows of the table that this was a success of, as `row` names them."""


def row(route: Route) -> str:
    """A row's name. An action alone is none: `responses.create` is asked over HTTP and over a socket."""
    return f"{route.method} {route.action}"


@dataclass(slots=True)
class Haul:
    """All that came out of the gateway."""

    house: House
    exchanges: list[Exchange] = field(default_factory=list)
    log: io.StringIO = field(default_factory=io.StringIO)
    metrics: bytes = b""

    def ask(self, caller: Caller, method: str, path: str, body: Any = None, *, wait_s: float = 10.0) -> bytes:
        """Everything that the gateway sends for one request, to the last byte or until it is silent for `wait_s`."""
        kind, content = "application/json", b""
        if isinstance(body, Form):
            kind, content = body.content_type, body.content
        elif body is not None:
            content = json.dumps(body).encode()
        head = f"{method} /v1{path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {caller.key}\r\nconnection: close\r\n"
        if body is not None:
            head += f"content-type: {kind}\r\ncontent-length: {len(content)}\r\n"
        data, before = b"", len(self.house.received)
        with socket.create_connection(("127.0.0.1", self.house.port)) as connection:
            connection.settimeout(wait_s)
            connection.sendall(head.encode() + b"\r\n" + content)
            try:
                while piece := connection.recv(1 << 16):
                    data += piece
            except TimeoutError:
                pass
        matched = match(method, PREFIX + path.partition("?")[0])
        taken = [matched.route] if isinstance(matched, Matched) and data.startswith(b"HTTP/1.1 2") else []
        self.add(f"{method} {path} {str(body)[:300]}", data, before, *taken)
        return data

    def add(self, what: str, data: bytes, before: int, *succeeded: Route) -> None:
        """What a client received while the service received all but the first `before`."""
        upstream = [f"{one.path}?{one.query}\n".encode() + one.body for one in self.house.received[before:]]
        self.exchanges.append(Exchange(what, data, b"\n".join(upstream), frozenset(map(row, succeeded))))

    def json(self, caller: Caller, method: str, path: str, body: Any = None) -> Any:
        data = self.ask(caller, method, path, body)
        assert data.startswith(b"HTTP/1.1 200"), (method, path, body, data[:2000])
        return json.loads(readings(data)[1])

    def leaks(self, search: Search) -> list[str]:
        """What clients received of the secrets, and where."""
        found = []
        for one in self.exchanges:
            seen = {leak for reading in dict.fromkeys(readings(one.data)) for leak in search(reading)}
            for leak in sorted(seen):
                if not self._is_hearsay(leak.partition(" (")[0], one):
                    found.append(f"{one.what}: {leak}")
        return found

    def _is_hearsay(self, secret: str, one: Exchange) -> bool:
        """Whether only the model speaks of it: an ID that it was shown at another time, and that stands neither in this
        request nor, as what it became, anywhere in this answer. Nothing tells it from any other word."""
        spoken, written = said(one.data)
        mapper = self.house.mapper("acme")
        if secret not in spoken or secret in written or secret.encode() in one.upstream:
            return False
        shown = {mapper.to_opaque(kind, secret).text for kind in Kind} | {mapper.form.inert(None, secret).text}
        return not any(text.encode() in one.data for text in shown)

    @property
    def succeeded(self) -> set[str]:
        """The rows of the table that were asked and not refused."""
        return set().union(*(one.succeeded for one in self.exchanges))

    @property
    def secrets(self) -> set[str]:
        provider = self.house.stand_in.provider
        return provider.ids.secrets() | {provider.organization, provider.project}


def play(haul: Haul, caller: Caller, words: str, *, wait_s: float = 10.0) -> None:
    """The words as JSON, as a stream, and in the background."""
    said = {"model": MODEL, "input": f"[[script: {words}]] go", "include": INCLUDE}
    chatted = {
        "model": MODEL,
        "messages": [{"role": "user", "content": said["input"]}],
        "modalities": ["text"],
        "logprobs": True,
        "stream_options": {"include_usage": True},
    }
    ways: tuple[dict[str, Any], ...] = ({}, {"stream": True})
    for more in ways:
        haul.ask(caller, "POST", "/responses", {**said, **more}, wait_s=wait_s)
        haul.ask(caller, "POST", "/chat/completions", {**chatted, "store": True, **more}, wait_s=wait_s)


def live(haul: Haul, caller: Caller) -> None:
    """A day of an ordinary client: everything is made, continued, read, listed, changed and deleted, and some of it fails."""
    made = haul.json(
        caller, "POST", "/responses", {"model": MODEL, "input": f"[[script: {ITEMS}]] a", "include": INCLUDE}
    )
    first = haul.json(caller, "POST", "/responses", {"model": MODEL, "input": "hello"})["id"]
    haul.json(
        caller, "POST", "/responses", {"model": MODEL, "input": "[[script: recall]] b", "previous_response_id": first}
    )
    for path in ("", "?stream=true", "?stream=true&starting_after=3", "/input_items?limit=100&order=asc"):
        haul.ask(caller, "GET", f"/responses/{made['id']}{path}")
    slow = {"model": MODEL, "input": "[[script: reasoning]] c", "background": True}
    background = haul.json(caller, "POST", "/responses", slow)["id"]
    for _ in range(3):
        haul.ask(caller, "GET", f"/responses/{background}")
    other = haul.json(caller, "POST", "/responses", slow)["id"]
    haul.ask(caller, "POST", f"/responses/{other}/cancel")
    haul.ask(caller, "POST", f"/responses/{other}/cancel", {})
    haul.ask(caller, "POST", "/responses", {**slow, "stream": True})
    for path in ("compact", "input_tokens"):
        haul.json(caller, "POST", f"/responses/{path}", {"model": MODEL, "input": "d", "previous_response_id": first})

    items = [{"role": "user", "content": "e"}, {"role": "assistant", "content": "f"}]
    talk = haul.json(caller, "POST", "/conversations", {"metadata": {"k": "v"}, "items": items})["id"]
    haul.json(caller, "POST", f"/conversations/{talk}/items", {"items": items})
    haul.json(caller, "POST", "/responses", {"model": MODEL, "input": f"[[script: {ITEMS}]] g", "conversation": talk})
    haul.ask(caller, "POST", "/responses", {"model": MODEL, "input": "h", "conversation": {"id": talk}, "stream": True})
    listed = haul.json(caller, "GET", f"/conversations/{talk}/items?limit=100")["data"]
    for item in listed:
        haul.ask(caller, "GET", f"/conversations/{talk}/items/{item['id']}")
    haul.ask(caller, "GET", f"/conversations/{talk}/items?after={listed[0]['id']}&limit=1")
    haul.ask(caller, "DELETE", f"/conversations/{talk}/items/{listed[0]['id']}")
    haul.ask(caller, "GET", f"/conversations/{talk}")
    haul.ask(caller, "POST", f"/conversations/{talk}", {"metadata": {"k": "w"}})
    chat(haul, caller)
    carry(haul, caller)
    keep(haul, caller)
    run(haul, caller)
    converse(haul, caller)
    page_through(haul, caller)
    haul.ask(caller, "GET", "/models")
    haul.ask(caller, "GET", f"/models/{MODEL}")
    haul.ask(caller, "GET", "/models/no-such-model")
    fail(haul, caller, first, talk, listed)
    haul.ask(caller, "DELETE", f"/conversations/{talk}")
    haul.ask(caller, "DELETE", f"/responses/{first}")
    haul.ask(caller, "GET", f"/responses/{first}")


def page_through(haul: Haul, caller: Caller) -> None:
    """Every list of the table, in steps, from both ends where it has two."""
    for route in ROUTES:
        if route.lists is None:
            continue
        for order in ("&order=asc", "&order=desc") if "order" in route.query else ("",):
            page = haul.json(caller, "GET", f"{route.path}?limit=2{order}")
            while page["has_more"]:
                page = haul.json(caller, "GET", f"{route.path}?limit=2{order}&after={page['last_id']}")
        haul.ask(caller, "GET", f"{route.path}?limit=0")


def chat(haul: Haul, caller: Caller) -> None:
    """Chats in every form, and what is answered without being kept."""
    hello = [{"role": "user", "content": "hello"}]
    said = {"model": MODEL, "messages": hello, "logprobs": True}
    spoken = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
    tool = {"type": "function", "function": {"name": "fetch", "parameters": {"type": "object", "properties": {}}}}
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "https://example.org/7.png"}}]
    forms: list[dict[str, Any]] = [
        {},
        {"n": 3},
        spoken,
        {"tools": [tool], "tool_choice": "required"},
        {"messages": [{"role": "user", "content": parts}], "metadata": {"k": "v"}, "user": "u"},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": {"type": "object"}}}},
    ]
    for words in ("annotations", "refusal", "custom_tool", "delta=3"):
        forms.append({"messages": [{"role": "user", "content": f"[[script: {words}]] go"}]})
    kept = []
    for shape in forms:
        kept.append(haul.json(caller, "POST", "/chat/completions", {**said, **shape, "store": True}))
        haul.ask(caller, "POST", "/chat/completions", {**said, **shape, "stream": True})
    for completion in kept:
        haul.json(caller, "GET", f"/chat/completions/{completion['id']}")
        listed = haul.json(caller, "GET", f"/chat/completions/{completion['id']}/messages")
        haul.json(caller, "GET", f"/chat/completions/{completion['id']}/messages?after={listed['last_id']}")
        haul.json(caller, "POST", f"/chat/completions/{completion['id']}", {"metadata": {"k": "w"}})
    for query in ("", "?limit=2", f"?after={kept[3]['id']}&order=desc", "?metadata[k]=w", f"?model={MODEL}&limit=1"):
        haul.json(caller, "GET", f"/chat/completions{query}")
    audio = kept[2]["choices"][0]["message"]["audio"]["id"]
    history: list[Any] = [*hello, {"role": "assistant", "audio": {"id": audio}}, *hello]
    haul.json(caller, "POST", "/chat/completions", {**said, "messages": history})
    refused: list[dict[str, Any]] = [
        {"model": "no-such-model"},
        {"messages": 7},
        {"messages": [{"role": "tool", "tool_call_id": "call_x", "content": "7"}]},
    ]
    for more in refused:
        haul.ask(caller, "POST", "/chat/completions", {**said, **more})
    provider = haul.house.stand_in.provider
    provider.chats.pop(haul.house.raw_of(caller.tenant, kept[0]["id"]))  # gone upstream, behind the gateway's back
    haul.json(caller, "GET", "/chat/completions?limit=1")
    for method, path in (("GET", ""), ("GET", "/messages"), ("DELETE", "")):
        haul.ask(caller, method, f"/chat/completions/{kept[0]['id']}{path}")
    haul.ask(caller, "GET", f"/chat/completions?after={kept[0]['id'][:-1]}")
    haul.ask(caller, "GET", "/chat/completions?limit=1000")
    haul.json(caller, "DELETE", f"/chat/completions/{kept[1]['id']}")
    for body in ({}, {"stream": True}):
        haul.ask(caller, "POST", "/completions", {"model": MODEL, "prompt": "[[script: quote]] a", **body})
        haul.ask(caller, "POST", "/images/generations", {"prompt": "a coat", "partial_images": 2, **body})
    haul.json(caller, "POST", "/images/generations", {"prompt": "a coat", "response_format": "url"})
    haul.json(caller, "POST", "/embeddings", {"model": MODEL, "input": ["a", "b"], "encoding_format": "base64"})
    haul.json(caller, "POST", "/moderations", {"input": "a"})


def carry(haul: Haul, caller: Caller) -> None:
    """Files up and down, in one piece and in parts, sound, and images made of others; some of it fails."""
    provider = haul.house.stand_in.provider
    kept = [haul.json(caller, "POST", "/files", uploaded(filename=name)) for name in ("a.txt", "ü.txt")]
    late = form(file("file", b"notes" * 50_000), text("purpose", "user_data"))
    kept.append(haul.json(caller, "POST", "/files", late))
    first = haul.house.raw_of(caller.tenant, kept[0]["id"])
    # What the service names by itself has IDs in its name, this file's and others'.
    provider.files[first].body["filename"] = f"{first}-{provider.ids.new('batch_', place='file name')}_output.jsonl"
    provider.files[first].body["purpose"] = "batch_output"
    for made in kept:
        haul.json(caller, "GET", f"/files/{made['id']}")
        haul.ask(caller, "GET", f"/files/{made['id']}/content")
    haul.json(caller, "GET", "/files?limit=2&order=asc")
    haul.json(caller, "GET", f"/files?after={kept[1]['id']}&purpose=user_data")
    named = [{"type": "input_file", "file_id": kept[0]["id"]}]
    haul.json(caller, "POST", "/responses", {"model": MODEL, "input": [{"role": "user", "content": named}]})
    told = {"bytes": 10, "filename": "a.txt", "mime_type": "text/plain", "purpose": "user_data"}
    upload, other = [haul.json(caller, "POST", "/uploads", told)["id"] for _ in range(2)]
    parts = [
        haul.json(caller, "POST", f"/uploads/{upload}/parts", form(file("data", b"notes")))["id"] for _ in range(2)
    ]
    haul.ask(caller, "POST", f"/uploads/{other}/complete", {"part_ids": parts})
    haul.ask(caller, "POST", f"/uploads/{upload}/complete", {"part_ids": parts[:1]})
    done = haul.json(caller, "POST", f"/uploads/{upload}/complete", {"part_ids": parts})
    haul.json(caller, "GET", f"/files/{done['file']['id']}")
    haul.json(caller, "POST", f"/uploads/{other}/cancel")
    haul.ask(caller, "POST", f"/uploads/{other}/cancel")
    said = {"model": MODEL, "input": "hello", "voice": "alloy"}
    haul.ask(caller, "POST", "/audio/speech", said)
    haul.ask(caller, "POST", "/audio/speech", {**said, "stream_format": "sse"})
    for shape in ("json", "text", "srt", "vtt", "verbose_json", "diarized_json"):
        sound = form(text("model", MODEL), text("response_format", shape), file("file", b"Keep my coat"))
        haul.ask(caller, "POST", "/audio/transcriptions", sound)
        haul.ask(caller, "POST", "/audio/translations", sound)
    streamed = form(text("model", MODEL), text("stream", "true"), file("file", b"Keep my coat"))
    haul.ask(caller, "POST", "/audio/transcriptions", streamed)
    for more in ((), (text("stream", "true"), text("partial_images", "2")), (text("response_format", "url"),)):
        picture = form(text("prompt", "a coat"), *more, file("image[]", b"a"), file("image[]", b"b"))
        haul.ask(caller, "POST", "/images/edits", picture)
    haul.json(caller, "POST", "/images/edits", {"prompt": "a coat", "images": [{"file_id": kept[0]["id"]}]})
    haul.json(caller, "POST", "/images/variations", form(file("image", b"a")))
    haul.ask(caller, "POST", "/files", uploaded(purpose="no-such"))
    haul.json(caller, "DELETE", f"/files/{kept[1]['id']}")
    provider.files.pop(first)  # gone upstream, behind the gateway's back
    provider.ids.attachable.discard(first)
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        haul.ask(caller, method, f"/files/{kept[0]['id']}{path}")


def fail(haul: Haul, caller: Caller, first: str, talk: str, listed: list[Any]) -> None:
    """What the service refuses in words that quote raw IDs, the account and more."""
    create: list[dict[str, Any]] = [
        {"conversation": talk, "previous_response_id": first},
        {"model": "no-such-model"},
        {"input": [{"type": "item_reference", "id": listed[-1]["id"]}] * 2},
        {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "gAAAAAedited"}]},
        {"input": [{"type": "function_call_output", "call_id": "call_x", "output": "7"}]},
        {"input": [{"type": "function_call", "id": listed[-1]["id"], "call_id": "c", "name": "f", "arguments": "{}"}]},
        {"metadata": {"k": 7}},
        {"prompt_cache_options": {"comparison_response_id": first}},
        {"prompt_cache_key": "shared", "user": "u", "safety_identifier": "s"},
        {"input": 7},
        {"background": True, "store": False},
    ]
    for more in create:
        haul.ask(caller, "POST", "/responses", {"model": MODEL, "input": "i", **more})
    haul.ask(caller, "POST", f"/responses/{first}/cancel", {})
    haul.ask(caller, "GET", f"/responses/{first}/input_items?limit=1000")
    provider = haul.house.stand_in.provider
    gone = haul.json(caller, "POST", "/responses", {"model": MODEL, "input": "j"})["id"]
    provider.responses.pop(haul.house.raw_of(caller.tenant, gone))  # gone upstream, behind the gateway's back
    for method, path in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")):
        haul.ask(caller, method, f"/responses/{gone}{path}", {} if method == "POST" else None)
    haul.ask(caller, "POST", "/responses", {"model": MODEL, "input": "k", "previous_response_id": gone})
    locked = provider.conversations[haul.house.raw_of(caller.tenant, talk)]
    locked.locked = True
    haul.ask(caller, "POST", "/responses", {"model": MODEL, "input": "l", "conversation": talk})
    haul.ask(caller, "POST", f"/conversations/{talk}/items", {"items": [{"role": "user", "content": "m"}]})
    locked.locked = False
    raw = haul.house.raw_of(caller.tenant, talk)
    haul.house.stand_in.provider.conversations[raw] = locked


def hauled(folder: Path, style: IdStyle, words: list[str]) -> Iterator[Haul]:
    options = Options(canary=True, id_style=style)
    with house(folder, options=options) as running:
        haul = Haul(running)
        handler = logging.StreamHandler(haul.log)
        handler.setFormatter(JsonFormatter(redact))
        root = logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            alice = running.caller("acme", "alice")
            live(haul, alice)
            for word in words:
                silent = word.partition("=")[0] in SILENT
                play(haul, alice, f"code_interpreter, annotations, {word}", wait_s=0.3 if silent else 10)
            # A line with an ID in it, so that there is one to redact.
            leak = running.stand_in.provider.organization
            logging.getLogger("gateway").warning("a %s", leak, extra={"fields": {"note": f"see {leak}", "raw": leak}})
            haul.metrics = running.run(scraped(running))
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        yield haul


async def scraped(running: House) -> bytes:
    """The metrics as they are scraped."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": []}
    await running.deployment.gateway.metrics(scope, receive, send)
    return b"".join(message.get("body", b"") for message in sent)
