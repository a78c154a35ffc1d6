from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.search.bits import (
    SPAN,
    by_bucket,
    flags,
    members,
    members_down,
    pack,
    stretch,
    unpack,
    within,
)

PLACES = st.integers(0, SPAN - 1)
SETS = st.one_of(
    st.sets(PLACES, max_size=300),
    st.tuples(PLACES, PLACES).map(lambda ends: set(range(min(ends), max(ends) + 1))),
)
TIMES = st.lists(st.integers(0, 5_000), min_size=1, max_size=50).map(lambda few: few + [0] * (SPAN - len(few)))


def bits_of(places: set[int]) -> int:
    return sum(1 << place for place in places)


@given(SETS)
def test_a_set_comes_back_as_it_was_packed(places: set[int]) -> None:
    stored = pack(bits_of(places))
    assert unpack(stored) == bits_of(places)
    assert len(stored) <= SPAN // 8


@given(SETS)
def test_members_come_in_either_order(places: set[int]) -> None:
    assert list(members(bits_of(places))) == sorted(places)
    assert list(members_down(bits_of(places))) == sorted(places, reverse=True)
    assert [at for at, flag in enumerate(flags(bits_of(places))) if flag] == sorted(places)


@given(st.integers(-2 * SPAN, 2 * SPAN), st.integers(-2 * SPAN, 2**70))
def test_a_stretch_is_cut_to_the_span(first: int, last: int) -> None:
    assert set(members(stretch(first, last))) == set(range(max(first, 0), min(last, SPAN - 1) + 1))


@given(TIMES, st.integers(1, 5_000), st.integers(1, 5_000))
def test_a_range_has_its_beginning_and_not_its_end(times: list[int], since: int, until: int) -> None:
    expected = {at for at, time in enumerate(times) if since <= time < until}
    assert set(members(within(times, since, until))) == expected


@given(TIMES, st.integers(1, 2_000), st.integers(1, 3_000))
def test_each_event_is_in_the_bucket_of_its_time(times: list[int], since: int, width: int) -> None:
    found = by_bucket(times, since, width)
    for bucket, bits in found.items():
        assert all((times[at] - since) // width == bucket for at in members(bits))
    assert sum(bits.bit_count() for bits in found.values()) == SPAN
