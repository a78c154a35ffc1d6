"""Streams on a real Redis, to receivers that behave as a test says."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson
import pytest

from gateway.audit.chain import Writer
from gateway.audit.event import Actor, Event, Outcome, Phase, RequestFacts, Result
from gateway.audit.genuine import event_key
from gateway.audit.streams.batch import Format
from gateway.audit.streams.deliver import Deliverer, DeliverySettings
from gateway.audit.streams.registry import Streams
from gateway.ids.keys import AuditKeys, LocalRoot, Versions
from gateway.names import TenantId
from gateway.outgoing import Outgoing, Reach
from gateway.stores.address import parse_target
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.contract import Finish
from gateway.stores.keyring import Keyring
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.redis_fixture import RedisServer, _session_redis_server, own_redis_server, redis_server

__all__ = ["_session_redis_server", "own_redis_server", "redis_server"]

TENANT, OTHER = TenantId("aaaabbbbccccdddd"), TenantId("zzzzyyyyxxxxwwww")
QUICK = DeliverySettings(
    batch_events=10, lease_s=5.0, poll_s=0.02, discover_s=0.05, first_pause_s=0.05, longest_pause_s=0.2
)


@dataclass(slots=True)
class Post:
    headers: dict[str, str]
    body: bytes

    @property
    def elements(self) -> list[dict[str, Any]]:
        elements: list[dict[str, Any]] = orjson.loads(self.body)
        return elements

    @property
    def seqs(self) -> list[int]:
        return [element["seq"] for element in self.elements]

    def verify(self, secret: str) -> None:
        """As a receiver does that has read Standard Webhooks."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert self.headers["webhook-signature"] == f"v1,{expected}"


@dataclass(slots=True)
class Receiver:
    """Answers with `status`; 0: takes the request and says nothing, -1: hangs up. A body with `refused` in it gets a 500."""

    status: int = 200
    port: int = 0
    posts: list[Post] = field(default_factory=list)
    underway: int = 0
    most_underway: int = 0
    pause_s: float = 0.0
    refused: bytes = b""
    location: str = ""
    """Where its redirects lead."""
    open: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=hush"

    @property
    def seqs(self) -> list[int]:
        return [seq for post in self.posts for seq in post.seqs]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self.open.add(task)
            task.add_done_callback(self.open.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = (line.partition(":") for line in head[1:] if line)
            headers = {name.lower(): value.strip() for name, _, value in fields}
            self.underway += 1
            self.most_underway = max(self.most_underway, self.underway)
            body = await reader.readexactly(int(headers["content-length"]))
            self.posts.append(Post(headers, body))
            await asyncio.sleep(self.pause_s)
            self.underway -= 1
            status = 500 if self.refused and self.refused in body else self.status
            if status == 0:
                await reader.read()
            elif status > 0:
                location = f"Location: {self.location}\r\n".encode() if self.location else b""
                writer.write(b"HTTP/1.1 %d X\r\n%bContent-Length: 0\r\n\r\n" % (status, location))
                await writer.drain()


class Delivers(Protocol):
    async def run_forever(self) -> None: ...


@contextlib.asynccontextmanager
async def receiving(status: int = 200, pause_s: float = 0.0) -> AsyncIterator[Receiver]:
    made = Receiver(status, pause_s=pause_s)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made
        for task in list(made.open):
            task.cancel()
        await asyncio.gather(*made.open, return_exceptions=True)


@contextlib.asynccontextmanager
async def delivering(*deliverers: Delivers) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run_forever()) for one in deliverers]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


@dataclass(slots=True)
class Stage:
    server: RedisServer
    store: RedisStore
    keyring: AuditKeyring
    streams: Streams
    outgoing: Outgoing
    writers: int = 0

    async def keys(self, tenant: TenantId = TENANT) -> Versions[AuditKeys]:
        return await self.keyring.tenant(tenant)

    async def add(
        self, receiver: Receiver, tenant: TenantId = TENANT, format_: Format = Format.JSON, *, from_start: bool = True
    ) -> tuple[str, str]:
        made = await self.streams.add(tenant, await self.keys(tenant), receiver.url, format_, from_start=from_start)
        return made.id, made.secret

    def deliverer(self, settings: DeliverySettings = QUICK) -> Deliverer:
        """Of another replica each time."""
        return Deliverer(self.store, self.streams, self.keyring, settings)

    async def append(self, number: int, tenant: TenantId = TENANT) -> None:
        self.writers += 1
        writer, key = Writer(f"{self.writers:024x}"), event_key(await self.keys(tenant))
        for at in range(number):
            actor = Actor("user", "a" * 24, "https://idp.example", "jwt")
            facts = RequestFacts(f"req_{self.writers}_{at}", "POST", "/responses")
            outcome = Outcome(Result.DENY, "not_owned", 404)
            event = Event(tenant, 1_790_000_000_000_000 + at, "responses.create", Phase.SINGLE, actor, facts, outcome)
            writer, entry = writer.next(event, key)
            await self.store.finish(tenant, Finish((entry,)))

    def trim(self, below: int) -> None:
        self.server.command("XTRIM", f"{{t:{TENANT}}}:aud", "MINID", f"0-{below}")

    def cut(self, newest: int) -> None:
        """As after a failover: what is above `newest` is gone."""
        for seq in range(newest + 1, newest + 200):
            self.server.command("XDEL", f"{{t:{TENANT}}}:aud", f"0-{seq}")
        # A stream refuses IDs below the highest that it ever had; a replica never had them.
        self.server.command("XSETID", f"{{t:{TENANT}}}:aud", f"0-{newest}")
        self.server.command("HSET", f"{{t:{TENANT}}}:meta", "seq", newest)


@pytest.fixture
async def stage(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Stage]:
    store = RedisStore(await Link.open(LinkSettings(parse_target(redis_server.url)), SCRIPTS))
    root = LocalRoot(b"r" * 32)
    keyring = Keyring(store, root, root.audit_root(), tmp_path / "erasures")
    await keyring.create_deployment()
    for tenant in (TENANT, OTHER):
        await store.create_tenant(tenant, b"record")
        await keyring.create_tenant(tenant)
    outgoing = Outgoing(Reach.LOOPBACK, timeout_s=0.5)
    audit_keys = AuditKeyring(store, root.audit_root(), tmp_path / "erasures", max_age_s=0.0)
    yield Stage(redis_server, store, audit_keys, Streams(store.streams, outgoing), outgoing)
    await store.aclose()
