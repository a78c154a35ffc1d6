"""The stand-in's chat, text, embedding, moderation and image endpoints, driven by the official client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from gateway.demo.stand_in.server import Running
from tests.demo.conftest import MODEL

HELLO: Any = [{"role": "user", "content": "hello"}]
FETCH: Any = {"type": "function", "function": {"name": "fetch", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def client(stand_in: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=stand_in.api_url, api_key="sk-test", max_retries=0) as made:
        yield made


def test_a_chat_completion_is_kept_only_where_it_says_so(client: openai.OpenAI) -> None:
    passing = client.chat.completions.create(model=MODEL, messages=HELLO)
    kept = client.chat.completions.create(model=MODEL, messages=HELLO, store=True, metadata={"k": "v"})
    assert re.fullmatch(r"chatcmpl-[0-9A-Za-z]{29}", kept.id)
    assert "hello" in str(kept.choices[0].message.content)
    with pytest.raises(openai.NotFoundError, match=passing.id):
        client.chat.completions.retrieve(passing.id)
    assert client.chat.completions.retrieve(kept.id).metadata == {"k": "v"}
    assert client.chat.completions.update(kept.id, metadata={"k": "w"}).metadata == {"k": "w"}
    (message,) = client.chat.completions.messages.list(kept.id)
    assert (message.id, message.content) == (f"{kept.id}-0", "hello")
    assert client.chat.completions.delete(kept.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.retrieve(kept.id)


def test_a_streamed_chat_says_what_the_whole_one_says_and_ends_in_usage(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=HELLO)
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}, store=True
        )
    )
    said = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert said == whole.choices[0].message.content
    assert chunks[-1].usage
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert client.chat.completions.retrieve(chunks[0].id).choices[0].message.content == said


def test_a_named_function_is_called_and_its_outcome_read(client: openai.OpenAI) -> None:
    question = {"role": "user", "content": "fetch it"}
    asked = client.chat.completions.create(model=MODEL, messages=[question], tools=[FETCH])  # type: ignore[list-item]
    assert asked.choices[0].finish_reason == "tool_calls"
    (call,) = asked.choices[0].message.tool_calls or []
    history: Any = [question, asked.choices[0].message.to_dict()]
    outcome: Any = {"role": "tool", "tool_call_id": call.id, "content": "a coat"}
    stray: Any = {**outcome, "tool_call_id": "call_other"}
    done = client.chat.completions.create(model=MODEL, messages=[*history, outcome], tools=[FETCH])
    assert "a coat" in str(done.choices[0].message.content)
    with pytest.raises(openai.BadRequestError, match="call_other"):
        client.chat.completions.create(model=MODEL, messages=[*history, stray])


def test_spoken_audio_can_be_named_and_made_up_audio_can_not(client: openai.OpenAI) -> None:
    audio: Any = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
    spoken = client.chat.completions.create(model=MODEL, messages=HELLO, **audio).choices[0].message.audio
    assert spoken
    for raw, found in ((spoken.id, True), ("audio_0", False)):
        messages: Any = [*HELLO, {"role": "assistant", "audio": {"id": raw}}, *HELLO]
        try:
            client.chat.completions.create(model=MODEL, messages=messages)
            assert found
        except openai.NotFoundError:
            assert not found


def test_texts_are_completed_embedded_and_classified(client: openai.OpenAI) -> None:
    completed = client.completions.create(model=MODEL, prompt="Once")
    streamed = list(client.completions.create(model=MODEL, prompt="Once", stream=True))
    assert "".join(chunk.choices[0].text for chunk in streamed) == completed.choices[0].text == "Once and so on"
    numbers = client.embeddings.create(model=MODEL, input=["a", "b"], encoding_format="float")
    packed = client.embeddings.create(model=MODEL, input=["a", "b"])
    assert [len(one.embedding) for one in numbers.data] == [8, 8]
    for one, other in zip(numbers.data, packed.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
    flagged = client.moderations.create(input=["peace", "violence"]).results
    assert [one.flagged for one in flagged] == [False, True]


def test_images_come_whole_as_addresses_and_in_parts(client: openai.OpenAI, stand_in: Running) -> None:
    whole = client.images.generate(model="gpt-image-1", prompt="a coat", n=2)
    assert len(whole.data or []) == 2
    addressed = client.images.generate(model="dall-e-3", prompt="a coat", response_format="url")
    assert addressed.data
    assert stand_in.provider.organization in str(addressed.data[0].url)
    events = list(client.images.generate(model="gpt-image-1", prompt="a coat", stream=True, partial_images=2))
    assert [event.type.rpartition(".")[2] for event in events] == ["partial_image", "partial_image", "completed"]


def test_a_stream_without_types_fails_with_an_error_object(client: openai.OpenAI, stand_in: Running) -> None:
    stand_in.provider.next_answer("error_event=2")
    with pytest.raises(openai.APIError, match="had an error"):
        list(client.chat.completions.create(model=MODEL, messages=HELLO, stream=True))
