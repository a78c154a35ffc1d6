"""A gateway with its admin API, each on a real server, and receivers of tenants."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from gateway.admin_api.route import Row
from gateway.admin_api.table import ROWS
from gateway.app import desk_of
from gateway.names import TenantId
from gateway.operating import admin_api
from gateway.transport.server import Listen, running
from tests.audit.streams.conftest import Receiver, receiving
from tests.gateway_fixture import Deployment, deployment
from tests.patience import AS_SHIPPED
from tests.redis_fixture import RedisServer, _session_redis_server, own_redis_server, redis_server
from tests.stand_in_fixture import Running, stand_in

__all__ = ["_session_redis_server", "own_redis_server", "redis_server", "stand_in"]

TOKEN = base64.b64encode(bytes(range(200, 232))).decode()
SETTINGS = {
    "COATCHECK_ADMIN_ENABLED": "true",
    "COATCHECK_ADMIN_TOKEN": TOKEN,
    "COATCHECK_AUDIT_WEBHOOKS_ON_LOOPBACK": "true",
}


@dataclass(slots=True)
class House:
    gateway: Deployment
    server: RedisServer
    operator: httpx2.AsyncClient
    """With the admin credential."""
    public: httpx2.AsyncClient
    """On the gateway's own port, with no credential."""
    receiver: Receiver

    async def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> dict[str, Any]:
        """What the admin API answers. An answer that went well has the members that the table says, and no others."""
        return self._checked(await self.operator.request(method, path, json=body), row_of(method, path), status)

    async def own(self, key: str, method: str, path: str, body: Any = None, *, status: int = 200) -> dict[str, Any]:
        """What the gateway answers to a tenant's own service."""
        headers = {"authorization": f"Bearer {key}"}
        answer = await self.public.request(method, f"/tenant{path}", json=body, headers=headers)
        return self._checked(answer, row_of(method, f"/tenants/x{path}"), status)

    @staticmethod
    def _checked(answer: httpx2.Response, row: Row | None, status: int) -> dict[str, Any]:
        assert answer.status_code == status, answer.text
        assert answer.headers["cache-control"] == "no-store"
        assert re.fullmatch(r"req_[0-9a-f]{32}", answer.headers["x-request-id"])
        told: dict[str, Any] = answer.json()
        if status < 400:
            assert row is not None
            assert set(told) == set(row.answer)
            assert answer.status_code == row.status
        else:
            assert set(told) == {"error"}
            assert set(told["error"]) == {"message", "type", "param", "code"}
        return told

    def a_second_later(self) -> None:
        """For what is allowed once a second."""
        trials = self.gateway.gateway.shared.webhooks.trials
        before = trials._clock
        trials._clock = lambda: before() + 1

    async def service(self, tenant: str, *scopes: str) -> str:
        """The key of a service of the tenant's."""
        return await self.gateway.key(tenant, "robot", service=True, scopes=scopes)

    async def events(self, tenant: TenantId, what: str = "") -> list[dict[str, Any]]:
        """The tenant's events of that subject, those with an outcome."""
        read = [orjson.loads(stored.body) for stored in await self.gateway.admin.store.read_events(tenant, 0, 1000)]
        return [one for one in read if one["type"].startswith(what) and one["outcome"]]


def row_of(method: str, path: str) -> Row | None:
    for row in ROWS:
        pattern = re.sub(r"\{\w+\}", "[^/]+", row.path)
        if row.method == method and re.fullmatch(pattern, path):
            return row
    return None


@pytest.fixture
async def house(own_redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[House]:
    async with opened(own_redis_server, stand_in, tmp_path) as made:
        yield made


@pytest.fixture
async def impatient(own_redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[House]:
    """As `house`, but Redis may hang."""
    async with opened(own_redis_server, stand_in, tmp_path, **AS_SHIPPED) as made:
        yield made


@contextlib.asynccontextmanager
async def opened(redis: RedisServer, stand_in: Running, folder: Path, **env: str) -> AsyncIterator[House]:
    async with (
        deployment(redis.url, stand_in, folder, **SETTINGS, **env) as gateway,
        running(
            admin_api(gateway.settings, desk_of(gateway.settings, gateway.gateway.shared)),
            gateway.gateway.limits,
            listen=Listen(),
        ) as server,
        httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{server.port}", headers={"authorization": f"Bearer {TOKEN}"}
        ) as operator,
        httpx2.AsyncClient(base_url=gateway.url.removesuffix("/v1")) as public,
        receiving(200) as receiver,
    ):
        yield House(gateway, redis, operator, public, receiver)
