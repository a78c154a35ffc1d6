"""A store on a real server, with one tenant."""

from __future__ import annotations

from gateway.names import TenantId
from gateway.stores.address import parse_target
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from gateway.stores.server import Durability

TENANT = TenantId("aaaabbbbccccdddd")


async def open_store(url: str, durability: str = "everysec", **options: float) -> RedisStore:
    settings = LinkSettings(parse_target(url), Durability.parse(durability), **options)  # type: ignore[arg-type]
    store = RedisStore(await Link.open(settings, SCRIPTS, timeout_s=2))
    await store.create_tenant(TENANT, b"record")
    return store
