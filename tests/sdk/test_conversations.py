"""The official SDK on conversations: made, changed, continued and paged."""

from __future__ import annotations

import openai
import pytest
from openai import AsyncOpenAI

from tests.sdk.items import MODEL
from tests.stand_in_fixture import Running


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
