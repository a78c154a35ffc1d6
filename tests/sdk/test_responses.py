"""The official SDK, unmodified, through real sockets: all that it offers on the served surfaces, as its users use it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response

from gateway.demo.stand_in.items import BUILDERS
from tests.gateway_fixture import Deployment, deployment
from tests.redis_fixture import RedisServer
from tests.sdk.conftest import sent
from tests.stand_in_fixture import Running

MODEL = "gpt-5"
EVERYTHING: Any = [
    "code_interpreter_call.outputs",
    "file_search_call.results",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
]
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def _ids(response: Response) -> list[list[str]]:
    """The IDs of each item and of what its annotations cite."""
    return [re.findall(r"\b[a-z]+[_-][0-9A-Za-z]{34}\b", json.dumps(item.to_dict())) for item in response.output]


async def completed(client: AsyncOpenAI, response: Response) -> Response:
    """Polls as the documentation says."""
    for _ in range(20):
        if response.status not in {"queued", "in_progress"}:
            return response
        await asyncio.sleep(0.02)
        response = await client.responses.retrieve(response.id)
    raise AssertionError(response.status)


# --- responses ------------------------------------------------------------------------------------------------------


async def test_create_retrieve_and_stream_show_one_id_for_one_thing(alice: AsyncOpenAI) -> None:
    made = await alice.responses.create(model=MODEL, input="hello")
    again = await alice.responses.retrieve(made.id)
    assert (again.id, [item.id for item in again.output]) == (made.id, [item.id for item in made.output])
    assert made.id.startswith("resp_")
    assert len(made.id) <= 64
    assert made.id.removeprefix("resp_").isalnum()
    assert "hello" in made.output_text


async def test_the_synchronous_client_creates_streams_pages_and_deletes(gateway: Deployment) -> None:
    key = await gateway.key("acme", "alice")

    def work() -> None:
        with OpenAI(api_key=key, base_url=gateway.url, max_retries=0) as client:
            first = client.responses.create(model=MODEL, input="one")
            with client.responses.stream(model=MODEL, input="two", previous_response_id=first.id) as stream:
                said = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
                final = stream.get_final_response()
            assert final.output_text == said
            assert final.previous_response_id == first.id
            conversation = client.conversations.create(items=[{"role": "user", "content": f"{n}"} for n in range(5)])
            listed = [item.id for item in client.conversations.items.list(conversation.id, limit=2)]
            assert len(set(listed)) == 5
            client.responses.delete(first.id)
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(first.id)

    await asyncio.to_thread(work)


async def test_the_stream_helper_accumulates_the_response_that_retrieve_shows(alice: AsyncOpenAI) -> None:
    async with alice.responses.stream(
        model=MODEL, input="[[script: reasoning, annotations]] hello", include=EVERYTHING
    ) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    stored = await alice.responses.retrieve(final.id, include=EVERYTHING)
    assert _ids(final) == _ids(stored)
    assert final.output_text == stored.output_text
    ids = {item.to_dict()["id"] for item in final.output}
    assert {event.item_id for event in events if hasattr(event, "item_id")} <= ids
    assert {event.response.id for event in events if hasattr(event, "response")} == {final.id}


async def test_structured_output_is_parsed(alice: AsyncOpenAI) -> None:
    class Place(pydantic.BaseModel):
        city: str
        rooms: int

    parsed = await alice.responses.parse(model=MODEL, input="where?", text_format=Place)
    assert parsed.output_parsed == Place(city="Paris", rooms=7)
    async with alice.responses.stream(model=MODEL, input="where?", text_format=Place) as stream:
        assert (await stream.get_final_response()).output_parsed == Place(city="Paris", rooms=7)


async def test_a_background_response_is_polled_to_its_end(alice: AsyncOpenAI, bob: AsyncOpenAI) -> None:
    started = await alice.responses.create(model=MODEL, input="slowly", background=True)
    assert started.status == "queued"
    with pytest.raises(openai.NotFoundError):
        await bob.responses.retrieve(started.id)
    done = await completed(alice, started)
    assert (done.id, done.status) == (started.id, "completed")


async def test_a_background_stream_is_resumed_where_it_broke_off(alice: AsyncOpenAI, bob: AsyncOpenAI) -> None:
    whole = [event async for event in await alice.responses.create(model=MODEL, input="x", stream=True)]
    seen: list[Any] = []
    async with await alice.responses.create(model=MODEL, input="x", background=True, stream=True) as stream:
        async for event in stream:
            seen.append(event)
            if event.sequence_number == 4:
                break
    assert {"response.created", "response.queued"} <= {event.type for event in seen}
    raw = seen[0].response.id
    assert {event.response.id for event in seen if hasattr(event, "response")} == {raw}
    with pytest.raises(openai.NotFoundError):
        await bob.responses.retrieve(raw, stream=True, starting_after=4)
    rest = [event async for event in await alice.responses.retrieve(raw, stream=True, starting_after=4)]
    assert next(event.sequence_number for event in rest) == 5
    assert rest[-1].type == "response.completed"
    assert rest[-1].response.id == raw
    assert len(seen) + len(rest) >= len(whole)
    async with alice.responses.stream(response_id=raw, starting_after=4) as resumed:
        assert [event.sequence_number async for event in resumed] == [event.sequence_number for event in rest]


async def test_an_id_is_usable_from_the_event_on_that_shows_it(alice: AsyncOpenAI) -> None:
    async with await alice.responses.create(model=MODEL, input="x", stream=True) as stream:
        async for event in stream:
            if event.type == "response.created":
                assert (await alice.responses.retrieve(event.response.id)).id == event.response.id
            if event.type == "response.completed":
                next_one = await alice.responses.create(model=MODEL, input="y", previous_response_id=event.response.id)
                listed = await alice.responses.input_items.list(next_one.id)
                assert event.response.output[-1].to_dict()["id"] in {item.id for item in listed.data}


@pytest.mark.parametrize("script", ["keepalive", "comments", "eol=cr, split=3", "eol=crlf, split=7", "escape", "bom"])
async def test_every_way_of_writing_a_stream_reads_the_same(alice: AsyncOpenAI, stand_in: Running, script: str) -> None:
    stand_in.provider.next_answer(f"{script}, unicode")
    events = [event async for event in await alice.responses.create(model=MODEL, input="x", stream=True)]
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    last = events[-1]
    assert last.type == "response.completed"
    assert said == last.response.output_text
    assert "漢字" in said
    assert (await alice.responses.retrieve(last.response.id)).output_text == said


async def test_a_stream_that_fails_ends_with_the_sdks_error_event(alice: AsyncOpenAI, stand_in: Running) -> None:
    stand_in.provider.next_answer("error_event=5")
    events = [event async for event in await alice.responses.create(model=MODEL, input="x", stream=True)]
    assert events[-1].type == "error"
    assert events[-1].message
    assert not [raw for raw in stand_in.provider.ids.secrets() if raw in events[-1].model_dump_json()]


async def test_cancel_and_delete_reach_the_own_response_only(
    alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    running = await alice.responses.create(model=MODEL, input="[[script: polls=50]] x", background=True)
    before = len(stand_in.provider.received)
    for refused in (bob.responses.cancel, bob.responses.delete, bob.responses.retrieve):
        with pytest.raises(openai.NotFoundError):
            await refused(running.id)
    assert len(stand_in.provider.received) == before
    assert (await alice.responses.cancel(running.id)).status == "cancelled"
    await alice.responses.delete(running.id)
    with pytest.raises(openai.NotFoundError):
        await alice.responses.retrieve(running.id)


async def test_input_items_are_paged_by_cursors(alice: AsyncOpenAI, bob: AsyncOpenAI) -> None:
    made = await alice.responses.create(model=MODEL, input=[{"role": "user", "content": f"{n}"} for n in range(7)])
    paged = [item.id async for item in alice.responses.input_items.list(made.id, limit=3, order="asc")]
    whole = [item.id for item in (await alice.responses.input_items.list(made.id, limit=50, order="asc")).data]
    assert paged == whole
    assert len(paged) == 7
    with pytest.raises(openai.NotFoundError):
        await bob.responses.input_items.list(made.id)
    with pytest.raises(openai.NotFoundError):
        await alice.responses.input_items.list(made.id, after="msg_0000000000000000000000000000000000000000000000001")


async def test_a_compacted_history_stands_for_what_was_said(
    alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    first = await alice.responses.create(model=MODEL, input="my coat is grey")
    compacted = await alice.responses.compact(model=MODEL, previous_response_id=first.id, input="go on")
    replayed: Any = [item.to_dict() for item in compacted.output if item.type == "compaction"]
    assert len(replayed) == 1
    after = await alice.responses.create(model=MODEL, input=[*replayed, {"role": "user", "content": "well?"}])
    assert "my coat is grey" in after.output_text
    with pytest.raises(openai.APIStatusError):
        await bob.responses.create(model=MODEL, input=[*replayed, {"role": "user", "content": "well?"}])
    with pytest.raises(openai.BadRequestError, match="not found"):
        await bob.responses.compact(model=MODEL, previous_response_id=first.id, input="go on")


async def test_input_tokens_are_counted_with_what_came_before(alice: AsyncOpenAI, bob: AsyncOpenAI) -> None:
    first = await alice.responses.create(model=MODEL, input="hello " * 20)
    counted = await alice.responses.input_tokens.count(model=MODEL, input="x", previous_response_id=first.id)
    assert counted.input_tokens > 10
    with pytest.raises(openai.BadRequestError):
        await bob.responses.input_tokens.count(model=MODEL, input="x", previous_response_id=first.id)


async def test_the_beta_resource_speaks_to_the_same_objects(
    alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    made = await alice.beta.responses.create(model=MODEL, input="hello", betas=["responses_multi_agent=v1"])
    went = stand_in.provider.received[-1]
    assert (went.query, went.header("openai-beta")) == ("beta=true", "responses_multi_agent=v1")
    assert (await alice.responses.retrieve(made.id)).id == made.id
    again = await alice.beta.responses.retrieve(made.id)
    assert [item.to_dict()["id"] for item in again.output] == [item.to_dict()["id"] for item in made.output]
    assert [item.id async for item in alice.beta.responses.input_items.list(made.id, limit=1)]
    async with await alice.beta.responses.create(
        model=MODEL, input="on", previous_response_id=made.id, stream=True
    ) as stream:
        events = [event async for event in stream]
    assert events[-1].type == "response.completed"
    with pytest.raises(openai.NotFoundError):
        await bob.beta.responses.retrieve(made.id)
    with pytest.raises(openai.NotFoundError):
        await bob.beta.responses.cancel(made.id)
    await alice.beta.responses.delete(made.id)


# --- conversations --------------------------------------------------------------------------------------------------


async def test_conversations_are_made_empty_and_with_items_changed_listed_and_deleted(
    alice: AsyncOpenAI, bob: AsyncOpenAI
) -> None:
    empty = await alice.conversations.create()
    assert empty.id.startswith("conv_")
    filled = await alice.conversations.create(
        metadata={"topic": "coats"}, items=[{"type": "message", "role": "user", "content": "one"}]
    )
    assert (await alice.conversations.retrieve(filled.id)).metadata == {"topic": "coats"}
    assert (await alice.conversations.update(filled.id, metadata={"topic": "hats"})).id == filled.id
    added = await alice.conversations.items.create(
        filled.id, items=[{"role": "user", "content": "two"}, {"role": "assistant", "content": "three"}]
    )
    one = await alice.conversations.items.retrieve(added.data[0].id or "", conversation_id=filled.id)
    assert one.id == added.data[0].id
    assert added.first_id == added.data[0].id
    with pytest.raises(openai.NotFoundError):
        await alice.conversations.items.retrieve(added.data[0].id or "", conversation_id=empty.id)
    with pytest.raises(openai.NotFoundError):
        await bob.conversations.items.retrieve(added.data[0].id or "", conversation_id=filled.id)
    assert (await alice.conversations.items.delete(added.data[0].id or "", conversation_id=filled.id)).id == filled.id
    left = [item.id async for item in alice.conversations.items.list(filled.id, order="asc", limit=1)]
    assert len(left) == 2
    assert left[1] == added.data[1].id
    assert (await alice.conversations.delete(filled.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await alice.conversations.items.list(filled.id)


async def test_a_conversation_is_continued_and_its_pages_follow_its_cursors(alice: AsyncOpenAI) -> None:
    conversation = await alice.conversations.create()
    for number in range(1, 5):
        said = await alice.responses.create(model=MODEL, input=f"number {number}", conversation=conversation.id)
        assert said.conversation
        assert said.conversation.id == conversation.id
        assert f"You have sent {number} user message" in said.output_text
    for order in ("asc", "desc"):
        ids = [i.id async for i in alice.conversations.items.list(conversation.id, limit=3, order=order)]
        assert len(ids) == len(set(ids)) == 8
    again = await alice.responses.create(
        model=MODEL, input="[[script: reasoning]] last", conversation={"id": conversation.id}
    )
    listed = [i.id async for i in alice.conversations.items.list(conversation.id, order="desc", limit=3)]
    assert listed[0] == again.output[-1].id


async def test_a_previous_response_beside_a_conversation_is_the_services_own_refusal(alice: AsyncOpenAI) -> None:
    first = await alice.responses.create(model=MODEL, input="one")
    conversation = await alice.conversations.create()
    with pytest.raises(openai.BadRequestError) as refused:
        await alice.responses.create(
            model=MODEL, input="two", previous_response_id=first.id, conversation=conversation.id
        )
    assert refused.value.code == "mutually_exclusive_parameters"


async def test_the_second_call_on_a_busy_conversation_is_a_bad_request(alice: AsyncOpenAI, stand_in: Running) -> None:
    conversation = await alice.conversations.create()
    async with await alice.responses.create(
        model=MODEL, input="[[script: delay=0.05]] x", conversation=conversation.id, stream=True
    ) as stream:
        await anext(aiter(stream))
        with pytest.raises(openai.BadRequestError) as locked:
            await alice.responses.create(model=MODEL, input="y", conversation=conversation.id)
    assert locked.value.code == "conversation_locked"


# --- models, errors, headers ----------------------------------------------------------------------------------------


async def test_models_are_listed_without_the_fine_tuned(alice: AsyncOpenAI) -> None:
    names = [model.id async for model in alice.models.list()]
    assert "gpt-5" in names
    assert not [name for name in names if name.startswith("ft:")]
    assert (await alice.models.retrieve("gpt-5")).id == "gpt-5"
    with pytest.raises(openai.NotFoundError):
        await alice.models.retrieve("ft:gpt-4o-mini-2024-07-18:acme:coats:abc12345")


async def test_errors_come_as_the_sdks_own_classes_with_code_and_param(
    gateway: Deployment, alice: AsyncOpenAI, stand_in: Running
) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await alice.responses.retrieve("resp_nobody")
    assert "resp_nobody" in missing.value.message
    with pytest.raises(openai.BadRequestError) as unknown:
        await alice.responses.create(model=MODEL, input="x", previous_response_id="resp_nobody")
    assert (unknown.value.code, unknown.value.param) == ("previous_response_not_found", "previous_response_id")
    with pytest.raises(openai.AuthenticationError):
        await gateway.client("sk-nobody").models.list()
    for status, expected in ((429, openai.RateLimitError), (500, openai.InternalServerError)):
        stand_in.provider.next_answer(f"status={status}")
        with pytest.raises(expected) as failed:
            await alice.responses.create(model=MODEL, input="x")
        text = json.dumps(failed.value.body) + str(dict(failed.value.response.headers))
        assert stand_in.provider.organization not in text
        assert stand_in.provider.project not in text
        assert failed.value.request_id
    with pytest.raises(openai.NotFoundError):
        await alice.files.list()


async def test_every_answer_has_the_gateways_request_id(alice: AsyncOpenAI) -> None:
    raw = await alice.responses.with_raw_response.create(model=MODEL, input="x")
    parsed = raw.parse()
    assert raw.request_id
    assert raw.request_id.startswith("req_")
    assert parsed._request_id == raw.request_id
    assert "openai-organization" not in raw.headers
    assert "set-cookie" not in raw.headers
    async with alice.responses.with_streaming_response.retrieve(parsed.id) as streamed:
        assert (await streamed.parse()).id == parsed.id


async def test_the_sdks_retries_and_time_outs_work_through_the_gateway(
    gateway: Deployment, alice: AsyncOpenAI, stand_in: Running
) -> None:
    patient = alice.with_options(max_retries=2)
    stand_in.provider.next_answer("status=503")
    made = await patient.responses.create(model=MODEL, input="again")
    assert made.status == "completed"
    stand_in.provider.next_answer("hang")
    with pytest.raises(openai.APITimeoutError):
        await alice.with_options(timeout=0.3).responses.create(model=MODEL, input="wait")
    assert (await alice.responses.create(model=MODEL, input="and on")).status == "completed"


async def test_extra_headers_name_no_account_and_extra_bodies_are_checked_like_the_rest(
    gateway: Deployment, alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    first = await alice.responses.create(
        model=MODEL,
        input="x",
        extra_headers={"OpenAI-Organization": "org-other", "OpenAI-Project": "proj_other", "X-Mine": "1"},
        extra_body={"a_new_field": {"n": 1.50}},
    )
    names = {name for name, _ in stand_in.provider.received[-1].headers}
    assert not names & {"openai-organization", "openai-project", "x-mine"}
    assert sent(stand_in)["a_new_field"] == {"n": 1.5}
    before = len(stand_in.provider.received)
    with pytest.raises(openai.BadRequestError):
        await bob.responses.create(model=MODEL, input="x", extra_body={"previous_response_id": first.id})
    with pytest.raises(openai.NotFoundError):
        await bob.responses.create(
            model=MODEL, input="x", extra_body={"input": [{"type": "item_reference", "id": first.output[0].id}]}
        )
    assert len(stand_in.provider.received) == before


# --- tools, reasoning, replay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chained", [True, False], ids=["chained", "replayed"])
async def test_a_tool_loop_ends_with_what_the_tool_said(alice: AsyncOpenAI, stand_in: Running, chained: bool) -> None:
    question: Any = {"role": "user", "content": "call get_weather"}
    asked = await alice.responses.create(model=MODEL, input=[question], tools=[WEATHER], store=chained)
    calls = [item for item in asked.output if item.type == "function_call"]
    raws = list(stand_in.provider.responses.values())[-1].body["output"]
    assert [call.call_id for call in calls] == [raw["call_id"] for raw in raws if raw["type"] == "function_call"]
    assert json.loads(calls[0].arguments) == {"city": "Paris"}
    outcome: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls]
    if chained:
        done = await alice.responses.create(model=MODEL, input=outcome, tools=[WEATHER], previous_response_id=asked.id)
    else:
        replayed: Any = [item.to_dict() for item in asked.output]
        done = await alice.responses.create(
            model=MODEL, input=[question, *replayed, *outcome], tools=[WEATHER], store=False
        )
    assert "The tool said: rain" in done.output_text


async def test_encrypted_reasoning_is_replayed_without_storage_and_byte_for_byte(
    alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    question: Any = {"role": "user", "content": "call get_weather"}
    stand_in.provider.next_answer("reasoning, function_call")
    asked = await alice.responses.create(
        model=MODEL, input=[question], tools=[WEATHER], store=False, include=["reasoning.encrypted_content"]
    )
    kinds = [item.type for item in asked.output]
    assert kinds == ["reasoning", "function_call"]
    raws = list(stand_in.provider.responses.values())[-1].body["output"]
    replayed: Any = [item.to_dict() for item in asked.output]
    assert replayed[0]["encrypted_content"] != raws[0]["encrypted_content"]
    outcome: Any = {"type": "function_call_output", "call_id": replayed[1]["call_id"], "output": "rain"}
    done = await alice.responses.create(model=MODEL, input=[question, *replayed, outcome], tools=[WEATHER], store=False)
    assert "rain" in done.output_text
    went = sent(stand_in)["input"]
    assert [item.get("type", "message") for item in went] == ["message", *kinds, "function_call_output"]
    assert went[1]["encrypted_content"] == raws[0]["encrypted_content"]
    edited = [{**replayed[0], "encrypted_content": replayed[0]["encrypted_content"][:-1] + "!"}, replayed[1], outcome]
    before = len(stand_in.provider.received)
    for client, items in ((alice, edited), (bob, [*replayed, outcome])):
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model=MODEL, input=[question, *items], tools=[WEATHER], store=False)
    assert len(stand_in.provider.received) == before


async def test_a_torn_history_is_refused_with_the_clients_own_ids(alice: AsyncOpenAI, stand_in: Running) -> None:
    stand_in.provider.next_answer("reasoning, function_call")
    asked = await alice.responses.create(model=MODEL, input="hello", tools=[WEATHER])
    reasoning, call = (item.to_dict() for item in asked.output)
    outcome = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    torn: Any = ([reasoning, outcome], [call, outcome])
    for items, without in zip(torn, ("required following item", "required 'reasoning' item"), strict=True):
        with pytest.raises(openai.BadRequestError, match=without) as refused:
            await alice.responses.create(model=MODEL, input=items, tools=[WEATHER])
        assert str(items[0]["id"]) in refused.value.message
        assert not [raw for raw in stand_in.provider.ids.secrets() if raw in refused.value.message]


async def test_item_references_replay_a_history(alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running) -> None:
    stand_in.provider.next_answer("reasoning, message")
    first = await alice.responses.create(model=MODEL, input="one")
    history: Any = [{"type": "item_reference", "id": item.id} for item in first.output]
    then = await alice.responses.create(model=MODEL, input=[*history, {"role": "user", "content": "two"}])
    assert then.status == "completed"
    raws = [item["id"] for item in next(iter(stand_in.provider.responses.values())).body["output"]]
    assert [item["id"] for item in sent(stand_in)["input"][:-1]] == raws
    with pytest.raises(openai.NotFoundError):
        await bob.responses.create(model=MODEL, input=[*history, {"role": "user", "content": "two"}])


@pytest.mark.parametrize("chained", [True, False], ids=["chained", "replayed"])
async def test_an_mcp_call_is_approved(alice: AsyncOpenAI, bob: AsyncOpenAI, chained: bool) -> None:
    tools: Any = [{"type": "mcp", "server_label": "cloakroom", "server_url": "https://mcp.example.org/"}]
    question: Any = {"role": "user", "content": "[[script: mcp]] fetch it"}
    asked = await alice.responses.create(model=MODEL, input=[question], tools=tools)
    request = next(item for item in asked.output if item.type == "mcp_approval_request")
    approval: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
    if chained:
        done = await alice.responses.create(model=MODEL, input=[approval], tools=tools, previous_response_id=asked.id)
    else:
        replayed: Any = [item.to_dict() for item in asked.output]
        done = await alice.responses.create(model=MODEL, input=[question, *replayed, approval], tools=tools)
    call: Any = next(item for item in done.output if item.type == "mcp_call").to_dict()
    assert call["approval_request_id"] == request.id
    await alice.responses.delete(asked.id)
    history: Any = [{"role": "user", "content": "go on"}, call]
    assert (await alice.responses.create(model=MODEL, input=history, store=False)).status == "completed"
    with pytest.raises(openai.NotFoundError):
        await bob.responses.create(model=MODEL, input=[approval], tools=tools)


def _answers(output: list[Any]) -> Iterator[dict[str, Any]]:
    """What a client sends back for the calls that it has carried out."""
    for item in output:
        match item["type"]:
            case "function_call" | "custom_tool_call" | "local_shell_call":
                yield {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "done"}
            case "apply_patch_call":
                yield {"type": "apply_patch_call_output", "call_id": item["call_id"], "status": "completed"}
            case "computer_call":
                yield {
                    "type": "computer_call_output",
                    "call_id": item["call_id"],
                    "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"},
                    "acknowledged_safety_checks": item["pending_safety_checks"],
                }


SPOKEN = frozenset({"text", "logprobs", "index", "start_index", "end_index"})
"""What the model says goes back as the client has read it, and so do positions in it."""


def _unspoken(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unspoken(member) for key, member in value.items() if key not in SPOKEN}
    return [_unspoken(element) for element in value] if isinstance(value, list) else value


def _layout(value: Any) -> Any:
    """A JSON value's keys in their order, without what stands under them."""
    if isinstance(value, dict):
        return [(key, _layout(member)) for key, member in value.items()]
    return [_layout(element) for element in value] if isinstance(value, list) else None


@pytest.mark.parametrize("word", sorted(BUILDERS))
async def test_every_output_item_replayed_as_input_arrives_as_the_service_wrote_it(
    alice: AsyncOpenAI, stand_in: Running, word: str
) -> None:
    question: Any = {"role": "user", "content": "hello"}
    stand_in.provider.next_answer(f"{word}, message, annotations")
    first = await alice.responses.create(model=MODEL, input=[question], include=EVERYTHING)
    raws: list[Any] = list(stand_in.provider.responses.values())[-1].body["output"]
    replayed: Any = [item.to_dict() for item in first.output]
    answers: Any = list(_answers(replayed))
    await alice.responses.create(model=MODEL, input=[question, *replayed, *answers, question])
    arrived = sent(stand_in)["input"][1 : 1 + len(raws)]
    assert _unspoken(arrived) == _unspoken(raws)
    assert _layout(arrived) == _layout(replayed)


async def test_answers_with_fields_that_nobody_knows_yet_can_be_replayed(
    redis_server: RedisServer, unkind: Running, tmp_path: Path
) -> None:
    """What the gateway made of their IDs never opens, and is no raw ID either."""
    question: Any = {"role": "user", "content": "hello"}
    async with deployment(redis_server.url, unkind, tmp_path) as gateway:
        alice = gateway.client(await gateway.key("acme", "alice"))
        for word in BUILDERS:
            unkind.provider.next_answer(f"{word}, message")
            first = await alice.responses.create(model=MODEL, input=[question], include=EVERYTHING)
            replayed: Any = [item.to_dict() for item in first.output]
            answers: Any = list(_answers(replayed))
            then = await alice.responses.create(model=MODEL, input=[question, *replayed, *answers, question])
            assert then.status == "completed"
            assert _layout(sent(unkind)["input"][1 : 1 + len(replayed)]) == _layout(replayed)


@pytest.mark.parametrize("word", sorted(BUILDERS.keys() - {"reasoning_text"}))
async def test_every_output_item_replayed_without_storage_is_taken(
    alice: AsyncOpenAI, stand_in: Running, word: str
) -> None:
    question: Any = {"role": "user", "content": "hello"}
    stand_in.provider.next_answer(f"{word}, message")
    first = await alice.responses.create(model=MODEL, input=[question], include=EVERYTHING, store=False)
    replayed: Any = [item.to_dict() for item in first.output]
    answers: Any = list(_answers(replayed))
    then = await alice.responses.create(model=MODEL, input=[question, *replayed, *answers, question], store=False)
    assert then.status == "completed"


async def test_reasoning_that_is_neither_stored_nor_sent_along_can_not_be_replayed(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    stand_in.provider.next_answer("reasoning, message")
    first = await alice.responses.create(model=MODEL, input="hello", store=False)
    replayed: Any = [item.to_dict() for item in first.output]
    with pytest.raises(openai.NotFoundError, match="not persisted when `store` is set to false"):
        await alice.responses.create(model=MODEL, input=[*replayed, {"role": "user", "content": "and?"}], store=False)


# --- deployments ----------------------------------------------------------------------------------------------------


async def test_ids_outlive_a_restart(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> None:
    async with deployment(redis_server.url, stand_in, tmp_path) as before:
        key = await before.key("acme", "alice")
        alice = before.client(key)
        first = await alice.responses.create(model=MODEL, input="one")
        conversation = await alice.conversations.create(items=[{"role": "user", "content": "hello"}])
    async with deployment(redis_server.url, stand_in, tmp_path) as after:
        alice = after.client(key)
        again = await alice.responses.retrieve(first.id)
        assert _ids(again) == _ids(first)
        assert (await alice.conversations.retrieve(conversation.id)).id == conversation.id
        second = await alice.responses.create(model=MODEL, input="two", previous_response_id=first.id)
        assert second.previous_response_id == first.id


async def test_two_gateways_in_a_row_carry_on_a_conversation(
    redis_server: RedisServer, own_redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with deployment(own_redis_server.url, stand_in, tmp_path / "inner") as inner:
        upstream = Running(inner.url.removesuffix("/v1"), stand_in.provider)
        key = await inner.key("acme", "the outer gateway")
        async with deployment(redis_server.url, upstream, tmp_path / "outer", OPENAI_API_KEY=key) as outer:
            alice = outer.client(await outer.key("acme", "alice"))
            bob = outer.client(await outer.key("bravo", "bob"))
            question: Any = {"role": "user", "content": "hello"}
            stand_in.provider.next_answer("reasoning, code_interpreter, message, annotations")
            first = await alice.responses.create(model=MODEL, input=[question], include=EVERYTHING)
            replayed: Any = [item.to_dict() for item in first.output]
            assert (await alice.responses.create(model=MODEL, input=[question, *replayed, question])).status
            raws = next(iter(stand_in.provider.responses.values())).body["output"]
            assert _unspoken(sent(stand_in)["input"][1:-1]) == _unspoken(raws)
            async with alice.responses.stream(model=MODEL, input="on", previous_response_id=first.id) as stream:
                final = await stream.get_final_response()
            assert _ids(await alice.responses.retrieve(final.id)) == _ids(final)
            conversation = await alice.conversations.create()
            await alice.responses.create(model=MODEL, input="in it", conversation=conversation.id)
            assert len([item async for item in alice.conversations.items.list(conversation.id, limit=1)]) == 2
            for theirs in (bob.responses.retrieve(first.id), bob.conversations.retrieve(conversation.id)):
                with pytest.raises(openai.NotFoundError):
                    await theirs
