"""The breaker as a pure machine: no clock but the one that is passed in."""

from __future__ import annotations

from gateway.upstreams.breaker import Breaker, Permit, Verdict


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
