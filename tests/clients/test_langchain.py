"""LangChain's `langchain-openai`, unmodified, on the Responses API and on chat completions."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from tests.clients.house import House

MODEL = "gpt-5"


def chat(house: House, name: str, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=house.url, api_key=house.keys[name], max_retries=0, **more)


def get_weather(city: str) -> str:
    """Tells the weather."""
    return f"rain in {city}"


WEATHER = StructuredTool.from_function(get_weather)


def test_a_chain_of_responses_is_followed_by_its_owner_alone(house: House) -> None:
    mine = chat(house, "alice", use_responses_api=True, use_previous_response_id=True)
    said: list[Any] = [HumanMessage("one")]
    first = mine.invoke(said)
    said += [first, HumanMessage("two")]
    second = mine.invoke(said)
    assert "You have sent 2 user messages" in second.text
    # The second request held the new message alone, so it is the service that remembers the first.
    assert b'"one"' not in str(house.received()[-1]["body"]).encode()
    house.check_clean(first.model_dump(), second.model_dump())
    before = len(house.received())
    for stranger in ("bob", "carol"):
        with pytest.raises(openai.BadRequestError, match="not found"):
            chat(house, stranger, use_responses_api=True, use_previous_response_id=True).invoke(said)
    assert len(house.received()) == before


@pytest.mark.parametrize("version", ["responses/v1", "v1"])
def test_a_tool_loop_replays_its_items(house: House, version: Any) -> None:
    model = chat(house, "alice", use_responses_api=True, output_version=version).bind_tools([WEATHER])
    said: list[Any] = [HumanMessage("[[script: reasoning]] get_weather")]
    called = model.invoke(said)
    assert isinstance(called, AIMessage)
    said.append(called)
    said += [ToolMessage(WEATHER.invoke(call["args"]), tool_call_id=call["id"]) for call in called.tool_calls]
    answer = model.invoke(said)
    assert "rain in Paris" in answer.text
    said += [answer, HumanMessage("and now?")]
    assert "You have sent 2 user messages" in (model.invoke(said)).text
    house.check_clean([one.model_dump() for one in said])


def test_a_stream_is_put_together(house: House) -> None:
    chunks = [*chat(house, "alice", use_responses_api=True).stream("[[script: reasoning, message]] hi")]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.text
    house.check_clean(whole.model_dump(), [chunk.model_dump() for chunk in chunks])


def test_chat_completions_and_embeddings_answer(house: House) -> None:
    model = chat(house, "alice", use_responses_api=False)
    answer = model.bind_tools([WEATHER]).invoke("get_weather")
    assert answer.tool_calls
    embeddings = OpenAIEmbeddings(
        model="text-embedding-3-small",
        base_url=house.url,
        api_key=house.keys["alice"],
        check_embedding_ctx_length=False,
    )
    assert len(embeddings.embed_query("coat")) > 1
    house.check_clean(answer.model_dump())
