"""The link to a real cluster of three primaries, and to a primary that Sentinels name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from gateway.names import Kind, TenantId
from gateway.stores.address import parse_target
from gateway.stores.contract import Begin, Entry, Finish, Found, Lookup, Mode, StoreUnavailable, Stretch, Write
from gateway.stores.keyspace import tenant_keys
from gateway.stores.link import Link
from gateway.stores.log import Signed
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from gateway.stores.webhooks import DeadLetter, Message, Put, WebhookState
from tests.redis_fixture import RedisServer, free_port, replicate, until

TENANTS = [TenantId(f"tenant{n:010d}") for n in range(24)]
RANGES = ((0, 5460), (5461, 10922), (10923, 16383))
ROOT, H, CHILD_H = b"\x01\x01\x00root", b"\x07" * 16, b"\x08" * 16
CHILD = b"\x01\x01\x01" + H + b"child"


def cluster_port() -> int:
    """A port whose bus port (10,000 above) exists too."""
    while (port := free_port()) > 55_000:
        pass
    return port


@pytest.fixture(scope="module")
def cluster() -> Iterator[list[RedisServer]]:
    with ExitStack() as stack:
        nodes = []
        for _ in RANGES:
            server = RedisServer(
                tcp=True, port=cluster_port(), options=("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
            )
            nodes.append(stack.enter_context(server))
        for node, (first, last) in zip(nodes, RANGES, strict=True):
            node.command("CLUSTER", "ADDSLOTS", *range(first, last + 1))
            node.command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        asyncio.run(until(lambda: all(serves(node) for node in nodes)))
        yield nodes


def serves(node: RedisServer) -> bool:
    return b"cluster_state:ok" in node.command("CLUSTER", "INFO")


@pytest.fixture
async def store(cluster: list[RedisServer]) -> AsyncIterator[RedisStore]:
    for node in cluster:
        node.command("FLUSHALL")
    # The settings name one node only; the others are learnt.
    target = parse_target(f"redis+cluster://127.0.0.1:{cluster[1].port}")
    store = RedisStore(await Link.open(LinkSettings(target), SCRIPTS))
    yield store
    await store.aclose()


async def test_a_logs_checkpoints_records_and_purge_stay_in_the_tenants_slot(store: RedisStore) -> None:
    for tenant in TENANTS[:6]:
        await store.create_tenant(tenant, b"record")
        await use(store, tenant, 1, 2)
        assert await store.log.put_checkpoint(tenant, Signed(0, 0, 4, "note", b"tree", "keys", b"e4", b"leaf"))
        assert await store.log.set_anchored(tenant, 0, 4)
        assert await store.log.trim(tenant, 1, b"base")
        await store.log.set_rules(tenant, days=3)
    for tenant in TENANTS[:6]:
        records = [data async for _, data in store.log.records(tenant)]
        assert records.count(CHILD) == len(records) // 2
        assert await store.log.purge(tenant) > 0
        state = await store.log.state(tenant)
        assert state is not None
        assert (state.size, state.anchored, state.trimmed) == (4, 4, 1)
        assert [event.seq for event in await store.read_events(tenant, 0, 9)] == [2, 3, 4]


def node_of(cluster: list[RedisServer], slot: int) -> int:
    return next(i for i, (first, last) in enumerate(RANGES) if first <= slot <= last)


async def use(store: RedisStore, tenant: TenantId, first_wseq: int, pairs: int) -> list[int]:
    """Begins and finishes, without waiting in between; the sequence numbers."""
    calls = []
    for n in range(pairs):
        wseq = first_wseq + 2 * n
        lookups = (Lookup(Kind.RESPONSE, b"\x01" * 16), Lookup(Kind.ITEM, CHILD_H))
        calls.append(store.begin(tenant, Begin(Entry("w", wseq, b"e%d" % wseq), lookups=lookups)))
        calls.append(store.finish(tenant, Finish((Entry("w", wseq + 1, b"e%d" % (wseq + 1)),))))  # type: ignore[arg-type]
        await asyncio.sleep(0.001)
    return [answer.seq for answer in await asyncio.gather(*calls)]


async def test_every_tenants_lists_lie_beside_its_records(store: RedisStore) -> None:
    for tenant in TENANTS:
        assert await store.create_tenant(tenant, b"record")
        for n, scope in enumerate(("tenant", "alice"), 1):
            write = Write(Kind.FILE, bytes([n]) * 16, ROOT, 60, Mode.CREATE, scope)
            await store.finish(tenant, Finish((Entry("w", n, b"e%d" % n),), (write,), 1))
        stretch = Stretch(Kind.FILE, ("alice", "tenant"), 9, True)
        assert [row.h[0] for row in (await store.read_rows(tenant, stretch)).rows] == [2, 1]
        stretch.after = b"\x02" * 16
        begun = await store.begin(tenant, Begin(Entry("w", 3, b"e3"), stretch=stretch))
        assert begun.rows is not None
        assert [row.h[0] for row in begun.rows.rows] == [1]


async def test_webhooks_and_what_waits_for_them_lie_beside_their_tenants(store: RedisStore) -> None:
    for tenant in TENANTS[:6]:
        assert await store.create_tenant(tenant, b"record")
        assert await store.webhooks.add(tenant, "hook_1", b"sealed", 4)
        for lane in ("aa", "bb"):
            message = Message(f"msg_{lane}", lane, 1, "sealed")
            assert await store.webhooks.put(tenant, "hook_1", message, 10) is Put.TAKEN
        leased = await store.webhooks.lease(tenant, "hook_1", "owner", 60)
        assert leased is not None
        dead = DeadLetter(leased.message, 2, 1, "no")
        assert await store.webhooks.bury(tenant, "hook_1", "owner", dead, 10, 0.0)
        assert await store.webhooks.dead(tenant, "hook_1") == (dead,)
        await store.webhooks.wake(tenant, "hook_1")
        assert await store.webhooks.lease(tenant, "hook_1", "owner", 60)
    assert await store.webhooks.tenants() == set(TENANTS[:6])
    for tenant in TENANTS[:6]:
        assert await store.webhooks.remove(tenant, "hook_1")
        assert await store.webhooks.state(tenant, "hook_1") == WebhookState()


async def test_tenants_spread_over_the_nodes_and_each_lives_on_one(
    cluster: list[RedisServer], store: RedisStore
) -> None:
    for tenant in TENANTS:
        await store.create_tenant(tenant, b"record")
        writes = (Write(Kind.RESPONSE, H, ROOT, None, Mode.CREATE), Write(Kind.ITEM, CHILD_H, CHILD, None, Mode.CREATE))
        await store.finish(tenant, Finish((Entry("w", 1, b"e1"),), writes, 1))
        begun = await store.begin(
            tenant, Begin(Entry("w", 2, b"e2"), lookups=(Lookup(Kind.ITEM, CHILD_H),), open_until_s=9)
        )
        assert begun.found == (Found(CHILD, ROOT),)
        assert [event.body for event in await store.read_events(tenant, 0, 9)] == [b"e1", b"e2"]
    assert all(node.command("DBSIZE") > 0 for node in cluster)
    for tenant in TENANTS:
        homes = [node for node in cluster if node.command("KEYS", f"{{t:{tenant}}}:*")]
        assert len(homes) == 1
    assert {tenant async for tenant, _ in store.tenants()} == set(TENANTS)


async def test_a_slot_that_moved_is_followed_and_the_order_is_kept(
    cluster: list[RedisServer], store: RedisStore
) -> None:
    tenant = TENANTS[0]
    slot = tenant_keys(tenant).slot
    await store.create_tenant(tenant, b"record")
    await store.finish(tenant, Finish((Entry("w", 1, b"e1"),), (Write(Kind.RESPONSE, H, ROOT, None, Mode.CREATE),), 1))

    home = node_of(cluster, slot)
    for source, sink in ((home, (home + 1) % 3), ((home + 1) % 3, home)):
        first = 2 if source == home else 402
        running = asyncio.ensure_future(use(store, tenant, first, 200))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(move_slot, cluster[source], cluster[sink], slot)
        assert await running == list(range(first, first + 400))
    errors = [node.command("INFO", "errorstats") for node in cluster]
    assert sum("errorstat_MOVED" in stats for stats in errors) >= 2, "calls met the moved slot"
    events = await store.read_events(tenant, 0, 1000)
    assert [(event.seq, event.body) for event in events] == [(n, b"e%d" % n) for n in range(1, 802)]


def move_slot(source: RedisServer, sink: RedisServer, slot: int) -> None:
    """As redis-cli's reshard does: mark, move key by key, tell all."""
    source_id, sink_id = (node.command("CLUSTER", "MYID").decode() for node in (source, sink))
    sink.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", sink_id)
    time.sleep(0.02)
    while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 2):
        source.command("MIGRATE", "127.0.0.1", sink.port, "", 0, 5000, "KEYS", *keys)
    time.sleep(0.02)
    for node in (sink, source):
        node.command("CLUSTER", "SETSLOT", slot, "NODE", sink_id)


async def test_a_dead_node_fails_its_tenants_and_no_others(cluster: list[RedisServer], store: RedisStore) -> None:
    slots = {tenant: tenant_keys(tenant).slot for tenant in TENANTS}
    for tenant in TENANTS:
        await store.create_tenant(tenant, b"record")
    cluster[2].command("CONFIG", "SET", "cluster-require-full-coverage", "no")
    cluster[0].command("CONFIG", "SET", "cluster-require-full-coverage", "no")
    cluster[1].kill()
    lost = [tenant for tenant, slot in slots.items() if node_of(cluster, slot) == 1]
    kept = [tenant for tenant in TENANTS if tenant not in lost]
    await until(lambda: not store.ready(lost[0]))
    with pytest.raises(StoreUnavailable):
        await store.begin(lost[0], Begin(Entry("w", 1, b"e1")))
    assert all([(await store.begin(tenant, Begin(Entry("w", 1, b"e1")))).seq == 1 for tenant in kept])
    await asyncio.to_thread(cluster[1].start)
    await until(lambda: store.ready(lost[0]))
    await until(lambda: all(serves(node) for node in cluster))
    assert (await store.begin(lost[0], Begin(Entry("w", 1, b"e1")))).seq == 1


async def test_a_failover_by_sentinel_is_followed() -> None:
    quick = ("--repl-diskless-sync-delay", "0")
    with (
        RedisServer(tcp=True, options=quick) as first,
        RedisServer(tcp=True, options=quick) as second,
        RedisServer(tcp=True, sentinel=True) as sentinel,
    ):
        await replicate(first, second)
        sentinel.command("SENTINEL", "MONITOR", "main", "127.0.0.1", first.port, 1)
        sentinel.command("SENTINEL", "SET", "main", "down-after-milliseconds", 300, "failover-timeout", 2000)
        await until(lambda: sentinel.command("INFO", "sentinel")["master0"]["slaves"] == 1)

        target = parse_target(f"redis+sentinel://127.0.0.1:{sentinel.port}/main")
        settings = LinkSettings(target, reply_timeout_s=0.5, unconfirmed_s=20)
        store = RedisStore(await Link.open(settings, SCRIPTS))
        tenant = TENANTS[0]
        await store.create_tenant(tenant, b"record")
        assert (await store.begin(tenant, Begin(Entry("w", 1, b"e1")))).seq == 1
        await until(lambda: second.command("XLEN", f"{{t:{tenant}}}:aud") == 1)

        first.pause()
        waiting = store.begin(tenant, Begin(Entry("w", 2, b"e2")))
        assert (await waiting).seq == 2
        assert second.command("XLEN", f"{{t:{tenant}}}:aud") == 2
        assert second.command("ROLE")[0] == b"master"
        await store.aclose()
