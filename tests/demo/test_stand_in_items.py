"""What the stand-in's model writes and takes back: items, calls, reasoning, references, and every ID on record."""

from __future__ import annotations

import json
import re
import typing
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import ResponseStreamEvent

from gateway.demo.stand_in.items import BUILDERS
from gateway.demo.stand_in.provider import Options
from gateway.demo.stand_in.raw_ids import Exposure, find_ids
from gateway.demo.stand_in.server import Running, running
from tests.demo.conftest import MODEL, events_of, post, stream_bytes


def test_stream_helper_of_the_official_client_reads_every_item_kind(client: openai.OpenAI) -> None:
    for word in BUILDERS:
        with client.responses.stream(model=MODEL, input=f"[[script: {word}, unknown_events]]") as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert final.output, word


def test_streamed_items_are_the_items_of_the_stored_response(client: openai.OpenAI, http: httpx2.Client) -> None:
    script = ", ".join(word for word in BUILDERS if word != "refusal")
    events = events_of(stream_bytes(http, f"[[script: {script}]]"))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    final = events[-1]["response"]
    assert done == final["output"]
    assert http.get(f"/v1/responses/{final['id']}").json() == final


def test_every_event_type_of_the_installed_client_can_be_asked_for(http: httpx2.Client) -> None:
    union = typing.get_args(typing.get_args(ResponseStreamEvent)[0])
    known = {typing.get_args(one.model_fields["type"].annotation)[0] for one in union}
    asked = ", ".join(word for word in BUILDERS)
    scripts = [asked, f"{asked}, failed, annotations", "incomplete", "error_event=3", "mcp, mcp_broken"]
    tools = [{"type": "mcp", "server_label": "m", "server_url": "https://m.example", "require_approval": "never"}]
    seen: set[str] = set()
    for script in scripts:
        data = stream_bytes(http, f"[[script: {script}]]", tools=tools, background=script == asked)
        seen |= {event["type"] for event in events_of(data)}
    spoken = {kind for kind in known if kind.startswith("response.audio.")}  # no model writes them on this surface
    assert known - spoken - seen == set()


def test_include_shows_what_creation_hid(client: openai.OpenAI) -> None:
    made = client.responses.create(model=MODEL, input="[[script: reasoning, file_search, code_interpreter]]")
    fields = ("encrypted_content", "results", "outputs")

    def shown(response: openai.types.responses.Response) -> set[str]:
        return {name for item in response.output for name in fields if item.to_dict().get(name)}

    assert shown(made) == set()
    asked: Any = ["reasoning.encrypted_content", "file_search_call.results", "code_interpreter_call.outputs"]
    assert shown(client.responses.retrieve(made.id, include=asked)) == set(fields)
    assert shown(client.responses.retrieve(made.id)) == set()


def test_function_call_goes_round(client: openai.OpenAI) -> None:
    tools: Any = [
        {
            "type": "function",
            "name": "look_up",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            "strict": True,
        }
    ]
    first = client.responses.create(model=MODEL, input="please look_up", tools=tools)
    call = first.output[0]
    assert call.type == "function_call"
    assert re.fullmatch(r"call_[0-9A-Za-z]{24}", call.call_id)
    outcome: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "grey"}]
    second = client.responses.create(model=MODEL, input=outcome, previous_response_id=first.id, tools=tools)
    assert "The tool said: grey" in second.output_text
    with pytest.raises(openai.BadRequestError, match="No tool output found"):
        client.responses.create(model=MODEL, input="never mind", previous_response_id=first.id)


def test_a_call_states_what_the_tool_requires_and_no_more(http: httpx2.Client) -> None:
    properties = {"cmd": {"type": "string"}, "timeout": {"type": "number"}}
    tool = {"type": "function", "name": "run", "parameters": {"type": "object", "properties": properties}}
    for required, stated in (["cmd"], {"cmd": "Paris"}), ([], {"cmd": "Paris", "timeout": 7.5}):
        tool["parameters"]["required"] = required  # type: ignore[index]
        (call,) = post(http, input="run", tools=[tool]).json()["output"]
        assert json.loads(call["arguments"]) == stated


def test_unknown_and_malformed_item_ids_are_refused_in_the_real_words(client: openai.OpenAI) -> None:
    def refused(item: dict[str, Any]) -> openai.APIStatusError:
        with pytest.raises(openai.APIStatusError) as caught:
            client.responses.create(model=MODEL, input=[item])  # type: ignore[list-item]
        return caught.value

    gone = "rs_" + "0" * 50
    assert refused({"type": "item_reference", "id": gone}).status_code == 404
    lost = refused({"type": "reasoning", "id": gone, "summary": []})
    assert lost.status_code == 404
    assert f"Item with id '{gone}' not found. Items are not persisted" in lost.message
    wrong = refused({"type": "message", "role": "user", "id": "call_1", "content": "x"})
    assert "Invalid 'input[0].id': 'call_1'. Expected an ID that begins with 'msg'." in wrong.message
    long = refused({"type": "message", "role": "user", "id": "msg_" + "a" * 61, "content": "x"})
    assert long.code == "string_above_max_length"


def test_reasoning_is_bound_to_what_follows_and_to_its_seal(client: openai.OpenAI) -> None:
    first = client.responses.create(
        model=MODEL,
        input="[[script: reasoning]] hello",
        store=False,
        include=["reasoning.encrypted_content"],
    )
    reasoning, message = (item.model_dump(exclude_none=True) for item in first.output)
    assert reasoning["encrypted_content"].startswith("gAAAAA")
    question = {"role": "user", "content": "again"}

    def send(*items: Any) -> openai.types.responses.Response:
        return client.responses.create(model=MODEL, store=False, input=list(items))

    assert send(reasoning, message, question).status == "completed"
    with pytest.raises(openai.BadRequestError, match="without its required following item"):
        send(reasoning, question)
    edited = reasoning["encrypted_content"][:40] + "AAAA" + reasoning["encrypted_content"][44:]
    with pytest.raises(openai.BadRequestError, match="could not be verified"):
        send({**reasoning, "encrypted_content": edited}, message, question)


def test_compaction_stands_for_what_it_replaced(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="remember the grey coat")
    compacted = client.responses.compact(model=MODEL, previous_response_id=first.id)
    blob: Any = next(item for item in compacted.output if item.type == "compaction").model_dump(exclude_none=True)
    again = client.responses.create(model=MODEL, input=[blob, {"role": "user", "content": "which coat?"}])
    assert 'The first was: "remember the grey coat"' in again.output_text


def test_code_holds_file_ids_that_deltas_split(http: httpx2.Client, server: Running) -> None:
    file_id = server.provider.new_attachment("file-")
    tools = [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": [file_id]}}]
    events = events_of(stream_bytes(http, "[[script: code_interpreter]]", tools=tools))
    code = events[-1]["response"]["output"][0]["code"]
    assert f"/mnt/data/{file_id}-data.csv" in code
    deltas = [e["delta"] for e in events if e["type"] == "response.code_interpreter_call_code.delta"]
    assert "".join(deltas) == code
    assert not any(file_id in delta for delta in deltas)
    annotation = events[-1]["response"]["output"][1]["content"][0]["annotations"][0]
    assert annotation["filename"] == f"{annotation['file_id']}.png"


def test_every_id_in_the_bytes_of_an_answer_is_on_record() -> None:
    everything = ", ".join(BUILDERS)
    with running(Options(canary=True)) as planted:
        with httpx2.Client(base_url=planted.url, headers={"authorization": "Bearer k"}) as http:
            answer = post(http, input=f"[[script: {everything}]] hello", metadata={"k": "v"})
            stream = stream_bytes(http, f"[[script: {everything}, annotations, failed]] hello").decode()
            failure = http.get("/v1/responses/resp_unknown")
        seen = answer.text + stream.replace("\\u005f", "_") + failure.text + str(answer.headers.multi_items())
        assert set(find_ids(seen)) <= set(planted.provider.issued)
        places = {issued.place for raw, issued in planted.provider.issued.items() if raw in seen}
        exposures = {issued.exposure for raw, issued in planted.provider.issued.items() if raw in seen}
    wanted = {
        "header",
        "SSE comment",
        "SSE id line",
        "URL",
        "error text",
        "ID without prefix",
        "deep list",
        "file name",
    }
    assert {f"canary: {place}" for place in wanted} | {"unknown event", "model text"} <= places
    assert exposures == set(Exposure)


def test_official_client_reads_answers_full_of_canaries() -> None:
    with (
        running(Options(canary=True)) as planted,
        openai.OpenAI(base_url=planted.api_url, api_key="k", max_retries=0) as client,
    ):
        first = client.responses.create(model=MODEL, input="[[script: reasoning, code_interpreter, annotations]] hi")
        with client.responses.stream(model=MODEL, input="again", previous_response_id=first.id) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            final = stream.get_final_response()
    assert final.output_text == text
    assert f"I was given {first.id}; I am {final.id}, {final.output[0].to_dict()['id']}." in text


def test_item_reference_stands_for_the_stored_item(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="hello")
    sent: Any = [{"role": "user", "content": "one"}, {"type": "item_reference", "id": first.output[0].id}]
    again = client.responses.create(model=MODEL, input=[*sent, {"role": "user", "content": "two"}])
    listed = [item.to_dict() for item in client.responses.input_items.list(again.id, order="asc")]
    assert listed[1] == client.responses.retrieve(first.id).output[0].to_dict()


def test_call_that_reasoning_led_to_is_refused_without_it(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="[[script: reasoning, function_call]]")
    reasoning, call = (item.to_dict() for item in first.output)
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}

    def send(*items: Any) -> openai.types.responses.Response:
        return client.responses.create(model=MODEL, input=list(items))

    assert send(reasoning, call, output).status == "completed"
    with pytest.raises(openai.BadRequestError, match=f"without its required 'reasoning' item: '{reasoning['id']}'"):
        send(call, output)
    with pytest.raises(openai.BadRequestError, match="No tool call found"):
        send(output)
    with pytest.raises(openai.BadRequestError, match="Duplicate item"):
        send(reasoning, call, output, reasoning, call, output)


def test_mcp_call_waits_for_its_approval(client: openai.OpenAI) -> None:
    tools: Any = [{"type": "mcp", "server_label": "m", "server_url": "https://m.example", "authorization": "secret"}]
    first = client.responses.create(model=MODEL, input="[[script: mcp]]", tools=tools)
    listed, request = first.output
    assert (listed.type, request.type) == ("mcp_list_tools", "mcp_approval_request")
    assert first.tools[0].to_dict()["authorization"] == "<redacted>"
    approval: Any = {"type": "mcp_approval_response", "approve": True, "approval_request_id": request.id}
    second = client.responses.create(model=MODEL, previous_response_id=first.id, input=[approval], tools=tools)
    assert [item.type for item in second.output] == ["mcp_call", "message"]
    approval["approval_request_id"] = "mcpr_1"
    with pytest.raises(openai.BadRequestError, match="No approval request found with id 'mcpr_1'"):
        client.responses.create(model=MODEL, input=[approval])


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ({"type": "file_search", "vector_store_ids": ["vs_1"]}, "Vector store with id 'vs_1' not found."),
        ({"type": "code_interpreter", "container": "cntr_1"}, "Container with id 'cntr_1' not found."),
        ({"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}}, "No such File object"),
    ],
)
def test_tools_that_name_what_does_not_exist_are_refused(
    http: httpx2.Client, tool: dict[str, Any], message: str
) -> None:
    refused = post(http, input="x", tools=[tool])
    assert refused.status_code == 404
    assert message in refused.json()["error"]["message"]


def test_planted_id_comes_back_from_third_parties(http: httpx2.Client) -> None:
    victim = "resp_" + "7" * 50
    include = ["file_search_call.results", "code_interpreter_call.outputs"]
    for word in ("mcp", "file_search", "code_interpreter", "shell"):
        answer = post(http, input=f"[[script: {word}, plant={victim}]] hello", include=include).json()
        assert victim in json.dumps(answer["output"][0]) + json.dumps(answer["output"][1:2]), word


def test_model_can_recall_an_id_that_this_request_does_not_name(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="hello")
    oldest = client.responses.input_items.list(first.id).data[0].id
    second = client.responses.create(model=MODEL, input="[[script: recall]]", previous_response_id=first.id)
    assert f"You began with {oldest}." in second.output_text
