"""Speech over a socket: every ID is the connection's, sound passes as it is, and what decides is decided."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, get_args

import pytest
from openai import AsyncOpenAI
from openai.types.realtime import RealtimeSessionCreateRequestParam
from openai.types.realtime.realtime_client_event import RealtimeClientEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from openai.types.realtime.realtime_translation_client_event import RealtimeTranslationClientEvent

from gateway.admin.ids import Upstream, adopt
from gateway.demo.stand_in.provider import Options
from gateway.demo.stand_in.server import Running, running
from gateway.names import Owner
from gateway.pipeline.realtime_socket import MAX_CHOSEN
from gateway.surfaces.realtime import REALTIME, TRANSLATIONS, Weight
from tests.pipeline.desk import Desk, desk
from tests.redis_fixture import RedisServer
from tests.sockets.test_responses_socket import frames
from tests.sockets.wire import PATIENCE_S, Wire, opened, refused

MODEL = "gpt-realtime"
PATH = f"/realtime?model={MODEL}"
TEXT: RealtimeSessionCreateRequestParam = {"type": "realtime", "output_modalities": ["text"]}
SOUND = base64.b64encode(bytes(range(256)) * 8).decode()
RAW = "item_" + "0aZ" * 7
UNKNOWN = "file-0" + "a" * 33


def secrets_in(at: Desk, shown: list[bytes]) -> list[str]:
    told = b"\n".join(shown)
    return [raw for raw in at.stand_in.provider.ids.secrets() if raw.encode() in told]


def message(text: str = "hello", **more: Any) -> dict[str, Any]:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}], **more}
    return {"type": "conversation.item.create", "item": item}


async def added(wire: Wire, text: str = "hello", **more: Any) -> dict[str, Any]:
    await wire.send(message(text, **more))
    item: dict[str, Any] = (await wire.until("conversation.item.done", "error"))[-1]["item"]
    return item


async def answered(wire: Wire, **response: Any) -> dict[str, Any]:
    await wire.send({"type": "response.create", "response": response})
    ending = (await wire.until("response.done", "error"))[-1]
    assert ending["type"] == "response.done", ending
    made: dict[str, Any] = ending["response"]
    return made


async def told(wire: Wire, frame: Any) -> dict[str, Any]:
    """The error that a frame gets."""
    await wire.send(frame)
    error: dict[str, Any] = (await wire.until("error"))[-1]["error"]
    return error


async def test_the_official_client_talks_through_the_gateway(at: Desk) -> None:
    key = (await at.headers())["authorization"].removeprefix("Bearer ")
    shown: list[bytes] = []
    async with (
        AsyncOpenAI(api_key=key, base_url=at.gateway.url, max_retries=0) as client,
        client.realtime.connect(model=MODEL) as connection,
    ):

        async def until(kind: str) -> Any:
            while True:
                event = await connection.recv()
                shown.append(event.to_json().encode())
                assert event.type != "error", event
                if event.type == kind:
                    return event

        session = (await until("session.created")).session
        assert session.model == MODEL
        await connection.session.update(session=TEXT)
        assert (await until("session.updated")).session.id == session.id
        await connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        )
        mine = (await until("conversation.item.done")).item.id
        assert mine.startswith("item_")
        assert len(mine) <= 32
        await connection.response.create()
        response = (await until("response.done")).response
        assert response.output[0].content[0].text == "You have sent 1 items."
        await connection.conversation.item.retrieve(item_id=response.output[0].id)
        assert (await until("conversation.item.retrieved")).item.id == response.output[0].id
        await connection.conversation.item.delete(item_id=mine)
        assert (await until("conversation.item.deleted")).item_id == mine
    assert not secrets_in(at, shown)
    sent = frames(at)[-1]["item_id"]
    assert sent in at.stand_in.provider.ids.issued
    assert sent != mine


def test_the_table_has_every_frame_of_the_official_client() -> None:
    def kinds(union: Any) -> set[str]:
        return {get_args(one.model_fields["type"].annotation)[0] for one in get_args(get_args(union)[0])}

    assert set(REALTIME.frames) == kinds(RealtimeClientEvent)
    assert set(TRANSLATIONS.frames) == kinds(RealtimeTranslationClientEvent)


async def everything(wire: Wire) -> None:
    """A session in which every kind of frame is sent, and nearly every kind of event comes."""
    await wire.send({"type": "session.update", "session": {"type": "realtime"}})
    await wire.until("session.updated")
    first = await added(wire, "[[script: message, function_call, mcp_call, unknown_events, quote]] hi", id="mine-1")
    assert first["id"] == "mine-1"
    second = await added(wire, "two")
    await wire.send({"type": "input_audio_buffer.append", "audio": SOUND})
    await wire.send({"type": "input_audio_buffer.commit"})
    await wire.until("conversation.item.input_audio_transcription.completed")
    await wire.send({"type": "input_audio_buffer.clear"})
    await wire.until("input_audio_buffer.cleared")
    await answered(wire)
    asked = "[[script: message, function_call, mcp_call, unknown_events, quote]]"
    held = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": asked}]}
    await answered(wire, input=[{"type": "item_reference", "id": second["id"]}, held], metadata={"a": "b"})
    await wire.send({"type": "conversation.item.truncate", "item_id": "mine-1", "content_index": 0, "audio_end_ms": 5})
    assert (await wire.until("conversation.item.truncated"))[-1]["item_id"] == "mine-1"
    await wire.send({"type": "conversation.item.retrieve", "item_id": second["id"]})
    assert (await wire.until("conversation.item.retrieved"))[-1]["item"]["id"] == second["id"]
    await wire.send({"type": "conversation.item.delete", "item_id": second["id"]})
    await wire.until("conversation.item.deleted")
    await wire.send({"type": "output_audio_buffer.clear"})
    await wire.until("output_audio_buffer.cleared")
    await wire.send({"type": "response.cancel"})
    await wire.until("error")


async def test_a_whole_session_shows_no_id_of_the_service(at: Desk) -> None:
    at.stand_in.provider.set_script("garbled")
    async with opened(at, path=PATH) as wire:
        await everything(wire)
    assert not secrets_in(at, wire.shown)
    events = [json.loads(one) for one in wire.shown]
    seen = {event["type"] for event in events}
    known = {get_args(one.model_fields["type"].annotation)[0] for one in get_args(get_args(RealtimeServerEvent)[0])}
    rare = {
        "conversation.item.created", "input_audio_buffer.dtmf_event_received", "input_audio_buffer.timeout_triggered",
        "output_audio_buffer.started", "output_audio_buffer.stopped", "response.output_text.delta",
        "response.output_text.done",
    }  # fmt: skip
    assert known - seen - rare == set()
    limits = [event for event in events if event["type"] == "rate_limits.updated"]
    assert {(tuple(event), str(event["rate_limits"])) for event in limits} == {
        (("type", "event_id", "rate_limits"), "[]")
    }, "what is left of the shared key is nobody's to know"
    assert "response.unheard_of" in seen
    # As strictly as the Agents SDK reads them.
    models = {
        get_args(one.model_fields["type"].annotation)[0]: one for one in get_args(get_args(RealtimeServerEvent)[0])
    }
    for event in events:
        if event["type"] in known:
            models[event["type"]].model_validate(event)
    longest = max(
        len(value) for one in events for name, value in one.items() if name in ("item_id", "response_id") and value
    )
    assert longest <= 32


@pytest.fixture
def canaries() -> Iterator[Running]:
    with running(Options(canary=True)) as stand_in:
        yield stand_in


@pytest.fixture
async def canary(redis_server: RedisServer, canaries: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(redis_server, canaries, tmp_path) as made:
        yield made


async def test_fields_that_nobody_knows_show_no_id_of_the_service_either(canary: Desk) -> None:
    async with opened(canary, path=PATH) as wire:
        await everything(wire)
    assert len(canary.stand_in.provider.ids.secrets()) > 200
    assert not secrets_in(canary, wire.shown)


async def test_sound_passes_as_it_is_both_ways_and_asks_nobody(at: Desk) -> None:
    async with opened(at, path=PATH) as wire:
        await wire.until("conversation.created")
        before = len(await at.log())
        for number in range(50):
            await wire.send({"type": "input_audio_buffer.append", "audio": SOUND, "event_id": f"e{number}"})
        await wire.send({"type": "input_audio_buffer.clear"})
        await wire.until("input_audio_buffer.cleared")
        assert len(await at.log()) == before
        sent = [one for one in frames(at) if one["type"] == "input_audio_buffer.append"]
        assert sent == [
            {"type": "input_audio_buffer.append", "audio": SOUND, "event_id": f"e{number}"} for number in range(50)
        ]
        await answered(wire)
    deltas = [event for one in wire.shown if (event := json.loads(one))["type"] == "response.output_audio.delta"]
    assert {event["delta"] for event in deltas} == {base64.b64encode(bytes(range(256))).decode()}


@pytest.mark.parametrize("chosen", ["x", "msg_1", RAW, "item_" + "9" * 22, "0" * 32, "file-" + "a1" * 11])
async def test_an_item_is_called_what_its_client_calls_it_and_the_service_reads_something_else(
    at: Desk, chosen: str
) -> None:
    async with opened(at, path=PATH) as wire:
        assert (await added(wire, id=chosen))["id"] == chosen
        await wire.send(message("next") | {"previous_item_id": chosen})
        assert (await wire.until("conversation.item.done", "error"))[0]["previous_item_id"] == chosen
        assert (await told(wire, message(id=chosen)))["code"] == "item_create_duplicate_item_id"
        await wire.send({"type": "conversation.item.delete", "item_id": chosen})
        assert (await wire.until("conversation.item.deleted"))[-1]["item_id"] == chosen
        assert not secrets_in(at, wire.shown)
    assert chosen not in [one.get("item", {}).get("id") for one in frames(at)]
    assert f'"{chosen}"' not in json.dumps(await at.log())


BREAKING = ['a","type":"error","z":"', "x\n", "\\", "a b", "é"]


@pytest.mark.parametrize("chosen", ["", "0" * 33, "root", "rootless", *BREAKING])
async def test_an_item_may_not_be_called_everything(at: Desk, chosen: str) -> None:
    async with opened(at, path=PATH) as wire:
        assert (await told(wire, message(id=chosen)))["param"] == "item.id"
        await wire.send(message() | {"previous_item_id": "root"})
        assert (await wire.until("conversation.item.done"))[0]["previous_item_id"] == "root"


def asking(*items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.create", "response": {"input": [*items]}}


async def test_a_refused_frame_names_nothing(at: Desk) -> None:
    async with opened(at, path=PATH) as wire:
        named = [message(id=f"a{number}")["item"] for number in range(MAX_CHOSEN + 1)]
        assert (await told(wire, asking(*named)))["param"] == "input"
        missing = {"type": "item_reference", "id": "item_" + "0" * 22}
        assert (await told(wire, asking(*named[:2], missing)))["message"].endswith("found.")
        for chosen in ("a0", "a1"):
            error = await told(wire, {"type": "conversation.item.delete", "item_id": chosen})
            assert error["message"].endswith("found."), error
        assert not [one for one in frames(at) if one["type"] == "response.create"]
        await wire.send(asking(*named[:MAX_CHOSEN]))
        assert (await wire.until("response.done", "error"))[-1]["type"] == "response.done"
    sent = next(one for one in frames(at) if one["type"] == "response.create")["response"]["input"]
    assert len({item["id"] for item in sent}) == MAX_CHOSEN
    assert not {item["id"] for item in sent} & {item["id"] for item in named}


PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "delete": lambda named: {"type": "conversation.item.delete", "item_id": named},
    "retrieve": lambda named: {"type": "conversation.item.retrieve", "item_id": named},
    "truncate": lambda named: {"type": "conversation.item.truncate", "item_id": named, "content_index": 0},
    "previous": lambda named: message() | {"previous_item_id": named},
    "cancel": lambda named: {"type": "response.cancel", "response_id": named},
    "reference": lambda named: {"type": "response.create", "response": {"input": [{"type": "item_reference", "id": named}]}},
    "approval": lambda named: {
        "type": "conversation.item.create",
        "item": {"type": "mcp_approval_response", "approval_request_id": named, "approve": True},
    },
    "prompt": lambda named: {"type": "session.update", "session": {"prompt": {"id": named}}},
    "prompt's file": lambda named: {
        "type": "response.create",
        "response": {"prompt": {"id": named, "variables": {"f": {"type": "input_file", "file_id": named}}}},
    },
    "voice": lambda named: {"type": "session.update", "session": {"audio": {"output": {"voice": {"id": named}}}}},
    "voice by name": lambda named: {
        "type": "session.update",
        "session": {"audio": {"output": {"voice": "voice_" + named[5:]}}},
    },
    "tunnel": lambda named: {
        "type": "session.update",
        "session": {"tools": [{"type": "mcp", "server_label": "x", "tunnel_id": named}]},
    },
    "conversation": lambda named: {"type": "response.create", "response": {"conversation": "conv_" + named[5:]}},
    "model": lambda named: {"type": "session.update", "session": {"model": "ft:gpt-realtime:" + named}},
    "heard by": lambda named: {
        "type": "session.update",
        "session": {"audio": {"input": {"transcription": {"model": "ft:gpt-realtime:" + named}}}},
    },
}  # fmt: skip
"""Every place at which a client names something."""


@pytest.mark.parametrize("place", PLACES)
async def test_what_is_not_this_connections_reads_as_missing_and_goes_nowhere(at: Desk, place: str) -> None:
    async with opened(at, path=PATH) as other, opened(at, "bob", PATH) as strangers:
        mine, theirs = await added(other), await added(strangers)
        raw = next(raw for raw in at.stand_in.provider.ids.issued if raw.startswith("item_"))
        http = (await at.created())["output"][-1]["id"]
        async with opened(at, path=PATH) as wire:
            before, said = len(frames(at)), set()
            for named in (mine["id"], theirs["id"], raw, http, UNKNOWN, "item_1"):
                error = await told(wire, PLACES[place](named) | {"event_id": "mine"})
                assert error["event_id"] == "mine"
                message_ = error["message"].replace(named, "").replace(named[5:], "")
                said.add((message_, error["type"], error["param"], error["code"]))
            assert len(said) == 1
            assert len(frames(at)) == before
            # A refusal costs the client no more than the frame.
            assert (await answered(wire))["status"] == "completed"


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "session.unheard_of"},
        {"type": "response.steer", "previous_response_id": "x"},
        {"no": "type"},
        [],
        "not JSON",
        '{"type": "response.cancel", "type": "response.cancel"}',
        {"type": "session.update", "session": "x"},
        {"type": "session.update", "session": {}, "voice": "x"},
        {"type": "session.update", "session": {"x_new": "file-" + "a1" * 11}},
        {"type": "response.create", "response": {"x_new": [{"deep": "resp_" + "0a" * 25}]}},
        {"type": "conversation.item.create", "item": {"type": "message", "x_id": "vs_" + "0a" * 16}},
        {"type": "input_audio_buffer.append", "audio": 1},
        {"type": "input_audio_buffer.append", "audio": SOUND, "item": "file-" + "a1" * 11},
        {"type": "input_audio_buffer.commit", "x": "file-" + "a1" * 11},
        {"type": "input_audio_buffer.clear", "event_id": 5},
        {"type": "input_audio_buffer.clear", "event_id": "e" * 513},
    ],
)
async def test_a_frame_that_is_none_is_refused_and_the_socket_stays(at: Desk, frame: Any) -> None:
    async with opened(at, path=PATH) as wire:
        error = await told(wire, frame)
        assert error["type"] == "invalid_request_error"
        assert not frames(at)
        assert (await answered(wire))["status"] == "completed"


async def test_a_binary_message_ends_the_socket(at: Desk) -> None:
    async with opened(at, path=PATH) as wire:
        await wire.send(b"\x00")
        assert (await wire.closed())[0] == 1003


async def test_a_message_in_pieces_is_one_message(at: Desk) -> None:
    async with opened(at, path=PATH) as wire:
        text = json.dumps(message("é" * 100_000))
        await wire.connection.send([text[:100], text[100:101], text[101:]])
        assert (await wire.until("conversation.item.done"))[-1]["item"]["content"][0]["text"] == "é" * 100_000


async def test_policies_decide_on_what_a_session_is(at: Desk) -> None:
    async with opened(at, path=PATH) as wire:
        for frame in (
            {"type": "session.update", "session": {"tools": [{"type": "unheard_of"}]}},
            {"type": "response.create", "response": {"tools": [{"type": "unheard_of"}]}},
            {"type": "session.update", "session": {"model": "curie:ft-acme-2023"}},
            {
                "type": "session.update",
                "session": {"type": "transcription", "audio": {"input": {"transcription": {"model": "x:ft-acme"}}}},
            },
        ):
            assert (await told(wire, frame))["code"] == "policy_denied"
        assert not frames(at)
    denied = [one["type"] for one in await at.log() if one["outcome"] and one["outcome"]["reason"] == "policy_denied"]
    assert denied == ["realtime.update", "realtime.create", "realtime.update", "realtime.update"]
    for path in ("/realtime?model=curie:ft-acme-2023", "/realtime/translations?model=curie:ft-acme-2023"):
        assert (await refused(at, await at.headers(), path)).response.status_code == 403


async def test_errors_of_the_service_are_told_in_our_words_and_name_the_frame(at: Desk) -> None:
    async with opened(at, path=PATH) as wire:
        asked = {"input": [message("[[script: status=500]] x")["item"]]}
        error = await told(wire, {"type": "response.create", "event_id": RAW, "response": asked})
        assert (error["type"], error["event_id"]) == ("server_error", RAW)
        error = await told(wire, {"type": "input_audio_buffer.commit", "event_id": "e7"})
        assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "e7")
        assert not secrets_in(at, wire.shown)


@pytest.mark.parametrize("said", ["", ", close_reason=response 7f3a gone of acme-corp"])
async def test_the_services_close_code_is_the_clients_and_its_words_are_not(at: Desk, said: str) -> None:
    async with opened(at, path=PATH) as wire:
        await added(wire, f"[[script: close_socket=3005{said}]] x")
        await wire.send({"type": "response.create"})
        assert await wire.closed() == (3005, "")


async def test_what_is_asked_for_has_its_intent_and_its_outcome_and_nothing_of_a_connection_is_recorded(
    at: Desk, redis_server: RedisServer
) -> None:
    async with opened(at, path=PATH) as wire:
        await everything(wire)
        await told(wire, PLACES["delete"]("item_1"))

    async def done() -> bool:
        return not await at.unanswered()

    await at.until(done, PATIENCE_S)
    events = [one for one in await at.log() if one["request"] and one["type"].startswith("realtime.")]
    ended = [(one["type"], one["outcome"]["result"]) for one in events if one["outcome"]]
    assert ended == [
        ("realtime.update", "allow"), ("realtime.add", "allow"), ("realtime.add", "allow"), ("realtime.create", "allow"),
        ("realtime.create", "allow"), ("realtime.delete", "deny"), ("realtime.connect", "allow"),
    ]  # fmt: skip
    assert not [one for event in events for one in event["targets"] if not one["id"].startswith("?")]
    allowed = [one for one in events if one["outcome"] and one["outcome"]["result"] == "allow"]
    assert {one["request"]["model"] for one in allowed} == {MODEL}
    assert not redis_server.command("KEYS", "*:id:*")


async def test_the_end_user_is_named_to_the_service_and_differs_from_person_to_person(at: Desk) -> None:
    for who in ("alice", "carol", "bob"):
        async with opened(at, who, PATH) as wire:
            await wire.until("session.created")
    named = [one.header("openai-safety-identifier") for one in at.upstream if one.path == "/v1/realtime"]
    assert len(set(named)) == 3
    assert all(named)


async def test_a_call_is_joined_by_whom_the_operator_gave_it_to(at: Desk) -> None:
    raw = at.stand_in.provider.ids.note("rtc_" + "0a" * 16, "call")
    provider = at.gateway.app.pipeline.routing.first
    upstream = Upstream(provider.name, provider.project)
    call = (await adopt(at.admin, await at.tenant(), raw, Owner("local", "alice"), upstream)).text
    async with opened(at, path=f"/realtime?call_id={call}") as wire:
        await wire.until("session.created")
        await added(wire)
        assert not secrets_in(at, wire.shown)
    assert [one.query for one in at.upstream if one.method == "GET"] == [f"call_id={raw}"]
    told_ = set()
    for who, named in (("bob", call), ("carol", call), ("alice", raw), ("alice", "rtc_x")):
        answer = (await refused(at, await at.headers(who), f"/realtime?call_id={named}")).response
        told_.add((answer.status_code, bytes(answer.body or b"").replace(named.encode(), b"")))
    assert len(told_) == 1
    assert next(iter(told_))[0] == 404


@pytest.mark.parametrize("query", ["?model=a&x=1", "?model=ft:gpt-realtime:org-abc:x:12345678", "?voice=x"])
async def test_a_query_that_is_none_is_refused_before_the_socket_opens(at: Desk, query: str) -> None:
    assert (await refused(at, await at.headers(), "/realtime" + query)).response.status_code in (400, 404)
    assert not at.upstream


async def test_a_session_translates(at: Desk) -> None:
    async with opened(at, path="/realtime/translations?model=gpt-realtime-translate") as wire:
        await wire.send({"type": "session.update", "session": {"audio": {"output": {"language": "en"}}}})
        await wire.until("session.updated")
        await wire.send({"type": "session.input_audio_buffer.append", "audio": SOUND})
        assert (await wire.until("session.output_audio.delta"))[-1]["delta"] == SOUND
        assert (await told(wire, {"type": "response.create"}))["param"] == "type"
        await wire.send({"type": "session.close"})
        assert (await wire.closed())[0] == 1000
        assert not secrets_in(at, wire.shown)


async def test_nothing_that_decides_goes_on_while_the_log_cannot_be_written_but_sound_does(impatient: Desk) -> None:
    at = impatient
    async with opened(at, path=PATH) as wire:
        await wire.until("conversation.created")
        at.redis.pause()
        try:
            error = await told(wire, {"type": "session.update", "session": {"type": "realtime"}})
            await wire.send({"type": "input_audio_buffer.append", "audio": SOUND})
            await wire.send({"type": "input_audio_buffer.clear"})
            await wire.until("input_audio_buffer.cleared")
        finally:
            at.redis.resume()
        assert error["code"] == "audit_unavailable"
        assert "session.update" not in {one["type"] for one in frames(at)}


def test_only_sound_and_what_names_nothing_of_the_store_is_not_recorded() -> None:
    recorded = {kind for kind, row in REALTIME.frames.items() if row.weight is Weight.REQUEST}
    assert recorded == {"session.update", "response.create", "conversation.item.create"}


async def test_many_sessions_at_once_are_told_apart(at: Desk) -> None:
    async def talk(number: int) -> None:
        async with opened(at, ("alice", "carol", "bob")[number % 3], PATH) as wire:
            item = await added(wire, f"I am {number}", id=f"mine-{number}")
            assert item["id"] == f"mine-{number}"
            await answered(wire)
            assert not secrets_in(at, wire.shown)
            assert {event["item"]["id"] for one in wire.shown if (event := json.loads(one)).get("item")} >= {item["id"]}

    await asyncio.gather(*[talk(number) for number in range(20)])


async def test_a_client_that_does_not_read_holds_up_nobody_else(at: Desk) -> None:
    held = message("[[script: flood=400]] x")["item"]
    async with opened(at, path=PATH) as slow, opened(at, path=PATH) as other:
        slow.connection.transport.pause_reading()
        for _ in range(5):
            await slow.send({"type": "response.create", "response": {"input": [held]}})
        for _ in range(5):
            async with asyncio.timeout(PATIENCE_S):
                assert (await answered(other))["status"] == "completed"
        unread = [one for one in at.upstream if one.disconnected_at]
        assert not unread
        slow.connection.transport.abort()


async def test_a_hundred_silent_sessions_stay_open_and_cost_no_call(at: Desk, redis_server: RedisServer) -> None:
    # Nobody is looked at again meanwhile, however long it takes.
    object.__setattr__(at.gateway.app.websocket, "check_every_s", 3600.0)
    async with AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(opened(at, path=PATH)) for _ in range(100)]
        for wire in silent:
            await wire.until("conversation.created")
        before = len(await at.log())
        redis_server.reset_commandstats()
        async with asyncio.timeout(PATIENCE_S):
            for wire in silent:
                await wire.send({"type": "input_audio_buffer.append", "audio": SOUND})
                await wire.send({"type": "input_audio_buffer.clear"})
                await wire.until("input_audio_buffer.cleared")
        asked = redis_server.commandstats()
        # Of two hundred frames. The log's own rounds go on meanwhile, how many depends on the machine.
        assert asked.get("evalsha", 0) + asked.get("fcall", 0) < 100
        assert len(await at.log()) == before
