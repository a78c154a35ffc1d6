"""The canary: a service that writes fresh raw IDs everywhere, and a search for them in everything that comes out.

Every script word of the stand-in is played, faults included; then what clients received, the log lines, the metrics and
all that Redis holds is searched for every raw ID, for the account's names, and for other spellings of both.
"""

from __future__ import annotations

import io
import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

from gateway.app import redact
from gateway.demo.stand_in.faults import SPOILERS
from gateway.demo.stand_in.items import BUILDERS
from gateway.demo.stand_in.provider import Options
from gateway.demo.stand_in.raw_ids import IdStyle
from gateway.demo.stand_in.words import MODIFIERS
from gateway.names import Kind
from gateway.telemetry import JsonFormatter
from tests.attack.belongings import MODEL
from tests.attack.canary_search import Search, readings, said
from tests.attack.house import Caller, House, house
from tests.redis_fixture import RedisServer

VALUES: dict[str, tuple[str, ...]] = {
    "at": ("1:2:3:17:40:400:1000",),
    "calls": ("2",),
    "cut": ("3", "700"),
    "cut_clean": ("3", "700"),
    "delay": ("0.0001",),
    "delta": ("3", "200"),
    "eol": ("crlf", "cr"),
    "error_event": ("0", "4"),
    "flood": ("1",),
    "hang": ("", "4"),
    "numbers": ("", "extreme"),
    "polls": ("3",),
    "plant": ("a coat",),
    "redirect": ("301", "307"),
    "say": ("hello",),
    "slow": ("0.05",),
    "split": ("41",),
    "status": ("400", "401", "403", "404", "409", "422", "429", "500", "502", "503"),
    "words": ("3",),
}
"""What a word is played with; every other one stands alone."""

SILENT = frozenset({"hang", "never_finish"})
"""Words after which nothing comes: the client leaves."""

ITEMS = ", ".join(word for word in BUILDERS if word not in ("refusal", "compaction"))
INCLUDE = [
    "file_search_call.results",
    "code_interpreter_call.outputs",
    "web_search_call.action.sources",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]


@dataclass(frozen=True, slots=True)
class Exchange:
    what: str
    data: bytes
    """All that the client received."""
    upstream: bytes
    """Path, query and body of what the service received for it."""


@dataclass(slots=True)
class Haul:
    """All that came out of the gateway."""

    house: House
    exchanges: list[Exchange] = field(default_factory=list)
    log: io.StringIO = field(default_factory=io.StringIO)
    metrics: bytes = b""

    def ask(self, caller: Caller, method: str, path: str, body: Any = None, *, wait_s: float = 10.0) -> bytes:
        """Everything that the gateway sends for one request, to the last byte or until it is silent for `wait_s`."""
        content = json.dumps(body).encode() if body is not None else b""
        head = f"{method} /v1{path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {caller.key}\r\nconnection: close\r\n"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
        data, before = b"", len(self.house.received)
        with socket.create_connection(("127.0.0.1", self.house.port)) as connection:
            connection.settimeout(wait_s)
            connection.sendall(head.encode() + b"\r\n" + content)
            try:
                while piece := connection.recv(1 << 16):
                    data += piece
            except TimeoutError:
                pass
        upstream = [f"{one.path}?{one.query}\n".encode() + one.body for one in self.house.received[before:]]
        self.exchanges.append(Exchange(f"{method} {path} {str(body)[:300]}", data, b"\n".join(upstream)))
        return data

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
    haul.ask(caller, "GET", "/models")
    haul.ask(caller, "GET", f"/models/{MODEL}")
    haul.ask(caller, "GET", "/models/no-such-model")
    fail(haul, caller, first, talk, listed)
    haul.ask(caller, "DELETE", f"/conversations/{talk}")
    haul.ask(caller, "DELETE", f"/responses/{first}")
    haul.ask(caller, "GET", f"/responses/{first}")


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
    for form in forms:
        kept.append(haul.json(caller, "POST", "/chat/completions", {**said, **form, "store": True}))
        haul.ask(caller, "POST", "/chat/completions", {**said, **form, "stream": True})
    for completion in kept:
        haul.json(caller, "GET", f"/chat/completions/{completion['id']}")
        listed = haul.json(caller, "GET", f"/chat/completions/{completion['id']}/messages")
        haul.json(caller, "GET", f"/chat/completions/{completion['id']}/messages?after={listed['last_id']}")
        haul.json(caller, "POST", f"/chat/completions/{completion['id']}", {"metadata": {"k": "w"}})
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
    for method, path in (("GET", ""), ("GET", "/messages"), ("DELETE", "")):
        haul.ask(caller, method, f"/chat/completions/{kept[0]['id']}{path}")
    haul.json(caller, "DELETE", f"/chat/completions/{kept[1]['id']}")
    for body in ({}, {"stream": True}):
        haul.ask(caller, "POST", "/completions", {"model": MODEL, "prompt": "[[script: quote]] a", **body})
        haul.ask(caller, "POST", "/images/generations", {"prompt": "a coat", "partial_images": 2, **body})
    haul.json(caller, "POST", "/images/generations", {"prompt": "a coat", "response_format": "url"})
    haul.json(caller, "POST", "/embeddings", {"model": MODEL, "input": ["a", "b"], "encoding_format": "base64"})
    haul.json(caller, "POST", "/moderations", {"input": "a"})


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


def every_word() -> list[str]:
    return [
        f"{word}={value}" if value else word
        for word in (*BUILDERS, *MODIFIERS, *SPOILERS)
        for value in VALUES.get(word, ("",))
    ]


@pytest.fixture(scope="module")
def haul(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Haul]:
    yield from hauled(tmp_path_factory.mktemp("data"), IdStyle.HEX50, every_word())


def dump(server: RedisServer) -> Iterator[tuple[str, bytes]]:
    """All keys of Redis with their values, by type, and every command that it has written to its file."""
    client: Any = redis.Redis(unix_socket_path=str(server.socket_path))
    with client:
        for key in client.scan_iter(count=1000):
            match client.type(key):
                case b"string":
                    parts = [client.get(key)]
                case b"hash":
                    parts = [part for pair in client.hgetall(key).items() for part in pair]
                case b"set":
                    parts = list(client.smembers(key))
                case b"zset":
                    parts = client.zrange(key, 0, -1)
                case b"stream":
                    parts = [part for _, pairs in client.xrange(key) for pair in pairs.items() for part in pair]
                case kind:
                    raise AssertionError(f"{key!r} is a {kind!r}, which is not searched")
            yield repr(key), b"\0".join([key, *parts])
    folder = server.socket_path.parent
    files = [path for path in folder.rglob("*") if path.is_file() and "appendonly" in str(path)]
    assert files
    for path in files:
        yield path.name, path.read_bytes()


def test_no_client_received_a_raw_id_in_any_form(haul: Haul) -> None:
    assert len(haul.secrets) > 5000
    assert sum(one.data.startswith(b"HTTP/1.1 200") for one in haul.exchanges) > 150
    leaks = haul.leaks(Search(haul.secrets))
    assert not leaks, "\n".join(leaks[:40])


def test_no_answer_had_to_be_withheld(haul: Haul) -> None:
    """What leaves is right when it reaches the last look; that look is for mistakes."""
    assert [one.what for one in haul.exchanges if b"answer_withheld" in one.data] == []


def test_no_log_line_and_no_metric_holds_a_raw_id_in_any_form(haul: Haul) -> None:
    search = Search(haul.secrets)
    assert b"coatcheck_requests" in haul.metrics
    assert "[id]" in haul.log.getvalue()
    assert search(haul.metrics) == set()
    assert search(haul.log.getvalue().encode()) == set()


def test_redis_holds_no_raw_id_in_any_form_nor_does_the_audit_log(haul: Haul) -> None:
    search, leaks, events = Search(haul.secrets), {}, 0
    for what, data in dump(haul.house.redis):
        events += data.count(b'"targets"')
        if found := search(data):
            leaks[what] = sorted(found)[:3]
    assert events > 200
    assert not leaks, leaks


def test_the_search_finds_a_record_that_is_not_encrypted(haul: Haul) -> None:
    secret = next(raw for raw, issued in haul.house.stand_in.provider.issued.items() if issued.place == "response.id")
    packed = bytes.fromhex(secret.removeprefix("resp_"))
    search = Search(haul.secrets)
    plants = [secret.encode(), packed, secret[::-1].encode(), b"\1\1" + packed + b"\0"]
    names = [f"{{t:x}}:id:response:{number}" for number in range(len(plants))]
    with RedisServer() as server:
        for name, planted in zip(names, plants, strict=True):
            server.command("SET", name, planted)
        found = {what for what, data in dump(server) if search(data)}
    assert {repr(name.encode()) for name in names} < found, "each key, and the file of commands"


def test_the_search_finds_an_id_that_is_split_escaped_or_chunked() -> None:
    secret = "msg_0123456789abcdef006b0d9241ca964e0a362ec6952c46c52c"
    search = Search([secret])
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    chunked = head + b"14\r\n" + secret[:20].encode() + b"\r\n22\r\n" + secret[20:].encode() + b"\r\n0\r\n\r\n"
    escaped = (
        b'HTTP/1.1 200 OK\r\n\r\n{"id": "'
        + secret.replace("_", "\\u005f").replace("0123", "\\u0030123").encode()
        + b'"}'
    )
    events = "".join(
        f'data: {{"type": "d", "item_id": "x", "delta": "{secret[at : at + 5]}"}}\n\n'
        for at in range(0, len(secret), 5)
    )
    for data in (chunked, escaped, b"HTTP/1.1 200 OK\r\n\r\n" + events.encode()):
        assert any(search(reading) for reading in readings(data)), data


@pytest.mark.parametrize("style", [style for style in IdStyle if style is not IdStyle.HEX50])
def test_ids_of_other_servers_stay_inside_too(tmp_path: Path, style: IdStyle) -> None:
    for haul in hauled(tmp_path, style, ["quote", "delta=3"]):
        search = Search(haul.secrets)
        leaks = haul.leaks(search)
        for what, data in [*dump(haul.house.redis), ("log", haul.log.getvalue().encode())]:
            leaks += [f"{what}: {leak}" for leak in search(data)]
        assert not leaks, "\n".join(leaks[:40])
