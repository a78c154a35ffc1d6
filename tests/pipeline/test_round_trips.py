"""Two Redis round trips a request, on every route, with warm caches; one more, beside the second, claims a root."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.demo.stand_in.server import Running
from gateway.surfaces.table import ROUTES
from tests.forms import file, form, text, uploaded
from tests.pipeline.desk import MODEL, Desk, desk
from tests.pipeline.resource_calls import Call, resource_calls
from tests.redis_fixture import RedisServer

BEGIN_AND_FINISH = 2
WITH_CLAIM = 3


@pytest.fixture
async def at(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    """Whose log is not signed meanwhile: that takes calls of its own, beside the requests'."""
    async with desk(redis_server, stand_in, tmp_path, COATCHECK_AUDIT_CHECKPOINT_INTERVAL_S="60") as made:
        yield made


@contextmanager
def counted(at: Desk) -> Iterator[dict[str, int]]:
    """How many commands clients sent, by name: those that a script runs are no round trips and are left out."""
    at.redis.reset_commandstats()
    calls: dict[str, int] = {}
    yield calls
    stats = at.redis.commandstats()
    sent = {name: stats.get(name, 0) for name in ("evalsha", "eval", "hgetall", "smembers", "multi", "hsetnx")}
    calls.update({name: count for name, count in sent.items() if count})


async def core_calls(at: Desk) -> dict[str, Call]:
    """As `resource_calls`, of all other routes."""
    conversation = (await at.call("POST", "/conversations")).json()["id"]
    response = (await at.created())["id"]
    items = {"items": [{"type": "message", "role": "user", "content": "hi"}]}
    item = (await at.call("POST", f"/conversations/{conversation}/items", items)).json()["data"][0]["id"]
    background = (await at.created(background=True))["id"]
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
    kept = (await at.call("POST", "/chat/completions", {**chat, "store": True})).json()["id"]
    kept_file = (await at.call("POST", "/files", uploaded())).json()["id"]
    upload = {"bytes": 1, "filename": "a", "mime_type": "text/plain", "purpose": "user_data"}
    begun, other = [(await at.call("POST", "/uploads", upload)).json()["id"] for _ in range(2)]
    part = (await at.call("POST", f"/uploads/{begun}/parts", form(file("data", b"x")))).json()["id"]
    sound = form(text("model", MODEL), file("file", b"x"))
    picture = form(text("model", "gpt-image-1"), text("prompt", "a"), file("image", b"x"))
    question = {"model": MODEL, "input": "hello"}
    line = b'{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{"model":"gpt-5","input":"a"}}'
    lined = (await at.call("POST", "/files", form(text("purpose", "batch"), file("file", line)))).json()["id"]
    batch = {"input_file_id": lined, "endpoint": "/v1/embeddings", "completion_window": "24h"}
    run, dropped = [(await at.call("POST", "/batches", batch)).json()["id"] for _ in range(2)]
    return {
        "responses.create": ("POST", "/responses", question, WITH_CLAIM),
        "responses.compact": ("POST", "/responses/compact", question, WITH_CLAIM),
        "responses.input_tokens": ("POST", "/responses/input_tokens", question, BEGIN_AND_FINISH),
        "responses.retrieve": ("GET", f"/responses/{response}", None, WITH_CLAIM),
        "responses.cancel": ("POST", f"/responses/{background}/cancel", None, WITH_CLAIM),
        "responses.input_items": ("GET", f"/responses/{response}/input_items", None, BEGIN_AND_FINISH),
        "responses.delete": ("DELETE", f"/responses/{response}", None, BEGIN_AND_FINISH),
        "conversations.create": ("POST", "/conversations", {}, WITH_CLAIM),
        "conversations.retrieve": ("GET", f"/conversations/{conversation}", None, BEGIN_AND_FINISH),
        "conversations.update": ("POST", f"/conversations/{conversation}", {"metadata": {}}, BEGIN_AND_FINISH),
        "conversations.items.create": ("POST", f"/conversations/{conversation}/items", items, BEGIN_AND_FINISH),
        "conversations.items.list": ("GET", f"/conversations/{conversation}/items", None, BEGIN_AND_FINISH),
        "conversations.items.retrieve": (
            "GET", f"/conversations/{conversation}/items/{item}", None, BEGIN_AND_FINISH
        ),
        "conversations.items.delete": (
            "DELETE", f"/conversations/{conversation}/items/{item}", None, BEGIN_AND_FINISH
        ),
        "conversations.delete": ("DELETE", f"/conversations/{conversation}", None, BEGIN_AND_FINISH),
        "chat.completions.create": ("POST", "/chat/completions", {**chat, "store": True}, WITH_CLAIM),
        "chat.completions.retrieve": ("GET", f"/chat/completions/{kept}", None, WITH_CLAIM),
        "chat.completions.update": ("POST", f"/chat/completions/{kept}", {"metadata": {}}, WITH_CLAIM),
        "chat.completions.messages.list": ("GET", f"/chat/completions/{kept}/messages", None, BEGIN_AND_FINISH),
        "chat.completions.delete": ("DELETE", f"/chat/completions/{kept}", None, BEGIN_AND_FINISH),
        "chat.completions.list": ("GET", "/chat/completions", None, WITH_CLAIM),
        "completions.create": ("POST", "/completions", {"model": MODEL, "prompt": "a"}, BEGIN_AND_FINISH),
        "embeddings.create": ("POST", "/embeddings", {"model": MODEL, "input": "a"}, BEGIN_AND_FINISH),
        "moderations.create": ("POST", "/moderations", {"input": "a"}, BEGIN_AND_FINISH),
        "images.generate": ("POST", "/images/generations", {"prompt": "a"}, BEGIN_AND_FINISH),
        "files.create": ("POST", "/files", uploaded(), WITH_CLAIM),
        "files.list": ("GET", "/files", None, BEGIN_AND_FINISH),
        "files.retrieve": ("GET", f"/files/{kept_file}", None, BEGIN_AND_FINISH),
        "files.content": ("GET", f"/files/{kept_file}/content", None, BEGIN_AND_FINISH),
        "files.delete": ("DELETE", f"/files/{kept_file}", None, BEGIN_AND_FINISH),
        "uploads.create": ("POST", "/uploads", upload, WITH_CLAIM),
        "uploads.parts.create": (
            "POST", f"/uploads/{begun}/parts", form(file("data", b"x")), BEGIN_AND_FINISH
        ),
        "uploads.complete": ("POST", f"/uploads/{begun}/complete", {"part_ids": [part]}, WITH_CLAIM),
        "uploads.cancel": ("POST", f"/uploads/{other}/cancel", None, BEGIN_AND_FINISH),
        "audio.speech.create": (
            "POST", "/audio/speech", {"model": MODEL, "input": "a", "voice": "alloy"}, BEGIN_AND_FINISH
        ),
        "audio.transcriptions.create": ("POST", "/audio/transcriptions", sound, BEGIN_AND_FINISH),
        "audio.translations.create": ("POST", "/audio/translations", sound, BEGIN_AND_FINISH),
        "images.edit": ("POST", "/images/edits", picture, BEGIN_AND_FINISH),
        "images.create_variation": ("POST", "/images/variations", picture, BEGIN_AND_FINISH),
        "batches.create": ("POST", "/batches", batch, WITH_CLAIM),
        "batches.list": ("GET", "/batches", None, BEGIN_AND_FINISH),
        "batches.retrieve": ("GET", f"/batches/{run}", None, WITH_CLAIM),
        "batches.cancel": ("POST", f"/batches/{dropped}/cancel", None, BEGIN_AND_FINISH),
        "models.list": ("GET", "/models", None, BEGIN_AND_FINISH),
        "models.retrieve": ("GET", f"/models/{MODEL}", None, BEGIN_AND_FINISH),
    }  # fmt: skip


async def test_every_route_takes_two_calls_and_one_more_where_it_shows_a_root(at: Desk) -> None:
    calls = await core_calls(at) | await resource_calls(at, BEGIN_AND_FINISH, WITH_CLAIM)
    assert calls.keys() == {route.action for route in ROUTES}
    loads = 0
    for action, (method, path, body, expected) in calls.items():
        with counted(at) as sent:
            reply = await at.call(method, path, body)
        assert reply.status_code == 200, (action, reply.text)
        loads += sent.pop("hgetall", 0)
        sent.pop("smembers", None)  # what follows logs looks for tenants, whatever else is done
        assert sent == {"evalsha": expected}, action
    assert loads <= 2, "the tenant's keys are kept for a minute"


async def test_a_chat_that_is_not_kept_takes_two_calls_and_its_stream_three(at: Desk) -> None:
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
    await at.call("POST", "/chat/completions", chat)
    for more, expected in (({}, BEGIN_AND_FINISH), ({"stream": True}, BEGIN_AND_FINISH + 1)):
        with counted(at) as sent:
            assert (await at.call("POST", "/chat/completions", {**chat, **more})).status_code == 200
        assert sent == {"evalsha": expected}


async def test_a_refusal_takes_two_calls_and_one_that_no_look_up_could_change_takes_one(at: Desk) -> None:
    bobs = (await at.created(who="bob"))["id"]
    await at.created()
    with counted(at) as sent:
        assert (await at.call("GET", f"/responses/{bobs}")).status_code == 404
    assert sent == {"evalsha": 2}
    with counted(at) as sent:
        assert (await at.call("GET", "/responses/resp_123")).status_code == 404
    assert sent == {"evalsha": 1}


async def test_many_references_are_looked_up_in_one_call(at: Desk) -> None:
    made = await at.created("message, message, message")
    replayed = [{"type": "item_reference", "id": item["id"]} for item in made["output"]]
    with counted(at) as sent:
        reply = await at.call("POST", "/responses", {"model": MODEL, "input": replayed, "store": False})
    assert reply.status_code == 200, reply.text
    assert sent == {"evalsha": BEGIN_AND_FINISH}


async def test_a_stream_takes_one_call_to_begin_one_for_its_root_and_one_at_its_end(at: Desk) -> None:
    await at.created()
    with counted(at) as sent:
        data = await at.streamed("reasoning, message, function_call")
    assert b"response.completed" in data
    assert sent == {"evalsha": 4}  # the fourth is the claim, beside the root's


async def test_an_idempotency_key_takes_two_more(at: Desk) -> None:
    await at.created()
    with counted(at) as sent:
        reply = await at.call(
            "POST", "/responses", {"model": MODEL, "input": "hello"}, idempotency_key=json.dumps({"any": "text"})
        )
    assert reply.status_code == 200
    assert sent == {"evalsha": WITH_CLAIM + 2}
