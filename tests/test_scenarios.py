"""Plays `tests/scenarios/<surface>/<name>.txt`: what a client sends, what goes upstream, what comes back, and what is on record.

A scenario is a title and exchanges, each in five parts:

    alice: POST /v1/responses        the request, by whom (alice and carol of one tenant, bob of another); then its body
    upstream: POST /responses        what the upstream must receive, or `upstream: nothing`
    answers: 200                     what the upstream answers, where it is asked; `text/event-stream` may follow
    client: 200                      what the client must read
    audit: intent, allow             what the log must say of it, in order: `intent`, or result and reason

`POST /v1/files as a form` sends the members of the body as parts, in their order; an object of `filename` and `data` is a file,
and the upstream's part tells of one like that.

`resp_(one)` is a raw ID, `resp_[one]` its opaque ID; `*` as a JSON value stands for any. Members that a part does not name may
be there, unless their value is given as `absent`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gateway.demo.stand_in.forms import read as read_form
from tests.audit.walker import walk
from tests.forms import Form, file, form, text
from tests.gateway_fixture import Deployment, deployment_at
from tests.redis_fixture import RedisServer, _session_redis_server, redis_server

__all__ = ["_session_redis_server", "redis_server"]

FOLDER = Path(__file__).parent / "scenarios"
TENANT_OF = {"alice": "acme", "carol": "acme", "bob": "bravo"}
PARTS = ("upstream", "answers", "client", "audit")
_RAW = re.compile(r"([a-z]+[_:-])\(([a-z0-9]+)\)")
_OPAQUE = re.compile(r"([a-z]+[_:-])\[([a-z0-9]+)\]")
_START = re.compile(r"(alice|carol|bob|upstream|answers|client|audit): (.*)")


@dataclass
class Part:
    who: str
    line: str
    body: str = ""


def read(text: str) -> list[list[Part]]:
    """The exchanges of a scenario; raises ValueError where one lacks a part or has them in another order."""
    parts: list[Part] = []
    for line in text.splitlines()[1:]:
        if start := _START.fullmatch(line):
            parts.append(Part(start[1], start[2]))
        elif line.strip() and parts:
            parts[-1].body += line + "\n"
    exchanges: list[list[Part]] = []
    for part in parts:
        if part.who in TENANT_OF:
            exchanges.append([])
        exchanges[-1].append(part)
    for exchange in exchanges:
        names = [part.who for part in exchange[1:]]
        expected = [name for name in PARTS if name != "answers" or exchange[1].line != "nothing"]
        if names != expected:
            raise ValueError(f"an exchange has the parts {names} instead of {expected}")
    return exchanges


def with_raw_ids(text: str) -> str:
    return _RAW.sub(lambda found: found[1] + hashlib.sha256(found[2].encode()).hexdigest()[:50], text)


def events(stream: str) -> list[Any]:
    """The values of a stream's events; `[DONE]`, which is no JSON, as it stands."""
    datas = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]


@dataclass
class Upstream:
    """Answers what it was told to, and remembers what it was asked."""

    received: list[tuple[str, bytes]] = field(default_factory=list)
    answer: bytes = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if "transfer-encoding: chunked" in head:
                    body = await _chunks(reader)
                if kind := re.search(r"content-type: (multipart/\S+ boundary=\S+)", head):
                    body = _told(kind[1], body)
                self.received.append((head.partition(" HTTP/1.1")[0], body))
                writer.write(self.answer)
                await writer.drain()
        writer.close()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


def _told(content_type: str, body: bytes) -> bytes:
    """A form as the JSON that scenarios tell of it."""
    sent = read_form(content_type, body)
    files = {name: {"filename": one.filename, "data": one.data.decode()} for name, (one,) in sent.files.items()}
    return json.dumps({**sent.texts, **files}).encode()


def form_of(body: str) -> Form:
    """A form of the members of a JSON object."""
    parts = [
        file(name, value["data"].encode(), value["filename"]) if isinstance(value, dict) else text(name, value)
        for name, value in json.loads(body).items()
    ]
    return form(*parts)


@dataclass
class Player:
    gateway: Deployment
    redis: RedisServer
    upstream: Upstream
    http: httpx2.AsyncClient
    keys: dict[str, str] = field(default_factory=dict)
    opaque: dict[str, str] = field(default_factory=dict)

    async def play(self, exchange: list[Part]) -> None:
        request, forwarded, *answers, client, audit = exchange
        self.upstream.received.clear()
        if answers:
            self.upstream.answer = self._answer(answers[0])
        if request.who not in self.keys:
            self.keys[request.who] = await self.gateway.key(TENANT_OF[request.who], request.who)
        line, as_form, _ = self._sent(request.line).partition(" as a form")
        method, path = line.split(" ", 1)
        content_type, content = "application/json", self._sent(request.body).encode()
        if as_form:
            made = form_of(content.decode())
            content_type, content = made.content_type, made.content
        reply = await self.http.request(
            method,
            self.gateway.url.removesuffix("/v1") + path,
            headers={"authorization": f"Bearer {self.keys[request.who]}", "content-type": content_type},
            content=content or None,
        )
        self._check_upstream(forwarded)
        self._check_client(client, reply, self._sent(request.line + request.body))
        tenant = await self.gateway.tenant(TENANT_OF[request.who])
        events = await asyncio.to_thread(walk, self.redis, tenant)
        said = [
            "intent"
            if one["phase"] == "intent"
            else " ".join(filter(None, map(one["outcome"].get, ("result", "reason"))))
            for one in events
            if (one["request"] or {}).get("id") == reply.headers["x-request-id"]
        ]
        assert ", ".join(said) == audit.line

    def _sent(self, text: str) -> str:
        return _OPAQUE.sub(lambda found: self.opaque.get(found[0], found[0]), with_raw_ids(text))

    def _answer(self, part: Part) -> bytes:
        status, _, media_type = part.line.partition(" ")
        body = with_raw_ids(part.body)
        if media_type:
            body = body.replace("\ndata:", "\n\ndata:") + "\n"
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {media_type or 'application/json'}\r\ncontent-length: {len(body.encode())}"
        return f"{head}\r\n\r\n{body}".encode()

    def _check_upstream(self, part: Part) -> None:
        if part.line == "nothing":
            assert self.upstream.received == []
            return
        [(line, body)] = self.upstream.received
        assert line.replace(" /v1", " ", 1) == with_raw_ids(part.line)
        if part.body:
            self._compare(json.loads(with_raw_ids(part.body)), json.loads(body), "upstream")
        assert not _OPAQUE.search(part.body), "nothing opaque goes upstream"

    def _check_client(self, part: Part, reply: httpx2.Response, sent: str) -> None:
        assert reply.status_code == int(part.line), reply.text
        expected: Any = events(part.body)
        if expected:
            found: Any = events(reply.text)
        else:
            expected, found = json.loads(part.body), reply.json()
        self._compare(expected, found, "client")
        # An error repeats what the client itself sent, and nothing else may be raw.
        raw = set(re.findall("[0-9a-f]{50}", reply.text)) - set(re.findall("[0-9a-f]{50}", sent))
        assert not raw, "a raw ID reached the client"

    def _compare(self, expected: Any, found: Any, place: str) -> None:
        """Raises AssertionError naming the place. An opaque ID that is seen for the first time is learnt."""
        if expected == "*":
            return
        if isinstance(expected, str) and (name := _OPAQUE.fullmatch(expected)):
            assert isinstance(found, str), place
            assert re.fullmatch(rf"{name[1]}[0-9A-Za-z]{{34}}", found), f"{place}: {found} is no opaque ID"
            assert self.opaque.setdefault(expected, found) == found, place
        elif isinstance(expected, dict):
            assert isinstance(found, dict), place
            for key, value in expected.items():
                assert (key in found) is (value != "absent"), f"{place}.{key}"
                if value != "absent":
                    self._compare(value, found[key], f"{place}.{key}")
        elif isinstance(expected, list):
            assert isinstance(found, list), place
            assert len(found) == len(expected), place
            for index, (one, other) in enumerate(zip(expected, found, strict=True)):
                self._compare(one, other, f"{place}[{index}]")
        else:
            text = self._sent(expected) if isinstance(expected, str) else expected
            assert found == text, f"{place}: {found!r} instead of {text!r}"


@contextlib.asynccontextmanager
async def player(redis: RedisServer, folder: Path) -> AsyncIterator[Player]:
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with (
        deployment_at(redis.url, url, folder) as gateway,
        httpx2.AsyncClient(timeout=10, trust_env=False) as http,
    ):
        yield Player(gateway, redis, upstream, http)
    server.close()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/*.txt")), ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_scenario(path: Path, redis_server: RedisServer, tmp_path: Path) -> None:
    exchanges = read(await asyncio.to_thread(path.read_text))
    assert exchanges
    async with player(redis_server, tmp_path) as at:
        for exchange in exchanges:
            await at.play(exchange)


def test_a_scenario_without_one_of_its_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="parts"):
        read("title\nalice: GET /v1/models\nupstream: GET /models\nclient: 200\naudit: intent, allow\n")
