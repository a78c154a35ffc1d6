"""A whole gateway for tests: real Redis, the stand-in provider, the real server, each on a socket of its own.

async with deployment(redis_url, stand_in) as gateway:
    client = gateway.client(await gateway.key("acme", "alice"))
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from gateway.admin.administration import Administration
from gateway.admin.keys import create_key
from gateway.admin.tenants import create_tenant
from gateway.app import Gateway, open_gateway
from gateway.demo.stand_in.server import Running
from gateway.names import Owner, TenantId
from gateway.settings import Settings, load
from gateway.transport.client_socket import ClientSocket
from gateway.transport.http import GatewayApp
from gateway.transport.server import Listen, running
from tests.patience import PATIENT

ROOT_KEY = base64.b64encode(bytes(range(32))).decode()


@dataclass(slots=True)
class Deployment:
    gateway: Gateway
    url: str
    """`http://127.0.0.1:<port>/v1`"""
    settings: Settings
    tenants: dict[str, TenantId] = field(default_factory=dict)
    clients: list[AsyncOpenAI] = field(default_factory=list)

    @property
    def app(self) -> GatewayApp:
        """The gateway's app itself, behind the doors that stand before it."""
        app: Any = self.gateway.app
        while not isinstance(app, GatewayApp):
            app = app.app
        return app

    @property
    def admin(self) -> Administration:
        shared = self.gateway.shared
        return Administration(shared.store, shared.keyring, shared.log, shared.checkpointer)

    async def tenant(self, name: str) -> TenantId:
        if name not in self.tenants:
            self.tenants[name] = await create_tenant(self.admin, name)
        return self.tenants[name]

    async def key(self, tenant: str, subject: str, **more: object) -> str:
        """A new API key of `subject` in `tenant` (made if absent)."""
        return (await create_key(self.admin, await self.tenant(tenant), Owner("local", subject), **more)).key  # type: ignore[arg-type]

    def client(self, key: str) -> AsyncOpenAI:
        client = AsyncOpenAI(api_key=key, base_url=self.url, max_retries=0)
        self.clients.append(client)
        return client


def deployment(
    redis_url: str, upstream: Running, folder: Path, **env: str
) -> contextlib.AbstractAsyncContextManager[Deployment]:
    return deployment_at(redis_url, upstream.api_url, folder, **env)


@contextlib.asynccontextmanager
async def deployment_at(redis_url: str, upstream_url: str, folder: Path, **env: str) -> AsyncIterator[Deployment]:
    settings = await asyncio.to_thread(
        load,
        env={
            "COATCHECK_ROOT_KEY": ROOT_KEY,
            "COATCHECK_DATA": str(folder),
            "REDIS_URL": redis_url,
            "OPENAI_API_KEY": "sk-upstream-secret",
            "OPENAI_BASE_URL": upstream_url,
            **PATIENT,
            **env,
        },
    )
    async with (
        open_gateway(settings) as gateway,
        running(gateway.app, gateway.limits, gateway.drain, Listen(), websocket=ClientSocket) as server,
    ):
        port = server.servers[0].sockets[0].getsockname()[1]
        made = Deployment(gateway, f"http://127.0.0.1:{port}/v1", settings)
        try:
            yield made
        finally:
            for client in made.clients:
                await client.close()


__all__ = ["Deployment", "deployment", "deployment_at"]
