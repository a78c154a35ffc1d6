"""IDs beyond one gateway: after a restart, and behind another gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway_fixture import Deployment, deployment
from tests.redis_fixture import RedisServer
from tests.sdk.conftest import sent
from tests.sdk.items import EVERYTHING, MODEL, ids_of, unspoken
from tests.stand_in_fixture import Running


async def test_ids_outlive_a_restart(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> None:
    async with deployment(redis_server.url, stand_in, tmp_path) as before:
        key = await before.key("acme", "alice")
        alice = before.client(key)
        first = await alice.responses.create(model=MODEL, input="one")
        conversation = await alice.conversations.create(items=[{"role": "user", "content": "hello"}])
    async with deployment(redis_server.url, stand_in, tmp_path) as after:
        alice = after.client(key)
        again = await alice.responses.retrieve(first.id)
        assert ids_of(again) == ids_of(first)
        assert (await alice.conversations.retrieve(conversation.id)).id == conversation.id
        second = await alice.responses.create(model=MODEL, input="two", previous_response_id=first.id)
        assert second.previous_response_id == first.id


async def test_two_gateways_in_a_row_carry_on_a_conversation(outer: Deployment, stand_in: Running) -> None:
    alice = outer.client(await outer.key("acme", "alice"))
    bob = outer.client(await outer.key("bravo", "bob"))
    question: Any = {"role": "user", "content": "hello"}
    stand_in.provider.next_answer("reasoning, code_interpreter, message, annotations")
    first = await alice.responses.create(model=MODEL, input=[question], include=EVERYTHING)
    replayed: Any = [item.to_dict() for item in first.output]
    assert (await alice.responses.create(model=MODEL, input=[question, *replayed, question])).status
    raws = next(iter(stand_in.provider.responses.values())).body["output"]
    assert unspoken(sent(stand_in)["input"][1:-1]) == unspoken(raws)
    async with alice.responses.stream(model=MODEL, input="on", previous_response_id=first.id) as stream:
        final = await stream.get_final_response()
    assert ids_of(await alice.responses.retrieve(final.id)) == ids_of(final)
    conversation = await alice.conversations.create()
    await alice.responses.create(model=MODEL, input="in it", conversation=conversation.id)
    assert len([item async for item in alice.conversations.items.list(conversation.id, limit=1)]) == 2
    for theirs in (bob.responses.retrieve(first.id), bob.conversations.retrieve(conversation.id)):
        with pytest.raises(openai.NotFoundError):
            await theirs
