"""A halt ends by a reseal alone, which says in the log what was lost."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import orjson
import pytest

from gateway.admin.administration import Administration
from gateway.admin.evidence import open_log
from gateway.audit.anchors.contract import Anchor
from gateway.audit.checkpoint import split_notes
from gateway.audit.event import Actor
from gateway.audit.export import export
from gateway.audit.offline import verify_folder
from gateway.audit.resealing import Resealed, ResealRefused, reseal
from gateway.audit.search.query import Query
from gateway.errors import Problem
from gateway.stores.address import parse_target
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.audit.bad_anchors import Down
from tests.audit.logbook import TENANT, Replica, cut, event, replica
from tests.redis_fixture import RedisServer

OPERATOR = Actor("operator", auth="command")


async def resealed(one: Replica, *more: Anchor) -> Resealed:
    deployment, audit = (await one.audit_keys.deployment()).deployment, await one.audit_keys.tenant(TENANT)
    return await reseal(one.store, (*one.anchors, *more), TENANT, deployment, audit, OPERATOR, 1)


async def halted(one: Replica, redis: RedisServer, signed: int, left: int) -> None:
    await one.signed(signed)
    cut(redis, left)
    await one.checkpointer.check([TENANT])
    assert (await one.state()).halted


async def test_the_log_says_what_was_lost_and_goes_on_under_a_new_origin(
    redis_server: RedisServer, one: Replica, tmp_path: Path
) -> None:
    await halted(one, redis_server, 10, 7)
    assert await resealed(one) == Resealed(1, 8, 10)
    told = orjson.loads((await one.store.read_events(TENANT, 7, 1))[0].body)
    assert (told["type"], told["actor"]["kind"]) == ("log.resealed", "operator")
    why = "the log ends at event 7 and was signed to 10"
    assert told["changes"] == {"epoch": 1, "lost_first": 8, "lost_last": 10, "signed_to": 10, "why": why}
    state = await one.state()
    assert (state.epoch, state.size, state.halted) == (1, 8, "")
    checkpoint = await one.opened(state.note)
    assert (checkpoint.epoch, checkpoint.root) == (1, await one.root(8))
    assert (await one.signed(3)).size == 11
    assert one.checkpointer.halted == 0
    notes = split_notes((tmp_path / "anchors" / f"{TENANT}.notes").read_text()) or []
    assert [((await one.opened(note)).epoch, (await one.opened(note)).size) for note in notes] == [
        (0, 10),
        (1, 8),
        (1, 11),
    ]


async def test_a_log_that_is_not_halted_is_not_resealed(one: Replica) -> None:
    await one.signed(3)
    with pytest.raises(ResealRefused, match="not halted"):
        await resealed(one)


async def test_after_a_reseal_a_start_finds_nothing_wrong(
    redis_server: RedisServer, one: Replica, tmp_path: Path
) -> None:
    await halted(one, redis_server, 10, 7)
    await resealed(one)
    for folder in (tmp_path, tmp_path / "another machine"):
        async with replica(redis_server, folder) as other:
            await other.checkpointer.check([TENANT])
            await other.signed(2)
            assert other.checkpointer.halted == 0
    assert (await one.signed(2)).halted == ""


async def test_an_older_backup_does_not_take_the_reseal_back(
    redis_server: RedisServer, one: Replica, tmp_path: Path
) -> None:
    key = f"{{t:{TENANT}}}:ckpt"
    await one.signed(10)
    before = redis_server.command("DUMP", key)
    cut(redis_server, 7)
    await one.checkpointer.check([TENANT])
    await resealed(one)
    redis_server.command("RESTORE", key, 0, before, "REPLACE")
    async with replica(redis_server, tmp_path) as after:
        await after.checkpointer.check([TENANT])
        assert "of an older epoch" in (await after.state()).halted
        assert (await resealed(after)).epoch == 2
        assert (await after.signed(1)).halted == ""


async def test_of_two_reseals_at_once_one_is_done(redis_server: RedisServer, one: Replica) -> None:
    await halted(one, redis_server, 10, 7)
    done = await asyncio.gather(resealed(one), resealed(one), return_exceptions=True)
    assert sorted(type(each).__name__ for each in done) == ["ResealRefused", "Resealed"]
    assert len(await one.store.read_events(TENANT, 0, 100)) == 8


async def test_a_hole_is_nothing_that_a_reseal_mends(redis_server: RedisServer, one: Replica) -> None:
    await one.signed(5)
    redis_server.command("XDEL", f"{{t:{TENANT}}}:aud", "0-3")
    await one.store.log.halt(TENANT, "a hole")
    with pytest.raises(ResealRefused, match="in the middle"):
        await resealed(one)


async def test_an_anchor_that_is_down_is_told_and_holds_nothing_up(redis_server: RedisServer, one: Replica) -> None:
    await halted(one, redis_server, 4, 3)
    assert (await resealed(one, Down())).not_anchored == ("down",)


async def test_writers_that_lost_events_go_on_after_a_reseal_without_another(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """A failover: two replicas have confirmed events that are gone, and each has a writer that is ahead of the log."""
    async with replica(redis_server, tmp_path / "a") as first, replica(redis_server, tmp_path / "b") as second:
        await first.write(3)
        await second.write(3)
        key = f"{{t:{TENANT}}}"
        names = list(redis_server.command("KEYS", f"{key}:w:*"))
        counters = {name: redis_server.command("GET", name) for name in names}
        await first.write(2)
        await second.write(2)
        cut(redis_server, 6)
        for name, value in counters.items():
            redis_server.command("SET", name, value)
        for one in (first, second):
            with pytest.raises(Problem):
                await one.write(1)
            with pytest.raises(Problem):
                await one.write(1)
        assert (await first.state()).halted == "a writer confirmed 5 events and the log holds 3"
        assert first.checkpointer.halted == 1
        done = await resealed(first)
        assert (done.first, done.last) == (7, 6), "no checkpoint knew what is lost"
        for one in (first, second):
            await one.write(2)
            assert (await one.signed()).halted == ""
        assert first.checkpointer.halted == second.checkpointer.halted == 0


async def test_a_real_failover_to_a_replica_that_lagged_halts_and_is_resealed(tmp_path: Path) -> None:
    with RedisServer(tcp=True) as primary, RedisServer(tcp=True) as lagging:
        async with contextlib.AsyncExitStack() as stack:
            one = await stack.enter_async_context(replica(primary, tmp_path))
            await one.signed(6)
            # The lagging one has what a snapshot of now holds, and becomes the primary without the rest.
            for name in primary.command("KEYS", "*"):
                lagging.command("RESTORE", name, 0, primary.command("DUMP", name))
            await one.signed(4)
        store = RedisStore(await Link.open(LinkSettings(parse_target(lagging.url)), SCRIPTS))
        await store.aclose()
        async with replica(lagging, tmp_path) as after:
            await after.checkpointer.check([TENANT])
            assert "events up to 10 were signed, and the log holds 6" in (await after.state()).halted
            with pytest.raises(Problem):
                await after.log.begin(TENANT, event(1))
            assert await resealed(after) == Resealed(1, 7, 10)
            await after.signed(2)
            assert (await after.state()).halted == ""


async def exported(one: Replica, folder: Path, anchor: Path | None, *, accept_loss: bool) -> list[str]:
    """The faults of an export of the log as it is now."""
    log = await open_log(Administration(one.store, one.keyring, one.log, one.checkpointer), TENANT)
    await export(log, Query(), folder, made_us=1)
    keys = await one.keys()
    verdict = await asyncio.to_thread(lambda: verify_folder(folder, keys, anchor, accept_loss=accept_loss))
    return [one.fault.value for one in verdict.findings]


async def test_an_export_of_a_resealed_log_shows_the_loss_and_nothing_else(
    redis_server: RedisServer, one: Replica, tmp_path: Path
) -> None:
    """Against the whole anchor, with the notes of before that cover what is gone."""
    anchor = tmp_path / "anchors" / f"{TENANT}.notes"
    for count in (4, 3, 3):
        await one.signed(count)
    key = f"{{t:{TENANT}}}"
    (writer,) = redis_server.command("KEYS", f"{key}:w:*")
    cut(redis_server, 7)
    redis_server.command("SET", writer, "7 7")
    for _ in range(2):
        with pytest.raises(Problem):
            await one.write(1)
    await resealed(one)
    assert (await one.signed(4)).halted == ""
    assert await exported(one, tmp_path / "x", anchor, accept_loss=False) == ["loss"]
    assert await exported(one, tmp_path / "y", anchor, accept_loss=True) == []
    (opened,) = [
        json["changes"]
        for stored in await one.store.read_events(TENANT, 0, 100)
        if (json := orjson.loads(stored.body))["type"] == "writer.opened"
    ]
    assert opened["confirmed"] == 10, "its predecessor had confirmed more than is left, and the log says why"


async def test_a_log_that_lost_events_and_was_not_resealed_does_not_verify(
    redis_server: RedisServer, one: Replica, tmp_path: Path
) -> None:
    await one.signed(6)
    anchor = tmp_path / "anchors" / f"{TENANT}.notes"
    cut(redis_server, 4)
    redis_server.command("DEL", f"{{t:{TENANT}}}:ckpt")
    assert "anchor_ahead" in await exported(one, tmp_path / "x", anchor, accept_loss=True)
