"""The breaker: as a pure machine, with no clock but the one that is passed in, then before a real peer."""

from __future__ import annotations

import asyncio

import pytest

from gateway.upstreams import Reason, Upstream, UpstreamBadAnswer, UpstreamLimits, UpstreamUnavailable, parse_base_url
from gateway.upstreams.breaker import Breaker, Permit, Verdict
from tests.upstreams.calls import POST, Connect, read
from tests.upstreams.peer import Peer, Wire


def tripped() -> Breaker:
    breaker = Breaker(3, 5.0)
    for _ in range(3):
        breaker.record(Permit.FREE, Verdict.UNREACHABLE, 100.0)
    return breaker


def test_it_opens_only_after_failures_in_a_row() -> None:
    breaker = Breaker(3, 5.0)
    for verdict in (
        Verdict.UNREACHABLE,
        Verdict.UNREACHABLE,
        Verdict.REACHED,
        Verdict.UNREACHABLE,
        Verdict.UNREACHABLE,
    ):
        breaker.record(Permit.FREE, verdict, 100.0)
    assert breaker.admit(100.0) is Permit.FREE
    breaker.record(Permit.FREE, Verdict.UNREACHABLE, 100.0)
    assert breaker.admit(100.0) is None
    assert breaker.retry_after_s(101.0) == 4.0


def test_one_probe_at_a_time_passes_when_it_is_half_open() -> None:
    breaker = tripped()
    assert breaker.admit(104.9) is None
    assert breaker.admit(105.0) is Permit.PROBE
    assert breaker.admit(105.0) is None
    assert breaker.retry_after_s(106.0) == 5.0


def test_a_probe_that_reaches_the_upstream_closes_it() -> None:
    breaker = tripped()
    breaker.admit(105.0)
    breaker.record(Permit.PROBE, Verdict.REACHED, 106.0)
    assert breaker.admit(106.0) is Permit.FREE
    assert breaker.admit(106.0) is Permit.FREE


def test_a_probe_that_fails_opens_it_again() -> None:
    breaker = tripped()
    breaker.admit(105.0)
    breaker.record(Permit.PROBE, Verdict.UNREACHABLE, 106.0)
    assert breaker.admit(110.9) is None
    assert breaker.admit(111.0) is Permit.PROBE


def test_a_cancelled_probe_leaves_the_next_one_free_to_go() -> None:
    breaker = tripped()
    breaker.admit(105.0)
    breaker.record(Permit.PROBE, Verdict.NOTHING, 106.0)
    assert breaker.admit(106.0) is Permit.PROBE


def test_a_call_from_before_the_opening_does_not_end_a_probe() -> None:
    breaker = tripped()
    breaker.admit(105.0)
    breaker.record(Permit.FREE, Verdict.NOTHING, 106.0)
    assert breaker.admit(106.0) is None


async def test_an_upstream_that_answers_badly_is_reached_all_the_same(peer: Peer, connect: Connect) -> None:
    async def lose(wire: Wire) -> None:
        await wire.request()
        wire.close()

    async def talk_nonsense(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"nonsense")

    upstream = connect(breaker_failures=2)
    for peer.script, error in (
        (lose, UpstreamUnavailable),
        (talk_nonsense, UpstreamBadAnswer),
        (lose, UpstreamUnavailable),
    ):
        with pytest.raises(error):
            await upstream.send(POST)
    peer.script = peer.echo_ok
    assert await read(upstream, POST) == b"hello"


async def test_connections_lost_without_an_answer_open_the_breaker(peer: Peer, connect: Connect) -> None:
    async def lose(wire: Wire) -> None:
        await wire.request()
        wire.close()

    peer.script = lose
    upstream = connect(breaker_failures=2)
    reasons = []
    for _ in range(3):
        with pytest.raises(UpstreamUnavailable) as caught:
            await upstream.send(POST)
        reasons.append(caught.value.reason)
    assert reasons == [Reason.CONNECTION_LOST, Reason.CONNECTION_LOST, Reason.BREAKER_OPEN]


async def test_the_breaker_opens_on_refused_connections_and_closes_after_a_probe(peer: Peer) -> None:
    async with Peer() as gone:
        port = gone.port
    limits = UpstreamLimits(breaker_failures=3, breaker_open_s=0.4, retry_pause_s=0.001)
    upstream = Upstream("main", "proj", parse_base_url(f"http://127.0.0.1:{port}"), limits)
    for _ in range(3):
        with pytest.raises(UpstreamUnavailable) as caught:
            await upstream.send(POST)
        assert (caught.value.reason, caught.value.written) == (Reason.CONNECT_FAILED, False)
    with pytest.raises(UpstreamUnavailable) as caught:
        await upstream.send(POST)
    assert caught.value.reason is Reason.BREAKER_OPEN
    assert 0 < caught.value.retry_after_s <= 0.41
    await asyncio.sleep(0.45)
    server = await asyncio.start_server(peer.accept, "127.0.0.1", port)
    async with server:
        assert await read(upstream, POST) == b"hello"
        assert await read(upstream, POST) == b"hello"
        await upstream.aclose()
