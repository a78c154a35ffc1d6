"""Opens the store that the settings ask for."""

from __future__ import annotations

from pathlib import Path

from gateway.stores.address import parse_target
from gateway.stores.contract import StoreMisconfigured
from gateway.stores.embedded import open_embedded
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from gateway.stores.server import Durability, Level


async def open_store(
    url: str, data_folder: Path, *, durability: str = "everysec", production: bool = False
) -> RedisStore:
    """The store at `url` (`gateway/stores/address.py`), or the embedded one where it is empty.

    `durability`: `everysec`, `waitaof` or `wait:<replicas>`. `production` refuses the embedded store. Raises StoreError, or
    ValueError for a URL or durability that has no meaning.
    """
    level = Durability.parse(durability)
    if url:
        return RedisStore(await Link.open(LinkSettings(parse_target(url), level), SCRIPTS))
    if production:
        raise StoreMisconfigured("production needs a Redis of its own: set REDIS_URL")
    if level.level is not Level.EVERYSEC:
        raise StoreMisconfigured("the embedded store knows the durability everysec only: set REDIS_URL")
    return await open_embedded(data_folder)
