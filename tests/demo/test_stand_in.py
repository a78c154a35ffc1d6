"""The stand-in's responses and conversations, driven by the official client over a real socket."""

from __future__ import annotations

import re
import time
from typing import Any

import httpx2
import openai
import pytest

from gateway.demo.stand_in.provider import Options
from gateway.demo.stand_in.raw_ids import IdStyle
from gateway.demo.stand_in.server import Running, running
from tests.demo.conftest import MODEL, post


def test_response_and_item_ids_have_the_real_shape_and_share_their_lineage(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="hello")
    shape = re.compile(r"(resp|msg)_([0-9a-f]{16})00([0-9a-f]{8})[0-9a-f]{24}")
    own, item = shape.fullmatch(response.id), shape.fullmatch(response.output[0].id or "")
    assert own
    assert item
    assert own.group(2) == item.group(2)
    assert abs(int(own.group(3), 16) - time.time()) < 5


@pytest.mark.parametrize("style", list(IdStyle))
def test_ids_of_other_servers_can_be_chosen(style: IdStyle) -> None:
    shapes = {
        IdStyle.HEX50: r"resp_[0-9a-f]{50}",
        IdStyle.HEX48: r"resp_[0-9a-f]{48}",
        IdStyle.HEX32: r"resp_[0-9a-f]{32}",
        IdStyle.UUID: r"resp_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        IdStyle.BASE62: r"resp_[0-9A-Za-z]{22}",
        IdStyle.BARE: r"[0-9a-f]{32}",
        IdStyle.SHORT: r"resp_[0-9a-f]{6}",
    }
    with (
        running(Options(id_style=style)) as other,
        openai.OpenAI(base_url=other.api_url, api_key="k", max_retries=0) as client,
    ):
        first = client.responses.create(model=MODEL, input="hello")
        second = client.responses.create(model=MODEL, input="again", previous_response_id=first.id)
    assert re.fullmatch(shapes[style], first.id)
    assert "2 user messages" in second.output_text


def test_continuation_remembers_what_was_said_first(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="my name is Alice")
    second = client.responses.create(model=MODEL, input="what is it?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.output_text == (
        'You have sent 2 user messages. The first was: "my name is Alice". The latest was: "what is it?".'
    )


def test_a_warm_up_says_nothing_and_is_gone_on_from(http: httpx2.Client) -> None:
    warm_up = post(http, input="first", generate=False).json()
    assert (warm_up["status"], warm_up["output"]) == ("completed", [])
    answer = post(http, input="second", previous_response_id=warm_up["id"]).json()
    assert 'The first was: "first"' in answer["output"][0]["content"][0]["text"]


def test_response_that_was_not_stored_cannot_be_continued_or_read(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="hello", store=False)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="again", previous_response_id=first.id)
    assert refused.value.code == "previous_response_not_found"
    assert refused.value.param == "previous_response_id"
    assert first.id in refused.value.message
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_deleted_response_is_gone(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="hello")
    assert client.responses.retrieve(response.id).output_text == response.output_text
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError, match=response.id):
        client.responses.retrieve(response.id)


def test_stored_stream_resumes_after_a_sequence_number(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model=MODEL, input="hello", stream=True))
    response_id = events[0].response.id  # type: ignore[union-attr]
    resumed = list(client.responses.retrieve(response_id, stream=True, starting_after=4))
    assert [event.sequence_number for event in resumed] == list(range(5, len(events)))
    assert [event.type for event in resumed] == [event.type for event in events[5:]]


def test_background_response_is_completed_by_polling(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="hello", background=True)
    seen = [response.status]
    while response.status in {"queued", "in_progress"}:
        response = client.responses.retrieve(response.id)
        seen.append(response.status)
    assert seen == ["queued", "in_progress", "completed"]
    assert response.output_text.startswith("You have sent 1 user message.")


def test_background_response_can_be_cancelled_and_a_foreground_one_cannot(client: openai.OpenAI) -> None:
    background = client.responses.create(model=MODEL, input="hello", background=True)
    assert client.responses.cancel(background.id).status == "cancelled"
    assert client.responses.retrieve(background.id).status == "cancelled"
    foreground = client.responses.create(model=MODEL, input="hello")
    with pytest.raises(openai.BadRequestError, match="synchronous"):
        client.responses.cancel(foreground.id)


def test_background_stream_says_queued(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model=MODEL, input="hello", background=True, stream=True))
    assert [event.type for event in events[:3]] == ["response.created", "response.queued", "response.in_progress"]


def test_conversation_grows_with_each_response(client: openai.OpenAI) -> None:
    conversation = client.conversations.create()
    client.responses.create(model=MODEL, input="one", conversation=conversation.id)
    answer = client.responses.create(model=MODEL, input="two", conversation=conversation.id)
    assert answer.conversation
    assert answer.conversation.id == conversation.id
    assert '2 user messages. The first was: "one"' in answer.output_text
    items = [item.to_dict() for item in client.conversations.items.list(conversation.id, order="asc", limit=1)]
    assert [item["role"] for item in items] == ["user", "assistant", "user", "assistant"]
    assert items[0]["content"] == [{"type": "input_text", "text": "one"}]


def test_conversation_surface_follows_the_official_client(client: openai.OpenAI) -> None:
    made = client.conversations.create(
        metadata={"topic": "coats"}, items=[{"type": "message", "role": "user", "content": "hi"}]
    )
    assert client.conversations.retrieve(made.id).metadata == {"topic": "coats"}
    assert client.conversations.update(made.id, metadata={"topic": "hats"}).metadata == {"topic": "hats"}
    added = client.conversations.items.create(made.id, items=[{"type": "message", "role": "user", "content": "again"}])
    item_id = added.data[0].id or ""
    assert client.conversations.items.retrieve(item_id, conversation_id=made.id).id == item_id
    assert client.conversations.items.delete(item_id, conversation_id=made.id).id == made.id
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(item_id, conversation_id=made.id)
    assert client.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError, match=made.id):
        client.conversations.retrieve(made.id)


def test_conversation_and_previous_response_exclude_each_other(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="hello")
    conversation = client.conversations.create()
    with pytest.raises(openai.BadRequestError, match="Mutually exclusive"):
        client.responses.create(model=MODEL, input="x", previous_response_id=first.id, conversation=conversation.id)


def test_input_items_are_paged_newest_first(client: openai.OpenAI) -> None:
    sent: Any = [{"role": "user", "content": word} for word in ("a", "b", "c")]
    response = client.responses.create(model=MODEL, input=sent)
    first = client.responses.input_items.list(response.id, limit=2)
    texts: Any = [item.to_dict()["content"] for item in first.data]
    assert [content[0]["text"] for content in texts] == ["c", "b"]
    assert first.has_more
    everything = list(client.responses.input_items.list(response.id, limit=2))
    assert len(everything) == 3


def test_two_calls_at_once_on_one_conversation_lock_each_other_out(client: openai.OpenAI, server: Running) -> None:
    conversation = client.conversations.create()
    stream = client.responses.create(
        model=MODEL, input="[[script: delay=0.02]] hello", conversation=conversation.id, stream=True
    )
    next(iter(stream))
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="me too", conversation=conversation.id)
    assert refused.value.code == "conversation_locked"
    for _ in stream:
        pass
    assert client.responses.create(model=MODEL, input="now", conversation=conversation.id).status == "completed"


def test_client_that_leaves_is_noticed_and_frees_the_conversation(client: openai.OpenAI, server: Running) -> None:
    conversation = client.conversations.create()
    stream = client.responses.create(model=MODEL, input="[[script: hang=3]]", conversation=conversation.id, stream=True)
    next(iter(stream))
    stream.close()
    received = server.provider.received[-1]
    until = time.monotonic() + 5
    while received.disconnected_at is None and time.monotonic() < until:
        time.sleep(0.01)
    assert received.disconnected_at is not None
    assert client.responses.create(model=MODEL, input="now", conversation=conversation.id).status == "completed"


def test_background_job_goes_on_when_its_stream_is_left(client: openai.OpenAI) -> None:
    stream = client.responses.create(model=MODEL, input="[[script: hang=3]]", background=True, stream=True)
    seen = [next(iter(stream)) for _ in range(2)]
    stream.close()
    response_id = seen[0].response.id  # type: ignore[union-attr]
    assert client.responses.retrieve(response_id).status == "in_progress"
    assert client.responses.retrieve(response_id).status == "completed"
    resumed = client.responses.retrieve(response_id, stream=True, starting_after=1)
    assert next(iter(resumed)).sequence_number == 2


def test_comparison_response_is_found_by_anybody_in_the_organization(http: httpx2.Client) -> None:
    known = post(http, input="hello").json()["id"]
    answer = post(http, input="x", prompt_cache_options={"comparison_response_id": known}).json()
    assert answer["prompt_cache_diagnostics"]["type"] == "cache_miss"
    unknown = post(http, input="x", prompt_cache_options={"comparison_response_id": "resp_none"}).json()
    assert unknown["prompt_cache_diagnostics"] == {"type": "comparison_response_not_found"}


def test_token_limits_are_those_of_the_real_service(http: httpx2.Client) -> None:
    for over in ({"prompt_cache_key": "k" * 65}, {"safety_identifier": "s" * 65}, {"metadata": {"k": "v" * 513}}):
        assert post(http, input="x", **over).json()["error"]["code"] == "string_above_max_length"


def test_items_of_a_deleted_conversation_cannot_be_referred_to(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[{"type": "message", "role": "user", "content": "hi"}])
    item_id = client.conversations.items.list(conversation.id).data[0].id
    client.conversations.delete(conversation.id)
    with pytest.raises(openai.NotFoundError, match=str(item_id)):
        client.responses.create(model=MODEL, input=[{"type": "item_reference", "id": str(item_id)}])
