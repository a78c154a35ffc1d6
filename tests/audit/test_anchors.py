"""Anchors elsewhere: object storage, over its own protocol and signatures, and the tenant's webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace as changed
from pathlib import Path

import pytest

from gateway.audit.anchors.bucket import Bucket, BucketSettings
from gateway.audit.anchors.contract import AnchorFailed, AnchorForked
from gateway.audit.anchors.file import FileAnchor
from gateway.audit.anchors.s3 import S3Anchor
from gateway.audit.anchors.webhook import WebhookAnchor
from gateway.audit.checkpoint import Checkpoint, log_origin, sign
from gateway.audit.tree import Frontier
from gateway.outgoing import Outgoing, Reach
from tests.audit.logbook import TENANT, Replica, cut, replica, restored, saved
from tests.audit.s3_server import BUCKET, KEY_ID, REGION, SECRET, S3Server, signature_of
from tests.redis_fixture import RedisServer, until
from tests.test_outgoing import OK, serving

SEED = b"s" * 32
LOG = log_origin("0" * 16, TENANT)


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with S3Server().running() as server:
        yield server


def settings(server: S3Server) -> BucketSettings:
    return BucketSettings(BUCKET, "logs/", server.url, REGION, KEY_ID, SECRET)


def checkpoint(size: int, epoch: int = 0, fill: int = 1) -> tuple[Checkpoint, str, Frontier]:
    made = Checkpoint(log_origin("0" * 16, TENANT, epoch), size, bytes([fill]) * 32)
    return made, sign(made, SEED), Frontier()


async def newest(anchor: S3Anchor, log: str = LOG) -> str | None:
    kept = await anchor.newest(log)
    return kept.note if kept else None


async def test_object_storage_gives_the_newest_note_back(s3: S3Server) -> None:
    anchor = S3Anchor(Bucket(settings(s3)))
    assert await newest(anchor) is None
    for size in (9, 10, 255, 256, 100_000, 99_999):
        await anchor.append(*checkpoint(size))
    assert await newest(anchor) == checkpoint(100_000)[1]
    await anchor.append(*checkpoint(7, epoch=1))
    assert await newest(anchor) == checkpoint(7, epoch=1)[1]
    await anchor.append(*checkpoint(3, epoch=10))
    assert await newest(anchor) == checkpoint(3, epoch=10)[1]
    assert await newest(anchor, log_origin("0" * 16, TENANT).replace("aaaa", "aaab")) is None
    assert len(s3.objects) == 8
    assert s3.refused == []


async def test_a_note_is_put_only_where_none_is_and_another_tree_of_its_size_is_a_fork(s3: S3Server) -> None:
    anchor = S3Anchor(Bucket(settings(s3)))
    await anchor.append(*checkpoint(5))
    await anchor.append(*checkpoint(5))
    before = dict(s3.objects)
    with pytest.raises(AnchorForked):
        await anchor.append(*checkpoint(5, fill=2))
    assert s3.objects == before


@pytest.mark.parametrize(
    ("what", "refused"),
    [
        ({"secret": "another"}, "another signature"),
        ({"key_id": "ANOTHER"}, "another key or region"),
        ({"region": "us-east-1"}, "another key or region"),
        ({"name": "others"}, "another bucket"),
    ],
)
async def test_what_object_storage_refuses_is_a_failure(s3: S3Server, what: dict[str, str], refused: str) -> None:
    anchor = S3Anchor(Bucket(changed(settings(s3), **what)))
    with pytest.raises(AnchorFailed):
        await anchor.append(*checkpoint(5))
    with pytest.raises(AnchorFailed):
        await anchor.newest(LOG)
    assert set(s3.refused) == {refused}
    assert s3.objects == {}


async def test_object_storage_that_is_broken_or_away_is_a_failure_in_time(s3: S3Server) -> None:
    anchor = S3Anchor(Bucket(settings(s3)))
    s3.broken = True
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(AnchorFailed):
        await anchor.append(*checkpoint(5))
    gone = S3Anchor(Bucket(changed(settings(s3), endpoint="http://127.0.0.1:9")))
    with pytest.raises(AnchorFailed):
        await gone.append(*checkpoint(5))
    assert loop.time() - started < 8


def test_the_server_knows_the_published_example_of_a_signature() -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, its GET Object."""
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "range": "bytes=0-9",
        "x-amz-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "x-amz-date": "20130524T000000Z",
    }
    names, secret = ";".join(headers), "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    found = signature_of("GET", "/test.txt", headers, names, secret, "us-east-1")
    assert found == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"


async def test_a_start_compares_with_object_storage_also_on_a_new_machine(
    redis_server: RedisServer, tmp_path: Path, s3: S3Server
) -> None:
    async with replica(redis_server, tmp_path / "a", S3Anchor(Bucket(settings(s3)))) as before:
        await before.signed(10)
        backup = saved(redis_server)
        state = await before.signed(5)
        assert (state.anchored, len(s3.objects)) == (15, 2)
    restored(redis_server, backup)
    async with replica(redis_server, tmp_path / "b", S3Anchor(Bucket(settings(s3)))) as one:
        await one.checkpointer.check([TENANT])
        assert "events up to 15 were signed, and the log holds 10" in (await one.state()).halted


@pytest.mark.parametrize("shared", ["bucket", "folder"])
async def test_who_knew_less_than_a_replica_that_is_gone_asks_the_anchors_after_a_failover(
    own_redis_server: RedisServer, tmp_path: Path, s3: S3Server, shared: str
) -> None:
    """One machine goes down with the primary and a gateway; what that gateway had signed is in the anchors alone."""
    anchors = [S3Anchor(Bucket(settings(s3)))] if shared == "bucket" else []
    folders = ("a", "b") if shared == "bucket" else ("a", "a")
    async with replica(own_redis_server, tmp_path / folders[1], *anchors) as stays:
        await stays.signed(5)
        lagging = saved(own_redis_server)
        async with replica(own_redis_server, tmp_path / folders[0], *anchors) as goes:
            assert (await goes.signed(5)).anchored == 10
        restored(own_redis_server, lagging)
        await asyncio.to_thread(own_redis_server.restart)
        await until(lambda: stays.store.ready(TENANT))
        size = (await stays.state()).size
        await stays.write(7)
        await stays.checkpointer.flush()
        state = await stays.state()
        assert (state.size, state.halted) == (size, "the events up to 10 are not the ones that were signed")


async def test_object_storage_that_comes_back_gets_the_newest_note(
    redis_server: RedisServer, tmp_path: Path, s3: S3Server
) -> None:
    async with replica(redis_server, tmp_path, S3Anchor(Bucket(settings(s3)))) as one:
        await one.checkpointer.check([TENANT])
        s3.broken = True
        state = await one.signed(3)
        assert (state.size, state.anchored) == (0, 0), "it is not known what was signed before"
        s3.broken = False
        assert (await one.signed(1)).anchored == 4
        s3.broken = True
        state = await one.signed(2)
        assert (state.size, state.anchored) == (6, 4)
        s3.broken = False
        assert (await one.signed()).anchored == 6


# The tenant's own


async def test_a_tenants_webhook_gets_its_notes_and_nobody_elses(one: Replica) -> None:
    state = await one.signed(3)
    async with serving(OK) as server:
        await one.store.log.set_rules(TENANT, webhook=f"http://127.0.0.1:{server.port}/hook")
        anchor = WebhookAnchor(one.store.log, Outgoing(Reach.LOOPBACK))
        await anchor.append(await one.opened(state.note), state.note, Frontier())
        other = checkpoint(3)[0]
        await anchor.append(
            Checkpoint(other.origin.replace(TENANT, "zzzzyyyyxxxxwwww"), 3, other.root), "x", Frontier()
        )
        (received,) = server.received
        assert received.startswith(b"POST /hook HTTP/1.1\r\n")
        assert received.endswith(b"\r\n\r\n" + state.note.encode())


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 302 X\r\nContent-Length: 0\r\n\r\n", b""]
)
async def test_a_webhook_that_does_not_take_the_note_is_a_failure(one: Replica, answer: bytes) -> None:
    state = await one.signed(3)
    async with serving(answer) as server:
        await one.store.log.set_rules(TENANT, webhook=f"http://127.0.0.1:{server.port}/hook")
        with pytest.raises(AnchorFailed):
            await WebhookAnchor(one.store.log, Outgoing(Reach.LOOPBACK)).append(
                await one.opened(state.note), state.note, Frontier()
            )


async def test_a_webhook_into_the_private_network_is_not_called(one: Replica) -> None:
    state = await one.signed(3)
    async with serving(OK) as server:
        await one.store.log.set_rules(TENANT, webhook=f"http://127.0.0.1:{server.port}/hook")
        with pytest.raises(AnchorFailed, match="not reached"):
            await WebhookAnchor(one.store.log, Outgoing()).append(await one.opened(state.note), state.note, Frontier())
        assert server.received == []


async def test_a_dead_webhook_holds_up_neither_requests_nor_other_anchors(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with replica(redis_server, tmp_path) as first:
        store = first.store
        async with serving(None) as silent:
            hook = WebhookAnchor(store.log, Outgoing(Reach.LOOPBACK, timeout_s=0.3))
            async with replica(redis_server, tmp_path / "b", hook) as one:
                one.checkpointer.start(one.tasks)
                await store.log.set_rules(TENANT, webhook=f"http://127.0.0.1:{silent.port}/hook")
                loop = asyncio.get_running_loop()
                started = loop.time()
                await one.write(20)
                assert loop.time() - started < 1
                state = await one.signed()
                assert (state.size, state.anchored) == (20, 20)


async def test_a_file_that_was_cut_passes_here_and_not_where_the_tenant_keeps_its_own(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """What only an anchor of the tenant's own shows: who can write both Redis and the data folder takes both back."""
    async with replica(redis_server, tmp_path) as before:
        first = (await before.signed(5)).note
        backup = saved(redis_server)
        kept_by_tenant = (await before.signed(5)).note
    restored(redis_server, backup)
    (tmp_path / "anchors" / f"{TENANT}.notes").write_text(first + "\n")
    (tmp_path / "anchors" / f"{TENANT}.tree").unlink()
    async with replica(redis_server, tmp_path) as one:
        await one.checkpointer.check([TENANT])
        assert (await one.state()).halted == ""
        assert (await one.opened(kept_by_tenant)).size > (await one.state()).size
        name = log_origin((await one.audit_keys.deployment()).deployment, TENANT)
        assert (await FileAnchor(tmp_path / "anchors").newest(name)) is not None


async def test_cutting_the_log_below_what_a_bucket_holds_halts(
    redis_server: RedisServer, tmp_path: Path, s3: S3Server
) -> None:
    async with replica(redis_server, tmp_path, S3Anchor(Bucket(settings(s3)))) as before:
        await before.signed(8)
    cut(redis_server, 6)
    (tmp_path / "anchors" / f"{TENANT}.notes").unlink()
    async with replica(redis_server, tmp_path, S3Anchor(Bucket(settings(s3)))) as one:
        await one.checkpointer.check([TENANT])
        assert (await one.state()).halted
