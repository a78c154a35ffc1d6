"""Somebody else's object, by ways that are easy to forget: beside an object of one's own, by a stream that is resumed, by an
upgrade. And the objects of each way to make one: they are their maker's at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.desk import MODEL, Desk, events_of
from tests.transport.raw import exchange, request


@pytest.mark.parametrize("foreign", ["previous_response_id", "conversation"])
async def test_an_object_of_ones_own_beside_somebody_elses_opens_nothing(at: Desk, foreign: str) -> None:
    named: dict[str, str] = {}
    for name in ("previous_response_id", "conversation"):
        who = "alice" if name == foreign else "bob"
        if name == "conversation":
            named[name] = (await at.call("POST", "/conversations", {}, who)).json()["id"]
        else:
            named[name] = (await at.created(who=who))["id"]
    calls = len(at.upstream)
    reply = await at.create(who="bob", **named)
    assert reply.status_code in {400, 404}
    assert "not found" in reply.json()["error"]["message"]
    assert named[foreign] in reply.json()["error"]["message"]
    assert len(at.upstream) == calls


@pytest.mark.parametrize("who", ["bob", "carol"])
async def test_a_stream_is_resumed_by_its_owner_only(at: Desk, who: str) -> None:
    made = events_of(await at.streamed("message", background=True))[0]["response"]["id"]
    calls = len(at.upstream)
    path = f"/responses/{made}?stream=true&starting_after=1"
    refused = await at.call("GET", path, who=who)
    assert refused.status_code == 404
    assert refused.json() == (await at.call("GET", f"/responses/{made}", who=who)).json()
    assert len(at.upstream) == calls
    assert events_of((await at.call("GET", path)).content)[0]["sequence_number"] == 2


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/responses/compact", "/v1/live/sessions"])
async def test_an_upgrade_is_answered_as_a_request_and_opens_no_other_way(at: Desk, target: str) -> None:
    headers = await at.headers()
    upgrade = request(
        target,
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Authorization: {headers['authorization']}",
    )
    answer = await exchange(at.port, upgrade)
    assert answer.status in {404, 405}
    assert at.upstream == []


async def _plain(at: Desk) -> dict[str, Any]:
    return await at.created()


async def _streamed(at: Desk) -> dict[str, Any]:
    made: dict[str, Any] = events_of(await at.streamed("message"))[-1]["response"]
    return made


async def _background(at: Desk) -> dict[str, Any]:
    made = (await at.created(background=True))["id"]

    async def ended() -> Any:
        polled = (await at.call("GET", f"/responses/{made}")).json()
        return polled if polled["status"] == "completed" else None

    polled: dict[str, Any] = await at.until(ended)
    return polled


async def _background_stream(at: Desk) -> dict[str, Any]:
    made: dict[str, Any] = events_of(await at.streamed("message", background=True))[-1]["response"]
    return made


async def _in_a_conversation(at: Desk) -> dict[str, Any]:
    conversation = (await at.call("POST", "/conversations", {})).json()["id"]
    return await at.created(conversation=conversation)


async def _continued(at: Desk) -> dict[str, Any]:
    return await at.created(previous_response_id=(await at.created())["id"])


@pytest.mark.parametrize(
    "make",
    [_plain, _streamed, _background, _background_stream, _in_a_conversation, _continued],
    ids=lambda f: f.__name__[1:],
)
async def test_a_response_is_its_makers_however_it_was_made(at: Desk, make: Any) -> None:
    made = await make(at)
    assert (await at.call("GET", f"/responses/{made['id']}")).json()["id"] == made["id"]
    assert (await at.create(previous_response_id=made["id"])).status_code == 200
    named = [{"type": "item_reference", "id": item["id"]} for item in made["output"]]
    assert named
    for who in ("bob", "carol"):
        assert (await at.call("GET", f"/responses/{made['id']}", who=who)).status_code == 404
        for item in named:
            assert (await at.call("POST", "/responses", {"model": MODEL, "input": [item]}, who)).status_code == 404
    assert (await at.call("POST", "/responses", {"model": MODEL, "input": named})).status_code == 200
