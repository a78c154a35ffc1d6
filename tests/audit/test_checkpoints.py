"""The checkpointer on a real Redis: what it signs, that two of it are one line, and the file that it anchors in."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path

import pytest

from gateway.audit.anchors.contract import AnchorFailed, AnchorForked
from gateway.audit.anchors.file import FileAnchor
from gateway.audit.checkpoint import Checkpoint, log_origin, split_notes
from gateway.audit.checkpoints import CheckpointSettings
from gateway.audit.tree import Frontier
from gateway.ids.keys import Purpose
from gateway.stores.contract import TenantStatus
from gateway.stores.keyring import USED_AFTER_S
from tests.audit.bad_anchors import Down, Stuck
from tests.audit.logbook import OTHER, TENANT, Replica, replica, until
from tests.redis_fixture import RedisServer

QUICK = CheckpointSettings(every_s=0.1)


def notes_of(folder: Path) -> list[str]:
    path = folder / "anchors" / f"{TENANT}.notes"
    found = split_notes(path.read_text()) if path.exists() else []
    assert found is not None
    return found


# Signing


async def test_what_is_new_is_signed_anchored_and_said_to_be(one: Replica, tmp_path: Path) -> None:
    state = await one.signed(5)
    assert (state.seq, state.size, state.anchored) == (5, 5, 5)
    checkpoint = await one.opened(state.note)
    deployment = (await one.audit_keys.deployment()).deployment
    assert (checkpoint.origin, checkpoint.size) == (f"coatcheck/{deployment}/{TENANT}", 5)
    assert checkpoint.root == await one.root(5)
    assert state.keys == "\n".join(map(str, await one.keys()))
    assert notes_of(tmp_path) == [state.note]
    assert (await one.signed(2)).size == 7
    assert len(notes_of(tmp_path)) == 2


async def test_nothing_is_signed_where_nothing_is_new(one: Replica, redis_server: RedisServer, tmp_path: Path) -> None:
    await one.signed(3)
    redis_server.reset_commandstats()
    for _ in range(3):
        await one.checkpointer.turn()
    assert set(redis_server.commandstats()) <= {"info", "config", "config|resetstat", "ping", "hello", "client"}
    assert len(notes_of(tmp_path)) == 1


async def test_a_checkpoint_comes_within_the_second_by_itself(redis_server: RedisServer, tmp_path: Path) -> None:
    async with replica(redis_server, tmp_path, settings=QUICK) as one:
        one.checkpointer.start(one.tasks)
        await one.write(3)

        async def anchored() -> bool:
            return (await one.state()).anchored == 3

        await until(anchored)


async def test_256_events_are_signed_at_once(redis_server: RedisServer, tmp_path: Path) -> None:
    async with replica(redis_server, tmp_path, settings=CheckpointSettings(every_s=30)) as one:
        one.checkpointer.start(one.tasks)
        await one.write(255)
        await asyncio.sleep(0.2)
        assert (await one.state()).size == 0
        await one.write(1)

        async def signed() -> bool:
            return (await one.state()).size == 256

        await until(signed)


async def test_a_backlog_is_signed_to_its_end(redis_server: RedisServer, one: Replica) -> None:
    await one.append(9000)
    state = await one.signed()
    assert (state.size, state.anchored) == (9000, 9000)
    assert (await one.opened(state.note)).root == await one.root(9000)


async def test_each_tenant_has_a_line_and_a_key_of_its_own(one: Replica) -> None:
    await one.write(2)
    await one.write(3, OTHER)
    await one.checkpointer.flush()
    mine, others = await one.state(), await one.state(OTHER)
    assert (mine.size, others.size) == (2, 3)
    assert mine.keys != others.keys
    with pytest.raises(AssertionError):
        await one.opened(mine.note, OTHER)


async def test_a_rotated_key_signs_on_and_the_old_one_goes_on_being_good(one: Replica) -> None:
    first = await one.signed(2)
    await one.keyring.rotate(TENANT, Purpose.AUDIT)
    one.audit_keys._tenants.clear()
    second = await one.signed(2)
    assert (await one.opened(second.note)).size == 4
    assert len(second.keys.splitlines()) == 2
    assert first.keys in second.keys


def signer(note: str) -> bytes:
    """Which key has signed: the first bytes of a signature say so (https://c2sp.org/signed-note)."""
    return base64.b64decode(note.splitlines()[-1].split()[-1])[:4]


async def test_replicas_that_read_a_rotated_key_at_different_times_go_on_with_one_line(
    one: Replica, redis_server: RedisServer, tmp_path: Path
) -> None:
    before = await one.signed(2)
    async with replica(redis_server, tmp_path) as two:
        await two.keyring.rotate(TENANT, Purpose.AUDIT)
        assert (await two.signed(2)).size == 4
        assert (await one.signed(2)).size == 6, "though it has not read the new key yet"
        for each in (one, two):
            each.audit_keys._tenants.clear()
            each.audit_keys._now_s = lambda: time.time() + USED_AFTER_S
        last = await two.signed(1)
        assert (last.halted, last.size) == ("", 7)
        assert (await one.signed(1)).size == 8
        assert before.note.splitlines()[-1].split()[-1][:6] != last.note.splitlines()[-1].split()[-1][:6], (
            "by another key"
        )


async def test_an_erased_tenant_is_left_alone(one: Replica) -> None:
    await one.write(2)
    await one.store.set_tenant_status(TENANT, TenantStatus.ERASED)
    assert (await one.signed()).size == 0
    assert one.checkpointer.unsigned == 0


async def test_no_request_waits_for_a_checkpointer_that_hangs(redis_server: RedisServer, tmp_path: Path) -> None:
    stuck = Stuck()
    async with replica(redis_server, tmp_path, stuck, settings=QUICK) as one:
        one.checkpointer.start(one.tasks)
        loop = asyncio.get_running_loop()
        for _ in range(10):
            started = loop.time()
            await one.write(5)
            assert loop.time() - started < 0.5
            await asyncio.sleep(0.03)

        async def signed() -> bool:
            return (await one.state()).size == 50

        await until(signed)

        async def in_the_file() -> bool:
            return one.checkpointer.behind == {"file": 0, "stuck": 1}

        await until(in_the_file)
        assert (await one.state()).anchored == 0, "not in every anchor"
        stuck.free.set()

        async def anchored() -> bool:
            return (await one.state()).anchored == 50

        await until(anchored)
        assert stuck.sizes[-1] == 50
        assert len(stuck.sizes) <= 3, "what was passed over is covered by the newest"


async def test_an_anchor_that_is_down_keeps_the_log_from_counting_as_anchored(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with replica(redis_server, tmp_path, Down()) as one:
        state = await one.signed(3)
        assert (state.size, state.anchored) == (3, 0)
        assert one.checkpointer.behind == {"file": 0, "down": 1}
        assert len(notes_of(tmp_path)) == 1


async def test_a_name_that_is_no_tenants_and_keys_that_do_not_open_keep_nobody_else_from_being_signed(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """Who writes Redis can enter both."""
    async with replica(redis_server, tmp_path) as before:
        await before.write(2)
        await before.write(2, OTHER)
        before.checkpointer._new.clear()
    redis_server.command("HSET", "tenants", "../../etc/x", "record")
    redis_server.command("HSET", f"{{t:{OTHER}}}:keys", "nonsense", b"x")
    async with replica(redis_server, tmp_path) as one:
        await one.checkpointer.check([tenant async for tenant, _ in one.store.tenants()])
        assert (await one.state()).size == 2
        assert (await one.state(OTHER)).size == 0


async def test_a_start_does_not_wait_for_ever_for_an_anchor(redis_server: RedisServer, tmp_path: Path) -> None:
    class Silent(Stuck):
        async def newest(self, log: str) -> None:
            await self.free.wait()

    async with replica(redis_server, tmp_path) as before:
        await before.write(3)
        before.checkpointer._new.clear()
    anchor = Silent()
    async with replica(redis_server, tmp_path, anchor) as one:
        await one.checkpointer.check([TENANT], limit_s=0.1)
        assert (await one.state()).size == 0
        anchor.free.set()
        assert (await one.signed()).size == 3


async def test_a_turn_that_is_cancelled_is_taken_up_again(redis_server: RedisServer, tmp_path: Path) -> None:
    class Slow(Stuck):
        async def newest(self, log: str) -> None:
            await self.free.wait()

    anchor = Slow()
    async with replica(redis_server, tmp_path, anchor) as one:
        await one.write(3)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await one.checkpointer.turn()
        anchor.free.set()
        assert (await one.signed()).size == 3


# Two of itself


async def test_two_checkpointers_are_one_line(redis_server: RedisServer, tmp_path: Path) -> None:
    async with (
        replica(redis_server, tmp_path / "a", settings=QUICK) as first,
        replica(redis_server, tmp_path / "b", settings=QUICK) as second,
    ):
        for one in (first, second):
            one.checkpointer.start(one.tasks)
        for _ in range(12):
            await asyncio.gather(first.write(20), second.write(20))
            await asyncio.gather(first.checkpointer.flush(), second.checkpointer.flush())
        await first.checkpointer.flush()
        await second.checkpointer.flush()
        assert (await first.state()).size == 480
        assert first.checkpointer.halted == second.checkpointer.halted == 0
        seen: dict[int, bytes] = {}
        for folder in ("a", "b"):
            sizes = []
            for note in notes_of(tmp_path / folder):
                checkpoint = await first.opened(note)
                assert seen.setdefault(checkpoint.size, checkpoint.root) == checkpoint.root
                sizes.append(checkpoint.size)
            assert sizes == sorted(set(sizes))
        assert len(seen) >= 10
        for size, root in seen.items():
            assert await first.root(size) == root


async def test_who_comes_second_signs_nothing_and_goes_on_from_what_is_there(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with replica(redis_server, tmp_path / "a") as first, replica(redis_server, tmp_path / "b") as second:
        await asyncio.gather(first.write(5), second.write(5))
        await asyncio.gather(first.checkpointer.turn(), second.checkpointer.turn())
        await second.checkpointer.flush()
        state = await first.signed()
        assert (state.size, state.anchored) == (10, 10)
        assert notes_of(tmp_path / "a")[-1] == notes_of(tmp_path / "b")[-1] == state.note


async def test_replicas_on_one_machine_share_the_anchor_file(redis_server: RedisServer, tmp_path: Path) -> None:
    async with replica(redis_server, tmp_path) as first, replica(redis_server, tmp_path) as second:
        for _ in range(5):
            await asyncio.gather(first.write(3), second.write(3))
            await asyncio.gather(first.checkpointer.flush(), second.checkpointer.flush())
        sizes = [(await first.opened(note)).size for note in notes_of(tmp_path)]
        assert sizes == sorted(set(sizes))
        assert sizes[-1] == 30


# The file


async def test_a_note_that_was_cut_in_the_middle_of_writing_is_written_over(tmp_path: Path, one: Replica) -> None:
    first = (await one.signed(3)).note
    path = tmp_path / "anchors" / f"{TENANT}.notes"
    second = (await one.signed(3)).note
    whole = path.read_bytes()
    name = log_origin((await one.audit_keys.deployment()).deployment, TENANT)
    for length in range(len(first.encode()) + 1, len(whole)):
        path.write_bytes(whole[:length])
        anchor = FileAnchor(tmp_path / "anchors")
        kept = await anchor.newest(name)
        assert kept is not None
        assert kept.note == first
        await anchor.append(await one.opened(second), second, Frontier())
        assert path.read_bytes() == whole
    assert path.stat().st_mode & 0o777 == 0o600


async def test_the_anchor_file_is_only_appended_to_and_refuses_a_fork(tmp_path: Path, one: Replica) -> None:
    states = [await one.signed(2) for _ in range(3)]
    anchor = FileAnchor(tmp_path / "anchors")
    before = notes_of(tmp_path)
    for state in states:
        await anchor.append(await one.opened(state.note), state.note, Frontier())
    assert notes_of(tmp_path) == before
    newest = await one.opened(states[-1].note)
    with pytest.raises(AnchorForked):
        await anchor.append(Checkpoint(newest.origin, newest.size, b"\0" * 32), "x", Frontier())


async def test_a_folder_that_cannot_be_written_is_a_failure_of_the_anchor(tmp_path: Path, one: Replica) -> None:
    state = await one.signed(2)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder is needed")
    with pytest.raises(AnchorFailed):
        await FileAnchor(blocked).append(await one.opened(state.note), state.note, Frontier())
