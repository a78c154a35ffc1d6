"""Lines are the same however their bytes were cut, and no reader finds more lines in what is written than we do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.rewrite.jsonl import LineSplitter, LineTooLong, dump_line, is_blank

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def split(data: bytes, *cuts: int, most: int = 10_000) -> list[tuple[int, bytes]]:
    splitter, lines, at = LineSplitter(most), [], 0
    for cut in (*sorted(cuts), len(data)):
        lines += splitter.feed(data[at:cut])
        at = cut
    return lines + splitter.end()


def test_lines_are_numbered_from_one_and_blank_ones_count() -> None:
    assert split(b"a\n\nb\r\n c") == [(1, b"a"), (2, b""), (3, b"b\r"), (4, b" c")]
    assert [is_blank(line) for _, line in split(b"a\n\n \r\nb")] == [False, True, True, False]


def test_a_last_line_needs_no_end_and_an_end_begins_no_line() -> None:
    assert split(b"a\nb") == split(b"a\nb\n")
    assert split(b"") == []


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_lines_do_not_depend_on_how_the_bytes_were_cut(data: bytes, cuts: list[int]) -> None:
    whole = split(data)
    assert split(data, *cuts) == whole
    assert [line for _, line in whole] == (data.removesuffix(b"\n").split(b"\n") if data else [])


def test_every_split_point_gives_the_same_lines() -> None:
    data = '{"a":"ü\\n"}\r\n\n{"b":1}\n'.encode()
    assert {tuple(split(data, cut)) for cut in range(len(data) + 1)} == {tuple(split(data))}


def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory() -> None:
    splitter = LineSplitter(100)
    splitter.feed(b"first\n" + b"x" * 100)
    with pytest.raises(LineTooLong) as refused:
        splitter.feed(b"x")
    assert refused.value.number == 2


def test_a_line_in_the_middle_of_a_chunk_has_the_same_limit() -> None:
    with pytest.raises(LineTooLong) as refused:
        split(b"ok\nok\n" + b"x" * 101 + b"\nok\n", most=100)
    assert refused.value.number == 3


def test_what_is_held_is_known() -> None:
    splitter = LineSplitter(100)
    splitter.feed(b"a\nbcd")
    assert splitter.held_bytes == 3
    splitter.feed(b"\n")
    assert splitter.held_bytes == 0


@given(_VALUES)
def test_a_value_is_one_line_for_every_reader(value: Any) -> None:
    line = dump_line(value)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == value
