"""The OpenAI Agents SDK's realtime sessions, unmodified."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner

from tests.clients.house import House

pytestmark = pytest.mark.anyio


def get_weather(city: str) -> str:
    """Tells the weather."""
    return f"rain in {city}"


async def test_a_session_hears_speaks_and_calls_its_tools(house: House) -> None:
    runner = RealtimeRunner(
        RealtimeAgent(name="Assistant", instructions="Be brief.", tools=[function_tool(get_weather)])
    )
    url = house.url.replace("http", "ws") + "/realtime?model=gpt-realtime"
    shown: list[Any] = []
    kinds: list[str] = []
    async with (
        await runner.run(model_config={"api_key": house.keys["alice"], "url": url}) as session,
        asyncio.timeout(20),
    ):
        await session.send_message("[[script: function_call]] get_weather")
        async for event in session:
            shown.append(event)
            kinds.append(event.type)
            assert event.type != "error", event
            if event.type == "tool_end":
                assert event.output == "rain in Oslo"
                await session.send_audio(bytes(4800), commit=True)
            if kinds.count("audio_end") == 1 and "tool_end" in kinds:
                break
    assert {"audio", "history_added"} <= set(kinds)
    house.check_clean(shown)
