"""The link to one real server: order, round trips, broken connections, time-outs, durability, what it refuses to connect to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from gateway.names import Kind
from gateway.stores.address import parse_target
from gateway.stores.contract import (
    Begin,
    Entry,
    Finish,
    Lookup,
    Mode,
    NotDurable,
    StoreMisconfigured,
    StoreUnavailable,
    Write,
    WriterRefused,
)
from gateway.stores.keyspace import tenant_keys
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from gateway.stores.wire import Call
from tests.redis_fixture import RedisServer, free_port, replicate, server_binary, until, wheel_binaries
from tests.stores.cutting_proxy import CuttingProxy
from tests.stores.opened import TENANT, open_store


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncIterator[RedisStore]:
    store = await open_store(redis_server.url)
    yield store
    await store.aclose()


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(redis_server.socket_path)
    await proxy.start()
    yield proxy
    await proxy.close()


def version(server: RedisServer) -> tuple[int, ...]:
    return tuple(int(part) for part in server.command("INFO")["redis_version"].split("."))


def newest_binary() -> Path:
    return [server_binary(), *wheel_binaries()][-1]


def entry(wseq: int, writer: str = "w1") -> Entry:
    return Entry(writer, wseq, b"%b %d" % (writer.encode(), wseq))


async def bodies(store: RedisStore) -> list[bytes]:
    return [event.body for event in await store.read_events(TENANT, 0, 1000)]


async def test_begin_and_finish_are_one_script_call_each(redis_server: RedisServer, store: RedisStore) -> None:
    redis_server.reset_commandstats()
    lookups = tuple(Lookup(Kind.ITEM, bytes([n]) * 16) for n in range(10))
    begun = await store.begin(TENANT, Begin(entry(1), "tag", lookups, 99))
    writes = tuple(Write(Kind.ITEM, bytes([n]) * 16, b"data", 60, Mode.CREATE) for n in range(10))
    await store.finish(TENANT, Finish((entry(2),), writes, begun.generation, begun.seq))
    stats = redis_server.commandstats()
    assert stats["evalsha"] == 2
    assert "multi" not in stats


async def test_a_hit_and_a_miss_cost_the_same_commands(redis_server: RedisServer, store: RedisStore) -> None:
    root, child = b"\x01\x01\x00root", b"\x01\x01\x01" + b"\x07" * 16 + b"child"
    await store.finish(
        TENANT,
        Finish(
            (entry(1),),
            (
                Write(Kind.RESPONSE, b"\x07" * 16, root, None, Mode.CREATE),
                Write(Kind.ITEM, b"\x08" * 16, child, None, Mode.CREATE),
                Write(Kind.ITEM, b"\x09" * 16, child.replace(b"\x07", b"\x06"), None, Mode.CREATE),
            ),
            1,
        ),
    )
    costs = []
    for wseq, lookup in enumerate(
        [
            Lookup(Kind.RESPONSE, b"\x07" * 16),
            Lookup(Kind.RESPONSE, b"\x01" * 16),
            Lookup(Kind.ITEM, b"\x08" * 16),
            Lookup(Kind.ITEM, b"\x09" * 16),
            Lookup(Kind.ITEM, b"\x02" * 16),
        ],
        start=2,
    ):
        redis_server.reset_commandstats()
        await store.begin(TENANT, Begin(entry(wseq), lookups=(lookup,), open_until_s=99))
        stats = redis_server.commandstats()
        costs.append({name: stats[name] for name in ("evalsha", "get", "hmget", "xadd", "hset", "set", "zadd")})
    assert all(cost == costs[0] for cost in costs)
    assert costs[0]["get"] == 3


async def test_calls_of_one_turn_leave_in_one_write(redis_server: RedisServer) -> None:
    proxy = CuttingProxy(redis_server.socket_path)
    await proxy.start()
    store = await open_store(f"redis://127.0.0.1:{proxy.port}")
    proxy.cut_after = 2
    await asyncio.gather(*(store.begin(TENANT, Begin(entry(n))) for n in range(1, 51)))
    assert proxy.cut_after == 1, "fifty calls passed as one piece"
    await store.aclose()
    await proxy.close()


async def test_200_concurrent_requests_of_two_writers_leave_no_gap(store: RedisStore) -> None:
    counters = {"w1": 0, "w2": 0}

    async def request(writer: str) -> None:
        counters[writer] += 1
        begun = await store.begin(TENANT, Begin(entry(counters[writer], writer)))
        await asyncio.sleep(0)
        counters[writer] += 1
        await store.finish(TENANT, Finish((entry(counters[writer], writer),), closes=begun.seq))

    async with asyncio.TaskGroup() as group:
        for n in range(200):
            group.create_task(request(f"w{n % 2 + 1}"))
    events = await store.read_events(TENANT, 0, 1000)
    assert [event.seq for event in events] == list(range(1, 401))
    for writer in counters:
        own = [event.body for event in events if event.body.startswith(writer.encode())]
        assert own == [entry(n, writer).body for n in range(1, 201)]


async def test_connections_cut_amid_calls_leave_neither_gap_nor_duplicate(
    redis_server: RedisServer, proxy: CuttingProxy
) -> None:
    store = await open_store(f"redis://127.0.0.1:{proxy.port}")
    calls = []
    for n in range(1, 301):
        if n % 30 == 0:
            proxy.cut_after = 1
        if n % 3:
            calls.append(store.begin(TENANT, Begin(entry(n))))
        else:
            write = Write(Kind.ITEM, n.to_bytes(16, "big"), b"%d" % n, None, Mode.CREATE)
            calls.append(store.finish(TENANT, Finish((entry(n),), (write,), 1)))  # type: ignore[arg-type]
        if n % 5 == 0:
            await asyncio.sleep(0.002)
    answers = await asyncio.gather(*calls)
    assert proxy.cuts >= 5
    assert [answer.seq for answer in answers] == list(range(1, 301))
    assert await bodies(store) == [entry(n).body for n in range(1, 301)]
    await store.aclose()


async def test_a_caller_who_gives_up_does_not_take_its_call_back(
    redis_server: RedisServer, proxy: CuttingProxy
) -> None:
    store = await open_store(f"redis://127.0.0.1:{proxy.port}")
    proxy.cut_after = 1
    first = store.begin(TENANT, Begin(entry(1)))
    second = store.begin(TENANT, Begin(entry(2)))
    first.cancel()
    assert (await second).seq == 2
    assert await bodies(store) == [entry(1).body, entry(2).body]
    await store.aclose()


async def test_flushed_scripts_are_loaded_again_and_the_order_is_kept(
    redis_server: RedisServer, store: RedisStore
) -> None:
    await store.begin(TENANT, Begin(entry(1)))
    redis_server.command("SCRIPT", "FLUSH")
    calls = [store.begin(TENANT, Begin(entry(n))) for n in range(2, 40)]
    assert [(await call).seq for call in calls] == list(range(2, 40))


async def test_a_stopped_server_fails_calls_at_once_and_is_found_again(own_redis_server: RedisServer) -> None:
    store = await open_store(own_redis_server.url)
    await store.begin(TENANT, Begin(entry(1)))
    own_redis_server.kill()
    await asyncio.sleep(0.1)
    assert not store.ready(TENANT)
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await store.begin(TENANT, Begin(entry(2)))
    assert time.monotonic() - started < 0.05
    await asyncio.to_thread(own_redis_server.restart)
    await until(lambda: store.ready(TENANT))
    assert (await store.begin(TENANT, Begin(entry(2)))).seq == 2
    await store.aclose()


async def test_calls_amid_a_restart_are_sent_again_and_confirmed(own_redis_server: RedisServer) -> None:
    # With everysec the file may lag behind by a second.
    own_redis_server.command("CONFIG", "SET", "appendfsync", "always")
    store = await open_store(own_redis_server.url)
    own_redis_server.pause()
    calls = [store.begin(TENANT, Begin(entry(n))) for n in range(1, 6)]
    await asyncio.sleep(0.05)
    own_redis_server.kill()
    await asyncio.sleep(0.05)
    await asyncio.to_thread(own_redis_server.start)
    assert [(await call).seq for call in calls] == [1, 2, 3, 4, 5]
    assert await bodies(store) == [entry(n).body for n in range(1, 6)]
    await store.aclose()


def is_loading(server: RedisServer) -> bool:
    try:
        return bool(server.command("INFO", "persistence")["loading"])
    except (redis.RedisError, OSError):
        return False


async def test_a_server_that_still_loads_its_data_is_waited_for_and_not_judged(
    own_redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """What it says of its append-only file meanwhile is not what will be."""
    own_redis_server.command("EVAL", "for i = 1, 10000 do redis.call('SET', 'k' .. i, i) end", 0)
    own_redis_server.command("BGREWRITEAOF")
    await until(lambda: not own_redis_server.command("INFO", "persistence")["aof_rewrite_in_progress"])
    own_redis_server.kill()
    slow = ("--key-load-delay", "100", "--loading-process-events-interval-bytes", "1024")
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(own_redis_server.start, slow))
        await until(lambda: is_loading(own_redis_server))
        settings = LinkSettings(parse_target(own_redis_server.url))
        store = RedisStore(await Link.open(settings, SCRIPTS, timeout_s=30))
    assert "still loading" in str([record.fields for record in caplog.records])  # type: ignore[attr-defined]
    assert "store.remark" not in [record.message for record in caplog.records]
    await store.create_tenant(TENANT, b"record")
    assert (await store.begin(TENANT, Begin(entry(1)))).seq == 1
    await store.aclose()


async def test_a_server_that_hangs_is_cut_off_and_calls_fail_within_their_time(own_redis_server: RedisServer) -> None:
    store = await open_store(own_redis_server.url, reply_timeout_s=0.2, connect_timeout_s=0.2, unconfirmed_s=0.6)
    own_redis_server.pause()
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await store.begin(TENANT, Begin(entry(1)))
    assert 0.3 < time.monotonic() - started < 1.0
    assert not store.ready(TENANT)
    own_redis_server.resume()
    await until(lambda: store.ready(TENANT))
    # The first call was on the wire: it may be in the log, so the writer cannot know where it stands and is ended.
    opened = Entry("w2", 1, b"opened", "w1", 0)
    assert (await store.begin(TENANT, Begin(opened))).seq in {1, 2}
    await store.aclose()


async def test_too_many_calls_fail_instead_of_piling_up(own_redis_server: RedisServer) -> None:
    store = await open_store(own_redis_server.url, max_calls=10, reply_timeout_s=0.3, unconfirmed_s=0.4)
    own_redis_server.pause()
    calls = [store.begin(TENANT, Begin(entry(n))) for n in range(1, 11)]
    assert not store.ready(TENANT)
    with pytest.raises(StoreUnavailable, match="too many"):
        await store.begin(TENANT, Begin(entry(11)))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    await store.aclose()


async def test_a_script_error_fails_its_call_and_the_others_go_on(store: RedisStore) -> None:
    wrong, right = store.begin(TENANT, Begin(entry(5))), store.begin(TENANT, Begin(entry(1)))
    with pytest.raises(WriterRefused):
        await wrong
    assert (await right).seq == 1


async def test_a_full_server_fails_calls_and_nothing_is_half_written(own_redis_server: RedisServer) -> None:
    store = await open_store(own_redis_server.url)
    own_redis_server.command("CONFIG", "SET", "maxmemory", "1")
    write = Write(Kind.RESPONSE, b"\x01" * 16, b"data", None, Mode.CREATE)
    with pytest.raises(StoreUnavailable):
        await store.finish(TENANT, Finish((entry(1),), (write,), 1))
    own_redis_server.command("CONFIG", "SET", "maxmemory", "0")
    assert await bodies(store) == []
    assert (await store.begin(TENANT, Begin(entry(1)))).seq == 1
    await store.aclose()


# What it will not connect to


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
async def test_a_server_that_evicts_is_refused_at_start(policy: str) -> None:
    with RedisServer(options=("--maxmemory-policy", policy)) as server:
        with pytest.raises(StoreMisconfigured, match="noeviction"):
            await open_store(server.url)
        acl = ("ACL", "SETUSER", "default", "-config")
        server.command(*acl)
        with pytest.raises(StoreMisconfigured, match="noeviction"):
            await open_store(server.url)


async def test_a_server_whose_policy_cannot_be_read_is_refused_at_start(own_redis_server: RedisServer) -> None:
    own_redis_server.command("ACL", "SETUSER", "default", "-config", "-info")
    with pytest.raises(StoreMisconfigured, match="CONFIG GET maxmemory-policy nor INFO memory"):
        await open_store(own_redis_server.url)


async def test_a_server_without_config_is_trusted_by_its_info(own_redis_server: RedisServer) -> None:
    own_redis_server.command("ACL", "SETUSER", "default", "-config")
    store = await open_store(own_redis_server.url)
    await store.aclose()


async def test_nothing_listening_is_an_error_at_start(own_redis_server: RedisServer) -> None:
    own_redis_server.kill()
    settings = LinkSettings(parse_target(own_redis_server.url))
    with pytest.raises(StoreUnavailable, match="out of reach"):
        await Link.open(settings, SCRIPTS, timeout_s=0.3)


async def test_user_password_and_database_are_taken_from_the_url() -> None:
    with RedisServer(tcp=True) as server:
        server.command("ACL", "SETUSER", "gate", "on", ">s/cret", "+@all", "~*")
        url = f"redis://gate:s%2Fcret@127.0.0.1:{server.port}/3"
        store = await open_store(url)
        await store.begin(TENANT, Begin(entry(1)))
        assert "db3" in server.command("INFO", "keyspace")
        await store.aclose()
        with pytest.raises(StoreMisconfigured, match="WRONGPASS") as refused:
            await open_store(url.replace("s%2F", "wrong-"))
        assert "cret" not in str(refused.value)


async def test_tls_is_spoken_and_an_unknown_certificate_is_refused(tmp_path: Path) -> None:
    cert, key = certificate("localhost", tmp_path)
    port = free_port()
    options = ("--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
    server = RedisServer(options=options)
    try:
        server.start()
    except RuntimeError:
        pytest.skip("the redis-server at hand was built without TLS")
    with closing(server):
        store = await open_store(f"rediss://localhost:{port}?ca={cert}")
        assert (await store.begin(TENANT, Begin(entry(1)))).seq == 1
        await store.aclose()
        for url in (f"rediss://localhost:{port}", f"rediss://127.0.0.1:{port}?ca={cert}"):
            with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await open_store(url)
        assert server.command("DBSIZE") > 0


def certificate(name: str, folder: Path) -> tuple[str, str]:
    """Paths of a self-signed certificate for `name` and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(
            subject, subject, key.public_key(), x509.random_serial_number(), now, now + timedelta(1)
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    cert_path.write_bytes(signed.public_bytes(Encoding.PEM))
    key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(cert_path), str(key_path)


# Durability


async def test_waitaof_needs_a_server_that_knows_it(redis_server: RedisServer) -> None:
    if version(redis_server) >= (7, 2):
        pytest.skip("this redis-server knows WAITAOF")
    with pytest.raises(StoreMisconfigured, match=r"waitaof needs Redis 7\.2"):
        await open_store(redis_server.url, "waitaof")


async def test_waitaof_confirms_by_the_synced_file() -> None:
    with RedisServer(binary=newest_binary()) as server:
        if version(server) < (7, 2):
            pytest.skip("no server at hand knows WAITAOF")
        store = await open_store(server.url, "waitaof", durable_timeout_s=3)
        server.reset_commandstats()
        calls = [store.begin(TENANT, Begin(entry(n))) for n in range(1, 21)]
        assert [(await call).seq for call in calls] == list(range(1, 21))
        stats = server.commandstats()
        assert 1 <= stats["waitaof"] <= 3, "calls answered meanwhile share a pair"
        assert stats["evalsha"] == 20
        server.command("CONFIG", "SET", "appendonly", "no")
        with pytest.raises(NotDurable):
            await store.begin(TENANT, Begin(entry(21)))
        with pytest.raises(StoreMisconfigured, match="appendonly"):
            await open_store(server.url, "waitaof")
        await store.aclose()


async def test_wait_confirms_by_replicas_and_a_paused_replica_fails_calls() -> None:
    primary_options = ("--repl-diskless-sync-delay", "0")
    with RedisServer(tcp=True, options=primary_options) as primary, RedisServer(tcp=True) as replica:
        await replicate(primary, replica)
        store = await open_store(primary.url, "wait:1", durable_timeout_s=0.2)
        calls = [store.begin(TENANT, Begin(entry(n))) for n in range(1, 11)]
        assert [(await call).seq for call in calls] == list(range(1, 11))
        assert 1 <= primary.commandstats()["wait"] <= 6, "calls answered meanwhile share a pair"
        assert replica.command("XLEN", f"{{t:{TENANT}}}:aud") == 10

        replica.pause()
        with pytest.raises(NotDurable) as failure:
            await store.begin(TENANT, Begin(entry(11)))
        assert failure.value.seq == 11
        replica.resume()
        assert (await store.begin(TENANT, Begin(entry(12)))).seq == 12

        with pytest.raises(StoreUnavailable, match="replica"):
            await open_store(replica.url)
        await store.aclose()


async def test_a_primary_without_its_replicas_confirms_nothing(redis_server: RedisServer) -> None:
    with pytest.raises(StoreUnavailable):
        await open_store(redis_server.url, "wait:2", durable_timeout_s=0.1)


async def test_a_server_with_the_acl_file_that_we_ship_lets_nobody_else_in_and_holds_all_after_a_restart(
    tmp_path: Path,
) -> None:
    users = tmp_path / "users.acl"
    shipped = Path(__file__).parents[2] / "deploy" / "users.acl.example"
    users.write_text(shipped.read_text().replace("CHANGE_ME", "secret"))
    with RedisServer(tcp=True, options=("--aclfile", str(users))) as server:
        url = f"redis://coatcheck:secret@127.0.0.1:{server.port}"
        store = await open_store(url)
        await store.begin(TENANT, Begin(entry(1)))
        await store.aclose()
        server.restart()
        for command in (("PING",), ("AUTH", "default", "")):
            with pytest.raises(redis.AuthenticationError):
                server.command(*command)
        store = await open_store(url)
        assert await bodies(store) == [entry(1).body]
        await store.aclose()


async def test_the_user_that_we_ship_may_do_what_the_store_needs_and_no_more() -> None:
    lines = (Path(__file__).parents[2] / "deploy" / "users.acl.example").read_text().splitlines()
    rule = next(line.split() for line in lines if line.startswith("user coatcheck "))
    with RedisServer(tcp=True) as server:
        server.command("ACL", "SETUSER", *rule[1:], ">secret")
        store = await open_store(f"redis://coatcheck:secret@127.0.0.1:{server.port}")
        await store.begin(TENANT, Begin(entry(1), "tag", (Lookup(Kind.ITEM, b"\x01" * 16),), 9))
        assert await bodies(store) == [entry(1).body]
        assert [tenant async for tenant, _ in store.tenants()] == [TENANT]
        assert await store.api_keys(TENANT) == {}
        assert await store.wrapped_keys(TENANT) == {}
        await store.append_operator_event(b"line")
        assert await store._link.call(0, ("WAIT", 0, 1)) == 0
        for command in ("FLUSHALL", "CONFIG SET maxmemory 1", "KEYS *", "SHUTDOWN", "ACL WHOAMI"):
            with pytest.raises(StoreUnavailable, match="NOPERM"):
                await store._link.call(0, tuple(command.split()))
        await store.aclose()


async def test_what_another_start_of_a_server_answered_is_not_confirmed_by_this_one() -> None:
    """A primary that was replaced meanwhile may never have had the write."""
    options = ("--repl-diskless-sync-delay", "0")
    with RedisServer(tcp=True, options=options) as primary, RedisServer(tcp=True) as replica:
        await replicate(primary, replica)
        store = await open_store(primary.url, "wait:1", durable_timeout_s=3)
        await store.begin(TENANT, Begin(entry(1)))
        link = cast(Link, store._link)
        (waiter,) = link._waiters.values()
        assert waiter.node.wire is not None
        for run_id, confirmed in ((waiter.node.wire.run_id, True), (b"0" * 40, False)):
            sink: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            waiter.cover(Call(0, b"", sink, tag=tenant_keys(TENANT).tag), b"OK", run_id)
            answer: Any = (await asyncio.gather(sink, return_exceptions=True))[0]
            assert (answer == b"OK") is confirmed
            assert isinstance(answer, NotDurable) is not confirmed
        await store.aclose()
