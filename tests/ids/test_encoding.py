from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.encoding import ALPHABET, base62, lp, unbase62

parts = st.lists(st.binary(max_size=20) | st.text(max_size=20), max_size=5)


def _as_bytes(values: list[bytes | str]) -> list[bytes]:
    return [value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value for value in values]


@given(parts, parts)
def test_two_lists_of_parts_give_the_same_bytes_only_if_they_are_the_same(
    one: list[bytes | str], other: list[bytes | str]
) -> None:
    assert (lp(*one) == lp(*other)) == (_as_bytes(one) == _as_bytes(other))


def test_a_part_stands_after_its_length_in_four_bytes() -> None:
    assert lp("ä", b"", b"\x00") == b"\x00\x00\x00\x02\xc3\xa4" + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x01\x00"


def test_a_lone_surrogate_from_json_is_encoded_instead_of_raising() -> None:
    assert lp("\ud800") != lp("\ud801") != lp("?")


@given(st.binary(min_size=25, max_size=25))
def test_base62_gives_back_what_it_wrote_at_a_fixed_width(data: bytes) -> None:
    text = base62(data, 34)
    assert len(text) == 34
    assert set(text) <= set(ALPHABET)
    assert unbase62(text, 25) == data


@given(st.text(ALPHABET, min_size=34, max_size=34))
def test_every_text_that_decodes_is_the_one_spelling_of_its_bytes(text: str) -> None:
    data = unbase62(text, 25)
    assert data is None or base62(data, 34) == text


@pytest.mark.parametrize(
    "text", ["z" * 34, "0" * 33 + "_", "0" * 33 + "é", "0" * 33 + " ", "٣" * 34, "0" * 33 + "\ud800", "0" * 33]
)
def test_a_number_too_large_or_another_character_does_not_decode(text: str) -> None:
    assert unbase62(text, 25) is None


def test_a_width_that_does_not_hold_the_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="base62"):
        base62(b"\xff" * 25, 32)
    with pytest.raises(ValueError, match="base62"):
        base62(b"\x01", 35)
