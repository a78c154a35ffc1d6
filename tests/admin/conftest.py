"""An operator's desk on a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.admin.administration import Administration
from gateway.audit.log import AuditLog
from gateway.authn.api_key import ApiKeyAuthenticator
from gateway.ids.keys import LocalRoot
from gateway.names import TenantId
from gateway.stores.address import parse_target
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.keyring import Keyring
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.redis_fixture import RedisServer, own_redis_server

__all__ = ["own_redis_server"]


@dataclass
class Desk:
    server: RedisServer
    admin: Administration
    authenticator: ApiKeyAuthenticator

    async def events(self, tenant: TenantId) -> list[dict[str, Any]]:
        return [orjson.loads(stored.body) for stored in await self.admin.store.read_events(tenant, 0, 1000)]

    async def story(self, tenant: TenantId) -> list[str]:
        """The tenant's events in short: `type phase` and, where there is one, the result."""
        return [
            f"{event['type']} {event['phase']} {(event['outcome'] or {}).get('result', '')}".strip()
            for event in await self.events(tenant)
        ]

    def dump(self) -> str:
        """Every key and value of the store, as text."""
        parts = []
        for name in self.server.command("KEYS", "*"):
            parts.append(repr(name))
            parts.append(repr(self.server.command("DUMP", name)))
            kind = self.server.command("TYPE", name)
            if kind == b"hash":
                parts.append(repr(self.server.command("HGETALL", name)))
            elif kind == b"stream":
                parts.append(repr(self.server.command("XRANGE", name, "-", "+")))
            elif kind == b"string":
                parts.append(repr(self.server.command("GET", name)))
        return "\n".join(parts)


@pytest.fixture
async def desk(own_redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Desk]:
    store = RedisStore(await Link.open(LinkSettings(parse_target(own_redis_server.url)), SCRIPTS))
    root = LocalRoot(b"r" * 32)
    keyring = Keyring(store, root, root.audit_root(), tmp_path / "erasures")
    await keyring.create_deployment()
    log = AuditLog(store, AuditKeyring(store, root.audit_root(), tmp_path / "erasures"))
    yield Desk(own_redis_server, Administration(store, keyring, log), ApiKeyAuthenticator(store, keyring))
    await log.aclose()
    await store.aclose()
