"""A gateway that receives the stand-in's webhooks, and receivers of tenants that behave as a test says."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from openai import OpenAI

from gateway.admin.ids import Upstream, adopt
from gateway.admin.webhooks import add_webhook
from gateway.demo.stand_in.webhooks import Sender
from gateway.names import Owner, TenantId
from gateway.outgoing import Outgoing, Reach
from gateway.standard_webhooks import headers
from tests.audit.streams.conftest import Receiver, receiving
from tests.gateway_fixture import Deployment, deployment
from tests.redis_fixture import RedisServer, _session_redis_server, own_redis_server, redis_server
from tests.stand_in_fixture import Running, stand_in

__all__ = ["_session_redis_server", "own_redis_server", "redis_server", "stand_in"]

SERVICE_SECRET = "whsec_c2VydmljZS1zZXJ2aWNlLXNlcnZpY2Utc2VydmljZQ=="
FIRST = Upstream("openai", "default")
SETTINGS = {
    "OPENAI_WEBHOOK_SECRET": SERVICE_SECRET,
    "COATCHECK_AUDIT_WEBHOOKS_ON_LOOPBACK": "true",
    "COATCHECK_WEBHOOKS_FIRST_PAUSE_S": "0.1",
    "COATCHECK_WEBHOOKS_LONGEST_PAUSE_S": "0.4",
    "COATCHECK_WEBHOOKS_TIMEOUT_S": "0.5",
}


@dataclass(slots=True)
class Hook:
    """A tenant's webhook, as its receiver knows it."""

    id: str
    secret: str
    receiver: Receiver
    tenant: TenantId

    def events(self, secret: str = "") -> list[dict[str, Any]]:
        """What came, each verified as the official SDK does it."""
        webhooks = OpenAI(api_key="none").webhooks
        for post in self.receiver.posts:
            webhooks.verify_signature(post.body, post.headers, secret=secret or self.secret)
        return [orjson.loads(post.body) for post in self.receiver.posts]

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(one["type"], one["data"]["id"]) for one in self.events()]


@dataclass(slots=True)
class House:
    gateway: Deployment
    stand_in: Running
    stack: contextlib.AsyncExitStack
    hooks: list[Hook] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.gateway.url.removesuffix("/v1") + "/webhooks/openai"

    async def hook(self, tenant: str, status: int = 200, pause_s: float = 0.0) -> Hook:
        """A webhook of the tenant to a receiver of its own."""
        receiver = await self.stack.enter_async_context(receiving(status, pause_s))
        id_ = await self.gateway.tenant(tenant)
        made = await add_webhook(self.gateway.admin, self.gateway.gateway.shared.webhooks, id_, receiver.url)
        self.hooks.append(Hook(made.id, made.secret, receiver, id_))
        return self.hooks[-1]

    async def post(
        self,
        event: Any,
        *,
        secret: str = SERVICE_SECRET,
        id_: str = "",
        at_s: float | None = None,
        more: tuple[tuple[str, str], ...] = (),
        path: str = "/webhooks/openai",
    ) -> int:
        """Sends what the service would; the gateway's status."""
        body = event if isinstance(event, bytes) else orjson.dumps(event)
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = dict(headers(id_ or f"wh_{secrets.token_hex(16)}", (key,), body, int(at_s or time.time())))
        url = self.gateway.url.removesuffix("/v1") + path
        sent = [*{**signed, **dict(more)}.items()]
        return (await Outgoing(Reach.LOOPBACK, timeout_s=30).send("POST", url, headers=sent, body=body)).status

    def event(self, type_: str, raw: str, *, age_s: float = 0.0, **data: Any) -> dict[str, Any]:
        id_ = self.stand_in.provider.ids.new("evt_", place="webhook.id")
        created = int(time.time() - age_s)
        return {"id": id_, "object": "event", "created_at": created, "type": type_, "data": {"id": raw, **data}}

    async def adopt(self, tenant: str, raw: str, at: Upstream = FIRST) -> str:
        """The tenant's own ID of an object that the service has made."""
        id_ = await self.gateway.tenant(tenant)
        return (await adopt(self.gateway.admin, id_, raw, Owner("local", "someone"), at)).text

    async def waiting(self, hook: Hook) -> int:
        return (await self.gateway.gateway.shared.store.webhooks.state(hook.tenant, hook.id)).waiting

    async def operators_sums(self) -> dict[str, int]:
        """What the operator's log says so far, by reason."""
        shared, sums = self.gateway.gateway.shared, dict[str, int]()
        await shared.log.send_sums()
        for _, body in await shared.store.read_operator_events("0", 1000):
            line = orjson.loads(body)
            sums[line["reason"]] = sums.get(line["reason"], 0) + line["count"]
        return sums

    async def log(self, tenant: TenantId) -> list[dict[str, Any]]:
        events = await self.gateway.gateway.shared.store.read_events(tenant, 0, 1000)
        return [orjson.loads(one.body) for one in events]

    def raw(self, prefix: str) -> set[str]:
        return {raw for raw in self.stand_in.provider.issued if raw.startswith(prefix)}


@contextlib.asynccontextmanager
async def house(redis: RedisServer, stand_in: Running, folder: Path, **env: str) -> AsyncIterator[House]:
    async with contextlib.AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(deployment(redis.url, stand_in, folder, **{**SETTINGS, **env}))
        made = House(gateway, stand_in, stack)
        stand_in.provider.send_webhooks(Sender(made.url, SERVICE_SECRET))
        try:
            yield made
        finally:
            stand_in.provider.send_webhooks(None)


@pytest.fixture
async def home(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[House]:
    async with house(redis_server, stand_in, tmp_path) as made:
        yield made


async def finish(client: Any, response_id: str) -> None:
    """Reads a background response until it has ended."""
    async with asyncio.timeout(10):
        while (await client.responses.retrieve(response_id)).status not in ("completed", "failed"):
            pass
