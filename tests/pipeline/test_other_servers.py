"""Servers that name things otherwise: tails too short to be known by their shape, and fields that the service does not write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.demo.stand_in.provider import Options
from gateway.demo.stand_in.raw_ids import IdStyle
from gateway.demo.stand_in.server import Running, running
from tests.pipeline.desk import MODEL, Desk, events_of

pytestmark = pytest.mark.parametrize("style", [IdStyle.SHORT, IdStyle.HEX50, IdStyle.BARE])


@pytest.fixture
def stand_in(style: IdStyle) -> Iterator[Running]:
    with running(Options(id_style=style)) as server:
        yield server


async def ask(at: Desk, method: str, path: str, body: Any = None, who: str = "alice", status: int = 200) -> Any:
    """The answer, in which no raw ID stands."""
    reply = await at.call(method, path, body, who)
    assert reply.status_code == status, reply.text
    check_clean(at, reply.text)
    return reply.json()


def check_clean(at: Desk, text: str) -> None:
    assert not [raw for raw in at.stand_in.provider.ids.secrets() if raw in text]


async def test_a_chain_is_made_read_continued_and_deleted_by_its_owner_alone(at: Desk) -> None:
    script = "[[script: reasoning, message]]"
    first = await ask(at, "POST", "/responses", {"model": MODEL, "input": f"{script} one"})
    body = {"model": MODEL, "input": "two", "previous_response_id": first["id"]}
    second = await ask(at, "POST", "/responses", body)
    assert second["previous_response_id"] == first["id"]
    assert "You have sent 2 user messages" in second["output"][-1]["content"][0]["text"]
    assert at.upstream[-1].json()["previous_response_id"] in at.stand_in.provider.responses
    assert (await ask(at, "GET", f"/responses/{first['id']}"))["output"] == first["output"]
    items = (await ask(at, "GET", f"/responses/{second['id']}/input_items"))["data"]
    assert {item["id"] for item in first["output"]} <= {item["id"] for item in items}
    # The items go back as they came, and by reference.
    asked = {"role": "user", "content": "three"}
    await ask(at, "POST", "/responses", {"model": MODEL, "input": [*first["output"], asked]})
    references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    await ask(at, "POST", "/responses", {"model": MODEL, "input": [*references, asked]})
    for who in ("bob", "carol"):
        await ask(at, "GET", f"/responses/{first['id']}", None, who, 404)
        await ask(at, "POST", "/responses", body, who, 400)
        await ask(at, "DELETE", f"/responses/{first['id']}", None, who, 404)
    assert (await ask(at, "DELETE", f"/responses/{first['id']}"))["id"] == first["id"]
    await ask(at, "GET", f"/responses/{first['id']}", status=404)
    await ask(at, "GET", f"/responses/{second['id']}")


async def test_a_raw_id_is_nobodys(at: Desk) -> None:
    await ask(at, "POST", "/responses", {"model": MODEL, "input": "one"})
    (raw,) = at.stand_in.provider.responses
    before = len(at.upstream)
    assert (await at.call("GET", f"/responses/{raw}")).status_code == 404
    assert (await at.create(previous_response_id=raw)).status_code == 400
    assert (await at.create(input=[{"type": "item_reference", "id": raw}])).status_code == 404
    assert len(at.upstream) == before


async def test_a_stream_shows_one_id_for_one_thing(at: Desk) -> None:
    data = await at.streamed(input="[[script: reasoning, message]] hello")
    check_clean(at, data.decode())
    events = events_of(data)
    final = events[-1]["response"]
    assert {event["response"]["id"] for event in events if "response" in event} == {final["id"]}
    assert {event["item_id"] for event in events if "item_id" in event} <= {item["id"] for item in final["output"]}
    assert (await ask(at, "GET", f"/responses/{final['id']}"))["output"] == final["output"]


async def test_a_conversation_that_a_response_names_twice_has_one_id(at: Desk) -> None:
    conversation = (await ask(at, "POST", "/conversations", {}))["id"]
    body = {"model": MODEL, "input": "[[script: message, conversation_id]] one", "conversation": conversation}
    made = await ask(at, "POST", "/responses", body)
    read = await ask(at, "GET", f"/responses/{made['id']}")
    data = await at.streamed(input=body["input"], conversation=conversation)
    check_clean(at, data.decode())
    streamed = events_of(data)[-1]["response"]
    for response in (made, read, streamed):
        assert response["conversation"] == {"id": conversation}
        assert response["conversation_id"] == conversation
    items = (await ask(at, "GET", f"/conversations/{conversation}/items"))["data"]
    assert {item["id"] for item in made["output"]} <= {item["id"] for item in items}
    for who in ("bob", "carol"):
        await ask(at, "GET", f"/conversations/{conversation}", None, who, 404)
    await ask(at, "DELETE", f"/conversations/{conversation}")
    await ask(at, "GET", f"/conversations/{conversation}", status=404)
