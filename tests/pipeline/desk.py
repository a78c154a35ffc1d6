"""A whole gateway at which a test calls as several people: real Redis, the stand-in provider, the real server.

`alice` and `carol` are users of the tenant `acme`, `bob` one of `bravo`. `reply.json()["error"]` is a refusal's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gateway.admin.administration import Administration
from gateway.demo.stand_in.provider import Received
from gateway.demo.stand_in.server import Running, running
from gateway.names import TenantId
from tests.audit.walker import walk
from tests.forms import Form
from tests.gateway_fixture import Deployment, deployment
from tests.redis_fixture import RedisServer

MODEL = "gpt-5"
TENANT_OF = {"alice": "acme", "carol": "acme", "bob": "bravo"}


@dataclass(slots=True)
class Desk:
    gateway: Deployment
    redis: RedisServer
    stand_in: Running
    http: httpx2.AsyncClient
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.gateway.url.rsplit(":", 1)[1].split("/")[0])

    @property
    def admin(self) -> Administration:
        return self.gateway.admin

    async def headers(self, who: str = "alice", **more: str) -> dict[str, str]:
        if who not in self.keys:
            self.keys[who] = await self.gateway.key(TENANT_OF[who], who)
        return {"authorization": f"Bearer {self.keys[who]}", **{k.replace("_", "-"): v for k, v in more.items()}}

    async def tenant(self, who: str = "alice") -> TenantId:
        return await self.gateway.tenant(TENANT_OF[who])

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        who: str = "alice",
        *,
        content: bytes | None = None,
        **headers: str,
    ) -> httpx2.Response:
        """`path` below `/v1`; `body` goes as JSON or as the form that it is, `content` as it is."""
        sent = await self.headers(who, **headers)
        if isinstance(body, Form):
            sent["content-type"], content = body.content_type, body.content
        elif body is not None:
            sent.setdefault("content-type", "application/json")
            content = json.dumps(body).encode()
        return await self.http.request(method, self.gateway.url + path, headers=sent, content=content)

    async def create(self, script: str = "", who: str = "alice", **body: Any) -> httpx2.Response:
        """`POST /responses` whose answer the stand-in's script words make."""
        content = {"model": MODEL, "input": "hello", **body}
        if script:
            self.script(script)
        return await self.call("POST", "/responses", content, who)

    async def created(self, script: str = "", who: str = "alice", **body: Any) -> dict[str, Any]:
        reply = await self.create(script, who, **body)
        assert reply.status_code == 200, reply.text
        made: dict[str, Any] = reply.json()
        return made

    @contextlib.asynccontextmanager
    async def stream(self, script: str = "", who: str = "alice", **body: Any) -> AsyncIterator[httpx2.Response]:
        if script:
            self.script(script)
        content = json.dumps({"model": MODEL, "input": "hello", "stream": True, **body}).encode()
        headers = await self.headers(who, content_type="application/json")
        async with self.http.stream("POST", f"{self.gateway.url}/responses", headers=headers, content=content) as reply:
            yield reply

    async def streamed(self, script: str = "", who: str = "alice", **body: Any) -> bytes:
        async with self.stream(script, who, **body) as reply:
            assert reply.status_code == 200, await reply.aread()
            return await reply.aread()

    def script(self, words: str) -> None:
        """What the stand-in does with its next answer."""
        self.stand_in.provider.next_answer(words)

    @property
    def upstream(self) -> list[Received]:
        """What the stand-in has received."""
        return self.stand_in.provider.received

    async def log(self, who: str = "alice") -> list[dict[str, Any]]:
        """The tenant's log, checked for gaps and broken chains."""
        tenant = await self.tenant(who)
        return await asyncio.to_thread(walk, self.redis, tenant)

    async def outcomes(self, request_id: str, who: str = "alice") -> list[tuple[str, str, int]]:
        """Result, reason and status of a request's outcomes, in order."""
        return [
            (one["outcome"]["result"], one["outcome"]["reason"], one["outcome"]["status"])
            for one in await self.log(who)
            if one["request"] and one["request"]["id"] == request_id and one["phase"] != "intent"
        ]

    async def last_outcome(self, who: str = "alice") -> tuple[str, str]:
        """Result and reason of the newest outcome."""
        ending = next(one["outcome"] for one in reversed(await self.log(who)) if one["phase"] != "intent")
        return ending["result"], ending["reason"]

    async def unanswered(self, who: str = "alice") -> list[str]:
        """Request IDs of intents that have no outcome but `accepted`."""
        events = [one for one in await self.log(who) if one["request"]]
        ended = {
            one["request"]["id"]
            for one in events
            if one["phase"] == "outcome" and one["outcome"]["result"] != "accepted"
        }
        return [
            one["request"]["id"] for one in events if one["phase"] == "intent" and one["request"]["id"] not in ended
        ]

    async def until(self, true: Any, timeout_s: float = 5.0) -> Any:
        """What the coroutine function `true` gives as soon as it is true."""
        async with asyncio.timeout(timeout_s):
            while not (value := await true()):  # noqa: ASYNC110 - it is another process that changes
                await asyncio.sleep(0.02)
        return value


@contextlib.asynccontextmanager
async def desk(
    redis: RedisServer, stand_in: Running, folder: Path, *, redis_url: str = "", **env: str
) -> AsyncIterator[Desk]:
    limits = httpx2.Limits(max_connections=None)
    async with (
        deployment(redis_url or redis.url, stand_in, folder, **env) as gateway,
        httpx2.AsyncClient(timeout=10, limits=limits, trust_env=False) as http,
    ):
        yield Desk(gateway, redis, stand_in, http)


@pytest.fixture(scope="session")
def _session_stand_in() -> Iterator[Running]:
    with running() as server:
        yield server


@pytest.fixture
def stand_in(_session_stand_in: Running) -> Running:
    """The run's stand-in, which has forgotten everything."""
    _session_stand_in.provider.reset()
    return _session_stand_in


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The JSON of a stream's events, comments left out."""
    return [json.loads(line[5:]) for line in data.decode().splitlines() if line.startswith("data:")]
