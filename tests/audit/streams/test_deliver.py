"""Delivery on a real Redis to real sockets: at least once, in order, by one replica, and at nobody's cost."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace

import pytest

from gateway.audit.event import Actor, Event, Phase
from gateway.audit.log import AuditLog
from gateway.audit.streams.batch import Format
from gateway.audit.streams.deliver import Deliverer
from gateway.outgoing import Outgoing, Reach
from gateway.stores.contract import TenantStatus
from gateway.stores.keyspace import tenant_keys
from tests.audit.streams.conftest import OTHER, QUICK, TENANT, Receiver, Stage, delivering, receiving
from tests.patience import PATIENT_LOG
from tests.redis_fixture import until


async def deliver_all(deliverer: Deliverer, stream: str) -> None:
    while await deliverer.deliver(TENANT, stream):
        pass


async def test_every_event_is_delivered_once_in_order_and_signed(stage: Stage) -> None:
    await stage.append(25)
    async with receiving() as receiver:
        stream, secret = await stage.add(receiver)
        await deliver_all(stage.deliverer(), stream)
        assert receiver.seqs == list(range(1, 26))
        for post in receiver.posts:
            post.verify(secret)
        stored = await stage.store.read_events(TENANT, 0, 1)
        assert receiver.posts[0].body.startswith(b'[{"seq":1,"event":%b}' % stored[0].body)
        (row,) = await stage.streams.list(TENANT, await stage.keys())
        assert (row.state.behind, row.state.failures, row.state.error) == (0, 0, "")


async def test_a_stream_begins_with_what_follows_unless_the_whole_log_is_asked_for(stage: Stage) -> None:
    await stage.append(5)
    async with receiving() as receiver:
        stream, _ = await stage.add(receiver, from_start=False)
        await stage.append(2)
        await deliver_all(stage.deliverer(), stream)
        assert receiver.seqs == [6, 7]


async def test_new_events_and_new_streams_are_noticed_while_it_runs(stage: Stage) -> None:
    async with receiving() as receiver, delivering(stage.deliverer()):
        await stage.add(receiver)
        await stage.append(3)
        await until(lambda: receiver.seqs == [1, 2, 3])
        await stage.append(2)
        await until(lambda: receiver.seqs == [1, 2, 3, 4, 5])


async def test_a_batch_that_another_sent_while_this_one_waited_for_its_turn_is_not_sent_again(stage: Stage) -> None:
    await stage.append(3)
    async with receiving() as receiver:
        stream, _ = await stage.add(receiver)
        deliverer = stage.deliverer(replace(QUICK, at_once=1))
        await deliverer._room.acquire()
        both = [asyncio.ensure_future(deliverer.deliver(TENANT, stream)) for _ in range(2)]
        await until(lambda: len(deliverer._room._waiters or ()) == 2)
        deliverer._room.release()
        await asyncio.gather(*both)
        assert receiver.seqs == [1, 2, 3]


async def test_a_removed_stream_ends(stage: Stage) -> None:
    async with receiving() as receiver, delivering(stage.deliverer()):
        stream, _ = await stage.add(receiver)
        await stage.append(1)
        await until(lambda: receiver.seqs == [1])
        await stage.streams.remove(TENANT, stream)
        await stage.append(1)
        await asyncio.sleep(0.2)
        assert receiver.seqs == [1]
        assert not stage.server.command("KEYS", "*stream:*")


@pytest.mark.parametrize("status", [500, 404, 302, 429, 0, -1])
async def test_what_fails_goes_again_as_the_very_same_batch(stage: Stage, status: int) -> None:
    await stage.append(3)
    async with receiving(status) as receiver:
        stream, secret = await stage.add(receiver)
        deliverer = stage.deliverer()
        assert not await deliverer.deliver(TENANT, stream)
        (row,) = await stage.streams.list(TENANT, await stage.keys())
        assert (row.state.cursor, row.state.failures, row.state.behind) == (0, 1, 3)
        assert row.state.error
        assert row.state.retry_in_s > 0
        assert not await deliverer.deliver(TENANT, stream), "it waits"
        assert len(receiver.posts) == 1
        await stage.append(4)
        receiver.status = 200
        async with delivering(deliverer):
            await until(lambda: 7 in receiver.seqs)
        first, second, *_ = receiver.posts
        assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])
        assert receiver.seqs == [1, 2, 3, 1, 2, 3, 4, 5, 6, 7]
        second.verify(secret)


async def test_pauses_grow_and_none_is_like_the_other(stage: Stage) -> None:
    await stage.append(1)
    settings = replace(QUICK, first_pause_s=2.0, longest_pause_s=3600.0)
    async with receiving(500) as receiver:
        stream, _ = await stage.add(receiver)
        pauses = []
        for _ in range(14):
            await stage.deliverer(settings).deliver(TENANT, stream)
            (row,) = await stage.streams.list(TENANT, await stage.keys())
            pauses.append(row.state.retry_in_s)
            key = f"{{t:{TENANT}}}:stream:{stream}"
            stage.server.command("HDEL", key, "retry", "owner")
        assert all(2**at / 2 - 0.1 <= pause <= 2 * 2**at for at, pause in enumerate(pauses[:10]))
        assert max(pauses) <= 3600
        assert len(set(pauses)) == len(pauses)


async def test_a_receiver_that_wants_no_more_gets_no_more_until_it_is_tried_again(stage: Stage) -> None:
    await stage.append(2)
    async with receiving(410) as receiver:
        stream, _ = await stage.add(receiver)
        async with delivering(stage.deliverer()):
            await until(lambda: receiver.posts)
            await asyncio.sleep(0.3)
            assert len(receiver.posts) == 1
            (row,) = await stage.streams.list(TENANT, await stage.keys())
            assert row.state.stopped
            receiver.status = 200
            assert await stage.streams.test(TENANT, await stage.keys(), stream) == 200
            await until(lambda: receiver.seqs[-2:] == [1, 2])
        assert receiver.posts[1].elements[0]["event"]["type"] == "stream.test"


async def test_two_replicas_never_deliver_a_stream_at_once(stage: Stage) -> None:
    await stage.append(95)
    async with receiving(pause_s=0.02) as receiver, delivering(*(stage.deliverer() for _ in range(3))):
        await stage.add(receiver)
        await until(lambda: 95 in receiver.seqs)
        assert receiver.seqs == list(range(1, 96))
        assert receiver.most_underway == 1


async def test_after_a_crash_the_next_replica_sends_the_same_batch_once_the_lease_is_over(stage: Stage) -> None:
    await stage.append(5)
    settings = replace(QUICK, lease_s=0.6)
    async with receiving(0) as receiver:
        stream, _ = await stage.add(receiver)
        crashed, heir = stage.deliverer(settings), stage.deliverer(settings)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(crashed.deliver(TENANT, stream))
            await until(lambda: receiver.posts)
            task.cancel()
        receiver.status = 200
        await stage.append(3)
        assert not await heir.deliver(TENANT, stream), "the lease of the crashed one still holds"
        async with delivering(heir):
            await until(lambda: 8 in receiver.seqs)
        assert receiver.posts[1].headers["webhook-id"] == receiver.posts[0].headers["webhook-id"]
        assert receiver.seqs == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 7, 8]


async def test_who_lost_the_lease_on_the_way_moves_no_cursor(stage: Stage) -> None:
    await stage.append(25)
    async with receiving(pause_s=0.4) as receiver:
        stream, _ = await stage.add(receiver)
        slow, heir = stage.deliverer(replace(QUICK, lease_s=0.1)), stage.deliverer()
        async with asyncio.TaskGroup() as group:
            late = group.create_task(slow.deliver(TENANT, stream))
            await until(lambda: receiver.posts)
            await asyncio.sleep(0.15)
            receiver.pause_s = 0.0
            await deliver_all(heir, stream)
        assert late.result() is False
        (row,) = await stage.streams.list(TENANT, await stage.keys())
        assert row.state.cursor == 25


async def test_trimmed_events_are_told_as_a_gap(stage: Stage) -> None:
    await stage.append(5)
    async with receiving() as receiver:
        stream, secret = await stage.add(receiver)
        deliverer = stage.deliverer()
        await deliver_all(deliverer, stream)
        await stage.append(10)
        stage.trim(12)
        await deliver_all(deliverer, stream)
        told, *rest = receiver.posts[-1].elements
        assert told["seq"] is None
        assert (told["event"]["type"], told["event"]["changes"]) == ("stream.gap", {"first": 6, "last": 11})
        assert [one["seq"] for one in rest] == [12, 13, 14, 15]
        receiver.posts[-1].verify(secret)


async def test_a_log_that_lost_its_newest_events_is_told_and_goes_on_without_a_gap(stage: Stage) -> None:
    await stage.append(8)
    async with receiving() as receiver:
        stream, _ = await stage.add(receiver)
        deliverer = stage.deliverer()
        await deliver_all(deliverer, stream)
        stage.cut(5)
        await deliver_all(deliverer, stream)
        (told,) = receiver.posts[-1].elements
        assert (told["event"]["type"], told["event"]["changes"]) == ("stream.cut", {"first": 6, "last": 8})
        await stage.append(2)
        await deliver_all(deliverer, stream)
        assert receiver.posts[-1].seqs == [6, 7]


async def test_a_log_that_was_replaced_is_told_and_comes_again_whole(stage: Stage) -> None:
    await stage.append(8)
    async with receiving() as receiver:
        stream, _ = await stage.add(receiver)
        deliverer = stage.deliverer()
        await deliver_all(deliverer, stream)
        stage.cut(5)
        await stage.append(6)
        await deliver_all(deliverer, stream)
        told = receiver.posts[1].elements[0]
        assert (told["event"]["type"], told["event"]["changes"]) == ("stream.replaced", {"first": 8, "last": 8})
        assert [seq for post in receiver.posts[1:] for seq in post.seqs if seq] == list(range(1, 12))


async def test_an_erased_tenants_streams_end_at_once_and_are_forgotten(stage: Stage) -> None:
    await stage.append(3)
    async with receiving(500) as receiver, delivering(stage.deliverer()):
        stream, _ = await stage.add(receiver)
        await until(lambda: receiver.posts)
        await stage.store.set_tenant_status(TENANT, TenantStatus.ERASED)
        receiver.status = 200
        count = len(receiver.posts)
        await asyncio.sleep(0.4)
        assert len(receiver.posts) <= count + 1, "one may have been on its way"
        await stage.store.log.purge(TENANT)
        await until(lambda: not stage.server.command("SMEMBERS", "streaming"))
        assert not stage.server.command("KEYS", f"*{stream}*")


async def test_nothing_of_one_tenant_goes_to_the_receiver_of_another(stage: Stage) -> None:
    await stage.append(3)
    await stage.append(2, OTHER)
    async with receiving() as mine, receiving() as others, delivering(stage.deliverer()):
        await stage.add(mine)
        await stage.add(others, OTHER, Format.OCSF)
        await until(lambda: mine.seqs == [1, 2, 3] and others.posts)
        assert {one["metadata"]["tenant_uid"] for post in others.posts for one in post.elements} == {OTHER}
        assert {one["event"]["tenant"] for post in mine.posts for one in post.elements} == {TENANT}


async def test_neither_address_nor_secret_can_be_read_in_redis_and_neither_opens_in_another_place(stage: Stage) -> None:
    async with receiving() as receiver:
        stream, secret = await stage.add(receiver)
        dump = b"".join(stage.server.command("DUMP", name) for name in stage.server.command("KEYS", "*"))
        assert f":{receiver.port}/".encode() not in dump
        assert secret.removeprefix("whsec_").encode() not in dump
        record = stage.server.command("HGET", f"{{t:{TENANT}}}:streams", stream)
        stage.server.command("HSET", f"{{t:{TENANT}}}:streams", "st_other", record)
        assert [row.sink is None for row in await stage.streams.list(TENANT, await stage.keys())] == [True, False]
        stage.server.command("HSET", f"{{t:{OTHER}}}:streams", stream, record)
        stage.server.command("SADD", "streaming", OTHER)
        await stage.append(2, OTHER)
        assert not await stage.deliverer().deliver(OTHER, stream)
        assert not receiver.posts
        assert [row.sink for row in await stage.streams.list(OTHER, await stage.keys(OTHER))] == [None]


async def test_one_tenant_whose_data_cannot_be_read_holds_up_no_other(stage: Stage) -> None:
    stage.server.command("SADD", "streaming", OTHER)
    stage.server.command("SET", f"{{t:{OTHER}}}:streams", "no hash")
    async with receiving() as receiver, delivering(stage.deliverer()):
        await stage.add(receiver)
        await stage.append(2)
        await until(lambda: receiver.seqs == [1, 2])


async def test_a_stores_outage_is_sat_out(stage: Stage) -> None:
    async with receiving() as receiver, delivering(stage.deliverer()):
        await stage.add(receiver)
        await stage.append(1)
        await until(lambda: receiver.seqs == [1])
        # The server drops every client: each call of the moment fails or is sent again.
        stage.server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await stage.append(1)
        await until(lambda: receiver.seqs == [1, 2])


async def test_what_no_gateway_wrote_is_never_sent_and_once_it_is_signed_as_that_it_is_told(stage: Stage) -> None:
    key = tenant_keys(TENANT)
    async with receiving() as receiver, delivering(stage.deliverer()):
        await stage.add(receiver)
        await stage.append(2)
        await until(lambda: receiver.seqs == [1, 2])
        for seq in (3, 4):
            stage.server.command("XADD", key.log, f"0-{seq}", "e", b'{"invented":true}')
        stage.server.command("HSET", key.meta, "seq", 4)
        await stage.append(1)
        await asyncio.sleep(0.5)
        assert receiver.seqs == [1, 2]
        stage.server.command("HSET", key.checkpoint, "size", 5)
        await until(lambda: 5 in receiver.seqs)
        told, *rest = receiver.posts[-1].elements
        assert (told["event"]["type"], told["event"]["changes"]) == ("stream.invented", {"first": 3, "last": 4})
        assert [one["seq"] for one in rest] == [5]
        assert not any(b'invented":true' in post.body for post in receiver.posts)


async def test_an_event_that_was_changed_below_a_checkpoint_is_not_sent(stage: Stage) -> None:
    """Who can change a row can also write how far the log is signed."""
    key = tenant_keys(TENANT)
    await stage.append(4)
    rows = await stage.store.read_events(TENANT, 0, 9)
    stage.server.command("DEL", key.log)
    for row in rows:
        body = row.body.replace(b"not_owned", b"was_owned") if row.seq in (2, 4) else row.body
        stage.server.command("XADD", key.log, f"0-{row.seq}", "e", body, "m", row.mac)
    stage.server.command("HSET", key.checkpoint, "size", 4)
    async with receiving() as receiver:
        stream, _ = await stage.add(receiver)
        await deliver_all(stage.deliverer(), stream)
        assert receiver.seqs == [1, None, 3, None]
        told = [one["event"]["changes"] for post in receiver.posts for one in post.elements if one["seq"] is None]
        assert told == [{"first": 2, "last": 2}, {"first": 4, "last": 4}]
        assert not any(b"was_owned" in post.body for post in receiver.posts)


async def test_dead_slow_and_hanging_receivers_slow_no_request(stage: Stage) -> None:
    log = AuditLog(stage.store, stage.keyring, PATIENT_LOG)
    event = Event(TENANT, 1, "responses.create", Phase.INTENT, Actor("user", "a" * 24))

    async def requests() -> list[float]:
        taken = []
        for _ in range(150):
            start = time.perf_counter()
            begun = await log.begin(TENANT, event, open_s=60)
            await log.finish(TENANT, (replace(event, phase=Phase.OUTCOME),), begun=begun)
            taken.append(time.perf_counter() - start)
        return taken

    alone = await requests()
    patient = replace(stage.streams, outgoing=Outgoing(Reach.LOOPBACK, timeout_s=30.0))
    deliverer = Deliverer(stage.store, patient, stage.keyring, QUICK)
    async with receiving(0) as hanging, receiving(500) as failing, receiving(pause_s=0.9) as slow:
        dead = Receiver(port=1)
        for receiver in (hanging, hanging, failing, slow, dead):
            await stage.add(receiver)
        async with delivering(deliverer):
            await until(lambda: len(hanging.posts) == 2 and failing.posts and slow.posts)
            beside = await requests()
            assert len(hanging.posts) == 2, "both hang still"
    assert max(beside) < 0.4, "no request waited for a receiver, the least of whom takes 0.9 s"
    assert statistics.median(beside) < 5 * statistics.median(alone) + 0.005
    await log.aclose()
