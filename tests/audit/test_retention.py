"""Old events leave Redis only archived, read back, below an anchored checkpoint, and not under a hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from gateway.audit import archive as archive_module
from gateway.audit.anchors.bucket import Bucket, BucketFailed, BucketSettings
from gateway.audit.anchors.contract import AnchorFailed
from gateway.audit.anchors.file import FileAnchor
from gateway.audit.archive import Archive, ArchiveDamaged, Stretch
from gateway.audit.consistency import LogMismatch
from gateway.audit.layout import HEAD
from gateway.audit.offline import verify_folder
from gateway.audit.retention import DAY_US, Retention
from gateway.audit.verify import Verdict
from tests.audit.logbook import TENANT, Replica, replica
from tests.audit.s3_server import BUCKET, KEY_ID, REGION, SECRET, S3Server
from tests.redis_fixture import RedisServer

NOW_S = 100 * 86_400
DAY = DAY_US


@dataclass
class Keeping:
    one: Replica
    archive: Archive
    retention: Retention
    folder: Path

    async def old(self, count: int, days: int = 50) -> None:
        """Events of so many days ago, signed."""
        await self.one.write(count, ts_us=NOW_S * 1_000_000 - days * DAY)
        await self.one.checkpointer.flush()

    async def stretches(self) -> list[Stretch]:
        return await asyncio.to_thread(self.archive.stretches, TENANT)

    async def archived(self, after: int = 0) -> dict[int, bytes]:
        return {one.seq: one.body for one in await asyncio.to_thread(self.archive.read, TENANT, after, 100)}

    async def verdict(self, stretch: Stretch) -> Verdict:
        """Of the folder, as anybody sees it; and its head is one of the anchor's notes."""
        notes = self.folder.parent.parent / "anchors" / f"{TENANT}.notes"
        assert await asyncio.to_thread((stretch.path / HEAD).read_text) in await asyncio.to_thread(notes.read_text)
        return await asyncio.to_thread(verify_folder, stretch.path, await self.one.keys())

    async def live(self) -> list[int]:
        return [event.seq for event in await self.one.store.read_events(TENANT, 0, 1000)]


@pytest.fixture
async def at(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Keeping]:
    async with replica(redis_server, tmp_path) as one:
        archive = Archive(tmp_path / "archive")
        anchor = one.anchors[0]
        assert isinstance(anchor, FileAnchor)
        retention = Retention(one.store, one.audit_keys, one.log, anchor, archive, 30, clock=lambda: NOW_S)
        yield Keeping(one, archive, retention, tmp_path / "archive" / TENANT)


async def test_what_is_older_than_the_rule_is_archived_whole_and_trimmed(at: Keeping) -> None:
    for _ in range(4):
        await at.old(3)
    await at.old(5, days=3)
    before = {event.seq: event.body for event in await at.one.store.read_events(TENANT, 0, 100)}
    assert await at.retention.retire(TENANT) == 12
    assert await at.live() == [*range(13, 19)]
    (stretch,) = await at.stretches()
    verdict = await at.verdict(stretch)
    assert verdict.findings == ()
    assert (verdict.manifest.first, verdict.manifest.last) == (1, 12)
    assert await at.archived() == {n: before[n] for n in range(1, 13)}
    told = orjson.loads((await at.one.store.read_events(TENANT, 17, 1))[0].body)
    assert (told["type"], told["changes"]) == ("log.archived", {"first": 1, "last": 12})
    state = await at.one.signed(2)
    assert (state.trimmed, state.size, state.halted) == (12, 20, "")


async def test_stretches_follow_each_other_and_each_leads_to_its_checkpoint(
    at: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.audit.retention.MOST_EVENTS", 5)
    for _ in range(6):
        await at.old(2)
    assert await at.retention.retire(TENANT) == 12
    stretches = await at.stretches()
    assert [(one.first, one.last) for one in stretches] == [(1, 5), (6, 10), (11, 12)]
    heads = []
    for one in stretches:
        verdict = await at.verdict(one)
        assert verdict.findings == ()
        assert verdict.head is not None
        heads.append(verdict.head.size)
    assert heads == [6, 10, 12], "the first anchored checkpoint that covers the stretch"
    assert list(await at.archived(7)) == [8, 9, 10]


async def test_a_later_round_goes_on_where_the_last_one_ended(at: Keeping) -> None:
    await at.old(4)
    assert await at.retention.retire(TENANT) == 4
    assert await at.retention.retire(TENANT) == 0
    await at.one.write(0)
    state = await at.one.signed()
    assert state.trimmed == 4
    await at.old(3, days=40)
    # The event on the first round is of today by its own clock, which is day 100 here: it stays, and what follows with it.
    assert await at.retention.retire(TENANT) == 0


async def test_without_a_rule_nothing_goes_and_a_tenants_own_rule_wins(at: Keeping) -> None:
    await at.old(4)
    await at.one.store.log.set_rules(TENANT, days=0)
    assert await at.retention.retire(TENANT) == 0
    await at.one.store.log.set_rules(TENANT, days=90)
    assert await at.retention.retire(TENANT) == 0
    await at.one.store.log.set_rules(TENANT, days=49)
    assert await at.retention.retire(TENANT) == 4


async def test_under_a_legal_hold_nothing_goes_until_it_is_lifted(at: Keeping) -> None:
    await at.old(4)
    await at.one.store.log.set_rules(TENANT, hold=1)
    assert await at.retention.retire(TENANT) == 0
    assert await at.live() == [1, 2, 3, 4]
    assert await at.stretches() == []
    await at.one.store.log.set_rules(TENANT, hold=0)
    assert await at.retention.retire(TENANT) == 4


async def test_what_is_not_anchored_stays(at: Keeping, redis_server: RedisServer) -> None:
    await at.old(4)
    redis_server.command("HSET", f"{{t:{TENANT}}}:ckpt", "anchored", 2)
    with pytest.raises(AnchorFailed):
        await at.retention.retire(TENANT)
    assert await at.live() == [1, 2, 3, 4]


async def test_events_that_are_not_the_signed_ones_are_neither_archived_nor_trimmed(
    at: Keeping, redis_server: RedisServer
) -> None:
    await at.old(6)
    key = f"{{t:{TENANT}}}:aud"
    rows = redis_server.command("XRANGE", key, "-", "+")
    redis_server.command("DEL", key)
    for row_id, fields in rows:
        body = next(iter(fields.values()))
        redis_server.command("XADD", key, row_id, "e", body.replace(b"alice", b"mallo") if row_id == b"0-2" else body)
    with pytest.raises(LogMismatch):
        await at.retention.retire(TENANT)
    assert await at.stretches() == []
    await at.retention.try_retire(TENANT)
    assert "not the ones that were signed" in (await at.one.state()).halted


async def test_a_stretch_that_does_not_read_back_keeps_its_events_in_redis(
    at: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at.old(4)
    write = archive_module._write

    def spoil(path: Path, data: bytes) -> None:
        write(path, data.replace(b"alice", b"mallo"))

    monkeypatch.setattr(archive_module, "_write", spoil)
    with pytest.raises(ArchiveDamaged):
        await at.retention.retire(TENANT)
    assert await at.live() == [1, 2, 3, 4]
    assert (await at.one.state()).trimmed == 0


async def test_a_round_that_broke_off_before_it_trimmed_goes_on_with_its_stretch(
    at: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at.old(4)

    async def broken(*_: object) -> int:
        raise OSError("the machine went down")

    with monkeypatch.context() as patched:
        patched.setattr(Retention, "_trim", broken)
        with pytest.raises(OSError, match="went down"):
            await at.retention.retire(TENANT)
    assert len(await at.stretches()) == 1
    assert await at.retention.retire(TENANT) == 4
    assert len(await at.stretches()) == 1
    assert 1 not in await at.live()


async def test_with_a_bucket_a_stretch_is_kept_there_too_before_anything_is_trimmed(at: Keeping) -> None:
    with S3Server().running() as s3:
        bucket = Bucket(BucketSettings(BUCKET, "logs", s3.url, REGION, KEY_ID, SECRET))
        anchor, archive = at.one.anchors[0], Archive(at.folder.parent, bucket)
        assert isinstance(anchor, FileAnchor)
        retention = Retention(at.one.store, at.one.audit_keys, at.one.log, anchor, archive, 30, clock=lambda: NOW_S)
        await at.old(4)
        s3.broken = True
        with pytest.raises(BucketFailed):
            await retention.retire(TENANT)
        assert await at.live() == [1, 2, 3, 4]
        s3.broken = False
        assert await retention.retire(TENANT) == 4
        (stretch,) = await at.stretches()
        for path in await asyncio.to_thread(lambda: list(stretch.path.iterdir())):
            kept = s3.objects[f"logs/archive/{TENANT}/{stretch.path.name}/{path.name}"]
            assert kept == await asyncio.to_thread(path.read_bytes)
        await archive.copy(stretch)
        s3.objects[f"logs/archive/{TENANT}/{stretch.path.name}/manifest.json"] = b"another"
        with pytest.raises(ArchiveDamaged):
            await archive.copy(stretch)


async def test_of_two_replicas_one_does_the_work(at: Keeping) -> None:
    await at.old(6)
    done = await asyncio.gather(at.retention.retire(TENANT), at.retention.retire(TENANT))
    assert sorted(done) == [0, 6]
    assert len(await at.stretches()) == 1


async def test_a_start_after_trimming_finds_nothing_wrong(
    at: Keeping, redis_server: RedisServer, tmp_path: Path
) -> None:
    await at.old(6)
    await at.old(2, days=1)
    await at.retention.retire(TENANT)
    await at.one.signed(3)
    for folder in (tmp_path, tmp_path / "another machine"):
        async with replica(redis_server, folder) as other:
            await other.checkpointer.check([TENANT])
            await other.signed(2)
            assert (await other.state()).halted == ""
    assert (await at.one.signed(1)).halted == ""
