from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.audit.chain import Writer
from gateway.audit.event import Event
from gateway.audit.search.engine import IndexedSearch
from gateway.names import TenantId
from gateway.stores.address import parse_target
from gateway.stores.contract import Finish
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.redis_fixture import RedisServer, _session_redis_server, own_redis_server, redis_server

__all__ = ["_session_redis_server", "own_redis_server", "redis_server"]

TENANT, OTHER = TenantId("aaaabbbbccccdddd"), TenantId("zzzzyyyyxxxxwwww")


@dataclass(slots=True)
class Logs:
    """Logs of real tenants on a real Redis, and a search over them."""

    server: RedisServer
    store: RedisStore
    folder: Path
    search: IndexedSearch
    writers: int = 0

    async def append(self, events: Iterable[Event]) -> None:
        """As a new writer each time."""
        self.writers += 1
        writer = Writer(f"{self.writers:024x}")
        for event in events:
            writer, entry = writer.next(event)
            await self.store.finish(event.tenant, Finish((entry,)))

    def another(self) -> IndexedSearch:
        """A search of another process on the same folder."""
        return IndexedSearch(self.store, self.folder)


@pytest.fixture
async def logs(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Logs]:
    store = RedisStore(await Link.open(LinkSettings(parse_target(redis_server.url)), SCRIPTS))
    for tenant in (TENANT, OTHER):
        await store.create_tenant(tenant, b"record")
    folder = tmp_path / "search"
    yield Logs(redis_server, store, folder, IndexedSearch(store, folder))
    await store.aclose()
