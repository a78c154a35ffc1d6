"""Raw IDs and foreign tokens in disguise: what another parser might trim, split, coerce or look below into."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import Problem, Reason
from gateway.names import Kind
from gateway.rewrite.inbound import collect
from gateway.surfaces.realtime import REALTIME
from gateway.surfaces.table import BY_ACTION
from tests.rewrite.keys import ALICE

RAW, OTHER = "resp_" + "0a1b2c3d4e" * 5, "file-" + "0a1b2c3d4e" * 2
TUNED = "ft:gpt-4o-mini:acme:coats:B7R9VjQd"
OWN = ALICE.opaque(Kind.RESPONSE, RAW)
SKILL = ALICE.opaque(Kind.SKILL, "skill_" + "0a" * 24)
VERSION = "skillver_" + "0a1b2c3d4e" * 4
CREATE, LIST = BY_ACTION["responses.create"], BY_ACTION["responses.input_items"]

DISGUISES = {
    "trimmed": f" {RAW}\n",
    "trimmed of what is not seen": f"\ufeff{RAW}\u200b",
    "in quotation marks": f'"{RAW}"',
    "a list": f"{RAW},{OTHER}",
    "a list in JSON": f'["{RAW}", "{OTHER}"]',
    "a list with one of ours": f"{OWN} {RAW}",
    "a model's name": TUNED,
    "a model's name in upper case": TUNED.upper(),
    "a model's name in mixed case": f"F{TUNED[1:]}",
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_field_that_no_table_knows_takes_no_raw_id_in_disguise(disguise: str) -> None:
    text = DISGUISES[disguise]
    for body in (
        {"x_new": text},
        {"x_new": [{"ids": text}]},
        {"input": [{"type": "x_unheard_of", "x": {text: 1}}]},
        {"tools": [{"type": "image_generation", "model": text}]},
    ):
        assert refused(body).reason is Reason.RAW_ID_OUT_OF_PLACE


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_query_takes_no_raw_id_in_disguise(disguise: str) -> None:
    with pytest.raises(Problem) as problem:
        collect(LIST, {"response_id": OWN}, [("include[]", DISGUISES[disguise])], None, ALICE.form.verify)
    assert problem.value.reason is Reason.RAW_ID_OUT_OF_PLACE


@pytest.mark.parametrize(
    "spelt", [OTHER.replace("f", "\\u0066"), OTHER.replace("-", "\\u002D"), OTHER.replace("-", "\\\\u002d")]
)
def test_a_forms_text_that_may_be_read_as_json_spells_no_raw_id_with_escapes(spelt: str) -> None:
    for name in ("images", "x_new"):
        body = {name: f'[{{"file_id":"{spelt}"}}]'}
        with pytest.raises(Problem) as problem:
            collect(BY_ACTION["images.edit"], {}, [], body, ALICE.form.verify, form=True)
        assert problem.value.reason is Reason.RAW_ID_OUT_OF_PLACE


@pytest.mark.parametrize(
    "text", [f"see {RAW}", f"{RAW} is gone", OWN, f"{OWN}, {OWN}", "", "a" * 100_000, "_-" * 50_000]
)
def test_what_says_more_than_an_id_passes_in_a_field_that_no_table_knows(text: str) -> None:
    assert collect(CREATE, {}, [], {"x_new": text}, ALICE.form.verify).references == []


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": {"file_id": OTHER}},
        {"type": "input_audio", "input_audio": {"id": RAW}},
        {"type": "input_file", "file_data": [OTHER]},
        {"type": "input_image", "image_url": OTHER},
        {"type": "input_file", "file_data": f" {OTHER}"},
    ],
)
def test_below_media_no_raw_id_passes(part: dict[str, Any]) -> None:
    assert refused({"input": [{"role": "user", "content": [part]}]}).reason is Reason.RAW_ID_OUT_OF_PLACE


@pytest.mark.parametrize("value", [7, True, 1.5, ["key"], {"key": "key"}])
@pytest.mark.parametrize("name", ["prompt_cache_key", "safety_identifier", "user"])
def test_a_token_that_cannot_be_hashed_does_not_go_on_as_it_is(name: str, value: object) -> None:
    assert refused({name: value}).reason is Reason.BAD_PARAMETER


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("skills.update", {"default_version": VERSION}),
        (
            "containers.create",
            {"name": "x", "skills": [{"type": "skill_reference", "skill_id": SKILL, "version": VERSION}]},
        ),
    ],
)
def test_a_version_that_is_told_by_its_raw_id_is_refused(action: str, body: dict[str, Any]) -> None:
    with pytest.raises(Problem) as problem:
        collect(BY_ACTION[action], {"skill_id": SKILL}, [], body, ALICE.form.verify)
    assert problem.value.reason is Reason.RAW_ID_OUT_OF_PLACE


@pytest.mark.parametrize(
    "query", [[("model", "gpt-realtime"), ("model", "gpt-5")], [("model", "gpt-realtime"), ("model[]", "gpt-5")]]
)
def test_of_two_values_of_one_parameter_none_is_decided_on_while_the_service_takes_the_other(
    query: list[tuple[str, str]],
) -> None:
    with pytest.raises(Problem) as problem:
        collect(REALTIME.connect, {}, query, None, ALICE.form.verify)
    assert problem.value.reason is Reason.BAD_PARAMETER
    with pytest.raises(Problem) as problem:
        collect(LIST, {"response_id": OWN}, [("after[]", OWN)], None, ALICE.form.verify)
    assert problem.value.reason is Reason.BAD_PARAMETER


def refused(body: dict[str, Any]) -> Problem:
    with pytest.raises(Problem) as problem:
        collect(CREATE, {}, [], body, ALICE.form.verify)
    return problem.value
