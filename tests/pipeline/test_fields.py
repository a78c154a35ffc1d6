"""Whatever a request says goes upstream, is replaced in the open, or is refused: no field of the package is left out silently."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.conversations import conversation_create_params
from openai.types.responses import response_create_params
from typing_extensions import get_type_hints

from tests.pipeline.desk import MODEL, Desk

SAID: dict[str, Any] = {
    "model": MODEL,
    "input": [{"role": "user", "content": "hello"}],
    "include": ["reasoning.encrypted_content"],
    "metadata": {"a": "b"},
    "reasoning": {"effort": "low"},
    "text": {"format": {"type": "json_object"}, "verbosity": "low"},
    "tool_choice": "auto",
    "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True}],
    "prompt_cache_options": {"mode": "explicit"},
    "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    "stream_options": {"include_obfuscation": False},
    "temperature": 0.5,
    "store": True,
    "background": True,
}
"""Values by field; what is not listed is sent as a text, which the service may refuse once it has it."""

HASHED = {"prompt_cache_key", "safety_identifier", "user"}
"""Fields that the gateway sends in another form."""

NAMED_BY_ID = {"conversation", "previous_response_id", "prompt"}

FIELDS = sorted(get_type_hints(response_create_params.ResponseCreateParamsBase).keys() - NAMED_BY_ID)


@pytest.mark.parametrize("name", FIELDS)
async def test_a_field_of_a_response_arrives_as_it_was_sent(at: Desk, name: str) -> None:
    value = SAID.get(name, "said")
    await at.create(**{name: value})
    received = at.upstream[-1].json()[name]
    if name in HASHED:
        assert received not in (value, None, "")
    else:
        assert received == value


@pytest.mark.parametrize("name", sorted(get_type_hints(conversation_create_params.ConversationCreateParams)))
async def test_a_field_of_a_conversation_arrives_as_it_was_sent(at: Desk, name: str) -> None:
    value: Any = {"items": [{"role": "user", "content": "hello"}], "metadata": {"a": "b"}}[name]
    assert (await at.call("POST", "/conversations", {name: value})).status_code == 200
    assert at.upstream[-1].json() == {name: value}


@pytest.mark.parametrize("spelled", ["text", "object"])
async def test_a_conversation_arrives_in_either_spelling_and_is_remembered(at: Desk, spelled: str) -> None:
    one = (await at.call("POST", "/conversations", {})).json()["id"]
    raw = next(raw for raw in at.stand_in.provider.issued if raw.startswith("conv_"))
    named: Any = one if spelled == "text" else {"id": one}
    await at.created(input="my coat is green", conversation=named)
    assert at.upstream[-1].json()["conversation"] == (raw if spelled == "text" else {"id": raw})
    told = await at.created(input="and?", conversation=named)
    assert "my coat is green" in told["output"][-1]["content"][0]["text"]


async def test_a_prompt_that_nobody_owns_is_refused_and_not_left_out(at: Desk) -> None:
    await at.headers()
    reply = await at.create(prompt={"id": "pmpt_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b"})
    assert reply.status_code in {400, 404}
    assert at.upstream == []
