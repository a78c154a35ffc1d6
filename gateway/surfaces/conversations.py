"""Conversations (https://platform.openai.com/docs/api-reference/conversations)."""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces.items import ITEM, ITEM_LIST
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import PLAIN, USER, Each, Id, Obj, Role

_ID: Final = Id(Kind.CONVERSATION, Role.REF)
_ITEM: Final = Id(Kind.ITEM, Role.REF)

_NEW: Final = Obj({"id": Id(Kind.CONVERSATION, Role.OWN), "object": PLAIN, "metadata": USER})
_KNOWN: Final = Obj({"id": _ID, "object": PLAIN, "metadata": USER})

_ITEMS: Final = Obj({"items": Each(ITEM)})
_ONE: Final = {"conversation_id": _ID}
_CHILD: Final = {"conversation_id": _ID, "item_id": _ITEM}

ROUTES: Final = (
    Route(
        "conversations.create",
        "POST",
        "/conversations",
        "creates a conversation",
        _NEW,
        Body.OPTIONAL_JSON,
        Obj({"items": Each(ITEM), "metadata": USER}),
        creates=Kind.CONVERSATION,
        idempotent=True,
        refetch="conversations.retrieve",
    ),
    Route(
        "conversations.retrieve",
        "GET",
        "/conversations/{conversation_id}",
        "retrieves a conversation",
        _KNOWN,
        path_ids=_ONE,
    ),
    Route(
        "conversations.update",
        "POST",
        "/conversations/{conversation_id}",
        "updates a conversation's metadata",
        _KNOWN,
        Body.JSON,
        Obj({"metadata": USER}),
        _ONE,
    ),
    Route(
        "conversations.delete",
        "DELETE",
        "/conversations/{conversation_id}",
        "deletes a conversation",
        _KNOWN,
        path_ids=_ONE,
        deletes="conversation_id",
    ),
    Route(
        "conversations.items.create",
        "POST",
        "/conversations/{conversation_id}/items",
        "adds items to a conversation",
        ITEM_LIST,
        Body.JSON,
        _ITEMS,
        _ONE,
        query={"include": PLAIN},
        idempotent=True,
    ),
    Route(
        "conversations.items.list",
        "GET",
        "/conversations/{conversation_id}/items",
        "lists a conversation's items",
        ITEM_LIST,
        path_ids=_ONE,
        query={"after": _ITEM, "limit": PLAIN, "order": PLAIN, "include": PLAIN},
    ),
    Route(
        "conversations.items.retrieve",
        "GET",
        "/conversations/{conversation_id}/items/{item_id}",
        "retrieves one item of a conversation",
        ITEM,
        path_ids=_CHILD,
        query={"include": PLAIN},
    ),
    Route(
        "conversations.items.delete",
        "DELETE",
        "/conversations/{conversation_id}/items/{item_id}",
        "deletes one item of a conversation",
        _KNOWN,
        path_ids=_CHILD,
        deletes="item_id",
    ),
)
