"""Requests: every place of an ID is found, everything else passes, and what looks raw passes nowhere."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Problem, Reason
from gateway.names import Kind
from gateway.rewrite.inbound import collect
from gateway.rewrite.named import Collected, put, refusal
from gateway.rewrite.walker import MAX_REFERENCES
from gateway.surfaces.route import Route
from gateway.surfaces.spec import Blob, Hashed
from gateway.surfaces.table import BY_ACTION
from tests.rewrite.keys import ALICE, BOB, OUTER

CREATE = BY_ACTION["responses.create"]
RAWS = {
    Kind.RESPONSE: "resp_" + "0123456789abcdef" * 3,
    Kind.CONVERSATION: "conv_" + "0123456789abcdef" * 3,
    Kind.ITEM: "msg_" + "0123456789abcdef" * 3,
    Kind.FILE: "file-" + "0123456789abcdef" * 2,
    Kind.VECTOR_STORE: "vs_" + "0123456789abcdef" * 2,
    Kind.CONTAINER: "cntr_" + "0123456789abcdef" * 3,
    Kind.CONTAINER_FILE: "cfile_" + "0123456789abcdef" * 3,
    Kind.SKILL: "skill_" + "0123456789abcdef" * 3,
    Kind.PROMPT: "pmpt_" + "0123456789abcdef" * 3,
    Kind.TUNNEL: "tunnel_" + "0123456789abcdef" * 3,
}
RAW = RAWS[Kind.RESPONSE]


def own(kind: Kind) -> str:
    return ALICE.opaque(kind, RAWS[kind])


RESPONSE, CONVERSATION, ITEM, FILE = (own(kind) for kind in (Kind.RESPONSE, Kind.CONVERSATION, Kind.ITEM, Kind.FILE))


def read(body: object, route: Route = CREATE, query: list[tuple[str, str]] | None = None, **segments: str) -> Collected:
    return collect(route, segments, query or [], body, ALICE.form.verify)


def asked(items: list[Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-5", "input": items if items is not None else "hello", **fields}


def user(**part: Any) -> dict[str, Any]:
    return {"role": "user", "content": [part]}


def said(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text, **more}]}


PLACES: list[tuple[dict[str, Any], str, Kind, bool]] = [
    (asked(previous_response_id=RESPONSE), "previous_response_id", Kind.RESPONSE, True),
    (asked(conversation=CONVERSATION), "conversation", Kind.CONVERSATION, True),
    (asked(conversation={"id": CONVERSATION}), "conversation.id", Kind.CONVERSATION, True),
    (asked(prompt={"id": own(Kind.PROMPT)}), "prompt.id", Kind.PROMPT, True),
    (asked(prompt_cache_options={"comparison_response_id": RESPONSE}), "prompt_cache_options.comparison_response_id",
     Kind.RESPONSE, False),
    (asked([{"type": "item_reference", "id": ITEM}]), "input[0].id", Kind.ITEM, True),
    (asked([{"id": ITEM, **said()}]), "input[0].id", Kind.ITEM, False),
    (asked([{"type": "reasoning", "id": ITEM, "summary": []}]), "input[0].id", Kind.ITEM, True),
    (asked([{"type": "reasoning", "id": ITEM, "summary": [], "encrypted_content": None}]), "input[0].id", Kind.ITEM, True),
    (asked([{"type": "reasoning", "id": ITEM, "summary": [], "encrypted_content": "x"}]), "input[0].id", Kind.ITEM, False),
    (asked([{"type": "image_generation_call", "id": ITEM}]), "input[0].id", Kind.ITEM, True),
    (asked([{"type": "image_generation_call", "id": ITEM, "result": "aGk="}]), "input[0].id", Kind.ITEM, False),
    (asked([{"type": "function_call", "id": ITEM, "call_id": "c", "name": "f", "arguments": "{}"}]), "input[0].id",
     Kind.ITEM, False),
    (asked([{"type": "mcp_approval_response", "approval_request_id": ITEM, "approve": True}]),
     "input[0].approval_request_id", Kind.ITEM, True),
    (asked([user(type="input_image", file_id=FILE)]), "input[0].content[0].file_id", Kind.FILE, True),
    (asked([user(type="input_file", file_id=FILE)]), "input[0].content[0].file_id", Kind.FILE, True),
    (asked([{"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "file_id": FILE}}]),
     "input[0].output.file_id", Kind.FILE, True),
    (asked([{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": FILE}]}]),
     "input[0].output[0].file_id", Kind.FILE, True),
    (asked([said(annotations=[{"type": "file_citation", "file_id": FILE}])]), "input[0].content[0].annotations[0].file_id",
     Kind.FILE, True),
    (asked([said(annotations=[{"type": "container_file_citation", "container_id": own(Kind.CONTAINER)}])]),
     "input[0].content[0].annotations[0].container_id", Kind.CONTAINER, True),
    (asked([{"type": "code_interpreter_call", "code": "1", "container_id": own(Kind.CONTAINER)}]), "input[0].container_id",
     Kind.CONTAINER, True),
    (asked([{"type": "file_search_call", "queries": [], "results": [{"vector_store_id": own(Kind.VECTOR_STORE)}]}]),
     "input[0].results[0].vector_store_id", Kind.VECTOR_STORE, True),
    (asked(tools=[{"type": "file_search", "vector_store_ids": [own(Kind.VECTOR_STORE)]}]), "tools[0].vector_store_ids[0]",
     Kind.VECTOR_STORE, True),
    (asked(tools=[{"type": "code_interpreter", "container": own(Kind.CONTAINER)}]), "tools[0].container",
     Kind.CONTAINER, True),
    (asked(tools=[{"type": "code_interpreter", "container": {"type": "auto", "file_ids": [FILE]}}]),
     "tools[0].container.file_ids[0]", Kind.FILE, True),
    (asked(tools=[{"type": "mcp", "tunnel_id": own(Kind.TUNNEL)}]), "tools[0].tunnel_id", Kind.TUNNEL, True),
    (asked(tools=[{"type": "namespace", "name": "n", "tools": [{"type": "mcp", "tunnel_id": own(Kind.TUNNEL)}]}]),
     "tools[0].tools[0].tunnel_id", Kind.TUNNEL, True),
    (asked(tools=[{"type": "shell", "environment": {"type": "container_reference", "container_id": own(Kind.CONTAINER)}}]),
     "tools[0].environment.container_id", Kind.CONTAINER, True),
    (asked([{"type": "tool_search_output", "tools": [{"type": "file_search", "vector_store_ids": [own(Kind.VECTOR_STORE)]}]}]),
     "input[0].tools[0].vector_store_ids[0]", Kind.VECTOR_STORE, True),
    (asked(instructions=[{"type": "item_reference", "id": ITEM}]), "instructions[0].id", Kind.ITEM, True),
    (asked(prompt={"id": own(Kind.PROMPT), "variables": {"doc": {"type": "input_file", "file_id": FILE}}}),
     "prompt.variables.doc.file_id", Kind.FILE, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "param", "kind", "required"), PLACES, ids=[f"{n} {one[1]}" for n, one in enumerate(PLACES)]
)
def test_every_place_of_an_id_is_found_with_its_kind_and_whether_it_must_open(
    body: dict[str, Any], param: str, kind: Kind, required: bool
) -> None:
    reference = next(one for one in read(body).references if one.param == param)
    assert (reference.kind, reference.required) == (kind, required)
    assert reference.parsed is not None
    assert refusal(reference) is None


@pytest.mark.parametrize(
    ("body", "param", "kind", "required"), PLACES, ids=[f"{n} {one[1]}" for n, one in enumerate(PLACES)]
)
def test_what_opened_is_put_in_its_place_and_nothing_else_is_changed(
    body: dict[str, Any], param: str, kind: Kind, required: bool
) -> None:
    body = copy.deepcopy(body)
    before = copy.deepcopy(body)
    collected = read(body)
    assert body == before, "collecting reads only"
    for reference in collected.references:
        reference.raw = f"raw of {reference.text}"
    put(collected)
    texts = [reference.text for reference in collected.references]

    def expected(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: expected(member) for name, member in value.items()}
        if isinstance(value, list):
            return [expected(element) for element in value]
        return f"raw of {value}" if value in texts else value

    assert body == expected(before)


def test_an_inline_items_id_that_did_not_open_is_left_out_and_the_item_stays() -> None:
    body = asked([{"id": "msg_0", **said()}], prompt_cache_options={"comparison_response_id": "resp_x", "ttl": "1h"})
    collected = read(body)
    put(collected)
    assert body["input"] == [said()]
    assert body["prompt_cache_options"] == {"ttl": "1h"}


@pytest.mark.parametrize(
    "text",
    [
        "resp_1",
        RAW,
        "",
        "resp_",
        RESPONSE.swapcase(),
        RESPONSE + "a",
        RESPONSE[:-1],
        " " + RESPONSE,
        "conv_" + RESPONSE[5:],
    ],
)
def test_what_is_no_opaque_id_is_told_by_its_form(text: str) -> None:
    (reference,) = read(asked(previous_response_id=text)).references
    assert refusal(reference) is Reason.NOT_AN_OPAQUE_ID


def test_an_id_of_another_kind_of_another_deployment_and_of_another_tenant_are_told_apart() -> None:
    def told(text: str) -> Reason | None:
        (reference,) = read(asked(previous_response_id=text)).references
        return refusal(reference)

    assert told(CONVERSATION) is Reason.WRONG_KIND
    assert told(OUTER.opaque(Kind.RESPONSE, RAW)) is Reason.NOT_AN_OPAQUE_ID
    assert told(BOB.opaque(Kind.RESPONSE, RAW)) is None, "only a look-up can tell"
    assert told(ALICE.inert(Kind.RESPONSE, RAW)) is None


def test_all_forms_of_not_found_read_alike() -> None:
    (reference,) = read(asked(previous_response_id="resp_1")).references
    problems = [reference.problem(reason) for reason in (Reason.NOT_OWNED, Reason.WRONG_KIND, Reason.NOT_AN_OPAQUE_ID)]
    assert len({(one.missing, one.quoted, one.status) for one in problems}) == 1


USERS = [
    {"model": "gpt-5", "input": RAW},
    asked(instructions=RAW),
    asked(metadata={"id": RAW, RAW: [RAW]}),
    asked([user(type="input_text", text=RAW)]),
    asked([{"type": "function_call", "call_id": RAW, "name": "f", "arguments": RAW}]),
    asked([{"type": "function_call_output", "call_id": "c", "output": RAW}]),
    asked(tools=[{"type": "function", "name": "f", "parameters": {"properties": {"id": {"const": RAW}}}}]),
    asked(text={"format": {"type": "json_schema", "schema": {"enum": [RAW]}}}),
    asked(tools=[{"type": "mcp", "server_label": "m", "headers": {"x": RAW}}]),
    asked(prompt={"variables": {"name": RAW}}),
    asked([user(type="input_image", image_url=f"data:image/png;base64,{RAW}")]),
]


@pytest.mark.parametrize("body", USERS)
def test_the_users_own_words_pass_untouched(body: dict[str, Any]) -> None:
    before = copy.deepcopy(body)
    put(read(body))
    assert body == before


@pytest.mark.parametrize(
    "body",
    [
        asked(new_field=RAW),
        asked(new_field={"deep": [[{"er": RAW}]]}),
        asked(new_field={RAW: 1}),
        asked([{"type": "message", "role": "user", "content": "x", "parent_item": RAW}]),
        asked([{"type": "brand_new_item", "thing": RAW}]),
        asked([[RAW]]),
        asked([RAW]),
        asked(tools=[{"type": "brand_new_tool", "store": RAW}]),
        asked(tools=RAW),
        asked(tools={"a": RAW}),
        asked(conversation=[RAW]),
        asked(text=RAW),
        asked(prompt=RAW),
        asked(include={"a": RAW}),
        asked([user(type="brand_new_part", file_id=RAW)]),
        [RAW],
        RAW,
        {RAW: 1},
    ],
)
def test_a_raw_shape_anywhere_else_is_refused(body: object) -> None:
    with pytest.raises(Problem) as refused:
        read(body)
    assert refused.value.reason is Reason.RAW_ID_OUT_OF_PLACE


def test_our_own_ids_in_an_unknown_field_pass_as_the_text_that_they_are() -> None:
    body = asked(new_field={"id": RESPONSE})
    assert read(body).references == []


@pytest.mark.parametrize("value", [1, 1.5, True, False, [], ["x"], {}, {"id": "x"}])
def test_a_value_that_is_no_string_at_an_ids_place_is_refused(value: object) -> None:
    with pytest.raises(Problem) as refused:
        read(asked(previous_response_id=value))
    assert refused.value.reason is Reason.BAD_PARAMETER
    assert refused.value.param == "previous_response_id"


@pytest.mark.parametrize("value", [1, True, {"id": 1}, {"id": ["x"]}])
def test_a_conversation_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(Problem) as refused:
        read(asked(conversation=value))
    assert refused.value.reason is Reason.BAD_PARAMETER


def test_null_at_an_ids_place_names_nothing() -> None:
    assert read(asked(previous_response_id=None, conversation=None, prompt=None)).references == []


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=40)
        | st.just(RESPONSE),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["id", "type", "input", "tools", "conversation", "content", "x"]), inner, max_size=4
            )
        ),
        max_leaves=20,
    )
)
def test_no_shape_of_a_body_is_a_failure(body: object) -> None:
    try:
        collected = read(body)
    except Problem as problem:
        assert problem.reason in (Reason.BAD_PARAMETER, Reason.RAW_ID_OUT_OF_PLACE)  # noqa: PT017
        return
    put(collected)


# --- path and query

PAGE = BY_ACTION["conversations.items.list"]


def test_path_and_query_ids_are_references_without_a_place_in_the_body() -> None:
    collected = read(None, PAGE, [("after", ITEM), ("limit", "5")], conversation_id=CONVERSATION)
    assert [(one.param, one.kind, one.required, one.container) for one in collected.references] == [
        ("conversation_id", Kind.CONVERSATION, True, None),
        ("after", Kind.ITEM, True, None),
    ]


@pytest.mark.parametrize("name", ["x", "conversation_id", "after.id", "After", "id", ""])
def test_a_query_parameter_that_the_route_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(Problem) as refused:
        read(None, PAGE, [(name, "1")], conversation_id=CONVERSATION)
    assert refused.value.reason is Reason.BAD_PARAMETER


def test_a_raw_shape_in_a_plain_parameter_is_refused() -> None:
    with pytest.raises(Problem) as refused:
        read(None, PAGE, [("order", RAW)], conversation_id=CONVERSATION)
    assert refused.value.reason is Reason.RAW_ID_OUT_OF_PLACE


# --- tokens, blobs, quotations


def test_tokens_and_blobs_are_slots() -> None:
    body = asked(
        [{"type": "reasoning", "summary": [], "encrypted_content": "blob"}],
        prompt_cache_key="k", safety_identifier="s", user="u", background_options={"continuation_id": "c"},
    )  # fmt: skip
    slots = {slot.param: slot for slot in read(body).slots}
    assert {name: type(slot.spec) for name, slot in slots.items()} == {
        "input[0].encrypted_content": Blob,
        "prompt_cache_key": Hashed,
        "safety_identifier": Hashed,
        "user": Hashed,
        "background_options.continuation_id": Hashed,
    }


def test_ids_inside_replayed_code_are_quoted_and_restored_where_they_open() -> None:
    code = f"open('{FILE}') + open('x_{FILE}') + '{BOB.opaque(Kind.FILE, RAWS[Kind.FILE])}'"
    body = asked(
        [{"type": "code_interpreter_call", "code": code, "outputs": [{"type": "logs", "logs": f"{FILE} {FILE}"}]}]
    )
    collected = read(body)
    for quotation in collected.quotations:
        if quotation.text == FILE:
            quotation.raw = RAWS[Kind.FILE]
    put(collected)
    assert body["input"][0]["code"] == code.replace(FILE, RAWS[Kind.FILE])
    assert body["input"][0]["outputs"][0]["logs"] == f"{RAWS[Kind.FILE]} {RAWS[Kind.FILE]}"


def test_ids_in_the_models_prose_are_no_quotations() -> None:
    assert read(asked([said(FILE)])).quotations == []


# --- bounds


def test_references_are_counted_and_bounded() -> None:
    items = [{"type": "item_reference", "id": ITEM}] * MAX_REFERENCES
    assert len(read(asked(items)).references) == MAX_REFERENCES
    with pytest.raises(Problem) as refused:
        read(asked([*items, items[0]]))
    assert refused.value.reason is Reason.BAD_PARAMETER


def test_quotations_are_bounded_too() -> None:
    calls = [{"type": "code_interpreter_call", "code": FILE}] * (MAX_REFERENCES + 1)
    with pytest.raises(Problem) as refused:
        read(asked(calls))
    assert refused.value.reason is Reason.BAD_PARAMETER


@pytest.mark.parametrize("piece", ["a_", "msg_", "a", "file-", "msg_a", "_", "a-", "A1", "msg_" + "a" * 33 + "_"])
def test_a_hostile_text_is_read_in_a_time_that_grows_with_its_length(piece: str) -> None:
    text = piece * (300_000 // len(piece))
    started = time.process_time()
    read(asked([{"type": "code_interpreter_call", "code": text}], new_field=text))
    assert time.process_time() - started < 1
