"""pydantic-ai, unmodified: histories, chains and conversations, and the cache diagnostics that it asks for by itself."""

from __future__ import annotations

from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.house import House

pytestmark = pytest.mark.anyio

MODEL = "gpt-5.6"
"""The oldest family for which cache diagnostics are asked for."""


def agent(client: AsyncOpenAI, **settings: Any) -> Agent[None, str]:
    model = OpenAIResponsesModel(MODEL, provider=OpenAIProvider(openai_client=client))
    asked = OpenAIResponsesModelSettings(**settings)
    return Agent(model, instructions="Be brief.", model_settings=asked, tools=[get_weather])


def get_weather(city: str) -> str:
    """Tells the weather."""
    return f"rain in {city}"


def sent(house: House) -> list[dict[str, Any]]:
    return house.posted("/v1/responses")


async def test_a_history_is_replayed_with_its_reasoning(alice: AsyncOpenAI, house: House) -> None:
    first = await agent(alice).run("[[script: reasoning]] get_weather")
    assert "rain in Paris" in first.output
    second = await agent(alice).run("and now?", message_history=first.all_messages())
    assert "You have sent 2 user messages" in second.output
    house.check_clean(first.all_messages_json().decode(), second.all_messages_json().decode())


async def test_cache_diagnostics_compare_with_ones_own_response_alone(
    alice: AsyncOpenAI, bob: AsyncOpenAI, carol: AsyncOpenAI, house: House
) -> None:
    first = await agent(alice).run("one")
    history = first.all_messages()
    compared: dict[str, Any] = {}
    for name, client in {"alice": alice, "bob": bob, "carol": carol}.items():
        answer = await agent(client).run("two", message_history=history)
        details = answer.response.provider_details or {}
        compared[name] = details.get("prompt_cache_diagnostics")
    assert compared["alice"]["type"] == "cache_miss"
    # Not one of theirs: the service is asked about nothing, and says so as it does of an ID that nobody has.
    assert compared["bob"] == compared["carol"] == {"type": "comparison_response_not_found"}
    named = [body["prompt_cache_options"]["comparison_response_id"] for body in sent(house)[-3:]]
    assert len(set(named)) == len(named)
    house.check_clean(compared)


@pytest.mark.parametrize("way", ["openai_previous_response_id", "openai_conversation_id"])
async def test_a_chain_on_the_server_is_followed_by_its_owner_alone(
    alice: AsyncOpenAI, bob: AsyncOpenAI, carol: AsyncOpenAI, house: House, way: str
) -> None:
    if way == "openai_conversation_id":
        named = (await alice.conversations.create()).id
        await agent(alice, **{way: named}).run("one")
    else:
        named = str((await agent(alice).run("one")).response.provider_response_id)
    second = await agent(alice, **{way: named}).run("two")
    assert "You have sent 2 user messages" in second.output
    house.check_clean(named, second.all_messages_json().decode())
    before = len(house.received())
    for stranger in (bob, carol):
        with pytest.raises(ModelHTTPError, match="not found"):
            await agent(stranger, **{way: named}).run("x")
    assert len(house.received()) == before


async def test_a_stream_ends_with_the_ids_that_it_showed(alice: AsyncOpenAI, house: House) -> None:
    async with agent(alice).run_stream("[[script: reasoning, message]] hello") as run:
        pieces = [piece async for piece in run.stream_text(delta=True)]
    assert pieces
    house.check_clean(run.all_messages_json().decode())


async def test_unstored_reasoning_goes_round_encrypted(alice: AsyncOpenAI, bob: AsyncOpenAI, house: House) -> None:
    settings = {"openai_store": False, "openai_reasoning_summary": "auto"}
    first = await agent(alice, **settings).run("[[script: reasoning]] get_weather")
    assert "rain in Paris" in first.output
    history = first.all_messages()
    house.check_clean(first.all_messages_json().decode())
    again = await agent(alice, **settings).run("and?", message_history=history)
    assert "You have sent 2 user messages" in again.output
    with pytest.raises(ModelHTTPError):
        await agent(bob, **settings).run("and?", message_history=history)
