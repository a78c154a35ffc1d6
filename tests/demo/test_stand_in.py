"""The stand-in provider, driven by the official client over a real socket."""

from __future__ import annotations

import json
import re
import time
import typing
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import ResponseStreamEvent

from gateway.demo.stand_in.items import BUILDERS
from gateway.demo.stand_in.provider import Options
from gateway.demo.stand_in.raw_ids import Exposure, IdStyle, find_ids
from gateway.demo.stand_in.server import Running, running
from tests.stand_in_fixture import stand_in

__all__ = ["stand_in"]

MODEL = "gpt-5"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as started:
        yield started


@pytest.fixture(autouse=True)
def _fresh(server: Running) -> None:
    server.provider.reset()


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.api_url, api_key="sk-test", max_retries=0) as made:
        yield made


@pytest.fixture
def http(server: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, headers={"authorization": "Bearer sk-test"}) as made:
        yield made


def post(http: httpx2.Client, **body: Any) -> httpx2.Response:
    return http.post("/v1/responses", json={"model": MODEL, **body})


def stream_bytes(http: httpx2.Client, prompt: str, **body: Any) -> bytes:
    return post(http, input=prompt, stream=True, **body).content


def events_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[5:]) for line in data.decode().splitlines() if line.startswith("data:")]


def test_response_and_item_ids_have_the_real_shape_and_share_their_lineage(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="hello")
    shape = re.compile(r"(resp|msg)_([0-9a-f]{16})00([0-9a-f]{8})[0-9a-f]{24}")
    own, item = shape.fullmatch(response.id), shape.fullmatch(response.output[0].id or "")
    assert own
    assert item
    assert own.group(2) == item.group(2)
    assert abs(int(own.group(3), 16) - time.time()) < 5


@pytest.mark.parametrize("style", list(IdStyle))
def test_ids_of_other_servers_can_be_chosen(style: IdStyle) -> None:
    shapes = {
        IdStyle.HEX50: r"resp_[0-9a-f]{50}",
        IdStyle.HEX48: r"resp_[0-9a-f]{48}",
        IdStyle.HEX32: r"resp_[0-9a-f]{32}",
        IdStyle.UUID: r"resp_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        IdStyle.BASE62: r"resp_[0-9A-Za-z]{22}",
        IdStyle.BARE: r"[0-9a-f]{32}",
    }
    with (
        running(Options(id_style=style)) as other,
        openai.OpenAI(base_url=other.api_url, api_key="k", max_retries=0) as client,
    ):
        first = client.responses.create(model=MODEL, input="hello")
        second = client.responses.create(model=MODEL, input="again", previous_response_id=first.id)
    assert re.fullmatch(shapes[style], first.id)
    assert "2 user messages" in second.output_text


def test_continuation_remembers_what_was_said_first(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="my name is Alice")
    second = client.responses.create(model=MODEL, input="what is it?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.output_text == (
        'You have sent 2 user messages. The first was: "my name is Alice". The latest was: "what is it?".'
    )


def test_response_that_was_not_stored_cannot_be_continued_or_read(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="hello", store=False)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="again", previous_response_id=first.id)
    assert refused.value.code == "previous_response_not_found"
    assert refused.value.param == "previous_response_id"
    assert first.id in refused.value.message
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_deleted_response_is_gone(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="hello")
    assert client.responses.retrieve(response.id).output_text == response.output_text
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError, match=response.id):
        client.responses.retrieve(response.id)


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


def test_stored_stream_resumes_after_a_sequence_number(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model=MODEL, input="hello", stream=True))
    response_id = events[0].response.id  # type: ignore[union-attr]
    resumed = list(client.responses.retrieve(response_id, stream=True, starting_after=4))
    assert [event.sequence_number for event in resumed] == list(range(5, len(events)))
    assert [event.type for event in resumed] == [event.type for event in events[5:]]


def test_background_response_is_completed_by_polling(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="hello", background=True)
    seen = [response.status]
    while response.status in {"queued", "in_progress"}:
        response = client.responses.retrieve(response.id)
        seen.append(response.status)
    assert seen == ["queued", "in_progress", "completed"]
    assert response.output_text.startswith("You have sent 1 user message.")


def test_background_response_can_be_cancelled_and_a_foreground_one_cannot(client: openai.OpenAI) -> None:
    background = client.responses.create(model=MODEL, input="hello", background=True)
    assert client.responses.cancel(background.id).status == "cancelled"
    assert client.responses.retrieve(background.id).status == "cancelled"
    foreground = client.responses.create(model=MODEL, input="hello")
    with pytest.raises(openai.BadRequestError, match="synchronous"):
        client.responses.cancel(foreground.id)


def test_background_stream_says_queued(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model=MODEL, input="hello", background=True, stream=True))
    assert [event.type for event in events[:3]] == ["response.created", "response.queued", "response.in_progress"]


def test_conversation_grows_with_each_response(client: openai.OpenAI) -> None:
    conversation = client.conversations.create()
    client.responses.create(model=MODEL, input="one", conversation=conversation.id)
    answer = client.responses.create(model=MODEL, input="two", conversation=conversation.id)
    assert answer.conversation
    assert answer.conversation.id == conversation.id
    assert '2 user messages. The first was: "one"' in answer.output_text
    items = [item.to_dict() for item in client.conversations.items.list(conversation.id, order="asc", limit=1)]
    assert [item["role"] for item in items] == ["user", "assistant", "user", "assistant"]
    assert items[0]["content"] == [{"type": "input_text", "text": "one"}]


def test_conversation_surface_follows_the_official_client(client: openai.OpenAI) -> None:
    made = client.conversations.create(
        metadata={"topic": "coats"}, items=[{"type": "message", "role": "user", "content": "hi"}]
    )
    assert client.conversations.retrieve(made.id).metadata == {"topic": "coats"}
    assert client.conversations.update(made.id, metadata={"topic": "hats"}).metadata == {"topic": "hats"}
    added = client.conversations.items.create(made.id, items=[{"type": "message", "role": "user", "content": "again"}])
    item_id = added.data[0].id or ""
    assert client.conversations.items.retrieve(item_id, conversation_id=made.id).id == item_id
    assert client.conversations.items.delete(item_id, conversation_id=made.id).id == made.id
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(item_id, conversation_id=made.id)
    assert client.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError, match=made.id):
        client.conversations.retrieve(made.id)


def test_conversation_and_previous_response_exclude_each_other(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="hello")
    conversation = client.conversations.create()
    with pytest.raises(openai.BadRequestError, match="Mutually exclusive"):
        client.responses.create(model=MODEL, input="x", previous_response_id=first.id, conversation=conversation.id)


def test_input_items_are_paged_newest_first(client: openai.OpenAI) -> None:
    sent: Any = [{"role": "user", "content": word} for word in ("a", "b", "c")]
    response = client.responses.create(model=MODEL, input=sent)
    first = client.responses.input_items.list(response.id, limit=2)
    texts: Any = [item.to_dict()["content"] for item in first.data]
    assert [content[0]["text"] for content in texts] == ["c", "b"]
    assert first.has_more
    everything = list(client.responses.input_items.list(response.id, limit=2))
    assert len(everything) == 3


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


def test_two_calls_at_once_on_one_conversation_lock_each_other_out(client: openai.OpenAI, server: Running) -> None:
    conversation = client.conversations.create()
    stream = client.responses.create(
        model=MODEL, input="[[script: delay=0.02]] hello", conversation=conversation.id, stream=True
    )
    next(iter(stream))
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="me too", conversation=conversation.id)
    assert refused.value.code == "conversation_locked"
    for _ in stream:
        pass
    assert client.responses.create(model=MODEL, input="now", conversation=conversation.id).status == "completed"


def test_missing_and_wrong_keys_are_refused() -> None:
    with running(Options(api_key="sk-right")) as strict:
        with openai.OpenAI(base_url=strict.api_url, api_key="sk-wrong", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError) as refused:
                client.models.list()
            assert refused.value.code == "invalid_api_key"
        assert httpx2.get(f"{strict.api_url}/models").status_code == 401


def test_answers_carry_the_headers_of_the_real_service(http: httpx2.Client, server: Running) -> None:
    answer = post(http, input="hello")
    assert answer.headers["openai-organization"] == server.provider.organization
    assert answer.headers["openai-project"] == server.provider.project
    assert re.fullmatch(r"req_[0-9a-f]{32}", answer.headers["x-request-id"])
    assert len(answer.headers.get_list("set-cookie")) == 2


def test_rate_limit_names_the_organization_and_when_to_retry(http: httpx2.Client, server: Running) -> None:
    server.provider.next_answer("status=429")
    limited = post(http, input="hello")
    assert limited.status_code == 429
    assert limited.headers["retry-after"] == "20"
    message = limited.json()["error"]["message"]
    assert server.provider.organization in message
    assert "Please try again in 20s." in message
    assert post(http, input="hello").status_code == 200


@pytest.mark.parametrize("words", ["split=1", "split=7", "at=3:17:40", "one_write", "eol=crlf", "comments, bom"])
def test_stream_is_the_same_however_it_is_written(http: httpx2.Client, words: str) -> None:
    data = stream_bytes(http, f"[[script: {words}]] hello")
    end = b"\r\n" if "crlf" in words else b"\n"
    assert (end * 2) in data
    events = events_of(data.removeprefix(b"\xef\xbb\xbf"))
    assert events[-1]["type"] == "response.completed"
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == events[-1]["response"]["output"][0]["content"][0]["text"]


def test_connection_can_be_cut_before_and_inside_an_answer(http: httpx2.Client) -> None:
    for words in ("close", "cut=3", "cut=10"):
        with pytest.raises(httpx2.RemoteProtocolError):
            post(http, input=f"[[script: {words}]]", stream=words == "cut=3")


def test_client_that_leaves_is_noticed_and_frees_the_conversation(client: openai.OpenAI, server: Running) -> None:
    conversation = client.conversations.create()
    stream = client.responses.create(model=MODEL, input="[[script: hang=3]]", conversation=conversation.id, stream=True)
    next(iter(stream))
    stream.close()
    received = server.provider.received[-1]
    until = time.monotonic() + 5
    while received.disconnected_at is None and time.monotonic() < until:
        time.sleep(0.01)
    assert received.disconnected_at is not None
    assert client.responses.create(model=MODEL, input="now", conversation=conversation.id).status == "completed"


def test_number_tokens_and_escapes_stand_in_the_bytes(http: httpx2.Client) -> None:
    data = post(http, input="[[script: numbers=extreme]]").content
    for token in (b"9223372036854775809", b":1.0,", b"1e400", b'"\\/"', b'"\\u00e9"', b"1E+2", '"é"'.encode()):
        assert token in data


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


def test_background_job_goes_on_when_its_stream_is_left(client: openai.OpenAI) -> None:
    stream = client.responses.create(model=MODEL, input="[[script: hang=3]]", background=True, stream=True)
    seen = [next(iter(stream)) for _ in range(2)]
    stream.close()
    response_id = seen[0].response.id  # type: ignore[union-attr]
    assert client.responses.retrieve(response_id).status == "in_progress"
    assert client.responses.retrieve(response_id).status == "completed"
    resumed = client.responses.retrieve(response_id, stream=True, starting_after=1)
    assert next(iter(resumed)).sequence_number == 2


def test_connection_that_is_dropped_after_an_answer_leaves_the_answer_whole(http: httpx2.Client) -> None:
    for words in ("drop_after", "goodbye"):
        assert post(http, input=f"[[script: {words}]]").json()["status"] == "completed"
        time.sleep(0.1)
        assert post(http, input="next").status_code == 200


def test_unknown_paths_and_methods_read_as_the_real_ones(http: httpx2.Client) -> None:
    assert http.get("/v1/elsewhere").json()["error"]["message"] == "Invalid URL (GET /v1/elsewhere)"
    assert http.put("/v1/responses/resp_1").status_code == 405
    json_type = {"content-type": "application/json"}
    assert "could not parse" in http.post("/v1/responses", content=b"{", headers=json_type).text
    assert "Unsupported content type" in http.post("/v1/responses", content=b"{}").text


def test_control_door_shows_requests_and_takes_scripts(http: httpx2.Client, server: Running) -> None:
    http.post("/_stand_in/script", json={"next": ["status=500"]})
    assert post(http, input="hello").status_code == 500
    seen = http.get("/_stand_in/requests").json()
    assert [(one["method"], one["path"], one["status"]) for one in seen] == [("POST", "/v1/responses", 500)]
    assert {one["raw"] for one in http.get("/_stand_in/issued").json()} == set(server.provider.issued)
    http.post("/_stand_in/reset")
    assert http.get("/_stand_in/requests").json() == []


def test_comparison_response_is_found_by_anybody_in_the_organization(http: httpx2.Client) -> None:
    known = post(http, input="hello").json()["id"]
    answer = post(http, input="x", prompt_cache_options={"comparison_response_id": known}).json()
    assert answer["prompt_cache_diagnostics"]["type"] == "cache_miss"
    unknown = post(http, input="x", prompt_cache_options={"comparison_response_id": "resp_none"}).json()
    assert unknown["prompt_cache_diagnostics"] == {"type": "comparison_response_not_found"}


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


def test_script_in_a_header_or_a_prompt_of_long_ago_does_what_it_should(http: httpx2.Client) -> None:
    body = {"model": MODEL, "input": "hello"}
    assert http.post("/v1/responses", json=body, headers={"x-stand-in-script": "status=503"}).status_code == 503
    turns = [
        {"role": "user", "content": "[[script: status=500]]"},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": "and now?"},
    ]
    assert post(http, input=turns).status_code == 200


def test_unknown_word_of_a_script_is_refused(http: httpx2.Client) -> None:
    assert post(http, input="[[script: hangg]]").json()["error"]["code"] == "unknown_script_word"


@pytest.mark.parametrize(
    ("word", "sign"),
    [
        ("gzip", lambda answer: answer.headers["content-encoding"] == "gzip"),
        ("malformed", lambda answer: not _is_json(answer.content)),
        ("duplicate_keys", lambda answer: answer.content.count(b'"id":"resp_') == 2),
        ("object_keys", lambda answer: re.search(rb'\{"msg_[0-9a-f]{50}":', answer.content)),
        ("huge=2", lambda answer: len(answer.content) > 2 * 1024 * 1024),
        ("deep=100000", lambda answer: b"[" * 100_000 in answer.content),
        ("nan", lambda answer: b":NaN," in answer.content),
        ("bad_utf8", lambda answer: not _is_json(answer.content)),
        ("json_bom", lambda answer: answer.content.startswith(b"\xef\xbb\xbf{")),
        ("html", lambda answer: answer.status_code == 502 and answer.content.startswith(b"<html>")),
        ("empty", lambda answer: answer.content == b""),
        ("plain", lambda answer: answer.headers["content-type"].startswith("text/plain")),
        ("redirect", lambda answer: answer.status_code == 307 and "resp_" in answer.headers["location"]),
        ("cut_clean=20", lambda answer: len(answer.content) == 20),
        ("no_length", lambda answer: "content-length" not in answer.headers),
    ],
)
def test_every_fault_reaches_the_wire(http: httpx2.Client, word: str, sign: Callable[[httpx2.Response], Any]) -> None:
    assert sign(post(http, input=f"[[script: {word}]]"))


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def test_slow_reader_holds_the_stream_back(http: httpx2.Client, server: Running) -> None:
    body = {"model": MODEL, "input": "[[script: flood=6000]]", "stream": True}
    with http.stream("POST", "/v1/responses", json=body) as answer:
        next(answer.iter_bytes())
        time.sleep(0.3)
        assert server.provider.received[-1].bytes_sent < 20_000_000


def test_token_limits_are_those_of_the_real_service(http: httpx2.Client) -> None:
    for over in ({"prompt_cache_key": "k" * 65}, {"safety_identifier": "s" * 65}, {"metadata": {"k": "v" * 513}}):
        assert post(http, input="x", **over).json()["error"]["code"] == "string_above_max_length"


def test_items_of_a_deleted_conversation_cannot_be_referred_to(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[{"type": "message", "role": "user", "content": "hi"}])
    item_id = client.conversations.items.list(conversation.id).data[0].id
    client.conversations.delete(conversation.id)
    with pytest.raises(openai.NotFoundError, match=str(item_id)):
        client.responses.create(model=MODEL, input=[{"type": "item_reference", "id": str(item_id)}])


def test_shared_fixture_gives_a_fresh_provider(stand_in: Running) -> None:
    assert httpx2.get(f"{stand_in.api_url}/models", headers={"authorization": "Bearer k"}).status_code == 200
    assert [one.path for one in stand_in.provider.received] == ["/v1/models"]
