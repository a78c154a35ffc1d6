"""Answers as clients read them. Keys and forms are the real ones; the upstream's answers are made up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Problem, Reason
from gateway.names import Kind
from gateway.rewrite.outbound import IdTable, decide, translate_json
from gateway.rewrite.sift import sift
from gateway.rewrite.splice import parse, splice, splice_exactly
from gateway.surfaces.items import ITEM_LIST
from gateway.surfaces.responses import RESPONSE
from gateway.surfaces.spec import PLAIN, Hashed, Id, Obj, Role
from tests.rewrite.answers import Writer, raw, responses, writers
from tests.rewrite.keys import ALICE, BOB, OUTER, TenantMinter

RESP, MSG, FILE, VICTIM = raw("resp_", 1), raw("msg_", 1), raw("file-", 1), raw("resp_", 99)


def message(text: str, **part: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], **part}]
    return {"id": MSG, "type": "message", "role": "assistant", "content": content}


def answered(document: Any, table: IdTable | None = None) -> Any:
    return json.loads(translate_json(json.dumps(document).encode(), RESPONSE, table or IdTable(ALICE)))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from strings(member)
    elif isinstance(value, list):
        for element in value:
            yield from strings(element)


@given(responses(), writers)
def test_both_ways_of_splicing_write_the_same_bytes(response: Any, writer: Writer) -> None:
    body = writer.write(response)
    table = IdTable(ALICE)
    document = parse(body)
    edits = decide(sift(document, RESPONSE), table)
    assert splice(body, document, edits, table) == splice_exactly(body, document, edits, table)


@given(responses(), st.integers(0, 99), st.booleans())
def test_only_the_ids_differ_from_what_the_upstream_wrote(response: Any, seed: int, spaces: bool) -> None:
    for item in response["output"]:  # their texts change too: the suffix of blobs, the indices of annotations
        item.pop("encrypted_content", None)
        for part in item.get("content", ()):
            part["annotations"] = []
    body = Writer(seed, spaces=spaces).write(response)
    table = IdTable(ALICE)
    written = translate_json(body, RESPONSE, table)
    for text, id_ in sorted(((text, id_) for id_, text in table.texts.items()), key=lambda pair: -len(pair[0])):
        written = written.replace(json.dumps(text).encode(), json.dumps(id_).encode())
        written = written.replace(text.encode(), id_.encode())
    assert json.loads(written) == json.loads(body)
    assert b"9223372036854775809" in written
    if table.texts.keys() == table.everywhere.keys():
        assert written == body


@given(responses(), writers)
def test_no_id_that_the_service_wrote_leaves_anywhere(response: Any, writer: Writer) -> None:
    table = IdTable(ALICE)
    written = json.loads(translate_json(writer.write(response), RESPONSE, table))
    told = "\n".join(strings(written))
    assert response["id"] not in told
    for item in response["output"]:
        assert item["id"] not in told
    for one in table.touched:
        assert one.raw not in told


@given(responses(), writers)
def test_translating_again_changes_nothing_and_mints_nothing(response: Any, writer: Writer) -> None:
    once = translate_json(writer.write(response), RESPONSE, IdTable(ALICE))
    table = IdTable(ALICE)
    assert translate_json(once, RESPONSE, table) == once
    assert not table.new


@given(responses())
def test_two_gateways_in_a_row_mint_for_the_same_objects(response: Any) -> None:
    body = json.dumps(response).encode()
    inner, outer = IdTable(ALICE), IdTable(OUTER)
    between = translate_json(body, RESPONSE, inner)
    outside = translate_json(between, RESPONSE, outer)
    assert [(one.kind, inner.texts[one.raw]) for one in inner.new if one.raw in inner.texts] == [
        (one.kind, one.raw) for one in outer.new
    ]
    told = "\n".join(strings(json.loads(outside)))
    assert all(inner.texts[one.raw] not in told for one in inner.new)


@given(responses(), writers)
def test_one_raw_id_is_one_opaque_id_wherever_it_stands(response: Any, writer: Writer) -> None:
    response["fresh_id"] = response["id"]
    response["note"] = f"see {response['id']}"
    response["metadata"] = {"k": f"{response['id']}!"}
    written = json.loads(translate_json(writer.write(response), RESPONSE, IdTable(ALICE)))
    assert written["fresh_id"] == written["id"] == ALICE.opaque(Kind.RESPONSE, response["id"])
    assert written["note"] == f"see {written['id']}"
    assert written["metadata"]["k"] == f"{written['id']}!"


def test_ids_that_the_service_writes_are_minted_with_what_they_belong_to() -> None:
    cited = {
        "type": "container_file_citation", "container_id": raw("cntr_", 1), "file_id": raw("cfile_", 1),
        "filename": raw("cfile_", 1) + ".png", "start_index": 0, "end_index": 1,
    }  # fmt: skip
    table = IdTable(ALICE)
    written = answered({"id": RESP, "output": [message("x", annotations=[cited])]}, table)
    assert [(one.kind, one.raw, one.parent) for one in table.new] == [
        (Kind.RESPONSE, RESP, ""),
        (Kind.ITEM, MSG, RESP),
        (Kind.CONTAINER, raw("cntr_", 1), MSG),
        (Kind.CONTAINER_FILE, raw("cfile_", 1), raw("cntr_", 1)),
    ]
    annotation = written["output"][0]["content"][0]["annotations"][0]
    assert annotation["filename"] == annotation["file_id"] + ".png"


PLANTED: list[dict[str, Any]] = [
    {"metadata": {"id": VICTIM, "k": VICTIM}},
    {"tools": [{"type": "function", "name": "f", "parameters": {"properties": {"id": {"const": VICTIM}}}}]},
    {"tools": [{"type": "mcp", "server_label": VICTIM, "headers": {"id": VICTIM}}]},
    {"output": [{"id": MSG, "type": "mcp_list_tools", "server_label": "s", "tools": [{"id": VICTIM, "name": VICTIM}]}]},
    {"output": [{"id": MSG, "type": "mcp_call", "output": VICTIM, "arguments": json.dumps({"id": VICTIM})}]},
    {"output": [{"id": MSG, "type": "mcp_call", "error": {"message": VICTIM, "id": VICTIM}}]},
    {"output": [{"id": MSG, "type": "file_search_call", "results": [{"attributes": {"id": VICTIM}, "text": VICTIM}]}]},
    {"output": [{"id": MSG, "type": "function_call_output", "output": VICTIM}]},
    {"instructions": VICTIM},
    {"instructions": [{"id": VICTIM, "type": "message", "role": "user", "content": VICTIM}]},
    {"previous_response_id": VICTIM},
    {"prompt": {"id": VICTIM, "variables": {"x": VICTIM}}},
    {"tools": [{"type": "file_search", "vector_store_ids": [VICTIM]}]},
    {"unheard_of": {"id": VICTIM, "response_id": VICTIM, "text": f"about {VICTIM}"}},
    {"unheard_of": {VICTIM: 1}},
    {"text": {"format": {"schema": {"id": VICTIM}}}},
    {"error": {"message": f"Previous response with id '{VICTIM}' not found.", "code": "x"}},
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: json.dumps(planted)[:40])
def test_a_planted_id_never_comes_back_minted(planted: dict[str, Any]) -> None:
    table = IdTable(ALICE)
    answered({"id": RESP, "output": []} | planted, table)
    assert VICTIM not in [one.raw for one in table.new]


@pytest.mark.parametrize(
    "unknown",
    [
        {"fresh_id": "short"},
        {"fresh_ids": ["short", VICTIM]},
        {"fresh": {"id": VICTIM}},
        {"url": f"https://host/v1/{VICTIM}/content"},
        {"fresh": [[f"({VICTIM})"]]},
        {"fresh": {VICTIM: True}},
        {"organization": "org-abcdefghij0123456789ABCD"},
        *(
            {"output": [message("x") | {"created_by": who}]}
            for who in ("user-abcdefghij0123456789ABCD", "company-abc123", "user-grnw", "grnw")
        ),
        {"usage": {"request": "req_0123456789abcdef0123456789abcdef"}},
        {"status": {"id": VICTIM}},
    ],
    ids=lambda unknown: json.dumps(unknown)[:40],
)
def test_what_no_table_knows_becomes_inert(unknown: dict[str, Any]) -> None:
    table = IdTable(ALICE)
    written = answered({"id": RESP, "output": []} | unknown, table)
    told = json.dumps(written)
    secret = [text for text in strings(unknown) if any(character.isdigit() for character in text) and "-" not in text]
    assert not any(one in told for one in secret)
    inert = [text for id_, text in table.texts.items() if id_ not in (RESP, MSG)]
    assert inert
    assert all(ALICE.is_inert(text) and text in told for text in inert)
    assert {one.raw for one in table.new} <= {RESP, MSG}


def test_tokens_that_address_nothing_pass() -> None:
    tokens = {
        "call_id": raw("evt_", 1),
        "caller_id": raw("evt_", 2),
        "stream_id": raw("evt_", 3),
    }
    written = answered({"id": RESP, "unheard_of": tokens})
    assert written["unheard_of"] == tokens


def test_what_this_request_sent_comes_back_as_the_client_wrote_it() -> None:
    sent = {VICTIM: ALICE.opaque(Kind.RESPONSE, VICTIM)}
    table = IdTable(ALICE, sent)
    written = answered({"id": RESP, "previous_response_id": VICTIM, "metadata": {"k": f"<{VICTIM}>"}}, table)
    assert written["previous_response_id"] == sent[VICTIM]
    assert written["metadata"]["k"] == f"<{sent[VICTIM]}>"
    assert [one.raw for one in table.new] == [RESP]


def test_what_an_earlier_request_sent_is_referenced_without_a_record() -> None:
    table = IdTable(ALICE)
    written = answered({"id": RESP, "previous_response_id": VICTIM}, table)
    assert written["previous_response_id"] == ALICE.opaque(Kind.RESPONSE, VICTIM)
    assert [one.raw for one in table.new] == [RESP]


def test_a_retrieved_object_is_minted_again_so_that_its_record_is_refreshed() -> None:
    table = IdTable(ALICE, {RESP: ALICE.opaque(Kind.RESPONSE, RESP)})
    answered({"id": RESP}, table)
    assert [one.raw for one in table.new] == [RESP]


def test_what_was_made_inert_before_stays_so_and_gets_no_record() -> None:
    table = IdTable(ALICE)
    inert = answered({"fresh_id": RESP}, table)["fresh_id"]
    assert answered({"id": RESP}, table)["id"] == inert
    assert ALICE.is_inert(inert)
    assert not table.new


def test_nothing_is_minted_twice() -> None:
    table = IdTable(ALICE)
    answered({"id": RESP}, table)
    assert len(table.take_new()) == 1
    answered({"id": RESP}, table)
    assert not table.new


def test_another_tenants_opaque_id_passes_unchanged_and_is_not_minted() -> None:
    foreign, table = BOB.opaque(Kind.RESPONSE, RESP), IdTable(ALICE)
    assert answered({"id": foreign}, table)["id"] == foreign
    assert not table.new


def test_an_id_without_prefix_is_replaced_in_its_place_and_in_text() -> None:
    bare = "5f0c392a2e7f017469006a6c0507abcd"
    table = IdTable(ALICE)
    written = answered({"id": bare, "output": [message(f"I am x{bare}x")]}, table)
    assert written["id"] == ALICE.opaque(Kind.RESPONSE, bare)
    assert written["output"][0]["content"][0]["text"] == f"I am x{written['id']}x"


@pytest.mark.parametrize("name", ["1", "msg_1", 'a"b', "é", "x\\y", "12345678901234567890", "true", "a b"])
def test_a_short_or_odd_id_is_replaced_in_its_place_only(name: str) -> None:
    table = IdTable(ALICE)
    text = f'{name} "{name}" "id":"{name}"'
    written = answered({"id": RESP, "n": 12345678901234567890, "output": [message(text) | {"id": name}]}, table)
    assert written["output"][0]["id"] == ALICE.opaque(Kind.ITEM, name)
    assert written["output"][0]["content"][0]["text"] == text
    assert written["n"] == 12345678901234567890


def test_an_id_that_contains_another_is_replaced_whole() -> None:
    longer = RESP + "0a"
    written = answered({"id": RESP, "previous_response_id": longer, "note": f"{longer} {RESP}"})
    assert written["note"] == f"{ALICE.opaque(Kind.RESPONSE, longer)} {ALICE.opaque(Kind.RESPONSE, RESP)}"


@pytest.mark.parametrize("spelling", ["\\u0072esp_", "\\u0072\\u0065\\u0073\\u0070\\u005F", "res\\u0070_"])
def test_an_id_spelled_with_escapes_is_replaced(spelling: str) -> None:
    hidden = spelling + RESP.removeprefix("resp_")
    body = f'{{"id":"{RESP}","metadata":{{"k":"caf\\u00e9 {hidden} \\ud83d\\ude00 \\n"}},"x":1.0}}'.encode()
    written = translate_json(body, RESPONSE, IdTable(ALICE))
    opaque = ALICE.opaque(Kind.RESPONSE, RESP)
    assert written == body.replace(RESP.encode(), opaque.encode()).replace(hidden.encode(), opaque.encode())


def test_half_a_surrogate_pair_passes() -> None:
    body = f'{{"id":"{RESP}","output_text":"\\ud83d {RESP}","n":[1e400,-0.0]}}'.encode()
    opaque = ALICE.opaque(Kind.RESPONSE, RESP)
    assert translate_json(body, RESPONSE, IdTable(ALICE)) == body.replace(RESP.encode(), opaque.encode())


@pytest.mark.parametrize(
    "body",
    [
        f'{{"id":"{VICTIM}","id":"{RESP}"}}'.encode(),
        f'{{"id":"{RESP}","metadata":{{}},"metadata":{{"a":"b"}}}}'.encode(),
        f'{{"id":"{RESP}","\\u0069d":"{VICTIM}","a":"\\u0022\\u0022\\u0022\\u0022"}}'.encode(),
        b'{"id":',
        b"",
        b'{"id":NaN}',
        b'{"a":"\xff"}',
        b'{"x":' * 900 + b"1" + b"}" * 900,
        b"[" * 100_000 + b"]" * 100_000,
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_document_that_can_be_read_in_two_ways_or_in_none_is_not_used(body: bytes) -> None:
    with pytest.raises(Problem) as caught:
        translate_json(body, RESPONSE, IdTable(ALICE))
    assert caught.value.reason is Reason.UPSTREAM_BAD_ANSWER


def test_a_replay_blob_is_sealed_where_it_stands() -> None:
    blob = "gAAAAAB" + "x" * 50
    item = {"id": raw("rs_", 1), "type": "reasoning", "summary": [], "encrypted_content": blob}
    written = answered({"id": RESP, "output": [item], "metadata": {"k": blob}})
    assert written["output"][0]["encrypted_content"] == ALICE.seal_blob(blob)
    assert written["metadata"]["k"] == blob


def test_a_hashed_token_is_restored_if_this_request_sent_it() -> None:
    minter = TenantMinter(echo='my "key" \\ ü')
    spec = Obj({"prompt_cache_key": Hashed("tenant"), "user": Hashed("principal"), "id": PLAIN})
    body = json.dumps({"prompt_cache_key": minter.token('my "key" \\ ü'), "user": minter.token("other")}).encode()
    written = json.loads(translate_json(body, spec, IdTable(minter)))
    assert written == {"prompt_cache_key": 'my "key" \\ ü', "user": minter.token("other")}


def test_annotations_move_with_the_text_and_log_probabilities_go() -> None:
    text = f"see {RESP} and 😀 here"
    here = text.index("here")
    annotations = [
        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 3},
        {"type": "url_citation", "url": "u", "title": "t", "start_index": here, "end_index": here + 4},
        {"type": "file_citation", "file_id": FILE, "filename": "a", "index": len(text)},
    ]
    logprobs = [{"token": "resp", "bytes": [114, 101], "logprob": -0.5, "top_logprobs": [{"token": RESP[5:]}]}]
    written = answered({"id": RESP, "output": [message(text, annotations=annotations, logprobs=logprobs)]})
    part = written["output"][0]["content"][0]
    first, second, third = part["annotations"]
    assert (first["start_index"], first["end_index"]) == (0, 3)
    assert part["text"][second["start_index"] : second["end_index"]] == "here"
    assert third["index"] == len(part["text"])
    assert part["logprobs"] == []


def test_log_probabilities_of_other_texts_stay() -> None:
    logprobs = [{"token": "x", "bytes": [120], "logprob": -0.5, "top_logprobs": []}]
    written = answered({"id": RESP, "output": [message("x", logprobs=logprobs)]})
    assert written["output"][0]["content"][0]["logprobs"] == logprobs


def test_an_error_in_an_answer_is_said_again() -> None:
    error = {
        "message": f"Rate limit reached for gpt-4o in organization org-0123456789abcdefghijABCD on {VICTIM}. "
        "Please try again in 1.5s.",
        "code": "rate_limit_exceeded",
        "headers": {"openai-organization": "acme-28gund"},
    }
    written = answered({"id": RESP, "status": "failed", "error": error})
    assert written["error"] == {
        "message": "Rate limit reached. Please try again in 1.5s.", "code": "rate_limit_exceeded", "headers": {},
    }  # fmt: skip


def test_lists_refer_to_the_items_that_they_mint() -> None:
    table = IdTable(ALICE)
    document = {"object": "list", "data": [message("x")], "first_id": MSG, "last_id": MSG, "has_more": False}
    written = json.loads(translate_json(json.dumps(document).encode(), ITEM_LIST, table))
    assert written["first_id"] == written["last_id"] == written["data"][0]["id"] == ALICE.opaque(Kind.ITEM, MSG)
    assert [(one.kind, one.raw, one.parent) for one in table.new] == [(Kind.ITEM, MSG, "")]


def test_an_id_spec_takes_the_tokens_that_it_lets_pass() -> None:
    spec = Obj({"id": Id(Kind.ITEM, Role.OWN, passes="call_")})
    body = b'{"id":"call_0123456789abcdef01234567"}'
    assert translate_json(body, spec, IdTable(ALICE)) == body
