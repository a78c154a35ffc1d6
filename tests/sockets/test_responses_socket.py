"""The Responses API's socket: frames are requests like all others, events are a stream's, lanes stand side by side."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.resources.responses.responses import AsyncResponsesConnection
from openai.types.responses import ResponsesServerEvent
from openai.types.websocket_reconnection import ReconnectingEvent
from websockets import Subprotocol
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from gateway.admin.keys import create_key, revoke_key
from gateway.admin.tenants import find_tenant, suspend_tenant
from gateway.names import Owner
from tests.pipeline.desk import MODEL, Desk
from tests.sockets.wire import ENDINGS, PATIENCE_S, Wire, opened, refused

UNKNOWN = "resp_0" + "a" * 33


def frames(at: Desk) -> list[dict[str, Any]]:
    """What the service received over sockets."""
    return [json.loads(one.body) for one in at.upstream if one.method == "WS"]


def check_clean(at: Desk, shown: list[bytes]) -> None:
    text = b"\n".join(shown)
    leaked = {raw: place for raw, place in [*at.stand_in.provider.ids.issued.items()] if raw.encode() in text}
    assert not leaked


async def test_one_thing_has_one_id_on_the_socket_and_over_http(at: Desk) -> None:
    async with opened(at) as wire:
        await wire.send({"type": "response.create", "model": MODEL, "input": "[[script: reasoning, message]] hi"})
        events = await wire.until(*ENDINGS)
    response = events[-1]["response"]
    items = {item["id"] for item in response["output"]}
    assert {event["response"]["id"] for event in events if "response" in event} == {response["id"]}
    assert {event["item_id"] for event in events if "item_id" in event} <= items
    assert (await at.call("GET", f"/responses/{response['id']}")).json()["output"] == response["output"]
    check_clean(at, wire.shown)


async def test_the_sdk_opens_a_socket_and_goes_on_over_http(at: Desk) -> None:
    client = AsyncOpenAI(api_key=(await at.headers())["authorization"][7:], base_url=at.gateway.url, max_retries=0)
    async with client, client.responses.connect() as connection:
        await connection.send({"type": "response.create", "model": MODEL, "input": "one"})
        made = ""
        async for event in connection:
            if event.type == "response.completed":
                made = event.response.id
                break
        again = await client.responses.create(model=MODEL, input="two", previous_response_id=made)
    assert "You have sent 2 user messages" in again.output_text


async def create(connection: AsyncResponsesConnection, text: str, previous: str | None = None) -> None:
    await connection.send({"type": "response.create", "model": MODEL, "input": text, "previous_response_id": previous})


async def ending(events: AsyncIterator[ResponsesServerEvent]) -> ResponsesServerEvent:
    async with asyncio.timeout(PATIENCE_S):
        async for event in events:
            if event.type in ENDINGS:
                return event
    raise AssertionError("the socket ended")


async def test_the_sdk_comes_back_after_a_restart_and_goes_on_by_what_is_stored(at: Desk) -> None:
    gone = asyncio.Event()
    codes = []

    def reconnecting(event: ReconnectingEvent) -> None:
        codes.append(event.close_code)
        gone.set()

    client = AsyncOpenAI(api_key=(await at.headers())["authorization"][7:], base_url=at.gateway.url, max_retries=0)
    socket = client.responses.connect(on_reconnecting=reconnecting, initial_delay=0.01)
    async with client, socket as connection, asyncio.TaskGroup() as group:

        async def send_again(previous: str) -> None:
            await gone.wait()
            await create(connection, "two", previous)

        events = aiter(connection)
        await create(connection, "[[script: message, close_socket=1012]] one")
        first = await ending(events)
        assert first.type == "response.completed"
        group.create_task(send_again(first.response.id))
        second = await ending(events)
        assert second.type == "response.completed", second
        assert "You have sent 2 user messages" in second.response.output_text
        assert second.response.previous_response_id == first.response.id
        assert codes == [1012]


async def test_that_a_socket_was_open_for_too_long_is_told_and_a_new_one_goes_on(at: Desk) -> None:
    client = AsyncOpenAI(api_key=(await at.headers())["authorization"][7:], base_url=at.gateway.url, max_retries=0)
    async with client:
        async with client.responses.connect() as connection:
            events = aiter(connection)
            await create(connection, "one")
            first = await ending(events)
            assert first.type == "response.completed"
            await create(connection, "[[script: socket_limit]] two", first.response.id)
            error = await ending(events)
            assert error.type == "error"
            assert (error.status, error.error.code) == (400, "websocket_connection_limit_reached")
            async with asyncio.timeout(PATIENCE_S):
                assert [event async for event in events] == []
        async with client.responses.connect() as connection:
            await create(connection, "two", first.response.id)
            second = await ending(aiter(connection))
            assert second.type == "response.completed", second
            assert "You have sent 2 user messages" in second.response.output_text


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "item_reference"])
async def test_what_is_not_ones_own_is_not_found_on_a_socket_either(at: Desk, field: str, nested: bool) -> None:
    async with opened(at) as wire:
        first = await wire.responded()
    conversation = (await at.call("POST", "/conversations", {})).json()["id"]
    named = {
        "previous_response_id": first["id"],
        "conversation": conversation,
        "item_reference": first["output"][0]["id"],
    }[field]
    raw = next(one for one in at.stand_in.provider.ids.issued if one.startswith(named.partition("_")[0] + "_"))

    def asked(text: str) -> dict[str, Any]:
        body: dict[str, Any] = {"model": MODEL, "input": "x", field: text}
        if field == "item_reference":
            body = {"model": MODEL, "input": [{"type": "item_reference", "id": text}]}
        return {"type": "response.create", "response": body} if nested else {"type": "response.create", **body}

    async with opened(at) as wire:
        await wire.send(asked(named))
        assert (await wire.until(*ENDINGS))[-1]["type"] == "response.completed"
    before, told = len(frames(at)), set()
    for who, text in (("bob", named), ("carol", named), ("alice", raw), ("alice", named[:-34] + UNKNOWN[-34:])):
        async with opened(at, who) as wire:
            await wire.send(asked(text))
            error = await wire.event()
            assert (error["type"], error["status"]) == ("error", 400 if field == "previous_response_id" else 404)
            told.add(json.dumps(error).replace(text, ""))
            # A refusal costs the client no more than the frame.
            assert (await wire.create())["type"] == "response.completed"
    assert len(told) == 1
    assert len(frames(at)) == before + 4


async def test_what_the_service_does_not_keep_lives_with_its_socket(at: Desk) -> None:
    async with opened(at) as wire:
        first = await wire.responded("[[script: reasoning, message]] one", store=False)
        second = await wire.responded("two", store=False, previous_response_id=first["id"])
        assert "You have sent 2 user messages" in second["output"][-1]["content"][0]["text"]
        assert (await at.call("GET", f"/responses/{first['id']}")).status_code == 404
        async with opened(at) as other:
            assert (await other.create("x", previous_response_id=second["id"]))["status"] == 400
        async with opened(at, "carol") as other:
            assert (await other.create("x", previous_response_id=second["id"]))["status"] == 400
    async with opened(at) as wire:
        assert (await wire.create("x", previous_response_id=second["id"]))["status"] == 400


async def test_lanes_are_answered_side_by_side(at: Desk) -> None:
    async with opened(at) as wire:
        for lane in ("a", "b", "c"):
            asked = f"[[script: message, delay=0.02]] I am {lane}"
            await wire.send({"type": "response.create", "stream_id": lane, "model": MODEL, "input": asked})
        made: dict[str, str] = {}
        order: list[str] = []
        while len(made) < 3:
            event = await wire.event()
            order.append(event["stream_id"])
            if event["type"] == "response.completed":
                made[event["stream_id"]] = event["response"]["id"]
                assert f"I am {event['stream_id']}" in event["response"]["output"][-1]["content"][0]["text"]
        # Not one after the other: that would be two changes.
        assert sum(one != next_ for one, next_ in pairwise(order)) > 2
        for lane, response in made.items():
            error = await wire.create("x", stream_id=lane, previous_response_id=UNKNOWN)
            assert error["stream_id"] == lane
            assert (await wire.create("x", stream_id=lane, previous_response_id=response))["stream_id"] == lane
    check_clean(at, wire.shown)


async def test_a_response_is_steered_by_its_owner_alone(at: Desk) -> None:
    async with opened(at) as wire:
        first = await wire.responded("one", stream_id="a")
        await wire.send({"type": "response.steer", "previous_response_id": first["id"], "input": "two"})
        events = await wire.until("response.completed")
        assert events[0]["type"] == "response.steer.accepted"
        assert events[0]["steer"]["previous_response_id"] == first["id"]
        successor = events[-1]["response"]
        assert "You have sent 2 user messages" in successor["output"][-1]["content"][0]["text"]
        assert (await at.call("GET", f"/responses/{successor['id']}")).status_code == 200
        await wire.send({"type": "response.processed", "response_id": successor["id"]})
        await wire.responded("three", previous_response_id=successor["id"])
    async with opened(at, "carol") as wire:
        await wire.send({"type": "response.steer", "previous_response_id": first["id"], "input": "x"})
        assert (await wire.event())["status"] == 400
        await wire.send({"type": "response.processed", "response_id": first["id"]})
        assert (await wire.event())["status"] == 404
    async with opened(at) as wire:
        await wire.send({"type": "response.steer", "previous_response_id": first["id"], "input": "on another socket"})
        failed = await wire.event()
        assert failed["type"] == "response.steer.failed"
        assert failed["steer"]["previous_response_id"] == first["id"]
        check_clean(at, wire.shown)
    assert [frame["type"] for frame in frames(at)].count("response.steer") == 2


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "response.unheard_of"},
        {"type": "session.update", "session": {}},
        {"no": "type"},
        [],
        "not JSON",
        '{"type": "response.create", "type": "response.create"}',
        {"type": "response.create", "model": MODEL, "input": "x", "stream_id": "a b"},
        {"type": "response.create", "model": MODEL, "input": "x", "stream_id": "resp_" + "0a" * 25},
        {"type": "response.create", "model": MODEL, "input": "x", "event_id": "resp_" + "0a" * 25},
        {"type": "response.create", "model": MODEL, "input": "x", "x_new": "file-" + "a1" * 11},
        {"type": "response.create", "response": {"model": MODEL, "input": "x"}, "previous_response_id": UNKNOWN},
        {"type": "response.create", "response": "x"},
    ],
)
async def test_a_frame_that_is_none_is_refused_and_the_socket_stays(at: Desk, frame: Any) -> None:
    async with opened(at) as wire:
        await wire.send(frame)
        error = await wire.event()
        assert error["type"] == "error"
        assert error["status"] in (400, 404)
        assert not frames(at)
        await wire.responded()


async def test_a_binary_message_ends_the_socket(at: Desk) -> None:
    async with opened(at) as wire:
        await wire.send(b"\x00")
        assert (await wire.closed())[0] == 1003


async def test_a_message_in_pieces_is_one_message_and_one_that_is_too_long_ends_the_socket(at: Desk) -> None:
    async with opened(at) as wire:
        text = json.dumps({"type": "response.create", "model": MODEL, "input": "[[script: say=ok]] " + "é" * 300_000})
        await wire.connection.send([text[:100], text[100:101], text[101:]])
        assert (await wire.until(*ENDINGS))[-1]["type"] == "response.completed"
        with contextlib.suppress(ConnectionClosed):
            await wire.connection.send("x" * (33 * 1024 * 1024))
        assert (await wire.closed())[0] == 1009


async def test_who_may_not_come_in_is_told_before_the_socket_opens(at: Desk) -> None:
    good = await at.headers()
    for headers, status in (
        ({}, 401),
        ({"authorization": "Bearer cck_no_such"}, 401),
        (good | {"api-key": "second"}, 400),
    ):
        answer = (await refused(at, headers)).response
        assert answer.status_code == status
        assert json.loads(answer.body or b"")["error"]["type"] == "invalid_request_error"
    for path in ("/responses/resp_x", "/chat/completions", "/live/sessions", "/nothing"):
        assert (await refused(at, good, path)).response.status_code == 404
    assert (await refused(at, good, "/responses?call_id=rtc_x")).response.status_code == 400
    assert not at.upstream


async def test_a_browser_names_its_key_among_its_sub_protocols_and_does_not_read_it_back(at: Desk) -> None:
    key = (await at.headers())["authorization"].removeprefix("Bearer ")
    offered = [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{key}")]
    url = at.gateway.url.replace("http://", "ws://") + "/responses"
    async with connect(url, subprotocols=offered, proxy=None) as connection:
        assert connection.subprotocol == "realtime"
        await Wire(connection).responded()
    assert not [one for one in at.upstream if one.header("sec-websocket-protocol")]


async def test_errors_of_the_service_are_told_in_our_words(at: Desk) -> None:
    async with opened(at) as wire:
        error = await wire.create("[[script: status=429]] x")
        assert (error["type"], error["status"], error["error"]["type"]) == ("error", 429, "tokens")
        assert "headers" not in error["error"]
        assert at.stand_in.provider.organization not in json.dumps(error)
        await wire.responded("and on")
        check_clean(at, wire.shown)
    assert [one["outcome"]["result"] for one in await at.log() if one["type"] == "responses.create" and one["outcome"]] == [
        "error", "accepted", "allow",
    ]  # fmt: skip


@pytest.mark.parametrize("said", ["", ", close_reason=response 7f3a gone of acme-corp"])
async def test_the_services_close_code_is_the_clients_and_its_words_are_not(at: Desk, said: str) -> None:
    async with opened(at) as wire:
        await wire.responded(f"[[script: message, close_socket=3005{said}]] x")
        assert await wire.closed() == (3005, "")


async def test_a_process_that_ends_takes_no_further_request_and_lets_the_one_under_way_end(at: Desk) -> None:
    app: Any = at.gateway.app
    async with opened(at) as wire:
        await wire.send({"type": "response.create", "model": MODEL, "input": "[[script: message, delay=0.05]] one"})
        await wire.until("response.created")
        app.drain.begin()
        calls = len(at.upstream)
        await wire.send({"type": "response.create", "model": MODEL, "input": "two"})
        assert (await wire.until("error"))[-1]["error"]["code"] == "server_draining"
        await wire.until("response.completed")
        assert len(at.upstream) == calls


async def test_a_client_that_leaves_ends_what_it_asked_for(at: Desk) -> None:
    async with opened(at) as wire:
        await wire.send({"type": "response.create", "model": MODEL, "input": "[[script: message, hang]] x"})
        await wire.until("response.output_item.done")

    async def gone() -> bool:
        return any(one.disconnected_at for one in at.upstream) and not await at.unanswered()

    await at.until(gone, PATIENCE_S)
    ended = [one["outcome"] for one in await at.log() if one["type"] == "responses.create" and one["outcome"]]
    assert [(one["result"], one["reason"]) for one in ended] == [("accepted", ""), ("error", "client_closed")]


async def test_every_frame_has_its_intent_and_its_outcome(at: Desk) -> None:
    async with opened(at) as wire:
        first = await wire.responded("one")
        await wire.create("two", previous_response_id=UNKNOWN)
        await wire.send({"type": "response.processed", "response_id": first["id"]})
        await wire.responded("three")

    async def done() -> bool:
        return not await at.unanswered()

    await at.until(done, PATIENCE_S)
    events = [one for one in await at.log() if one["request"] and one["type"].startswith("responses.")]
    assert len({one["request"]["id"] for one in events}) == 5
    told = [(one["type"], one["phase"], (one["outcome"] or {}).get("result")) for one in events]
    assert told[0] == ("responses.connect", "intent", None)
    assert told[-1] == ("responses.connect", "outcome", "allow")
    assert ("responses.create", "single", "deny") in told or ("responses.create", "outcome", "deny") in told
    assert {one["request"]["method"] for one in events} == {"GET", "WS"}


async def test_nothing_goes_on_while_the_log_cannot_be_written(impatient: Desk) -> None:
    at = impatient
    async with opened(at) as wire:
        await wire.responded()
        before = len(frames(at))
        at.redis.pause()
        try:
            error = await wire.create("x")
        finally:
            at.redis.resume()
        assert (error["status"], error["error"]["code"]) == (503, "audit_unavailable")
        assert len(frames(at)) == before


async def test_a_revoked_key_and_a_suspended_tenant_close_their_sockets(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = at.gateway.app.websocket
    object.__setattr__(app, "check_every_s", 0.3)
    made = await create_key(at.admin, await at.tenant("bob"), Owner("local", "bob"))
    at.keys["bob"] = made.key
    async with opened(at, "bob") as revoked, opened(at) as suspended:
        await revoked.responded()
        await suspended.responded()
        await revoke_key(at.admin, made.id)
        assert (await revoked.closed())[0] == 1008
        await suspended.responded()
        await suspend_tenant(at.admin, await find_tenant(at.admin, "acme"))
        assert (await suspended.closed())[0] == 1008


async def test_many_sockets_at_once_are_told_apart(at: Desk) -> None:
    async def talk(number: int) -> None:
        who = ("alice", "carol", "bob")[number % 3]
        async with opened(at, who) as wire:
            first = await wire.responded(f"I am {number}")
            second = await wire.responded("who?", previous_response_id=first["id"])
            assert f"I am {number}" in second["output"][-1]["content"][0]["text"]
            check_clean(at, wire.shown)

    await asyncio.gather(*[talk(number) for number in range(30)])
