"""The endpoints under /v1/conversations."""

from __future__ import annotations

import time
from typing import Any

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request, page
from gateway.demo.stand_in.inputs import as_items, check_tokens, resolve
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Conversation, Provider

_MOST_ITEMS = 20


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/conversations`, with or without a body."""
    body = request.json()
    check_tokens(body)
    lineage = provider.ids.lineage()
    raw = provider.ids.new("conv_", lineage, place="conversation.id")
    made = Conversation(raw, lineage, int(time.time()), _metadata(body))
    _add(provider, made, body.get("items") or [])
    provider.conversations[raw] = made
    return JsonAnswer(made.public())


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/conversations/{id}`."""
    return JsonAnswer(provider.conversation(request.path_ids[0]).public())


def update(provider: Provider, request: Request) -> Answer:
    """`POST /v1/conversations/{id}`: replaces the metadata."""
    found, body = provider.conversation(request.path_ids[0]), request.json()
    if "metadata" not in body:
        raise failures.missing("metadata")
    check_tokens(body)
    found.metadata = _metadata(body)
    return JsonAnswer(found.public())


def delete(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/conversations/{id}`; its items go with it."""
    found = provider.conversation(request.path_ids[0])
    del provider.conversations[found.id]
    provider.forget(found.id)
    return JsonAnswer({"id": found.id, "object": "conversation.deleted", "deleted": True})


def list_items(provider: Provider, request: Request) -> Answer:
    """`GET /v1/conversations/{id}/items`, newest first unless told."""
    items = provider.conversation(request.path_ids[0]).items
    return JsonAnswer(page(provider.reveal(items, request.query.get("include", [])), request))


def create_items(provider: Provider, request: Request) -> Answer:
    """`POST /v1/conversations/{id}/items`: the list of what was added."""
    found, body = provider.conversation(request.path_ids[0]), request.json()
    if "items" not in body:
        raise failures.missing("items")
    if found.locked:
        raise failures.conversation_locked(found.id)
    added = _add(provider, found, body["items"])
    return JsonAnswer(
        {
            "object": "list",
            "data": added,
            "first_id": added[0]["id"] if added else None,
            "has_more": False,
            "last_id": added[-1]["id"] if added else None,
        }
    )


def retrieve_item(provider: Provider, request: Request) -> Answer:
    """`GET /v1/conversations/{id}/items/{item}`."""
    return JsonAnswer(provider.reveal([_item(provider, request)[1]], request.query.get("include", []))[0])


def delete_item(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/conversations/{id}/items/{item}`: answers with the conversation."""
    found, item = _item(provider, request)
    found.items = [one for one in found.items if one is not item]
    provider.items.pop(str(item["id"]), None)
    return JsonAnswer(found.public())


def _metadata(body: Json) -> Any:
    return body.get("metadata") or {}


def _add(provider: Provider, conversation: Conversation, items: Any) -> list[Json]:
    if isinstance(items, str):
        raise failures.wrong_type("items", "an array of objects")
    typed = as_items(items, "items")
    if len(typed) > _MOST_ITEMS:
        raise failures.Failure(
            400,
            f"Invalid 'items': array too long. Expected an array with maximum length {_MOST_ITEMS}, but got an array "
            f"with length {len(typed)} instead.",
            param="items",
            code="array_above_max_length",
        )
    added = resolve(provider, typed, conversation.items, conversation.lineage, "items")
    conversation.items += added
    provider.remember(added, conversation.id)
    return added


def _item(provider: Provider, request: Request) -> tuple[Conversation, Json]:
    conversation_id, item_id = request.path_ids
    found = provider.conversation(conversation_id)
    for item in found.items:
        if item["id"] == item_id:
            return found, item
    raise failures.item_not_found(item_id)
