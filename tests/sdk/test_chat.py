"""The official SDK, unmodified, on chat completions, texts, embeddings, moderations and images."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.gateway_fixture import Deployment, deployment
from tests.redis_fixture import RedisServer
from tests.sdk.conftest import sent
from tests.sdk.items import FUNCTION
from tests.stand_in_fixture import Running

MODEL = "gpt-5"
HELLO: Any = [{"role": "user", "content": "hello"}]
WEATHER: Any = {"type": "function", "function": FUNCTION}
SPEECH: Any = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}


# --- chat completions -----------------------------------------------------------------------------------------------


async def test_a_stored_chat_is_retrieved_changed_listed_and_deleted_under_one_id(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    made = await alice.chat.completions.create(model=MODEL, messages=HELLO, store=True, metadata={"k": "v"})
    (raw,) = stand_in.provider.chats
    assert made.id.startswith("chatcmpl-")
    assert made.id != raw
    assert made.system_fingerprint == stand_in.provider.chats[raw].body["system_fingerprint"]
    assert made.usage
    assert made.usage.to_dict() == stand_in.provider.chats[raw].body["usage"]
    again = await alice.chat.completions.retrieve(made.id)
    assert (again.id, again.choices[0].message.content) == (made.id, made.choices[0].message.content)
    changed = await alice.chat.completions.update(made.id, metadata={"k": "w"})
    assert (changed.id, changed.metadata) == (made.id, {"k": "w"})
    deleted = await alice.chat.completions.delete(made.id)
    assert (deleted.id, deleted.deleted) == (made.id, True)
    with pytest.raises(openai.NotFoundError):
        await alice.chat.completions.retrieve(made.id)


async def test_the_messages_of_a_chat_are_paged_by_ids_that_stay_the_same(alice: AsyncOpenAI) -> None:
    messages: Any = [{"role": "user", "content": f"{n}"} for n in range(7)]
    made = await alice.chat.completions.create(model=MODEL, messages=messages, store=True)
    paged = [one async for one in alice.chat.completions.messages.list(made.id, limit=2)]
    whole = (await alice.chat.completions.messages.list(made.id, limit=50)).data
    assert [(one.id, one.content) for one in paged] == [(one.id, one.content) for one in whole]
    assert [one.content for one in whole] == [str(n) for n in range(7)]
    assert not any(made.id in one.id for one in whole)


async def test_somebody_elses_chat_reads_as_missing_and_nobody_is_asked(
    alice: AsyncOpenAI, bob: AsyncOpenAI, gateway: Deployment, stand_in: Running
) -> None:
    carol = gateway.client(await gateway.key("acme", "carol"))
    made = await alice.chat.completions.create(model=MODEL, messages=HELLO, store=True)
    (message,) = (await alice.chat.completions.messages.list(made.id)).data
    mine = await bob.chat.completions.create(model=MODEL, messages=HELLO, store=True)
    before = len(stand_in.provider.received)
    for stranger in (bob, carol):
        chats = stranger.chat.completions
        for refused in (chats.retrieve, chats.delete, chats.messages.list):
            with pytest.raises(openai.NotFoundError, match=made.id):
                await refused(made.id)
        with pytest.raises(openai.NotFoundError):
            await chats.update(made.id, metadata={})
    with pytest.raises(openai.NotFoundError):
        await bob.chat.completions.messages.list(mine.id, after=message.id)
    assert len(stand_in.provider.received) == before
    assert (await alice.chat.completions.retrieve(made.id)).id == made.id


async def test_a_chat_that_is_not_stored_has_an_id_that_nothing_opens(alice: AsyncOpenAI, stand_in: Running) -> None:
    for more in ({}, {"store": False}):
        made = await alice.chat.completions.create(model=MODEL, messages=HELLO, **more)  # type: ignore[call-overload]
        before = len(stand_in.provider.received)
        with pytest.raises(openai.NotFoundError, match=made.id):
            await alice.chat.completions.retrieve(made.id)
        assert len(stand_in.provider.received) == before


async def test_every_chunk_of_a_stream_shows_the_id_that_retrieve_takes(alice: AsyncOpenAI) -> None:
    chunks = [
        chunk
        async for chunk in await alice.chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, store=True, stream_options={"include_usage": True}
        )
    ]
    (shown,) = {chunk.id for chunk in chunks}
    said = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert said == (await alice.chat.completions.retrieve(shown)).choices[0].message.content
    assert chunks[-1].usage
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)


async def test_the_stream_helper_accumulates_tool_calls_and_structured_output(alice: AsyncOpenAI) -> None:
    class Place(pydantic.BaseModel):
        city: str
        rooms: int

    parsed = await alice.chat.completions.parse(model=MODEL, messages=HELLO, response_format=Place)
    assert parsed.choices[0].message.parsed == Place(city="Paris", rooms=7)
    async with alice.chat.completions.stream(model=MODEL, messages=HELLO, response_format=Place) as stream:
        assert (await stream.get_final_completion()).choices[0].message.parsed == Place(city="Paris", rooms=7)
    question: Any = [{"role": "user", "content": "call get_weather"}]
    async with alice.chat.completions.stream(model=MODEL, messages=question, tools=[WEATHER]) as called:
        (call,) = (await called.get_final_completion()).choices[0].message.tool_calls or []
    assert call.function.parsed_arguments == {"city": "Paris"}


async def test_a_tool_loop_keeps_the_ids_of_its_calls(alice: AsyncOpenAI, stand_in: Running) -> None:
    question: Any = {"role": "user", "content": "call get_weather"}
    stand_in.provider.next_answer("custom_tool")
    asked = await alice.chat.completions.create(model=MODEL, messages=[question], tools=[WEATHER])
    calls = asked.choices[0].message.tool_calls or []
    assert [call.type for call in calls] == ["function", "custom"]
    assert all(call.id in stand_in.provider.issued for call in calls), "as the service wrote them"
    outcomes: Any = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in calls]
    history: Any = [question, asked.choices[0].message.to_dict(), *outcomes]
    done = await alice.chat.completions.create(model=MODEL, messages=history, tools=[WEATHER])
    assert "The tool said: rain" in str(done.choices[0].message.content)
    assert sent(stand_in)["messages"] == history


async def test_spoken_answers_are_their_owners_to_refer_to(
    alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    whole = (await alice.chat.completions.create(model=MODEL, messages=HELLO, **SPEECH)).choices[0].message.audio
    assert whole
    chunks = [
        chunk async for chunk in await alice.chat.completions.create(model=MODEL, messages=HELLO, stream=True, **SPEECH)
    ]
    parts: list[Any] = [chunk.choices[0].delta.to_dict().get("audio") for chunk in chunks]
    (streamed,) = {part["id"] for part in parts if part and "id" in part}
    assert "".join(part.get("transcript", "") for part in parts if part) == whole.transcript
    for spoken in (whole.id, streamed):
        assert spoken.startswith("audio_")
        history: Any = [*HELLO, {"role": "assistant", "audio": {"id": spoken}}, {"role": "user", "content": "and?"}]
        await alice.chat.completions.create(model=MODEL, messages=history, **SPEECH)
        assert sent(stand_in)["messages"][1]["audio"]["id"] in stand_in.provider.ids.attachable
        before = len(stand_in.provider.received)
        with pytest.raises(openai.NotFoundError, match=spoken):
            await bob.chat.completions.create(model=MODEL, messages=history)
        assert len(stand_in.provider.received) == before


async def test_files_and_voices_that_nobody_has_here_read_as_missing(alice: AsyncOpenAI, stand_in: Running) -> None:
    file = {"type": "file", "file": {"file_id": stand_in.provider.new_attachment("file-")}}
    named: list[Any] = [
        {"messages": [{"role": "user", "content": [file]}]},
        {"messages": HELLO, "audio": {"format": "wav", "voice": {"id": "voice_1234"}}},
        {"messages": HELLO, "audio": {"format": "wav", "voice": "voice_1234"}},
    ]
    for more in named:
        with pytest.raises(openai.NotFoundError):
            await alice.chat.completions.create(model=MODEL, **more)
    assert not stand_in.provider.received


async def test_the_clients_own_tokens_are_the_tenants(alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running) -> None:
    tokens: Any = {"prompt_cache_key": "k", "safety_identifier": "s", "user": "u"}
    seen = []
    for client in (alice, bob):
        await client.chat.completions.create(model=MODEL, messages=HELLO, **tokens)
        seen.append({name: sent(stand_in)[name] for name in tokens})
    assert not set(seen[0].values()) & set(seen[1].values())
    assert not {*tokens.values()} & {*seen[0].values(), *seen[1].values()}
    await alice.chat.completions.create(model=MODEL, messages=HELLO)
    assert sent(stand_in)["safety_identifier"], "one end user for the service to watch"


async def test_what_is_no_id_passes_as_it_came(alice: AsyncOpenAI, stand_in: Running) -> None:
    body: Any = {
        "messages": [{"role": "user", "name": "me", "content": "resp_0123456789abcdef0123456789abcdef01234567"}],
        "n": 2,
        "logit_bias": {"50256": -100},
        "stop": ["\n", "chatcmpl-0123456789abcdef0123456789abc"],
        "prediction": {"type": "content", "content": "text"},
        "web_search_options": {"search_context_size": "low", "user_location": None},
        "functions": [{"name": "f", "parameters": {"properties": {"id": {"const": "x"}}}}],
        "reasoning_effort": "low",
        "seed": 2**53 + 1,
    }
    made = await alice.chat.completions.create(model=MODEL, **body)
    assert len(made.choices) == 2
    assert {name: sent(stand_in)[name] for name in body} == body


async def test_log_probabilities_annotations_and_refusals_arrive(alice: AsyncOpenAI, stand_in: Running) -> None:
    stand_in.provider.next_answer("annotations")
    cited = (await alice.chat.completions.create(model=MODEL, messages=HELLO, logprobs=True)).choices[0]
    (annotation,) = cited.message.annotations or []
    citation, text = annotation.url_citation, str(cited.message.content)
    assert text[citation.start_index : citation.end_index].startswith("([example.org]")
    assert cited.logprobs
    assert "".join(token.token for token in cited.logprobs.content or []) == text
    stand_in.provider.next_answer("refusal")
    refused = (await alice.chat.completions.create(model=MODEL, messages=HELLO, store=True)).choices[0].message
    assert refused.refusal
    assert not [raw for raw in stand_in.provider.ids.secrets() if raw in refused.refusal]


@pytest.mark.parametrize("script", ["keepalive", "comments", "eol=cr, split=3", "eol=crlf, split=7", "bom", "quote"])
async def test_every_way_of_writing_a_stream_reads_the_same(alice: AsyncOpenAI, stand_in: Running, script: str) -> None:
    stand_in.provider.next_answer(f"{script}, unicode")
    chunks = [
        chunk
        async for chunk in await alice.chat.completions.create(model=MODEL, messages=HELLO, stream=True, store=True)
    ]
    said = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert "漢字" in said
    stored = await alice.chat.completions.retrieve(chunks[0].id)
    assert said == stored.choices[0].message.content
    assert (chunks[0].id in said) is (script == "quote")


@pytest.mark.parametrize("script", ["error_event=3", "cut=3", "cut_clean=3"])
async def test_a_stream_that_fails_raises_the_sdks_error(alice: AsyncOpenAI, stand_in: Running, script: str) -> None:
    stand_in.provider.next_answer(script)
    stream = await alice.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    assert (await anext(stream)).id
    with pytest.raises(openai.APIError) as failed:
        _ = [chunk async for chunk in stream]
    assert failed.value.message
    assert not [raw for raw in stand_in.provider.ids.secrets() if raw in str(failed.value.body)]


async def test_errors_are_the_sdks_and_name_no_account(alice: AsyncOpenAI, stand_in: Running) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await alice.chat.completions.create(model="no-such-model", messages=HELLO)
    messages: Any = [*HELLO, {"role": "tool", "tool_call_id": "call_7", "content": "x"}]
    with pytest.raises(openai.BadRequestError, match="No tool call found") as torn:
        await alice.chat.completions.create(model=MODEL, messages=messages)
    stand_in.provider.next_answer("status=429")
    with pytest.raises(openai.RateLimitError) as busy:
        await alice.embeddings.create(model=MODEL, input="x")
    for refused in (missing, torn, busy):
        assert not [raw for raw in stand_in.provider.ids.secrets() if raw in str(refused.value.body)]


async def test_a_chat_gone_upstream_reads_as_missing_under_the_clients_own_id(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    made = await alice.chat.completions.create(model=MODEL, messages=HELLO, store=True)
    stand_in.provider.chats.clear()
    with pytest.raises(openai.NotFoundError, match=f"Chat completion with id '{made.id}' not found."):
        await alice.chat.completions.retrieve(made.id)


async def test_a_repeated_key_gives_the_stored_chat_and_makes_no_second_one(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    key = {"Idempotency-Key": "once"}
    first = await alice.chat.completions.create(model=MODEL, messages=HELLO, store=True, extra_headers=key)
    again = await alice.chat.completions.create(model=MODEL, messages=HELLO, store=True, extra_headers=key)
    assert again.id == first.id
    assert len(stand_in.provider.chats) == 1


async def test_the_synchronous_client_chats_streams_pages_and_deletes(gateway: Deployment) -> None:
    key = await gateway.key("acme", "alice")

    def work() -> None:
        with OpenAI(api_key=key, base_url=gateway.url, max_retries=0) as client:
            kept = client.chat.completions.create(model=MODEL, messages=HELLO, store=True)
            with client.chat.completions.stream(model=MODEL, messages=HELLO) as stream:
                said = "".join(event.delta for event in stream if event.type == "content.delta")
                assert stream.get_final_completion().choices[0].message.content == said
            assert len(list(client.chat.completions.messages.list(kept.id))) == 1
            client.chat.completions.delete(kept.id)
            with pytest.raises(openai.NotFoundError):
                client.chat.completions.retrieve(kept.id)
            assert client.completions.create(model=MODEL, prompt="Once").choices[0].text == "Once and so on"
            assert len(client.embeddings.create(model=MODEL, input="x").data[0].embedding) == 8

    await asyncio.to_thread(work)


async def test_fields_that_nobody_knows_yet_show_nothing_and_can_be_replayed(
    redis_server: RedisServer, unkind: Running, tmp_path: Path
) -> None:
    async with deployment(redis_server.url, unkind, tmp_path) as gateway:
        alice = gateway.client(await gateway.key("acme", "alice"))
        ways: list[Any] = [{}, {"tools": [WEATHER], "tool_choice": "required"}, SPEECH]
        for more in ways:
            made = await alice.chat.completions.create(model=MODEL, messages=HELLO, store=True, **more)
            replayed: Any = made.choices[0].message.to_dict()
            calls = replayed.get("tool_calls") or []
            outcomes: Any = [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in calls]
            history = [*HELLO, replayed, *outcomes, *HELLO]
            then = await alice.chat.completions.create(model=MODEL, messages=history, store=True)
            listed = [one.to_json() async for one in alice.chat.completions.messages.list(then.id)]
            shown = made.to_json() + then.to_json() + json.dumps(listed)
            assert not [raw for raw in unkind.provider.ids.secrets() if raw in shown]


async def test_two_gateways_in_a_row_keep_a_chat(outer: Deployment, stand_in: Running) -> None:
    alice = outer.client(await outer.key("acme", "alice"))
    bob = outer.client(await outer.key("bravo", "bob"))
    messages: Any = [{"role": "user", "content": f"{n}"} for n in range(3)]
    stand_in.provider.next_answer("quote")
    stream = await alice.chat.completions.create(model=MODEL, messages=messages, store=True, stream=True)
    chunks = [chunk async for chunk in stream]
    (shown,) = {chunk.id for chunk in chunks}
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert shown in said
    assert (await alice.chat.completions.retrieve(shown)).choices[0].message.content == said
    listed = [one.content async for one in alice.chat.completions.messages.list(shown, limit=1)]
    assert listed == ["0", "1", "2"]
    spoken = (await alice.chat.completions.create(model=MODEL, messages=HELLO, **SPEECH)).choices[0].message
    assert spoken.audio
    history: Any = [*HELLO, {"role": "assistant", "audio": {"id": spoken.audio.id}}, *HELLO]
    await alice.chat.completions.create(model=MODEL, messages=history)
    with pytest.raises(openai.NotFoundError):
        await bob.chat.completions.retrieve(shown)
    await alice.chat.completions.delete(shown)
    assert not stand_in.provider.chats


# --- the rest -------------------------------------------------------------------------------------------------------


async def test_texts_are_completed_whole_and_in_pieces(alice: AsyncOpenAI, stand_in: Running) -> None:
    stand_in.provider.next_answer("quote")
    whole = await alice.completions.create(model=MODEL, prompt=["Once", "Twice"], user="u", logprobs=1)
    assert whole.id.startswith("cmpl-")
    assert [choice.text for choice in whole.choices] == [f"{n} and so on, says {whole.id}" for n in ("Once", "Twice")]
    assert [choice.logprobs for choice in whole.choices] == [None, None], "they would spell the ID"
    assert sent(stand_in)["user"] != "u"
    stand_in.provider.next_answer("quote, delta=5")
    chunks = [chunk async for chunk in await alice.completions.create(model=MODEL, prompt="Once", stream=True)]
    (shown,) = {chunk.id for chunk in chunks}
    assert "".join(chunk.choices[0].text for chunk in chunks) == f"Once and so on, says {shown}"


async def test_embeddings_arrive_as_they_were_written(alice: AsyncOpenAI) -> None:
    numbers = await alice.embeddings.create(model=MODEL, input=["a", "b"], encoding_format="float", dimensions=3)
    packed = await alice.embeddings.create(model=MODEL, input=["a", "b"], dimensions=3)
    for one, other in zip(numbers.data, packed.data, strict=True):
        assert len(one.embedding) == 3
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)


async def test_moderations_are_answered_without_an_id_of_the_services(alice: AsyncOpenAI, stand_in: Running) -> None:
    content: Any = [{"type": "text", "text": "violence"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    made = await alice.moderations.create(input=content)
    assert made.id.startswith("modr-")
    assert made.id not in stand_in.provider.issued
    assert made.results[0].categories.violence
    assert made.results[0].category_scores.hate == 1e-05


async def test_images_come_whole_and_in_parts_and_their_addresses_name_nobody(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    whole = await alice.images.generate(model="gpt-image-1", prompt="a coat", extra_body={"safety_identifier": "s"})
    assert whole.data
    assert whole.data[0].b64_json
    assert whole.to_dict()["safety_identifier"] == "s"
    stream = await alice.images.generate(model="gpt-image-1", prompt="a coat", stream=True, partial_images=2)
    events = [event async for event in stream]
    assert [event.type.rpartition(".")[2] for event in events] == ["partial_image", "partial_image", "completed"]
    assert events[0].b64_json == whole.data[0].b64_json
    assert events[-1].to_dict()["safety_identifier"] is None, "the client named nobody"
    addressed = await alice.images.generate(model="dall-e-3", prompt="a coat", response_format="url")
    assert addressed.data
    assert str(addressed.data[0].url).startswith("https://images.example.org/private/org-")
    assert not [raw for raw in stand_in.provider.ids.secrets() if raw in str(addressed.data[0].url)]


@pytest.mark.parametrize("name", ["moderation", "svg"])
async def test_a_fine_tuned_model_beside_the_one_that_answers_reads_as_missing(
    alice: AsyncOpenAI, stand_in: Running, name: str
) -> None:
    tuned = stand_in.provider.models[-1]
    with pytest.raises(openai.NotFoundError):
        await alice.chat.completions.create(model=MODEL, messages=HELLO, extra_body={name: {"model": tuned}})
    assert not stand_in.provider.received
