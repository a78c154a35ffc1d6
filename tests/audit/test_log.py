"""The audit log on a real Redis: order under load, failures of every kind, floods, and intents that nobody closed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.audit.event import Actor, Event, Outcome, Phase, RequestFacts, Result, Target
from gateway.audit.log import AuditLog, AuditSettings
from gateway.errors import Problem, Reason
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import Kind, TenantId
from gateway.stores.contract import Begin, Begun, Entry, Lookup, Mode, TenantStatus, Write
from gateway.stores.redis import RedisStore
from tests.audit.walker import walk
from tests.redis_fixture import RedisServer, replicate, until
from tests.stores.cutting_proxy import CuttingProxy
from tests.stores.opened import TENANT, open_store

OTHER = TenantId("zzzzyyyyxxxxwwww")
ALICE = Actor("user", "alice", "https://idp.example", "jwt")


def intent(number: int = 0, tenant: TenantId = TENANT, actor: Actor = ALICE, targets: tuple[Target, ...] = ()) -> Event:
    return Event(tenant, 1, "responses.create", Phase.INTENT, actor, RequestFacts(f"req_{number}"), targets=targets)


def outcome(number: int = 0, result: Result = Result.ALLOW, reason: str = "", actor: Actor = ALICE) -> Event:
    request = RequestFacts(f"req_{number}")
    return Event(TENANT, 2, "responses.create", Phase.OUTCOME, actor, request, Outcome(result, reason, 200))


def refusal(actor: Actor = ALICE, reason: str = "not_owned", target: str = "msg_x") -> Event:
    facts = Outcome(Result.DENY, reason, 404)
    return Event(TENANT, 3, "responses.get", Phase.SINGLE, actor, None, facts, (Target("item", target),))


def write(number: int) -> Write:
    return Write(Kind.RESPONSE, number.to_bytes(16, "big"), b"\x01\x01\x00data", 60, Mode.CREATE)


class Keys:
    """The tenant's audit keys, at hand."""

    async def tenant(self, tenant: TenantId) -> Versions[AuditKeys]:
        return Versions({1: AuditKeys.derive(b"k" * 32)}, 1)


KEYS = Keys()


class Clock:
    """Real time, or the time it was set to."""

    def __init__(self) -> None:
        self.fixed: float | None = None

    def __call__(self) -> float:
        return time.time() if self.fixed is None else self.fixed


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncIterator[RedisStore]:
    store = await open_store(redis_server.url)
    yield store
    await store.aclose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def log(store: RedisStore, clock: Clock) -> AsyncIterator[AuditLog]:
    log = AuditLog(store, KEYS, clock=clock)
    yield log
    await log.aclose()


async def own_log(server: RedisServer, **options: float) -> tuple[RedisStore, AuditLog]:
    store = await open_store(server.url, **options)  # type: ignore[arg-type]
    return store, AuditLog(store, KEYS)


def of_type(events: list[dict[str, Any]], type_: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == type_]


async def test_a_request_is_two_events_of_one_chain_and_two_round_trips(
    redis_server: RedisServer, log: AuditLog
) -> None:
    await log.begin(TENANT, intent())
    redis_server.reset_commandstats()
    begun = await log.begin(TENANT, intent(1), lookups=(Lookup(Kind.RESPONSE, bytes(16)),), open_s=60)
    finished = await log.finish(TENANT, (outcome(1),), begun=begun, writes=(write(1),))
    assert (begun.seq, finished.seq) == (2, 3)
    assert redis_server.commandstats()["evalsha"] == 2
    events = walk(redis_server, TENANT)
    assert [event["phase"] for event in events] == ["intent", "intent", "outcome"]
    assert redis_server.command("ZCARD", f"{{t:{TENANT}}}:open") == 0


async def test_200_concurrent_requests_leave_whole_chains(redis_server: RedisServer, store: RedisStore) -> None:
    logs = [AuditLog(store, KEYS), AuditLog(store, KEYS)]

    async def request(number: int) -> None:
        log = logs[number % 2]
        begun = await log.begin(TENANT, intent(number), open_s=60)
        await asyncio.sleep(0.001 * (number % 3))
        await log.finish(TENANT, (outcome(number),), begun=begun, writes=(write(number),))

    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(request(number))
    events = walk(redis_server, TENANT)
    assert len(events) == 400
    assert len({event["writer"] for event in events}) == 2
    assert len({event["id"] for event in events}) == 400


async def test_each_tenant_has_a_writer_of_its_own(redis_server: RedisServer, store: RedisStore, log: AuditLog) -> None:
    await store.create_tenant(OTHER, b"other")
    for number in range(3):
        await log.begin(TENANT, intent(number))
        await log.begin(OTHER, intent(number, OTHER))
    mine, others = walk(redis_server, TENANT), walk(redis_server, OTHER)
    assert [event["wseq"] for event in mine] == [event["wseq"] for event in others] == [1, 2, 3]
    assert mine[0]["writer"] != others[0]["writer"]


async def test_a_stream_is_accepted_first_and_closed_at_its_end(redis_server: RedisServer, log: AuditLog) -> None:
    begun = await log.begin(TENANT, intent(1), open_s=60)
    await log.finish(TENANT, (outcome(1, Result.ACCEPTED),), begun=begun, writes=(write(1),), closes=False)
    assert redis_server.command("ZCARD", f"{{t:{TENANT}}}:open") == 1
    await log.finish(TENANT, (outcome(1),), begun=begun)
    assert redis_server.command("ZCARD", f"{{t:{TENANT}}}:open") == 0


# Failures


async def test_a_stopped_redis_fails_requests_at_once_and_loses_no_event_silently(
    own_redis_server: RedisServer,
) -> None:
    own_redis_server.command("CONFIG", "SET", "appendfsync", "always")
    store, log = await own_log(own_redis_server)
    await log.begin(TENANT, intent(1))
    own_redis_server.kill()
    started = time.monotonic()
    for number in range(2, 5):
        with pytest.raises(Problem) as problem:
            await log.begin(TENANT, intent(number), open_s=60)
        assert problem.value.reason is Reason.AUDIT_UNAVAILABLE
        assert problem.value.retry_after_s == 1
    assert time.monotonic() - started < 0.7
    await asyncio.to_thread(own_redis_server.start)
    await until(lambda: store.ready(TENANT))
    await log.begin(TENANT, intent(5))
    await log.aclose()
    await store.aclose()
    events = walk(own_redis_server, TENANT)
    # What was refused is either not in the log, or in it with an outcome.
    seen = [(event["request"]["id"], event["phase"]) for event in events if event["request"]]
    assert {"req_1", "req_5"} <= {request for request, _ in seen}
    for number in range(2, 5):
        assert ((f"req_{number}", "intent") in seen) == ((f"req_{number}", "outcome") in seen)


async def test_a_hanging_redis_fails_a_request_in_half_a_second_and_the_late_intent_gets_its_outcome(
    own_redis_server: RedisServer,
) -> None:
    store, log = await own_log(own_redis_server)
    own_redis_server.pause()
    started = time.monotonic()
    with pytest.raises(Problem) as problem:
        await log.begin(TENANT, intent(7), open_s=60)
    assert 0.4 < time.monotonic() - started < 0.7
    assert problem.value.reason is Reason.AUDIT_UNAVAILABLE
    own_redis_server.resume()
    await until(lambda: own_redis_server.command("XLEN", f"{{t:{TENANT}}}:aud") == 2)
    first, second = walk(own_redis_server, TENANT)
    assert (first["phase"], second["phase"]) == ("intent", "outcome")
    assert second["request"]["id"] == "req_7"
    assert second["outcome"] == {"policy": "", "reason": "audit_unavailable", "result": "error", "status": 503}
    assert own_redis_server.command("ZCARD", f"{{t:{TENANT}}}:open") == 0
    await log.aclose()
    await store.aclose()


async def test_a_cancelled_caller_leaves_an_intent_with_an_outcome(own_redis_server: RedisServer) -> None:
    store, log = await own_log(own_redis_server)
    own_redis_server.pause()

    async def wait() -> Begun:
        return await log.begin(TENANT, intent(7), open_s=60)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(wait())
        await asyncio.sleep(0.05)
        task.cancel()
    own_redis_server.resume()
    await until(lambda: own_redis_server.command("XLEN", f"{{t:{TENANT}}}:aud") == 2)
    assert walk(own_redis_server, TENANT)[1]["outcome"]["reason"] == "client_closed"
    await log.aclose()
    await store.aclose()


async def test_a_cancelled_caller_does_not_stop_the_closing_event(redis_server: RedisServer, log: AuditLog) -> None:
    begun = await log.begin(TENANT, intent(1), open_s=60)
    closing = log.finish(TENANT, (outcome(1),), begun=begun, writes=(write(1),))
    closing.cancel()
    again = await log.begin(TENANT, intent(2), lookups=(Lookup(Kind.RESPONSE, write(1).h),))
    assert again.seq == 3
    assert again.found[0].record == write(1).data


async def test_a_finish_that_is_confirmed_too_late_is_followed_by_what_its_caller_was_told(
    own_redis_server: RedisServer,
) -> None:
    store, log = await own_log(own_redis_server)
    begun = await log.begin(TENANT, intent(1), open_s=60)
    own_redis_server.pause()
    with pytest.raises(Problem) as problem:
        await log.finish(TENANT, (outcome(1),), begun=begun, writes=(write(1),))
    assert problem.value.reason is Reason.MAPPING_UNAVAILABLE
    own_redis_server.resume()
    await until(lambda: own_redis_server.command("XLEN", f"{{t:{TENANT}}}:aud") == 3)
    assert walk(own_redis_server, TENANT)[2]["outcome"]["reason"] == "mapping_unavailable"
    await log.aclose()
    await store.aclose()


async def test_a_writer_that_is_not_confirmed_ends_and_its_successor_says_so(own_redis_server: RedisServer) -> None:
    store, log = await own_log(own_redis_server, reply_timeout_s=0.2, connect_timeout_s=0.2, unconfirmed_s=0.4)
    for number in range(3):
        await log.begin(TENANT, intent(number))
    own_redis_server.pause()
    with pytest.raises(Problem):
        await log.begin(TENANT, intent(3), open_s=60)
    await until(lambda: not store.ready(TENANT))
    await asyncio.sleep(0.3)
    own_redis_server.resume()
    await until(lambda: store.ready(TENANT))
    assert (await log.begin(TENANT, intent(4))).seq >= 5
    events = walk(own_redis_server, TENANT)
    (opened,) = of_type(events, "writer.opened")
    assert opened["changes"] == {"predecessor": events[0]["writer"], "confirmed": 3}
    assert events[-1]["writer"] == opened["writer"]
    await log.aclose()
    await store.aclose()


async def test_connections_cut_amid_requests_leave_whole_chains(redis_server: RedisServer) -> None:
    proxy = CuttingProxy(redis_server.socket_path)
    await proxy.start()
    store = await open_store(f"redis://127.0.0.1:{proxy.port}")
    log = AuditLog(store, KEYS)
    refused = 0

    async def request(number: int) -> None:
        nonlocal refused
        try:
            begun = await log.begin(TENANT, intent(number), open_s=60)
            await log.finish(TENANT, (outcome(number),), begun=begun, writes=(write(number),))
        except Problem:
            refused += 1

    for wave in range(10):
        proxy.cut_after = 1 + wave % 2
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(request(wave * 20 + number))
    await log.aclose()
    await store.aclose()
    await proxy.close()
    assert proxy.cuts >= 5
    assert refused == 0
    events = walk(redis_server, TENANT)
    assert len(events) == 400
    assert len({event["writer"] for event in events}) == 1


async def test_events_lost_at_a_failover_halt_the_tenant_until_the_loss_is_accepted(
    redis_server: RedisServer, store: RedisStore, log: AuditLog
) -> None:
    for number in range(5):
        await log.begin(TENANT, intent(number))
    # What a failover to a replica that lagged behind does: the newest events and the counters of before.
    key = f"{{t:{TENANT}}}"
    writer = walk(redis_server, TENANT)[0]["writer"]
    before = redis_server.command("XRANGE", f"{key}:aud", "-", "+")[:3]
    redis_server.command("DEL", f"{key}:aud")
    for row_id, fields in before:
        redis_server.command("XADD", f"{key}:aud", row_id, *[part for pair in fields.items() for part in pair])
    redis_server.command("HSET", f"{key}:meta", "seq", 3)
    redis_server.command("SET", f"{key}:w:{writer}", "3 3")

    for number in range(5, 9):
        with pytest.raises(Problem) as problem:
            await log.begin(TENANT, intent(number))
        assert problem.value.reason is Reason.AUDIT_UNAVAILABLE
    state = await store.tenant_state(TENANT)
    assert state is not None
    assert state.halted
    assert len(redis_server.command("XRANGE", f"{key}:aud", "-", "+")) == 3
    redis_server.command("HDEL", f"{key}:meta", "halted")
    assert (await log.begin(TENANT, intent(9))).seq == 5
    with pytest.raises(AssertionError, match="confirmed events are missing"):
        walk(redis_server, TENANT)


async def test_an_intent_that_is_not_durable_is_refused_and_closed() -> None:
    with (
        RedisServer(tcp=True, options=("--repl-diskless-sync-delay", "0")) as primary,
        RedisServer(tcp=True) as replica,
    ):
        await replicate(primary, replica)
        store = await open_store(primary.url, "wait:1", durable_timeout_s=0.1)
        log = AuditLog(store, KEYS)
        await log.begin(TENANT, intent(1))
        replica.pause()
        with pytest.raises(Problem) as problem:
            await log.begin(TENANT, intent(2), open_s=60)
        assert problem.value.reason is Reason.AUDIT_UNAVAILABLE
        await until(lambda: primary.command("XLEN", f"{{t:{TENANT}}}:aud") == 3)
        assert walk(primary, TENANT)[2]["outcome"]["reason"] == "audit_unavailable"
        replica.resume()
        await log.begin(TENANT, intent(3))
        assert len({event["writer"] for event in walk(primary, TENANT)}) == 1
        await log.aclose()
        await store.aclose()


async def test_an_erased_tenants_events_go_nowhere_and_a_new_tenant_is_not_held_up(
    redis_server: RedisServer, store: RedisStore, log: AuditLog
) -> None:
    assert (await log.begin(OTHER, intent(1, OTHER))).seq == 0
    await store.create_tenant(OTHER, b"other")
    assert (await log.begin(OTHER, intent(2, OTHER))).seq == 1
    await store.set_tenant_status(OTHER, TenantStatus.ERASED)
    begun = await log.begin(OTHER, intent(3, OTHER))
    assert (begun.seq, begun.tenant_active) == (0, False)
    assert len(walk(redis_server, OTHER)) == 1


# Floods


async def test_a_flood_of_refusals_is_twenty_events_and_a_sum(
    redis_server: RedisServer, log: AuditLog, clock: Clock
) -> None:
    clock.fixed = 1000.5
    for number in range(20):
        await log.record(TENANT, refusal(target=f"msg_{number}"))
    for number in range(20, 100):
        with pytest.raises(Problem) as problem:
            await log.record(TENANT, refusal(target=f"msg_{number % 50}"))
        assert problem.value.reason is Reason.TOO_MANY_REFUSALS
        assert problem.value.retry_after_s == 0.5
    # The principal is turned away on every route, others are not.
    with pytest.raises(Problem):
        await log.begin(TENANT, intent(1))
    await log.begin(TENANT, intent(2, actor=Actor("user", "bob")))
    await log.send_sums()
    assert of_type(walk(redis_server, TENANT), "refusals.summed") == []
    clock.fixed = 1001.0
    await log.begin(TENANT, intent(3))
    await log.send_sums()
    events = walk(redis_server, TENANT)
    assert len(of_type(events, "responses.get")) == 20
    (total,) = of_type(events, "refusals.summed")
    assert total["outcome"] == {"policy": "", "reason": "not_owned", "result": "deny", "status": 429}
    assert total["changes"] == {"actor": "alice", "count": 81, "distinct_targets": 50, "second": 1000}
    assert len(total["targets"]) == 16


async def test_refusals_decided_after_begin_count_as_well(log: AuditLog, clock: Clock) -> None:
    clock.fixed = 1000.0
    for number in range(20):
        begun = await log.begin(TENANT, intent(number), open_s=60)
        await log.finish(TENANT, (outcome(number, Result.DENY, "not_owned"),), begun=begun)
    with pytest.raises(Problem) as problem:
        await log.begin(TENANT, intent(21))
    assert problem.value.reason is Reason.TOO_MANY_REFUSALS


async def test_what_is_allowed_or_failed_upstream_is_no_flood(log: AuditLog, clock: Clock) -> None:
    clock.fixed = 1000.0
    for number in range(60):
        begun = await log.begin(TENANT, intent(number), open_s=60)
        result = Result.ALLOW if number % 2 else Result.ERROR
        await log.finish(TENANT, (outcome(number, result, "upstream_error"),), begun=begun)


async def test_sums_are_sent_by_themselves_and_at_the_end(redis_server: RedisServer, store: RedisStore) -> None:
    log = AuditLog(store, KEYS, AuditSettings(sums_every_s=0.05))
    log.start()
    for _ in range(40):
        try:
            await log.record(TENANT, refusal())
        except Problem:
            continue
    await log.aclose()
    assert of_type(walk(redis_server, TENANT), "refusals.summed")


async def test_refusals_that_belong_to_no_tenant_are_summed_for_the_operator(store: RedisStore, log: AuditLog) -> None:
    for number in range(500):
        log.count_stranger(Reason.UNAUTHENTICATED, f"10.0.0.{number % 40}")
    log.count_stranger(Reason.ROUTE_UNKNOWN, "10.0.0.1")
    await log.send_sums()
    await log.send_sums()
    lines = [json.loads(body) for _, body in await store.read_operator_events("0", 10)]
    assert [(line["reason"], line["count"], line["networks_count"]) for line in lines] == [
        ("route_unknown", 1, 1),
        ("unauthenticated", 500, 40),
    ]
    assert len(lines[1]["networks"]) == 16


# Intents without an outcome


async def test_an_intent_without_an_outcome_is_closed_as_unknown_once(
    redis_server: RedisServer, store: RedisStore, log: AuditLog, clock: Clock
) -> None:
    clock.fixed = 1000.0
    await log.begin(TENANT, intent(1, targets=(Target("response", "resp_x"),)), open_s=60)
    begun = await log.begin(TENANT, intent(2), open_s=60)
    await log.finish(TENANT, (outcome(2),), begun=begun)
    assert await log.sweep(TENANT) == 0
    clock.fixed = 1061.0
    both = await asyncio.gather(log.sweep(TENANT), AuditLog(store, KEYS, clock=clock).sweep(TENANT))
    assert sorted(both) == [0, 1]
    clock.fixed = 2000.0
    assert await log.sweep(TENANT) == 0
    last = walk(redis_server, TENANT)[-1]
    assert (last["type"], last["phase"], last["request"]["id"]) == ("responses.create", "outcome", "req_1")
    assert last["outcome"]["result"] == "unknown"


async def test_intents_left_by_a_process_that_died_are_closed_by_another(
    redis_server: RedisServer, store: RedisStore
) -> None:
    dead = AuditLog(store, KEYS)
    for number in range(150):
        await dead.begin(TENANT, intent(number), open_s=1)
    clock = Clock()
    clock.fixed = time.time() + 100
    log = AuditLog(store, KEYS, AuditSettings(sweep_all_every_s=0.1), clock=clock)
    log.start()
    await until(lambda: redis_server.command("ZCARD", f"{{t:{TENANT}}}:open") == 0)
    await log.aclose()
    events = walk(redis_server, TENANT)
    assert len([event for event in events if event["phase"] == "outcome"]) == 150


async def test_what_is_no_event_does_not_stop_the_sweep(
    redis_server: RedisServer, store: RedisStore, log: AuditLog, clock: Clock
) -> None:
    clock.fixed = 1000.0
    await store.begin(TENANT, Begin(Entry("w", 1, b"not an event"), open_until_s=1))
    await log.begin(TENANT, intent(1), open_s=1)
    clock.fixed = 1100.0
    assert await log.sweep(TENANT) == 2
    types = [json.loads(event.body)["type"] for event in await store.read_events(TENANT, 2, 9)]
    assert types == ["intent.unreadable", "responses.create"]
