from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.form import DeploymentForm, TenantForm
from gateway.ids.keys import IdentityKeys
from gateway.ids.kinds import PREFIXES
from gateway.ids.shape import RAW, RAW_BYTES, SHORTEST, find_in_names, find_raw, is_only_raw, is_raw_shape
from gateway.names import Kind

HEX50 = "0c392a2e7f017469006a6c0507abcdef0123456789abcdef01"
UUID = "deadbeef-0123-4567-89ab-cdefABCDEF01"
BASE62 = "MDLqXZjNjNeLwwaRACNDN1"
TUNED_MODEL = f"ft:gpt-4o-mini-2024-07-18:org-{BASE62}:coats:8k01tfYd"


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("tail", [HEX50, HEX50[2:], HEX50[:32], UUID, BASE62, "7" * 20, "a" * 63 + "1"])
def test_every_listed_prefix_with_a_tail_of_any_server_has_the_shape(prefix: str, tail: str) -> None:
    assert is_raw_shape(prefix + tail)


@pytest.mark.parametrize(
    "text",
    [
        HEX50,
        UUID,
        "call_" + BASE62,
        "connector_" + BASE62,
        "xresp_" + HEX50,
        "RESP_" + HEX50,
        "resp-" + HEX50,
        "resp_" + "a" * 30,
        "resp_" + "1" * 19,
        "resp_" + "1" * 65,
        "resp_" + HEX50 + "_",
        "resp_" + HEX50 + "-x",
        "resp_" + UUID + "0",
        "resp_" + UUID[:-1],
        "resp_" + HEX50 + "\n",
        " resp_" + HEX50,
        "msg_0",
        "",
    ],
)
def test_anything_else_has_it_not(text: str) -> None:
    assert not is_raw_shape(text)


@pytest.mark.parametrize("around", [' "{}"', "é{}é", "/{}/", "'{}'.", "<{}>", "{}", "\n{}\n", "a/mnt/{}.png", "={}&"])
def test_it_is_found_between_characters_that_are_no_part_of_an_id(around: str) -> None:
    raw = "cfile_" + HEX50
    text = around.format(raw)
    start = text.index(raw)
    assert find_raw(text) == [(start, start + len(raw))]
    data = text.encode()
    assert [data[a:b] for a, b in find_raw(data)] == [raw.encode()]


@pytest.mark.parametrize("around", ["_{}", "-{}", "x{}", "9{}", "{}_", "{}-", "{}Z" + "0" * 40])
def test_it_is_not_found_inside_a_longer_word(around: str) -> None:
    assert find_raw(around.format("resp_" + HEX50)) == []


def test_the_longest_prefix_is_part_of_what_is_found() -> None:
    text = f"x batch_req_{HEX50} vsfb_ibj_{HEX50} cu_sc_{HEX50} sk-proj-{HEX50} rtc_u1_{HEX50} resp_{UUID}"
    assert [text[a:b] for a, b in find_raw(text)] == text.split()[1:]


@pytest.mark.parametrize(
    "name",
    [
        TUNED_MODEL,
        f"{TUNED_MODEL}:ckpt-step-200",
        "ft:gpt-4o:acme::8k01tfYd",
        "ft:babbage-002:personal:x.y_z:ab12",
        "FT:gpt-4o-mini:acme:coats:B7R9VjQd",
        "Ft:gpt-4o-mini:acme:coats:B7R9VjQd",
        "ft:" + "a" * (SHORTEST - 3),
    ],
)
def test_a_fine_tuned_models_name_has_the_shape_whatever_stands_in_it_and_in_any_case(name: str) -> None:
    assert is_raw_shape(name)
    text = f"New fine-tuned model created: {name}. A draft: {name}"
    assert [text[a:b] for a, b in find_raw(text)] == [name, name]
    assert [text.encode()[a:b] for a, b in find_raw(text.encode())] == [name.encode()] * 2


def test_words_that_end_in_ft_and_short_ones_are_no_models_names() -> None:
    assert find_raw("A draft:gpt-4o-mini:acme and soft:gpt-4o-mini:acme, x-ft:gpt-4o-mini:acme, 12 ft:4.") == []
    assert find_raw("ft:" + "a" * (SHORTEST - 4)) == []


pieces = st.lists(
    st.sampled_from(
        [
            *PREFIXES,
            HEX50,
            UUID,
            BASE62,
            "_",
            "-",
            " ",
            "\n",
            '"',
            "x",
            "é",
            "a" * 30,
            "1" * 30,
            "resp",
            "batch_req",
            TUNED_MODEL,
            TUNED_MODEL.upper(),
            "F" + TUNED_MODEL[1:],
            ":",
            ".",
        ]
    ),
    max_size=12,
).map("".join)


@given(pieces | st.text(max_size=80))
def test_the_fast_search_finds_what_the_pattern_finds(text: str) -> None:
    assert find_raw(text) == [match.span() for match in RAW.finditer(text)]
    data = text.encode("utf-8", "replace")
    assert find_raw(data) == [match.span() for match in RAW_BYTES.finditer(data)]


@given(pieces | st.text(max_size=60))
def test_whole_strings_and_found_ones_agree(text: str) -> None:
    assert is_raw_shape(text) == (find_raw(text) == [(0, len(text))] and text != "")
    assert not is_only_raw(text) or find_raw(text)


def test_ids_of_our_own_have_the_shape_too_so_that_the_caller_must_verify() -> None:
    form = TenantForm(DeploymentForm("d", {1: b"t" * 32}, 1), {1: IdentityKeys.derive(b"i" * 32)}, 1)
    assert is_raw_shape(form.opaque(Kind.RESPONSE, "resp_" + HEX50, "p").text)


@pytest.mark.parametrize("piece", ["resp_", "-", "_0", "a1", "a", "resp_a"])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    hostile = "resp_" + piece * (100_000 // len(piece))
    started = time.perf_counter()
    find_raw(hostile)
    RAW.findall(hostile)
    assert time.perf_counter() - started < 2


def test_four_kilobytes_of_json_are_searched_in_a_fraction_of_a_millisecond() -> None:
    text = json.dumps({"id": "resp_" + HEX50, "text": "The quick brown fox, a snake_case word, a well-read dog. " * 68})
    data = text.encode()
    rounds = 50
    best = min(_seconds(data) for _ in range(rounds))
    assert len(data) > 3_800
    assert best < 0.001


def _seconds(data: bytes) -> float:
    started = time.perf_counter()
    assert len(find_raw(data)) == 1
    return time.perf_counter() - started


@pytest.mark.parametrize("name", ["{}_output.jsonl", "{}-small.png", "{}", "/files/{}_1", "{}_{}", "of {} and {}-x"])
def test_in_a_name_that_the_service_makes_an_id_may_go_on_with_a_word(name: str) -> None:
    raw = "batch_" + HEX50[:32]
    text = name.format(raw, raw)
    assert [text[start:end] for start, end in find_in_names(text)] == [raw] * name.count("{}")


@pytest.mark.parametrize(
    "text", ["call_" + BASE62 + "_output", "resp_" + "1" * 65 + "_x", "aresp_" + HEX50 + "_x", "msg_0_x"]
)
def test_other_names_hold_no_id(text: str) -> None:
    assert find_in_names(text) == []


def test_a_models_name_in_a_name_is_found_once() -> None:
    assert find_in_names(TUNED_MODEL) == find_raw(TUNED_MODEL) == [(0, len(TUNED_MODEL))]
