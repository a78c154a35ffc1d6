"""What the service wrote, sent back to it by the official SDK: tool loops, reasoning, every kind of item."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from gateway.demo.stand_in.items import BUILDERS
from tests.gateway_fixture import deployment
from tests.redis_fixture import RedisServer
from tests.sdk.conftest import sent
from tests.sdk.items import EVERYTHING, MODEL, WEATHER, answers_to, layout, unspoken
from tests.stand_in_fixture import Running


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


@pytest.mark.parametrize("word", sorted(BUILDERS))
async def test_every_output_item_replayed_as_input_arrives_as_the_service_wrote_it(
    alice: AsyncOpenAI, stand_in: Running, word: str
) -> None:
    question: Any = {"role": "user", "content": "hello"}
    stand_in.provider.next_answer(f"{word}, message, annotations")
    first = await alice.responses.create(model=MODEL, input=[question], include=EVERYTHING)
    raws: list[Any] = list(stand_in.provider.responses.values())[-1].body["output"]
    replayed: Any = [item.to_dict() for item in first.output]
    answers: Any = list(answers_to(replayed))
    await alice.responses.create(model=MODEL, input=[question, *replayed, *answers, question])
    arrived = sent(stand_in)["input"][1 : 1 + len(raws)]
    assert unspoken(arrived) == unspoken(raws)
    assert layout(arrived) == layout(replayed)


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
            answers: Any = list(answers_to(replayed))
            then = await alice.responses.create(model=MODEL, input=[question, *replayed, *answers, question])
            assert then.status == "completed"
            assert layout(sent(unkind)["input"][1 : 1 + len(replayed)]) == layout(replayed)


@pytest.mark.parametrize("word", sorted(BUILDERS.keys() - {"reasoning_text"}))
async def test_every_output_item_replayed_without_storage_is_taken(
    alice: AsyncOpenAI, stand_in: Running, word: str
) -> None:
    question: Any = {"role": "user", "content": "hello"}
    stand_in.provider.next_answer(f"{word}, message")
    first = await alice.responses.create(model=MODEL, input=[question], include=EVERYTHING, store=False)
    replayed: Any = [item.to_dict() for item in first.output]
    answers: Any = list(answers_to(replayed))
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
