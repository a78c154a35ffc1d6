"""What comes to the operator's endpoint: only what the service signed, only to whose object it is about, and never too early."""

from __future__ import annotations

import asyncio
import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.stores import keyspace
from gateway.stores.claims import own_key, seal_tenant
from gateway.stores.contract import TenantStatus
from gateway.webhooks.signature import load_verifier
from tests.gateway_fixture import deployment
from tests.patience import AS_SHIPPED
from tests.redis_fixture import RedisServer, until
from tests.stand_in_fixture import Options, Running, running
from tests.webhooks.conftest import SETTINGS, House, house

OTHER_SECRET = "whsec_bm90LXRoZS1zZXJ2aWNlLW5vdC10aGUtc2VydmljZQ=="


def new(home: House, prefix: str = "resp_") -> str:
    """A raw ID of an object that the service has, and nobody here."""
    return home.stand_in.provider.ids.new(prefix, place="made elsewhere")


async def test_only_what_the_service_signed_just_now_is_taken(home: House) -> None:
    hook, raw = await home.hook("acme"), new(home)
    await home.adopt("acme", raw)
    event = orjson.dumps(home.event("response.completed", raw))
    assert await home.post(event, secret=OTHER_SECRET) == 400
    assert await home.post(event, at_s=time.time() - 400) == 400
    assert await home.post(event, at_s=time.time() + 400) == 400
    for header in ("webhook-signature", "webhook-timestamp", "webhook-id"):
        for value in ("", "v1,", "v1," + "A" * 44, "17e9", "-1", "9" * 400):
            assert await home.post(event, more=((header, value),)) == 400, (header, value)
    assert await home.post(b"", secret=OTHER_SECRET) == 400
    assert await home.post(b"\xff\xfe") == 400
    assert await home.waiting(hook) == 0
    sums = await home.operators_sums()
    assert sums.keys() == {"webhook_unsigned"}
    assert sums["webhook_unsigned"] == 23
    assert not [one for one in await home.log(hook.tenant) if one["type"].startswith("webhook.re")]
    assert await home.post(event) == 200
    await until(lambda: hook.receiver.posts)


@pytest.mark.parametrize("secret", [OTHER_SECRET, "whsec_é", "whsec_A", "", "plain"])
@pytest.mark.parametrize("signature", ["v1,é", "\udcff", "v1,AAAA v1,é", "", "v1,"])
def test_no_odd_signature_or_secret_gets_through_or_breaks_the_verifier(secret: str, signature: str) -> None:
    given = {"webhook-id": "wh_1", "webhook-timestamp": str(int(time.time())), "webhook-signature": signature}
    for body in (b"{}", b"\xff", b""):
        assert not load_verifier()(body, given, secret)
        assert not load_verifier()(body, {}, secret)


async def test_the_endpoint_takes_posts_of_plain_small_bodies_and_nothing_else(home: House) -> None:
    event = home.event("safety.alert.created", "alert_1")
    assert await home.post(event, path="/webhooks/second") == 401, "a path like any other"
    assert await home.post(event, path="/webhooks") == 401
    assert await home.post(b"{" + b" " * 300_000) == 413
    assert await home.post(gzip.compress(orjson.dumps(event)), more=(("content-encoding", "gzip"),)) == 415
    client = home.gateway.client("none")
    answer = await client._client.get(home.url)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_without_a_secret_there_is_no_endpoint(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    leave = {name: value for name, value in SETTINGS.items() if name != "OPENAI_WEBHOOK_SECRET"}
    async with deployment(redis_server.url, stand_in, tmp_path, **leave) as gateway:
        client = gateway.client("none")
        answer = await client._client.post(gateway.url.removesuffix("/v1") + "/webhooks/openai", json={})
        assert answer.status_code == 401


async def test_an_event_that_comes_before_its_objects_record_waits_and_stays_first(home: House) -> None:
    hook, raw = await home.hook("acme"), new(home, "batch_")
    first, second = home.event("batch.failed", raw), home.event("batch.cancelled", raw)
    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(home.post(first))]
        await asyncio.sleep(0.3)
        answers.append(group.create_task(home.post(second)))
        await asyncio.sleep(0.3)
        assert not any(answer.done() for answer in answers)
        opaque = await home.adopt("acme", raw)
    assert [answer.result() for answer in answers] == [200, 200]
    await until(lambda: len(hook.receiver.posts) == 2)
    assert hook.said == [("batch.failed", opaque), ("batch.cancelled", opaque)]


async def test_what_waited_too_long_comes_again_until_it_is_too_old_to_be_anybodys(home: House) -> None:
    hook, raw = await home.hook("acme"), new(home)
    event = home.event("response.completed", raw)
    assert await home.post(event, id_="wh_1") == 503
    assert await home.post(home.event("response.completed", raw, age_s=301)) == 200
    assert (await home.operators_sums()) == {"webhook_unowned response.completed": 1}
    opaque = await home.adopt("acme", raw)
    assert await home.post(event, id_="wh_1") == 200
    await until(lambda: hook.receiver.posts)
    assert hook.said == [("response.completed", opaque)]


async def test_a_claim_without_a_record_or_of_another_object_makes_it_nobodys(home: House) -> None:
    hook, store = await home.hook("acme"), home.gateway.admin.store
    keys = (await home.gateway.admin.keyring.deployment()).keys
    raw, known = new(home), new(home)
    await home.adopt("acme", known)
    own = {one: own_key(keys, "default", one) for one in (raw, known)}
    sealed = seal_tenant(keys, own[raw], hook.tenant, os.urandom(12))
    moved = await store.claim(own[known], sealed, None)
    for value in (moved, sealed[:-1], os.urandom(44), b"", sealed):
        await home.gateway.gateway.shared.store._link.call(0, ("SET", keyspace.own(own[raw]), value))
        assert await home.post(home.event("response.completed", raw, age_s=301)) == 200
    assert await home.post(home.event("response.completed", raw)) == 503
    assert await home.operators_sums() == {"webhook_unowned response.completed": 5}
    assert (hook.receiver.posts, await home.waiting(hook)) == ([], 0)


async def test_what_belongs_to_no_tenant_is_the_operators_summed_by_its_type(home: House) -> None:
    hook = await home.hook("acme")
    events: tuple[Any, ...] = (
        home.event("safety.alert.created", "alert_1"),
        home.event("safety.alert.created", "alert_2"),
        home.event("realtime.call.incoming", "x", call_id="rtc_1"),
        home.event("agent.session.created", "sess_1"),
        home.event("response.unheard_of", new(home)),
        home.event("\u202e<b>", "x"),
        [],
        "text",
        b"no json",
        b'{"type": 7}',
    )
    for event in events:
        assert await home.post(event) == 200
    assert await home.operators_sums() == {
        "webhook_unowned safety.alert.created": 2,
        "webhook_unowned realtime.call.incoming": 1,
        "webhook_unowned agent.session.created": 1,
        "webhook_unowned response.unheard_of": 1,
        "webhook_unowned unreadable": 5,
    }
    assert hook.receiver.posts == []


async def test_the_same_webhook_sent_again_is_delivered_once_to_each_receiver(home: House) -> None:
    hooks = [await home.hook("acme"), await home.hook("acme")]
    raw = new(home)
    await home.adopt("acme", raw)
    event = home.event("response.completed", raw)
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(home.post(event, id_="wh_same"))
    await until(lambda: all(hook.receiver.posts for hook in hooks))
    assert await home.post(event, id_="wh_same") == 200
    await asyncio.sleep(0.5)
    assert [len(hook.receiver.posts) for hook in hooks] == [1, 1]
    assert len({hook.receiver.posts[0].headers["webhook-id"] for hook in hooks}) == 2


async def test_a_suspended_tenants_webhooks_wait_and_those_of_another_tenant_go_out(home: House) -> None:
    acme, bravo = await home.hook("acme"), await home.hook("bravo")
    raw = {name: new(home) for name in ("acme", "bravo")}
    opaque = {name: await home.adopt(name, one) for name, one in raw.items()}
    await home.gateway.admin.store.set_tenant_status(acme.tenant, TenantStatus.SUSPENDED)
    for one in raw.values():
        assert await home.post(home.event("response.completed", one)) == 200
    await until(lambda: bravo.receiver.posts)
    assert bravo.said == [("response.completed", opaque["bravo"])]
    assert (acme.receiver.posts, await home.waiting(acme)) == ([], 1)
    await home.gateway.admin.store.set_tenant_status(acme.tenant, TenantStatus.ACTIVE)
    await until(lambda: acme.receiver.posts)
    assert acme.said == [("response.completed", opaque["acme"])]


async def test_what_finds_no_room_is_on_record(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.webhooks.intake.MOST_WAITING", 1)
    acme, raw = await home.hook("acme", status=500), new(home)
    await home.adopt("acme", raw)
    for number in range(2):
        assert await home.post(home.event("response.completed", raw), id_=f"wh_{number}") == 200
    assert await home.waiting(acme) == 1
    received = [one["outcome"] for one in await home.log(acme.tenant) if one["type"] == "webhook.receive"]
    assert [one["reason"] for one in received] == ["", "", "webhook_full"]


@pytest.mark.parametrize("prefix", ["resp_", "batch_", "ftjob-"])
async def test_no_raw_id_of_any_place_of_an_event_reaches_the_tenant_or_the_store(
    redis_server: RedisServer, unkind: Running, tmp_path: Path, prefix: str
) -> None:
    type_ = {"resp_": "response.failed", "batch_": "batch.expired", "ftjob-": "fine_tuning.job.failed"}[prefix]
    async with house(redis_server, unkind, tmp_path) as home:
        hook, raw, ids = await home.hook("acme", status=500), new(home, prefix), unkind.provider.ids
        opaque = await home.adopt("acme", raw)
        spread = [ids.new(at, place="webhook") for at in ("org-", "proj_", "req_", "file-", "user-", "resp_")]
        event = home.event(type_, raw, project_id=spread[1], new={"ids": spread, raw: raw})
        event |= {"request_id": spread[2], "organization": spread[0], "same": [raw, {"x": raw}], spread[3]: raw}
        assert await home.post(event) == 200
        await until(lambda: hook.receiver.posts)
        dump = b"\n".join(redis_dump(redis_server))
        sent = hook.receiver.posts[0].body + repr(hook.receiver.posts[0].headers).encode()
        for known in unkind.provider.issued:
            assert known.encode() not in sent
            assert known.encode() not in dump
        assert hook.said == [(type_, opaque)]
        assert opaque.encode() in dump, "the dump is one: the log has what clients know"
        assert hook.secret.removeprefix("whsec_").encode() not in dump
        assert f"{hook.receiver.port}/hook".encode() not in dump


@pytest.fixture
def unkind() -> Iterator[Running]:
    """A stand-in that writes fresh IDs into unknown fields of every object."""
    with running(Options(canary=True)) as server:
        yield server


def redis_dump(server: RedisServer) -> list[bytes]:
    """Every key and value."""
    reads = {"string": ("GET",), "hash": ("HGETALL",), "list": ("LRANGE", "0", "-1"), "set": ("SMEMBERS",)}
    reads |= {"zset": ("ZRANGE", "0", "-1"), "stream": ("XRANGE", "-", "+")}
    told: list[bytes] = []
    for key in server.command("KEYS", "*"):
        name = key.decode() if isinstance(key, bytes) else str(key)
        kind = server.command("TYPE", name)
        command, *rest = reads[kind.decode() if isinstance(kind, bytes) else str(kind)]
        told += [name.encode(), repr(server.command(command, name, *rest)).encode()]
    return told


async def test_the_service_is_told_to_come_again_while_the_store_is_away(
    own_redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with house(own_redis_server, stand_in, tmp_path, **AS_SHIPPED) as home:
        hook, raw = await home.hook("acme"), new(home)
        opaque = await home.adopt("acme", raw)
        own_redis_server.pause()
        try:
            assert await home.post(home.event("response.completed", raw), id_="wh_1") == 503
        finally:
            own_redis_server.resume()
        async with asyncio.timeout(20):
            while await home.post(home.event("response.completed", raw), id_="wh_1") != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await until(lambda: hook.receiver.posts)
        assert hook.said == [("response.completed", opaque)]
