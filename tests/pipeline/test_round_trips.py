"""Two Redis round trips a request, on every route, with warm caches; one more, beside the second, claims a root."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.surfaces.table import ROUTES
from tests.pipeline.desk import MODEL, Desk

BEGIN_AND_FINISH = 2
WITH_CLAIM = 3


@contextmanager
def counted(at: Desk) -> Iterator[dict[str, int]]:
    """How many commands clients sent, by name: those that a script runs are no round trips and are left out."""
    at.redis.reset_commandstats()
    calls: dict[str, int] = {}
    yield calls
    stats = at.redis.commandstats()
    sent = {name: stats.get(name, 0) for name in ("evalsha", "eval", "hgetall", "smembers", "multi", "hsetnx")}
    calls.update({name: count for name, count in sent.items() if count})


async def test_every_route_takes_two_calls_and_one_more_where_it_shows_a_root(at: Desk) -> None:
    conversation = (await at.call("POST", "/conversations")).json()["id"]
    response = (await at.created())["id"]
    items = {"items": [{"type": "message", "role": "user", "content": "hi"}]}
    item = (await at.call("POST", f"/conversations/{conversation}/items", items)).json()["data"][0]["id"]
    background = (await at.created(background=True))["id"]
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
    kept = (await at.call("POST", "/chat/completions", {**chat, "store": True})).json()["id"]
    question = {"model": MODEL, "input": "hello"}
    calls: dict[str, tuple[str, str, object, int]] = {
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
        "completions.create": ("POST", "/completions", {"model": MODEL, "prompt": "a"}, BEGIN_AND_FINISH),
        "embeddings.create": ("POST", "/embeddings", {"model": MODEL, "input": "a"}, BEGIN_AND_FINISH),
        "moderations.create": ("POST", "/moderations", {"input": "a"}, BEGIN_AND_FINISH),
        "images.generate": ("POST", "/images/generations", {"prompt": "a"}, BEGIN_AND_FINISH),
        "models.list": ("GET", "/models", None, BEGIN_AND_FINISH),
        "models.retrieve": ("GET", f"/models/{MODEL}", None, BEGIN_AND_FINISH),
    }  # fmt: skip
    assert calls.keys() == {route.action for route in ROUTES}
    for action, (method, path, body, expected) in calls.items():
        with counted(at) as sent:
            reply = await at.call(method, path, body)
        assert reply.status_code == 200, (action, reply.text)
        assert sent == {"evalsha": expected}, action


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
