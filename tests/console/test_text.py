"""What others chose to write cannot deceive who reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.console.export import csv_lines, guarded
from gateway.console.text import is_seen, plain, pretty, shown


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "<bdi>plain</bdi>"),
        ("<script>", "<bdi>&lt;script&gt;</bdi>"),
        ("a\"b'c&d", "<bdi>a&#34;b&#39;c&amp;d</bdi>"),
        ("evil\u202egpj.exe", '<bdi>evil<span class="unseen">U+202E</span>gpj.exe</bdi>'),
        ("a\u200bb", '<bdi>a<span class="unseen">U+200B</span>b</bdi>'),
        ("a\nb", '<bdi>a<span class="unseen">U+000A</span>b</bdi>'),
        ("\ud800", '<bdi><span class="unseen">U+D800</span></bdi>'),
        ("a\u00a0b", '<bdi>a<span class="unseen">U+00A0</span>b</bdi>'),
        ("\u3164", '<bdi><span class="unseen">U+3164</span></bdi>'),
        ("né 雪 שלום", "<bdi>né 雪 שלום</bdi>"),
        ("e\u0301\u0301\u0301", '<bdi>e\u0301\u0301<span class="unseen">U+0301</span></bdi>'),
        ("x" * 205, f'<bdi>{"x" * 200}</bdi><span class="cut">… 5 more</span>'),
        (7, "<bdi>7</bdi>"),
    ],
)
def test_text_is_escaped_cut_and_made_visible(text: object, html: str) -> None:
    assert shown(text) == html


@given(st.text(alphabet=st.characters(), max_size=300))
def test_nothing_unseen_and_no_markup_is_left(text: str) -> None:
    for character in (html := str(shown(text))):
        assert is_seen(character)
    assert html.count("<") == 2 + 2 * html.count('<span class="')
    assert all(map(is_seen, plain(text)))
    assert pretty({"x": text}).isascii()


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_no_cell_of_a_table_begins_as_a_formula(cells: list[str]) -> None:
    for cell in cells:
        first = guarded(cell).lstrip(" ")[:1]
        assert first not in {"=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"}
    assert csv_lines([["=1+1", 'a"b']]) == b'"\'=1+1","a""b"\r\n'
