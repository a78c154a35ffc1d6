"""The value that a form's parts spell, and parts as they leave."""

from __future__ import annotations

from email import message_from_bytes
from email.policy import HTTP
from io import BytesIO
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from multipart import MultipartParser

from gateway.errors import Problem, Reason
from gateway.names import Kind
from gateway.rewrite.forms import Fields, TextPart, end, file_at, head, media_type, read_disposition, steps, texts
from gateway.surfaces.spec import FILE, PLAIN, Each, Either, File, Id, Obj, Role

REQUEST = Obj(
    {
        "purpose": PLAIN,
        "file": File(after=("purpose",)),
        "image": Either(FILE, Each(FILE)),
        "input_reference": Either(FILE, Obj({"file_id": Id(Kind.FILE, Role.REF)})),
    }
)


def value_of(*parts: tuple[str, str]) -> dict[str, Any]:
    fields = Fields()
    for name, text in parts:
        fields.add(name, text)
    return fields.value


def test_names_spell_members_and_elements() -> None:
    assert value_of(
        ("model", "gpt-5"), ("a[b][c]", "1"), ("a[b][d]", "2"), ("list[]", "x"), ("list[]", "y"), ("a[e][]", "z"),
        ("stream", "true"), ("x[0][id]", "false"),
    ) == {
        "model": "gpt-5", "a": {"b": {"c": "1", "d": "2"}, "e": ["z"]}, "list": ["x", "y"], "stream": True,
        "x": {"0": {"id": False}},
    }  # fmt: skip


letters = st.characters(codec="utf-8", exclude_characters='[]"\\', exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"])
names = st.text(letters, min_size=1, max_size=8)
leaves = st.text(st.characters(codec="utf-8"), max_size=20)
values = st.recursive(
    leaves | st.booleans(),
    lambda inner: st.dictionaries(names, inner | st.lists(leaves, min_size=1, max_size=3), min_size=1, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(names.filter(lambda name: name != "_charset_"), values, max_size=4))
def test_what_parts_spell_is_spelt_by_the_same_parts_again(value: dict[str, Any]) -> None:
    parts = list(texts(value))
    assert list(texts(value_of(*[(one.name, one.text) for one in parts]))) == parts


@pytest.mark.parametrize(
    "parts",
    [
        [("a", "1"), ("a", "2")],
        [("a", "1"), ("a[]", "2")],
        [("a[]", "1"), ("a", "2")],
        [("a", "1"), ("a[b]", "2")],
        [("a[b]", "1"), ("a", "2")],
        [("a[]", "1"), ("a[0]", "2")],
        [("a[b]", "1"), ("a[b]", "2")],
        [("a[b][]", "1"), ("a[b]", "2")],
    ],
)
def test_a_part_that_is_given_twice_or_contradicts_another_is_refused(parts: list[tuple[str, str]]) -> None:
    with pytest.raises(Problem) as refused:
        value_of(*parts)
    assert refused.value.reason is Reason.BAD_PARAMETER


@pytest.mark.parametrize(
    "name",
    [
        "",
        "[]",
        "[a]",
        "a[",
        "a]",
        "a[]b",
        "a[][b]",
        "a[b",
        "a\n",
        'a"b',
        "a\\b",
        " a",
        "a ",
        "a\0",
        "_charset_",
        "a" + "[b]" * 8,
    ],
)
def test_a_name_that_two_readers_could_take_apart_differently_is_refused(name: str) -> None:
    with pytest.raises(Problem):
        steps(name)


@pytest.mark.parametrize(
    ("first", "then"), [("file", "file"), ("image", "image"), ("image", "image[]"), ("image[]", "image")]
)
def test_a_file_is_given_once_unless_its_name_says_that_there_are_several(first: str, then: str) -> None:
    fields = Fields()
    fields.add_file(first)
    with pytest.raises(Problem):
        fields.add_file(then)


def test_several_files_have_one_name_and_no_text_has_it() -> None:
    fields = Fields()
    for _ in range(3):
        fields.add_file("image[]")
    for name in ("image", "image[]", "image[file_id]"):
        with pytest.raises(Problem):
            fields.add(name, "x")
    fields = Fields()
    fields.add("image[file_id]", "x")
    with pytest.raises(Problem):
        fields.add_file("image")


def test_the_table_says_where_a_file_may_stand() -> None:
    assert file_at(REQUEST, "file").after == ("purpose",)
    for name in ("image", "image[]", "input_reference"):
        assert file_at(REQUEST, name).after is None
    for name in ("purpose", "x", "file[]", "file[a]", "image[a]", "input_reference[file_id]", "image[][]"):
        with pytest.raises(Problem) as refused:
            file_at(REQUEST, name)
        assert refused.value.reason is Reason.BAD_PARAMETER


@pytest.mark.parametrize(
    ("header", "name", "filename"),
    [
        ('form-data; name="file"; filename="a b.txt"', "file", "a b.txt"),
        ('form-data; filename="ü€.txt"; name="file"', "file", "ü€.txt"),
        ("form-data; name=file; filename=a.txt; filename*=utf-8''a.txt", "file", "a.txt"),
        ('form-data; name="file"', "file", None),
        ('form-data; name="file"; filename=""', "file", ""),
        ('form-data; name="file"; filename="C:\\\\fake\\path\\x.txt"', "file", "C:\\\\fake\\path\\x.txt"),
        ('form-data; name="file"; filename="a\\"b.txt"', "file", "a%22b.txt"),
        ('form-data; name="file"; filename="a%22b%0D%0A.txt"', "file", "a%22b%0D%0A.txt"),
        ('Form-Data;name="a[b]"', "a[b]", None),
    ],
)
def test_a_disposition_gives_the_names_as_they_were_sent(header: str, name: str, filename: str | None) -> None:
    assert read_disposition(header) == (name, filename)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "form-data",
        "attachment; name=a",
        'form-data; filename="a"',
        'form-data; name="a"; name="b"',
        'form-data; name="a"; NAME="b"',
        'form-data; name="a"; filename="b"; filename="c"',
        'form-data; name="a"; x="b"',
        'form-data; name="a" b',
        'form-data; name="a"; filename="b\\"',
        'form-data; name="a"b"',
        'form-data; name="a',
        "form-data; name=a;b",
        'form-data; name=""',
        'form-data; name="a"; filename="a\x01b"',
        'form-data; name="a"; filename=a\x00b',
        'form-data; name="a"; filename=a\x7fb',
        'form-datax; name="a"',
        "form-data; name*=utf-8''a",
    ],
)
def test_a_disposition_that_two_readers_could_take_apart_differently_is_refused(header: str) -> None:
    with pytest.raises(Problem):
        read_disposition(header)


def test_a_part_says_its_type_without_parameters_or_not_at_all() -> None:
    assert media_type("Image/PNG; charset=x") == "image/png"
    assert [media_type(text) for text in ("", "png", "image/", 'a/b"', "ü/b")] == [""] * 5


@given(
    st.lists(st.tuples(names, leaves | st.none(), st.binary(max_size=60)), max_size=5),
)
def test_another_parser_finds_what_was_written(parts: list[tuple[str, str | None, bytes]]) -> None:
    boundary = "coatcheck-7"
    sent = []
    for name, filename, data in parts:
        shown = None if filename is None else "".join(c for c in filename if c.isprintable() and c not in '"\\%')
        sent.append((name, shown, data))
    body = b"".join(head(boundary, name, shown, "") + data + b"\r\n" for name, shown, data in sent) + end(boundary)
    found = (
        [
            (part.name, part.filename, part.raw)
            for part in MultipartParser(BytesIO(body), boundary, spool_limit=1 << 20, strict=True)
        ]
        if sent
        else []
    )
    assert found == [
        (name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n"), "blob" if shown == "" else shown, data)
        for name, shown, data in sent
    ]


BITS = ['"', '"', "; ", "; filename=", "; name=", "filename*", ";", "=", "\\", "%22", "a", "[b]", "[]", "ü", " ", "'"]


@given(st.lists(st.sampled_from(BITS), max_size=14).map("".join))
@example('"file"; filename="a\\"; name=\\"purpose"')
@example('"a"; filename="x"; filename*=utf-8\'\'y')
def test_a_disposition_that_is_taken_reads_the_same_to_another_reader_once_it_is_written_anew(said: str) -> None:
    try:
        name, filename = read_disposition("form-data; name=" + said)
        steps(name)
    except Problem:
        return
    written = head("b", name, filename).removeprefix(b"--b\r\n")
    other = message_from_bytes(written, policy=HTTP)
    assert other.get_content_disposition() == "form-data"
    assert other.get_param("name", header="content-disposition") == name
    assert (other.get_param("filename", header="content-disposition") is None) is (filename is None)
    (parsed,) = MultipartParser(BytesIO(b"--b\r\n" + written + b"x\r\n" + end("b")), "b")
    assert parsed.name == name.replace("%22", '"')
    assert (parsed.filename is None) is (filename is None)


def test_a_text_is_written_as_it_was() -> None:
    assert [TextPart("a[b]", "x"), TextPart("c[]", "true")] == list(texts({"a": {"b": "x"}, "c": [True]}))


def test_a_file_without_a_name_is_told_from_a_text_by_every_reader() -> None:
    assert b'; filename="blob"\r\n' in head("b", "mask", "")
    assert b"filename" not in head("b", "purpose")
