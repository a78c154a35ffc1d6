"""Rows that somebody who can write to Redis puts into a log are not signed: each event carries a MAC under its tenant's key."""

from __future__ import annotations

import hmac
import time
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from gateway.audit.chain import Writer
from gateway.audit.genuine import MAC_BYTES, EventKey, event_key, is_genuine, version_of
from gateway.audit.resealing import ResealRefused, reseal
from gateway.audit.tree import Frontier, leaf
from gateway.errors import Problem
from gateway.ids.keys import AuditKeys, Purpose, Versions
from gateway.stores.contract import Finish, StoredEvent, TenantStatus
from gateway.stores.keyring import USED_AFTER_S
from tests.audit.logbook import OTHER, TENANT, Replica, change_bodies, cut, event, replica
from tests.audit.test_resealing import OPERATOR
from tests.redis_fixture import RedisServer

KEY = f"{{t:{TENANT}}}"


@pytest.fixture
async def one(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Replica]:
    async with replica(redis_server, tmp_path) as made:
        yield made


def invent(server: RedisServer, seq: int, body: bytes, *mac: bytes) -> None:
    fields = ("m", mac[0]) if mac else ()
    server.command("XADD", f"{KEY}:aud", f"0-{seq}", "e", body, *fields)
    server.command("HSET", f"{KEY}:meta", "seq", seq)


async def rows(one: Replica) -> tuple[StoredEvent, ...]:
    return await one.store.read_events(TENANT, 0, 100)


async def halted(one: Replica) -> str:
    state = await one.signed()
    return state.halted


async def test_an_events_mac_is_the_first_half_of_an_hmac_and_names_its_keys_version() -> None:
    keys = Versions({3: AuditKeys.derive(b"k" * 32)}, 3)
    mac = event_key(keys).mac(b"body")
    assert mac == b"\x03" + hmac.digest(keys.newest.mac, b"body", "sha256")[:MAC_BYTES]
    stored = StoredEvent(1, b"body", mac)
    assert version_of(stored) == 3
    assert is_genuine(stored, keys)
    for changed in (
        StoredEvent(1, b"bodY", mac),
        StoredEvent(1, b"body", mac[:-1]),
        StoredEvent(1, b"body", b"\x02" + mac[1:]),
        StoredEvent(1, b"body", mac[:1]),
        StoredEvent(1, b"body", b""),
        StoredEvent(1, b"body"),
    ):
        assert not is_genuine(changed, keys)


async def test_every_event_that_is_written_is_genuine_and_is_signed(one: Replica) -> None:
    state = await one.signed(5)
    assert (state.size, state.halted) == (5, "")
    keys = await one.audit_keys.tenant(TENANT)
    assert all(is_genuine(row, keys) for row in await rows(one))


@pytest.mark.parametrize("how", ["none", "empty", "garbage", "another tenant's", "of another event"])
async def test_an_invented_event_is_not_signed_and_halts_the_log(
    one: Replica, redis_server: RedisServer, how: str
) -> None:
    await one.signed(3)
    _, entry = Writer("e" * 24).next(event(9))
    macs = {
        "none": (),
        "empty": (b"",),
        "garbage": (b"\x01" + b"x" * MAC_BYTES,),
        "another tenant's": (event_key(await one.audit_keys.tenant(OTHER)).mac(entry.body),),
        "of another event": ((await rows(one))[0].mac,),
    }
    invent(redis_server, 4, entry.body, *macs[how])
    one.checkpointer.appended(TENANT)
    assert await halted(one) == "event 4 was not written by a gateway"
    assert (await one.state()).size == 3


async def test_an_event_that_is_changed_before_it_is_signed_halts_the_log(
    one: Replica, redis_server: RedisServer
) -> None:
    await one.write(2)
    change_bodies(redis_server, TENANT, lambda seq, body: body.replace(b"alice", b"mallo") if seq == 2 else body)
    assert await halted(one) == "event 2 was not written by a gateway"


async def test_the_event_that_accepts_it_names_what_was_invented(one: Replica, redis_server: RedisServer) -> None:
    await one.signed(3)
    _, entry = Writer("e" * 24).next(event(9))
    for seq in (4, 5):
        invent(redis_server, seq, entry.body)
    one.checkpointer.appended(TENANT)
    assert await halted(one)
    deployment, audit = (await one.audit_keys.deployment()).deployment, await one.audit_keys.tenant(TENANT)
    await reseal(one.store, one.anchors, TENANT, deployment, audit, OPERATOR, 1)
    told = orjson.loads((await rows(one))[-1].body)
    assert told["type"] == "log.resealed"
    assert (told["changes"]["invented"], told["changes"]["invented_count"]) == ("4, 5", 2)
    state = await one.signed(2)
    assert (state.halted, state.size) == ("", 8)


async def told_by_reseal(one: Replica) -> dict[str, object]:
    deployment, audit = (await one.audit_keys.deployment()).deployment, await one.audit_keys.tenant(TENANT)
    await reseal(one.store, one.anchors, TENANT, deployment, audit, OPERATOR, 1)
    changes: dict[str, object] = orjson.loads((await rows(one))[-1].body)["changes"]
    assert (await one.signed(2)).halted == ""
    return changes


async def test_who_writes_how_far_it_is_signed_hides_no_invented_event(one: Replica, redis_server: RedisServer) -> None:
    await one.signed(3)
    _, entry = Writer("e" * 24).next(event(9))
    invent(redis_server, 4, entry.body)
    redis_server.command("HSET", f"{KEY}:ckpt", "size", 4)
    one.checkpointer.appended(TENANT)
    assert await halted(one) == "the stored checkpoint is not one that was signed for this log"
    told = await told_by_reseal(one)
    assert (told["invented"], told["signed_to"]) == ("4", 3)


async def test_a_log_that_was_cut_to_a_size_that_stands_beside_an_old_note_is_halted(
    one: Replica, redis_server: RedisServer
) -> None:
    await one.signed(5)
    cut(redis_server, 3)
    redis_server.command("HSET", f"{KEY}:ckpt", "size", 3)
    one.checkpointer.appended(TENANT)
    assert await halted(one)


async def test_an_event_that_was_changed_below_a_checkpoint_is_named_and_an_older_one_is_not_named_again(
    one: Replica, redis_server: RedisServer
) -> None:
    await one.signed(3)
    for changed in (2, 5):
        kept = await rows(one)
        redis_server.command("DEL", f"{KEY}:aud")
        for row in kept:
            body = row.body.replace(b"req_", b"rex_") if row.seq == changed else row.body
            invent(redis_server, row.seq, body, row.mac)
        await one.store.log.halt(TENANT, "somebody looked")
        told = await told_by_reseal(one)
        # Of the second one no checkpoint says any more which rows are as they were signed.
        assert told["invented"] == ("2" if changed == 2 else "2, 5")
    await one.store.log.halt(TENANT, "nothing was changed")
    assert "invented" not in await told_by_reseal(one)


@pytest.mark.parametrize("forged", [False, True])
async def test_an_archived_part_that_no_signed_checkpoint_leads_to_is_told(
    one: Replica, redis_server: RedisServer, forged: bool
) -> None:
    await one.signed(5)
    base = Frontier()
    for row in (await rows(one))[:3]:
        base = base.append(leaf(TENANT, row.seq, row.body))
    assert await one.store.log.trim(TENANT, 3, base.to_bytes())
    if forged:
        base = Frontier().extend([leaf(TENANT, seq, b'{"invented":true}') for seq in (1, 2, 3)])
        redis_server.command("HSET", f"{KEY}:ckpt", "base", base.to_bytes())
    await one.store.log.halt(TENANT, "somebody looked")
    told = await told_by_reseal(one)
    assert told.get("archived_unproven") == (3 if forged else None)
    assert "invented" not in told


@pytest.mark.parametrize(
    ("key", "field", "value"),
    [
        ("meta", "halted", ""),
        ("meta", "seq", "1"),
        ("meta", "seq", "9"),
        ("meta", "seq", "x"),
        ("ckpt", "epoch", "x"),
        ("ckpt", "epoch", "9999999999999999"),
        ("ckpt", "epoch", "99999999999999999999"),
        ("ckpt", "size", "9999999999999999"),
        ("ckpt", "note", "\xff"),
    ],
)
async def test_no_number_that_somebody_wrote_beside_a_log_keeps_it_from_being_resealed(
    one: Replica, redis_server: RedisServer, key: str, field: str, value: str
) -> None:
    await one.signed(3)
    redis_server.command("HSET", f"{KEY}:{key}", field, value)
    one.checkpointer.appended(TENANT)
    assert await halted(one)
    told = await told_by_reseal(one)
    assert (told["lost_first"], told["lost_last"]) == (4, 3)
    assert "invented" not in told
    epoch = told["epoch"]
    assert isinstance(epoch, int)
    assert epoch < 1_000_002


@pytest.mark.parametrize(
    ("command", "name", "rest"),
    [("XSETID", "aud", ("9999-0",)), ("HSET", "meta", ("seq", "2")), ("HSET", "meta", ("seq", "x"))],
)
async def test_a_log_that_takes_no_next_event_is_halted_and_resealed(
    one: Replica, redis_server: RedisServer, command: str, name: str, rest: tuple[str, ...]
) -> None:
    await one.signed(3)
    redis_server.command(command, f"{KEY}:{name}", *rest)
    with pytest.raises(Problem):
        await one.write(1)
    assert (await one.state()).halted == "the log does not end where the next event belongs"
    assert (await told_by_reseal(one))["lost_first"] == 4


async def test_a_row_ahead_of_the_log_halts_it_and_is_to_be_taken_away(one: Replica, redis_server: RedisServer) -> None:
    await one.signed(3)
    redis_server.command("XADD", f"{KEY}:aud", "0-9", "e", "{}")
    with pytest.raises(Problem):
        await one.write(1)
    assert (await one.state()).halted
    with pytest.raises(ResealRefused, match="in the middle"):
        await told_by_reseal(one)
    redis_server.command("XDEL", f"{KEY}:aud", "0-9")
    assert (await told_by_reseal(one))["lost_first"] == 4


async def test_a_status_that_is_none_suspends_until_the_tenant_is_resumed(
    one: Replica, redis_server: RedisServer
) -> None:
    await one.signed(1)
    redis_server.command("HSET", f"{KEY}:meta", "status", "whatever")
    state = await one.store.tenant_state(TENANT)
    assert state is not None
    assert state.status is TenantStatus.SUSPENDED
    assert (await one.state()).status is TenantStatus.SUSPENDED
    assert await one.store.set_tenant_status(TENANT, TenantStatus.ACTIVE)
    assert (await one.signed(1)).size == 2


async def test_a_rotated_key_signs_on_in_a_process_that_has_not_read_it_yet(
    one: Replica, redis_server: RedisServer, tmp_path: Path
) -> None:
    """As where clocks differ by more than keys are kept."""
    await one.signed(2)
    assert (await one.audit_keys.tenant(TENANT)).current == 1
    async with replica(redis_server, tmp_path) as other:
        await other.keyring.rotate(TENANT, Purpose.AUDIT)
        other.audit_keys._now_s = lambda: time.time() + USED_AFTER_S
        await other.write(2)
        assert [version_of(row) for row in await rows(one)] == [1, 1, 2, 2]
        one.checkpointer.appended(TENANT)
        state = await one.signed()
        assert (state.halted, state.size) == ("", 4)


async def test_a_rotated_key_is_taken_into_use_while_the_log_is_written(one: Replica) -> None:
    await one.write(1)
    await one.keyring.rotate(TENANT, Purpose.AUDIT)
    one.audit_keys._tenants.clear()
    one.audit_keys._now_s = lambda: time.time() + USED_AFTER_S
    await one.log._sweep_served()
    await one.write(1)
    assert [version_of(row) for row in await rows(one)] == [1, 2]
    assert (await one.signed()).size == 2


async def test_a_version_that_nobody_made_halts_the_log(one: Replica, redis_server: RedisServer) -> None:
    await one.signed(1)
    _, entry = Writer("e" * 24).next(event(9), EventKey(200, b"k" * 32))
    invent(redis_server, 2, entry.body, entry.mac)
    one.checkpointer.appended(TENANT)
    assert await halted(one) == "event 2 was not written by a gateway"


async def test_a_store_takes_what_it_is_given_and_gives_it_back(one: Replica) -> None:
    writer, first = Writer("a" * 24).next(event(1), EventKey(1, b"k" * 32))
    _, second = writer.next(event(2), EventKey(1, b"k" * 32))
    await one.store.finish(TENANT, Finish((first, second)))
    assert [row.mac for row in await rows(one)] == [first.mac, second.mac]
