"""The OpenAI Agents SDK, unmodified: each way that it has of carrying a conversation on, and a stranger who tries them."""

from __future__ import annotations

import json
from typing import Any

import agents
import openai
import pytest
from agents import (
    Agent,
    HostedMCPTool,
    ModelSettings,
    OpenAIConversationsSession,
    OpenAIProvider,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
)
from agents.memory import OpenAIResponsesCompactionSession
from openai import AsyncOpenAI

from tests.clients.house import House

pytestmark = pytest.mark.anyio

MODEL = "gpt-5"

agents.set_tracing_disabled(True)


def config(client: AsyncOpenAI) -> RunConfig:
    return RunConfig(model_provider=OpenAIProvider(openai_client=client, use_responses=True))


def get_weather(city: str) -> str:
    """Tells the weather."""
    return f"rain in {city}"


def agent(**more: Any) -> Agent[Any]:
    return Agent(name="Assistant", instructions="Be brief.", model=MODEL, **more)


async def test_a_plain_run_replays_its_items(alice: AsyncOpenAI, house: House) -> None:
    tools = [function_tool(get_weather)]
    first = await Runner.run(agent(tools=tools), "[[script: reasoning]] get_weather", run_config=config(alice))
    assert "rain in Paris" in first.final_output
    history = first.to_input_list()
    second = await Runner.run(
        agent(tools=tools), [*history, {"role": "user", "content": "and now?"}], run_config=config(alice)
    )
    assert "You have sent 2 user messages" in second.final_output
    house.check_clean(history, second.to_input_list())


@pytest.mark.parametrize("items", ["web_search", "file_search", "code_interpreter", "image", "reasoning, annotations"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_what_the_services_own_tools_did_is_replayed_from_a_local_session(
    alice: AsyncOpenAI, house: House, stream: bool, items: str
) -> None:
    session = SQLiteSession("s")
    for number, said in enumerate((f"[[script: {items}]] one", "two", f"[[script: {items}]] three"), 1):
        if stream:
            run = Runner.run_streamed(agent(), said, session=session, run_config=config(alice))
            assert [event async for event in run.stream_events()]
            text = str(run.final_output)
        else:
            text = str((await Runner.run(agent(), said, session=session, run_config=config(alice))).final_output)
        assert f"You have sent {number} user message" in text
    house.check_clean(await session.get_items())
    session.close()


async def test_a_chain_of_responses_is_followed_by_its_owner_alone(
    alice: AsyncOpenAI, bob: AsyncOpenAI, carol: AsyncOpenAI, house: House
) -> None:
    tools = [function_tool(get_weather)]
    first = await Runner.run(
        agent(tools=tools), "get_weather", auto_previous_response_id=True, run_config=config(alice)
    )
    assert "rain in Paris" in first.final_output
    sent = house.posted("/v1/responses")
    assert sent[-1]["previous_response_id"]
    second = await Runner.run(agent(), "again", previous_response_id=first.last_response_id, run_config=config(alice))
    assert "You have sent 2 user messages" in second.final_output
    house.check_clean(first.last_response_id, second.to_input_list())
    before = len(house.received())
    for stranger in (bob, carol):
        with pytest.raises(openai.BadRequestError, match="not found"):
            await Runner.run(agent(), "x", previous_response_id=first.last_response_id, run_config=config(stranger))
    assert len(house.received()) == before


async def test_a_conversations_session_is_restored_by_its_id(
    alice: AsyncOpenAI, bob: AsyncOpenAI, carol: AsyncOpenAI, house: House
) -> None:
    session = OpenAIConversationsSession(openai_client=alice)
    tools = [function_tool(get_weather)]
    await Runner.run(agent(tools=tools), "get_weather", session=session, run_config=config(alice))
    restored = OpenAIConversationsSession(conversation_id=session.session_id, openai_client=alice)
    second = await Runner.run(
        agent(tools=tools), "[[script: reasoning]] and?", session=restored, run_config=config(alice)
    )
    assert "You have sent 2 user messages" in second.final_output
    third = await Runner.run(agent(tools=tools), "more", session=restored, run_config=config(alice))
    assert "You have sent 3 user messages" in third.final_output
    items = await restored.get_items()
    assert len(items) > 6
    assert len(await restored.get_items(limit=2)) == 2
    house.check_clean(session.session_id, items)
    last = await restored.pop_item()
    assert last
    assert last.get("id") == items[-1].get("id")
    before = len(house.received())
    for stranger in (bob, carol):
        stolen = OpenAIConversationsSession(conversation_id=session.session_id, openai_client=stranger)
        for attempt in (stolen.get_items, stolen.pop_item, stolen.clear_session):
            with pytest.raises(openai.NotFoundError):
                await attempt()
        with pytest.raises(openai.NotFoundError):
            await stolen.add_items([{"role": "user", "content": "x"}])
        with pytest.raises(openai.NotFoundError):
            await Runner.run(agent(), "x", conversation_id=session.session_id, run_config=config(stranger))
    assert len(house.received()) == before
    await restored.clear_session()


async def test_a_conversation_id_carries_the_run_on_the_server(alice: AsyncOpenAI) -> None:
    conversation = await alice.conversations.create()
    for number in (1, 2):
        run = await Runner.run(
            agent(tools=[function_tool(get_weather)]),
            "get_weather",
            conversation_id=conversation.id,
            run_config=config(alice),
        )
        assert f"You have sent {number} user message" in run.final_output


@pytest.mark.parametrize("mode", ["previous_response_id", "input"])
async def test_a_compacted_session_goes_on(alice: AsyncOpenAI, bob: AsyncOpenAI, house: House, mode: Any) -> None:
    store = SQLiteSession("s")
    session = OpenAIResponsesCompactionSession(
        "s", store, client=alice, model="gpt-4.1", compaction_mode=mode, should_trigger_compaction=lambda _: True
    )
    await Runner.run(agent(), "my coat is grey", session=session, run_config=config(alice))
    items = await session.get_items()
    assert "compaction" in {item.get("type") for item in items}
    second = await Runner.run(agent(), "which?", session=session, run_config=config(alice))
    assert "my coat is grey" in second.final_output
    house.check_clean(items, await session.get_items())
    before = len(house.received())
    with pytest.raises(openai.APIStatusError):
        await Runner.run(agent(), [*items, {"role": "user", "content": "which?"}], run_config=config(bob))
    assert len(house.received()) == before
    store.close()


async def test_a_streamed_run_shows_the_items_that_it_ends_with(alice: AsyncOpenAI, house: House) -> None:
    run = Runner.run_streamed(
        agent(tools=[function_tool(get_weather)]),
        "get_weather",
        auto_previous_response_id=True,
        run_config=config(alice),
    )
    events = [event async for event in run.stream_events()]
    assert "rain in Paris" in run.final_output
    raw = [event.data for event in events if event.type == "raw_response_event"]
    shown = {one.item_id for one in raw if hasattr(one, "item_id")}
    ended = {item.raw_item.id for item in run.new_items if hasattr(item.raw_item, "id")}
    assert shown
    assert shown <= ended
    house.check_clean([one.model_dump_json() for one in raw], run.to_input_list())


async def test_a_handoff_takes_the_history_along(alice: AsyncOpenAI) -> None:
    billing = Agent(name="billing", instructions="Bill.", model=MODEL)
    run = await Runner.run(agent(handoffs=[billing]), "transfer_to_billing please", run_config=config(alice))
    assert run.last_agent is billing
    assert "You have sent 1 user message" in run.final_output


async def test_an_mcp_call_is_approved_by_a_callback(alice: AsyncOpenAI, house: House) -> None:
    tool = HostedMCPTool(
        tool_config={
            "type": "mcp",
            "server_label": "cloakroom",
            "server_url": "https://mcp.example.org/",
            "require_approval": "always",
        },
        on_approval_request=lambda request: {"approve": True},
    )
    run = await Runner.run(agent(tools=[tool]), "[[script: mcp]] fetch it", run_config=config(alice))
    assert "mcp_call" in {getattr(item.raw_item, "type", "") for item in run.new_items}
    house.check_clean(run.to_input_list())


async def test_unstored_reasoning_goes_round_encrypted(alice: AsyncOpenAI, bob: AsyncOpenAI, house: House) -> None:
    settings = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])
    tools = [function_tool(get_weather)]
    first = await Runner.run(
        agent(tools=tools, model_settings=settings), "[[script: reasoning]] get_weather", run_config=config(alice)
    )
    assert "rain in Paris" in first.final_output
    history = first.to_input_list()
    assert "encrypted_content" in json.dumps(history)
    house.check_clean(history)
    with pytest.raises(openai.BadRequestError):
        await Runner.run(agent(tools=tools, model_settings=settings), history, run_config=config(bob))


async def test_a_saved_run_is_resumed(alice: AsyncOpenAI) -> None:
    tool = function_tool(get_weather, needs_approval=True)
    waiting = await Runner.run(agent(tools=[tool]), "get_weather", run_config=config(alice))
    assert waiting.interruptions
    saved = waiting.to_state().to_string()
    assistant = agent(tools=[tool])
    state = await agents.RunState.from_string(assistant, saved)
    for interruption in state.get_interruptions():
        state.approve(interruption)
    done = await Runner.run(assistant, state, run_config=config(alice))
    assert "rain in Paris" in done.final_output
