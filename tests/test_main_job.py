"""The main job, end to end, with the official SDK."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.gateway_fixture import deployment
from tests.redis_fixture import RedisServer, _session_redis_server, redis_server
from tests.stand_in_fixture import Running, stand_in

__all__ = ["_session_redis_server", "redis_server", "stand_in"]


async def test_a_response_is_created_and_continued(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with deployment(redis_server.url, stand_in, tmp_path) as gateway:
        alice = gateway.client(await gateway.key("acme", "alice"))
        bob = gateway.client(await gateway.key("bravo", "bob"))
        first = await alice.responses.create(model="gpt-5", input="hello")
        second = await alice.responses.create(model="gpt-5", input="and?", previous_response_id=first.id)
        assert second.previous_response_id == first.id
        with pytest.raises(openai.BadRequestError, match="not found"):
            await bob.responses.create(model="gpt-5", input="and?", previous_response_id=first.id)
        events = [event async for event in await alice.responses.create(model="gpt-5", input="stream", stream=True)]
        assert events[-1].type == "response.completed"
        got = await alice.responses.retrieve(events[-1].response.id)
        assert got.id == events[-1].response.id
        conversation = await alice.conversations.create()
        await alice.responses.create(model="gpt-5", input="one", conversation=conversation.id)
        items = await alice.conversations.items.list(conversation.id)
        assert len(items.data) >= 2
        for text in (
            first.model_dump_json(),
            second.model_dump_json(),
            *(e.model_dump_json() for e in events),
            items.model_dump_json(),
        ):
            for raw in stand_in.provider.ids.secrets():
                assert raw not in text
