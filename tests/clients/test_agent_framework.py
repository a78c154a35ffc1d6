"""Microsoft Agent Framework, unmodified: sessions made, saved, restored, streamed and polled, and a stranger's tries."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, FileSessionStore, create_harness_agent
from agent_framework.exceptions import AgentFrameworkException
from agent_framework.openai import OpenAIChatClient
from openai import AsyncOpenAI

from tests.clients.house import House

pytestmark = pytest.mark.anyio

MODEL = "gpt-5"


def chat(client: AsyncOpenAI) -> OpenAIChatClient[Any]:
    return OpenAIChatClient(model=MODEL, async_client=client)


def get_weather(city: str) -> str:
    """Tells the weather."""
    return f"rain in {city}"


def agent(client: AsyncOpenAI, **more: Any) -> Agent[Any]:
    return Agent(client=chat(client), instructions="Be brief.", **more)


async def test_a_session_is_saved_restored_and_lost_on_a_stranger(
    alice: AsyncOpenAI, bob: AsyncOpenAI, carol: AsyncOpenAI, house: House
) -> None:
    mine = agent(alice)
    session = mine.create_session()
    await mine.run("one", session=session)
    assert str(session.service_session_id).startswith("resp_")
    await mine.run("two", session=session)
    saved = json.dumps(session.to_dict())
    restored = AgentSession.from_dict(json.loads(saved))
    third = await agent(alice).run("three", session=restored)
    assert "You have sent 3 user messages" in third.text
    house.check_clean(saved, restored.to_dict())
    before = len(house.received())
    for stranger in (bob, carol):
        with pytest.raises(AgentFrameworkException, match="not found"):
            await agent(stranger).run("x", session=AgentSession.from_dict(json.loads(saved)))
    assert len(house.received()) == before


async def test_a_session_of_the_service_is_taken_by_its_id(alice: AsyncOpenAI, bob: AsyncOpenAI, house: House) -> None:
    conversation = await alice.conversations.create()
    for number in (1, 2):
        mine = agent(alice, tools=[get_weather])
        session = mine.get_session(service_session_id=conversation.id)
        run = await mine.run("get_weather", session=session)
        assert f"You have sent {number} user message" in run.text
        assert session.service_session_id == conversation.id
    first = await agent(alice).run("branch", session=(branch := agent(alice).create_session()))
    again = agent(alice).get_session(service_session_id=branch.service_session_id or "")
    assert "You have sent 2 user messages" in (await agent(alice).run("on", session=again)).text
    assert first.text
    before = len(house.received())
    for stolen in (conversation.id, branch.service_session_id or ""):
        theirs = agent(bob)
        with pytest.raises(AgentFrameworkException, match="not found"):
            await theirs.run("x", session=theirs.get_session(service_session_id=stolen))
    assert len(house.received()) == before


@pytest.mark.parametrize("script", ["", "[[script: reasoning]] "])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
async def test_a_tool_loop_ends_with_what_the_tool_said(
    alice: AsyncOpenAI, house: House, stream: bool, store: bool, script: str
) -> None:
    mine = agent(alice, tools=[get_weather])
    session = mine.create_session()
    options: Any = {"store": store, "include": ["reasoning.encrypted_content"]}
    if stream:
        run = mine.run(f"{script}get_weather", session=session, stream=True, options=options)
        updates = [update async for update in run]
        assert len(updates) > 4
        done = await run.get_final_response()
        house.check_clean([update.to_dict() for update in updates])
    else:
        done = await mine.run(f"{script}get_weather", session=session, options=options)
    assert "rain in Paris" in done.text
    after = await mine.run("and?", session=session, options=options)
    assert "You have sent 2 user messages" in after.text
    house.check_clean(session.to_dict(), done.to_dict(), after.to_dict())


@pytest.mark.parametrize("items", ["web_search", "file_search", "code_interpreter", "image", "reasoning, annotations"])
@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
async def test_what_the_services_own_tools_did_is_remembered(
    alice: AsyncOpenAI, house: House, store: bool, items: str
) -> None:
    mine = agent(alice)
    session = mine.create_session()
    options: Any = {"store": store, "include": ["reasoning.encrypted_content", "code_interpreter_call.outputs"]}
    for number, said in enumerate((f"[[script: {items}]] one", "two", f"[[script: {items}]] three"), 1):
        run = await mine.run(said, session=session, options=options)
        assert f"You have sent {number} user message" in run.text
        house.check_clean(run.to_dict())
    house.check_clean(session.to_dict())


async def test_a_session_in_a_file_store_is_found_again(alice: AsyncOpenAI, bob: AsyncOpenAI, tmp_path: Path) -> None:
    session = (mine := agent(alice)).create_session(session_id="desk-7")
    await mine.run("one", session=session)
    await FileSessionStore(tmp_path).set("desk-7", session)
    found = await FileSessionStore(tmp_path).get("desk-7")
    assert found
    assert "You have sent 2 user messages" in (await agent(alice).run("two", session=found)).text
    stolen = await FileSessionStore(tmp_path).get("desk-7")
    with pytest.raises(AgentFrameworkException, match="not found"):
        await agent(bob).run("x", session=stolen)


async def test_a_background_run_is_polled_by_its_token(alice: AsyncOpenAI, bob: AsyncOpenAI, house: House) -> None:
    mine = agent(alice)
    session = mine.create_session()
    run = await mine.run("slowly", session=session, options={"background": True})
    assert run.continuation_token
    token = dict(run.continuation_token)
    theirs = agent(bob)
    with pytest.raises(AgentFrameworkException, match="not found"):
        await theirs.run(session=theirs.create_session(), options={"continuation_token": token})
    for _ in range(20):
        if run.continuation_token is None:
            break
        await asyncio.sleep(0.02)
        run = await mine.run(session=session, options={"continuation_token": run.continuation_token})
    assert "slowly" in run.text
    house.check_clean(token, run.to_dict())


async def test_a_background_stream_is_resumed_by_its_token(alice: AsyncOpenAI) -> None:
    mine = agent(alice)
    session = mine.create_session()
    async with mine.run("slowly", session=session, stream=True, options={"background": True}) as left:
        token = (await anext(left)).continuation_token
    assert token
    resumed = mine.run(session=session, stream=True, options={"continuation_token": token})
    assert "slowly" in (await resumed.get_final_response()).text


async def test_a_harness_agent_works_its_loop_and_its_session_is_restored(
    alice: AsyncOpenAI, bob: AsyncOpenAI, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def harness(client: AsyncOpenAI) -> Agent[Any]:
        return create_harness_agent(
            chat(client), tools=[get_weather], max_context_window_tokens=100_000, max_output_tokens=10_000
        )

    mine = harness(alice)
    session = mine.create_session()
    first = await mine.run("get_weather", session=session)
    assert "rain in Paris" in first.text
    saved = json.dumps(session.to_dict())
    second = await harness(alice).run("and?", session=AgentSession.from_dict(json.loads(saved)))
    assert "and?" in second.text
    house.check_clean(saved, second.to_dict())
