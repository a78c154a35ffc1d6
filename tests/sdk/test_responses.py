"""The official SDK, unmodified, through real sockets: all that it offers on responses, as its users use it."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pydantic
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response

from tests.gateway_fixture import Deployment
from tests.sdk.items import EVERYTHING, MODEL, ids_of
from tests.stand_in_fixture import Running


async def completed(client: AsyncOpenAI, response: Response) -> Response:
    """Polls as the documentation says."""
    for _ in range(20):
        if response.status not in {"queued", "in_progress"}:
            return response
        await asyncio.sleep(0.02)
        response = await client.responses.retrieve(response.id)
    raise AssertionError(response.status)


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
    assert ids_of(final) == ids_of(stored)
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
