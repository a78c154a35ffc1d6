"""What was deleted opens no more; what was not stored never did."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.desk import MODEL, Desk


async def refused(at: Desk, method: str, path: str, body: Any = None) -> None:
    before = len(at.upstream)
    reply = await at.call(method, path, body)
    assert reply.status_code in (400, 404), (path, reply.text)
    assert "not found" in reply.json()["error"]["message"].lower()
    assert len(at.upstream) == before, "nothing may go upstream"


async def test_a_deleted_response_and_its_items_open_nowhere(at: Desk) -> None:
    made = await at.created("message, file_search")
    response, item = made["id"], made["output"][0]["id"]
    gone = await at.call("DELETE", f"/responses/{response}")
    assert gone.json() == {"id": response, "object": "response", "deleted": True} | gone.json()
    await refused(at, "GET", f"/responses/{response}")
    await refused(at, "DELETE", f"/responses/{response}")
    await refused(at, "POST", f"/responses/{response}/cancel")
    await refused(at, "GET", f"/responses/{response}/input_items")
    await refused(at, "POST", "/responses", {"model": MODEL, "input": "x", "previous_response_id": response})
    reference = [{"type": "item_reference", "id": item}]
    await refused(at, "POST", "/responses", {"model": MODEL, "input": reference})


async def test_a_deleted_responses_items_may_still_be_replayed_whole(at: Desk) -> None:
    made = await at.created("file_search, message, annotations", include=["file_search_call.results"])
    await at.call("DELETE", f"/responses/{made['id']}")
    replayed = [{"role": "user", "content": "hello"}, *made["output"], {"role": "user", "content": "and?"}]
    reply = await at.call("POST", "/responses", {"model": MODEL, "input": replayed, "store": False})
    assert reply.status_code == 200, reply.text
    sent = at.upstream[-1].json()["input"]
    assert not any("id" in item for item in sent if item.get("type") in ("message", "file_search_call"))


async def test_a_deleted_conversation_takes_its_items_with_it(at: Desk) -> None:
    conversation = (await at.call("POST", "/conversations")).json()["id"]
    made = await at.created(conversation=conversation)
    item = made["output"][0]["id"]
    reference = {"model": MODEL, "input": [{"type": "item_reference", "id": item}]}
    assert (await at.call("GET", f"/conversations/{conversation}/items/{item}")).status_code == 200
    assert (await at.call("DELETE", f"/conversations/{conversation}")).status_code == 200
    await refused(at, "GET", f"/conversations/{conversation}")
    await refused(at, "GET", f"/conversations/{conversation}/items")
    await refused(at, "GET", f"/conversations/{conversation}/items/{item}")
    await refused(at, "POST", f"/conversations/{conversation}/items", {"items": []})
    await refused(at, "POST", "/responses", {"model": MODEL, "input": "x", "conversation": conversation})
    await refused(at, "POST", "/responses", {"model": MODEL, "input": "x", "conversation": {"id": conversation}})
    await refused(at, "POST", "/responses", reference)


async def test_a_deleted_item_opens_nowhere_and_its_conversation_stays(at: Desk) -> None:
    conversation = (await at.call("POST", "/conversations")).json()["id"]
    items = {"items": [{"type": "message", "role": "user", "content": text} for text in ("one", "two")]}
    first, second = (
        one["id"] for one in (await at.call("POST", f"/conversations/{conversation}/items", items)).json()["data"]
    )
    assert (await at.call("DELETE", f"/conversations/{conversation}/items/{first}")).status_code == 200
    await refused(at, "GET", f"/conversations/{conversation}/items/{first}")
    await refused(at, "DELETE", f"/conversations/{conversation}/items/{first}")
    await refused(at, "GET", f"/conversations/{conversation}/items?after={first}")
    assert (await at.call("GET", f"/conversations/{conversation}/items/{second}")).status_code == 200


async def test_a_deletion_that_the_upstream_refuses_deletes_nothing(at: Desk) -> None:
    response = (await at.created())["id"]
    at.script("status=500")
    assert (await at.call("DELETE", f"/responses/{response}")).status_code == 500
    assert (await at.call("GET", f"/responses/{response}")).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_not_stored_leaves_no_record(at: Desk, stream: bool) -> None:
    await at.headers()
    body = {"model": MODEL, "input": "hello", "store": False, "stream": stream}
    await at.call("POST", "/responses", body)
    keys = [key for key in at.redis.command("KEYS", "*") if b":id:" in key or key.startswith(b"own:")]
    assert keys == []


async def test_what_was_not_stored_cannot_be_named(at: Desk) -> None:
    made = await at.created("message", store=False)
    await refused(at, "GET", f"/responses/{made['id']}")
    reference = [{"type": "item_reference", "id": made["output"][0]["id"]}]
    await refused(at, "POST", "/responses", {"model": MODEL, "input": reference})


async def test_an_item_of_one_conversation_is_not_found_in_another(at: Desk) -> None:
    conversations = [(await at.call("POST", "/conversations")).json()["id"] for _ in range(2)]
    items = {"items": [{"type": "message", "role": "user", "content": "one"}]}
    item = (await at.call("POST", f"/conversations/{conversations[0]}/items", items)).json()["data"][0]["id"]
    await refused(at, "GET", f"/conversations/{conversations[1]}/items/{item}")
    await refused(at, "DELETE", f"/conversations/{conversations[1]}/items/{item}")
