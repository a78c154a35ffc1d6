"""Many webhooks, two replicas of which one ends on the way, and receivers that fail, hang, redirect and hang up: nothing is lost,
nothing reaches another tenant, and no object's events change places.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

from tests.gateway_fixture import deployment
from tests.redis_fixture import RedisServer, until
from tests.stand_in_fixture import Running
from tests.webhooks.conftest import SETTINGS, Hook, House, house

TYPES = ("batch.failed", "batch.expired", "batch.cancelled", "batch.completed")
"""In the order in which each object's events come."""
OBJECTS = 12
"""Of each tenant."""


async def tell(replicas: list[House], rng: random.Random, raw: str) -> None:
    """As the service does: each event until it is taken, by whichever replica."""
    for type_ in TYPES:
        event = replicas[0].event(type_, raw)
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(Exception):  # the replica that was asked may just be ending
                    if await rng.choice(replicas).post(event, id_=f"wh_{type_}_{raw}") == 200:
                        break
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def moody(hooks: list[Hook], rng: random.Random) -> AsyncIterator[None]:
    """The receivers behave, but only now and then, until they are left alone again."""

    async def change() -> None:
        while True:
            for hook in hooks:
                hook.receiver.status = rng.choice((200, 200, 500, 302, 0, -1, 429))
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(change())
        try:
            yield
        finally:
            task.cancel()
    for hook in hooks:
        hook.receiver.status = 200


async def test_nothing_is_lost_goes_astray_or_changes_places(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    rng = random.Random(20)
    async with house(redis_server, stand_in, tmp_path) as home:
        hooks = [await home.hook(tenant) for tenant in ("acme", "bravo", "chary") for _ in range(2)]
        elsewhere = await home.hook("delta")
        for hook in hooks:
            hook.receiver.location = elsewhere.receiver.url
            hook.receiver.status = 500
        objects: dict[str, dict[str, str]] = {}
        for tenant in ("acme", "bravo", "chary"):
            raws = [stand_in.provider.ids.new("batch_", place="made elsewhere") for _ in range(OBJECTS)]
            objects[home.gateway.tenants[tenant]] = {raw: await home.adopt(tenant, raw) for raw in raws}
        replicas = [home]
        async with (
            moody(hooks, rng),
            asyncio.TaskGroup() as group,
            deployment(redis_server.url, stand_in, tmp_path, **SETTINGS) as second,
        ):
            replicas.append(House(second, stand_in, home.stack))
            for raw in (raw for own in objects.values() for raw in own):
                group.create_task(tell(replicas, rng, raw))
            await until(lambda: sum(len(hook.receiver.posts) for hook in hooks) > 100, 30)
            replicas.pop()
        for hook in hooks:
            wanted = {opaque: list(TYPES) for opaque in objects[hook.tenant].values()}
            async with asyncio.timeout(60):
                while await home.waiting(hook):  # noqa: ASYNC110 - what is waited for happens in Redis
                    await asyncio.sleep(0.1)
            assert firsts(hook) == wanted
            ids = {post.headers["webhook-id"] for post in hook.receiver.posts}
            assert len(ids) == OBJECTS * len(TYPES), "what came twice is known by its ID"
        sent, needed = sum(len(hook.receiver.posts) for hook in hooks), len(hooks) * OBJECTS * len(TYPES)
        assert sent > needed, "some were refused at first"
        assert elsewhere.receiver.posts == [], "no redirect was followed"


async def test_nothing_is_lost_where_the_store_ends_and_comes_back(
    own_redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    rng = random.Random(21)
    async with house(own_redis_server, stand_in, tmp_path) as home:
        hook = await home.hook("acme", pause_s=0.1)
        raws = [stand_in.provider.ids.new("batch_", place="made elsewhere") for _ in range(OBJECTS)]
        objects = {raw: await home.adopt("acme", raw) for raw in raws}
        async with asyncio.TaskGroup() as group:
            for raw in raws:
                group.create_task(tell([home], rng, raw))
            for _ in range(3):
                before = len(hook.receiver.posts)
                await until(lambda before=before: len(hook.receiver.posts) > before + 2, 20)  # type: ignore[misc]
                own_redis_server.kill()
                await asyncio.sleep(0.2)
                await asyncio.to_thread(own_redis_server.start)
        wanted = {opaque: list(TYPES) for opaque in objects.values()}
        await until(lambda: firsts(hook) == wanted, 40)


def firsts(hook: Hook) -> dict[str, list[str]]:
    """By object, the types of its events in the order in which each came first; all of them verified."""
    seen: dict[str, list[str]] = {}
    for type_, id_ in hook.said:
        if type_ not in seen.setdefault(id_, []):
            seen[id_].append(type_)
    return seen
