"""What the checkpointer finds out of a log that is not the one that was signed: it is halted, and what it is not halted for."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from gateway.audit.anchors.contract import AnchorFailed, AnchorForked
from gateway.audit.checkpoint import Checkpoint
from gateway.audit.checkpoints import CheckpointSettings
from gateway.audit.tree import Frontier
from gateway.errors import Problem, Reason
from tests.audit.bad_anchors import Stuck
from tests.audit.logbook import OTHER, TENANT, Replica, change_bodies, cut, event, replica, restored, saved, until
from tests.redis_fixture import RedisServer

QUICK = CheckpointSettings(every_s=0.1)


async def refused(one: Replica) -> None:
    with pytest.raises(Problem) as problem:
        await one.log.begin(TENANT, event(99), open_s=5)
    assert problem.value.reason is Reason.AUDIT_UNAVAILABLE
    assert problem.value.status == 503


async def halted(one: Replica, caplog: pytest.LogCaptureFixture, why: str) -> None:
    """At start: the log is compared, the tenant is halted, loudly, and others are not."""
    with caplog.at_level(logging.CRITICAL):
        await one.checkpointer.check([TENANT, OTHER])
    loud = [record.message for record in caplog.records if record.levelno == logging.CRITICAL]
    assert loud[0] == "audit.log_mismatch"
    assert one.checkpointer.halted == 1
    assert why in (await one.state()).halted
    await refused(one)
    await one.write(1, OTHER)
    size = (await one.state()).size
    await one.checkpointer.flush()
    assert (await one.state()).size == size, "nothing is signed on"


async def test_a_log_whose_end_was_cut_is_halted_at_start(
    redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with replica(redis_server, tmp_path) as before:
        await before.signed(10)
    cut(redis_server, 7)
    async with replica(redis_server, tmp_path) as one:
        await halted(one, caplog, "the log ends at event 7 and was signed to 10")


async def test_a_restored_backup_is_halted_at_start(
    redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything of the tenant is of an hour ago, its checkpoint too: only the anchor knows better."""
    async with replica(redis_server, tmp_path) as before:
        await before.signed(10)
        backup = saved(redis_server)
        await before.signed(5)
    restored(redis_server, backup)
    async with replica(redis_server, tmp_path) as one:
        await halted(one, caplog, "events up to 15 were signed, and the log holds 10")


async def test_a_restored_backup_that_was_written_on_is_halted_at_start(
    redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with replica(redis_server, tmp_path) as before:
        await before.signed(10)
        backup = saved(redis_server)
        await before.signed(5)
    restored(redis_server, backup)
    async with replica(redis_server, tmp_path / "another machine") as elsewhere:
        await elsewhere.write(9)
    async with replica(redis_server, tmp_path) as one:
        await halted(one, caplog, "another log than the one up to event 15")


@pytest.mark.parametrize("known", [True, False], ids=["while it runs", "at start"])
async def test_a_changed_event_under_the_newest_checkpoint_of_before_is_found(
    redis_server: RedisServer, tmp_path: Path, known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody puts Redis's checkpoint back to an older, genuine one, and changes what came after it."""
    key = f"{{t:{TENANT}}}"
    async with replica(redis_server, tmp_path) as before:
        await before.signed(4)
        old = redis_server.command("DUMP", f"{key}:ckpt")
        await before.signed(4)
        redis_server.command("RESTORE", f"{key}:ckpt", 0, old, "REPLACE")
        change_bodies(redis_server, TENANT, lambda seq, body: body.replace(b"alice", b"mallo") if seq == 6 else body)
        if known:
            with caplog.at_level(logging.CRITICAL):
                before.checkpointer.appended(TENANT)
                await before.checkpointer.flush()
            assert "events up to 8 are not the ones" in (await before.state()).halted
            await refused(before)
            return
    async with replica(redis_server, tmp_path) as one:
        await until_halted(one)
        await refused(one)


async def until_halted(one: Replica) -> None:
    await one.checkpointer.check([TENANT])
    assert (await one.state()).halted


async def test_a_checkpoint_that_was_deleted_is_made_again_from_the_events(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with replica(redis_server, tmp_path) as before:
        await before.signed(6)
    redis_server.command("DEL", f"{{t:{TENANT}}}:ckpt")
    async with replica(redis_server, tmp_path) as one:
        await one.checkpointer.check([TENANT])
        state = await one.state()
        assert (state.size, state.halted) == (6, "")
        assert (await one.opened(state.note)).root == await one.root(6)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("note", "x\n1\ny\n\n"),
        ("frontier", b"\0" * 8),
        ("size", 5),
        ("size", "x"),
        ("size", "9" * 40),
        ("epoch", 1),
        ("epoch", "-"),
    ],
)
async def test_a_checkpoint_that_was_written_by_somebody_else_halts(
    redis_server: RedisServer, tmp_path: Path, field: str, value: bytes | str | int, caplog: pytest.LogCaptureFixture
) -> None:
    async with replica(redis_server, tmp_path) as before:
        await before.signed(6)
        await before.signed(0, OTHER)
    redis_server.command("HSET", f"{{t:{TENANT}}}:ckpt", field, value)
    async with replica(redis_server, tmp_path) as one:
        await one.write(1)
        await halted(one, caplog, "not one that was signed for this log")


async def test_an_epoch_cannot_be_opened_by_writing_its_number(
    redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That would be the way round a halt: a new epoch owes nothing to the anchors of the one before."""
    async with replica(redis_server, tmp_path) as before:
        await before.signed(10)
    cut(redis_server, 5)
    redis_server.command("DEL", f"{{t:{TENANT}}}:ckpt")
    redis_server.command("HSET", f"{{t:{TENANT}}}:ckpt", "epoch", 1)
    async with replica(redis_server, tmp_path) as one:
        await halted(one, caplog, "not one that was signed for this log")


async def test_a_running_gateway_finds_out_within_its_next_turn(
    redis_server: RedisServer, one: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    await one.signed(10)
    cut(redis_server, 8)
    one.checkpointer.appended(TENANT)
    with caplog.at_level(logging.CRITICAL):
        await one.checkpointer.flush()
    assert one.checkpointer.halted == 1
    await refused(one)


async def test_a_log_that_was_cut_and_filled_up_again_by_who_had_not_looked_halts(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """The checkpoint in Redis and the anchor agree with each other; the log has other events at their end."""
    async with replica(redis_server, tmp_path) as before:
        await before.signed(6)
    cut(redis_server, 4)
    async with replica(redis_server, tmp_path / "another machine") as elsewhere:
        await elsewhere.write(5)
        elsewhere.checkpointer._new.clear()
    async with replica(redis_server, tmp_path) as one:
        await until_halted(one)
        assert (await one.state()).halted == "event 6 is not the one that was signed"
        await refused(one)


async def test_a_log_that_nobody_uses_is_compared_too_after_a_new_connection(
    own_redis_server: RedisServer, tmp_path: Path
) -> None:
    async with replica(own_redis_server, tmp_path, settings=QUICK) as one:
        await one.signed(5)
        backup = saved(own_redis_server)
        await one.signed(3)
        one.checkpointer.start(one.tasks)
        restored(own_redis_server, backup)
        await asyncio.to_thread(own_redis_server.restart)

        async def halted() -> bool:
            return one.store.ready(TENANT) and one.checkpointer.halted == 1

        await until(halted)


async def test_an_event_missing_in_the_middle_halts(redis_server: RedisServer, one: Replica) -> None:
    await one.signed(2)
    await one.write(5)
    redis_server.command("XDEL", f"{{t:{TENANT}}}:aud", "0-4")
    await one.checkpointer.flush()
    assert "missing in the middle" in (await one.state()).halted


async def test_a_fork_in_an_anchor_halts(redis_server: RedisServer, tmp_path: Path) -> None:
    class Forked(Stuck):
        name = "forked"

        async def append(self, checkpoint: Checkpoint, note: str, tree: Frontier) -> None:
            raise AnchorForked("another")

    async with replica(redis_server, tmp_path, Forked()) as one:
        await one.signed(3)
        assert "another tree" in (await one.state()).halted


async def test_an_anchor_that_cannot_be_read_at_start_is_no_proof_and_nothing_is_signed(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    class Unreadable(Stuck):
        name = "unreadable"

        async def newest(self, log: str) -> None:
            if not self.free.is_set():
                raise AnchorFailed("it is down")

    anchor = Unreadable()
    async with replica(redis_server, tmp_path, anchor) as one:
        state = await one.signed(3)
        assert (state.size, state.halted) == (0, "")
        anchor.free.set()
        assert (await one.signed()).size == 3


async def test_a_forged_note_in_the_anchor_halts(
    redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with replica(redis_server, tmp_path) as before:
        state = await before.signed(3)
        await before.write(1)
        before.checkpointer._new.clear()
    path = tmp_path / "anchors" / f"{TENANT}.notes"
    path.write_text(state.note.replace("\n3\n", "\n9\n") + "\n")
    async with replica(redis_server, tmp_path) as one:
        await halted(one, caplog, "not signed by the tenant")
