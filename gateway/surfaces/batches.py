"""Batches (https://platform.openai.com/docs/api-reference/batch): requests that come as the lines of a file, and their answers
as lines of others.

A line is what one request would be: `ENDPOINTS` says of which route. The lines of an input file are checked when it is
uploaded, and a batch takes no other; `lines_of` says what stands in each line of a file that is read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.names import Kind
from gateway.surfaces import chat, completions, embeddings, images, moderations, responses
from gateway.surfaces.items import echoed
from gateway.surfaces.models import NAMED
from gateway.surfaces.route import Body, Listing, Route, cursor, page_of
from gateway.surfaces.spec import FAULT, PLAIN, UNKNOWN, USER, Each, Id, Obj, Role, Spec, Typed

PURPOSE: Final = "batch"
"""Of a file whose lines a batch runs."""

_ACTIONS: Final = frozenset(
    {
        "responses.create",
        "chat.completions.create",
        "completions.create",
        "embeddings.create",
        "moderations.create",
        "images.generate",
        "images.edit",
    }
)

ENDPOINTS: Final[Mapping[str, Route]] = MappingProxyType(
    {
        f"/v1{route.path}": route
        for surface in (responses, chat, completions, embeddings, moderations, images)
        for route in surface.ROUTES
        if route.action in _ACTIONS
    }
)
"""A line's `url` → the route that it stands for. Its method is the route's."""

LINE_KEYS: Final = frozenset({"custom_id", "method", "url", "body"})


def _answer(action: str) -> Obj:
    found = next(route.answer for route in ENDPOINTS.values() if route.action == action)
    assert isinstance(found, Obj), action  # noqa: S101 - the table's own
    return found


def _line(body: Spec) -> Obj:
    return Obj({"custom_id": PLAIN, "method": PLAIN, "url": PLAIN, "body": body})


_SENT: Final = Typed(
    {url: _line(echoed(route.request or UNKNOWN)) for url, route in ENDPOINTS.items()}, other=_line(UNKNOWN), key="url"
)

# The service's own word for what an answer is; a moderation and a list of images say none, and nor does an error.
_BODY: Final = Typed(
    {
        "response": _answer("responses.create"),
        "chat.completion": _answer("chat.completions.create"),
        "text_completion": _answer("completions.create"),
        "list": _answer("embeddings.create"),
    },
    other=Obj({}),
    absent=Obj({**_answer("moderations.create").fields, **_answer("images.generate").fields}),
    key="object",
)

_ANSWERED: Final = Obj({"custom_id": PLAIN, "response": Obj({"status_code": PLAIN, "body": _BODY})})

LINES: Final[Mapping[str, Spec]] = MappingProxyType({PURPOSE: _SENT, "batch_output": _ANSWERED})
"""What stands in each line of a file of this purpose, as the service tells it. The bytes of other files are their owner's."""

_ID: Final = Id(Kind.BATCH, Role.REF)
# The service makes these two files; whoever made the batch owns them.
_RESULT: Final = Id(Kind.FILE, Role.MADE)


def _batch(own: Id) -> Obj:
    return Obj(
        {
            "id": own,
            "object": PLAIN,
            "endpoint": PLAIN,
            "model": NAMED,
            "status": PLAIN,
            "input_file_id": Id(Kind.FILE, Role.REF),
            "output_file_id": _RESULT,
            "error_file_id": _RESULT,
            "errors": Obj({"object": PLAIN, "data": Each(FAULT)}),
            "metadata": USER,
        }
    )


BATCH: Final = _batch(_ID)

ROUTES: Final = (
    Route(
        "batches.create",
        "POST",
        "/batches",
        "runs the requests that the lines of an uploaded file are",
        _batch(Id(Kind.BATCH, Role.OWN)),
        Body.JSON,
        Obj(
            {
                "input_file_id": Id(Kind.FILE, Role.REF),
                "endpoint": PLAIN,
                "completion_window": PLAIN,
                "metadata": USER,
            }
        ),
        creates=Kind.BATCH,
        runs="input_file_id",
        idempotent=True,
        refetch="batches.retrieve",
    ),
    Route(
        "batches.list",
        "GET",
        "/batches",
        "lists one's batches",
        page_of(BATCH, Kind.BATCH),
        query={"after": cursor(Kind.BATCH), "limit": PLAIN},
        lists=Listing(Kind.BATCH, "batches.retrieve"),
    ),
    Route(
        "batches.retrieve",
        "GET",
        "/batches/{batch_id}",
        "retrieves a batch",
        BATCH,
        path_ids={"batch_id": _ID},
    ),
    Route(
        "batches.cancel",
        "POST",
        "/batches/{batch_id}/cancel",
        "cancels a batch",
        BATCH,
        Body.OPTIONAL_JSON,
        Obj({}),
        path_ids={"batch_id": _ID},
    ),
)
