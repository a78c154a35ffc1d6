from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.search.query import NAMES, Field, Filter, Query, QueryRefused, has_word

VALUES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=40)
FILTERS = st.builds(Filter, st.sampled_from(Field), VALUES, st.booleans())
MOMENTS = st.integers(0, 4_000_000_000_000_000)
RANGES: st.SearchStrategy[dict[str, int]] = st.one_of(
    st.just({}),
    MOMENTS.map(lambda since: {"since_us": since}),
    MOMENTS.map(lambda until: {"until_us": until}),
    st.tuples(MOMENTS, st.integers(1, 10**12)).map(lambda pair: {"since_us": pair[0], "until_us": sum(pair)}),
    st.integers(1, 900_000).map(lambda span: {"last_s": span}),
)


@given(st.lists(FILTERS, max_size=8, unique=True), RANGES, st.lists(VALUES, max_size=8).map(" ".join))
def test_a_url_holds_the_whole_query(filters: list[Filter], span: dict[str, int], text: str) -> None:
    query = Query(tuple(filters), text=text, **span)
    assert Query.parse(query.items()) == query


def test_values_of_one_field_are_alternatives_and_fields_narrow_each_other() -> None:
    query = Query.parse([("type", "responses.create"), ("type", "files.create"), ("result!", "allow")])
    assert query.matches(0, {Field.TYPE: {"files.create"}, Field.RESULT: {"deny"}})
    assert query.matches(0, {Field.TYPE: {"files.create"}})
    assert not query.matches(0, {Field.TYPE: {"files.create"}, Field.RESULT: {"allow"}})
    assert not query.matches(0, {Field.TYPE: {"files.delete"}, Field.RESULT: {"deny"}})


def test_a_range_includes_its_beginning_and_not_its_end() -> None:
    query = Query.parse([("since", "2026-11-30T12:00:00Z"), ("until", "2026-11-30T14:00:00.5+01:00")])
    assert query.since_us is not None
    assert query.until_us == query.since_us + 3_600_500_000
    assert [query.matches(at, {}) for at in (query.since_us - 1, query.since_us, query.until_us - 1, query.until_us)] == [
        False, True, True, False,
    ]  # fmt: skip


def test_a_span_ends_at_the_moment_that_it_is_asked_for() -> None:
    query = Query.parse([("last", "24h")])
    assert query.items() == (("last", "1d"),)
    assert query.at(100_000_000_000_000).since_us == 100_000_000_000_000 - 86_400_000_000
    assert Query.parse([("last", "999999d")]).at(100_000_000_000_000).since_us == 0


def test_text_finds_an_id_by_its_beginning_and_other_fields_by_any_part() -> None:
    assert has_word(Field.TARGET, "resp_0123456789abc", "resp_012345")
    assert not has_word(Field.TARGET, "resp_0123456789abc", "resp_01234")
    assert not has_word(Field.TARGET, "resp_0123456789abc", "0123456789")
    assert has_word(Field.MODEL, "gpt-5-mini", "GPT-5")


@pytest.mark.parametrize(
    "items",
    [
        [("typ", "responses.create")],
        [("since", "yesterday")],
        [("since", "0000-00-00")],
        [("since", "0001-01-01T00:00:00+23:00")],
        [("until", "9999-12-31T23:59:59.999999Z")],
        [("since", "2026-11-30T12:00:00Z"), ("since", "2026-11-30T13:00:00Z")],
        [("since", "2026-11-30T12:00:00Z"), ("until", "2026-11-30T12:00:00Z")],
        [("since", "2026-11-30T12:00:00Z"), ("last", "1h")],
        [("last", "0h")],
        [("last", "١h")],
        [("type", "a" * 257)],
        [("q", "a b c d e f g h i")],
        [("type", str(number)) for number in range(33)],
    ],
)
def test_what_cannot_be_meant_is_refused(items: list[tuple[str, str]]) -> None:
    with pytest.raises(QueryRefused):
        Query.parse(items)


@given(st.lists(st.tuples(st.sampled_from(sorted(NAMES)), st.text(max_size=300))))
def test_nothing_else_than_a_query_or_a_refusal_comes_of_any_url(items: list[tuple[str, str]]) -> None:
    try:
        query = Query.parse(items)
    except QueryRefused:
        return
    assert Query.parse(query.items()) == query
