"""What goes over the Responses API's socket (https://platform.openai.com/docs/guides/websocket-mode).

Each type of frame that a client may send is a route of its own: what HTTP is asked of a request is asked of it, under the
same action where it is the same thing. What is not in this table is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.names import Kind
from gateway.surfaces.items import ITEM
from gateway.surfaces.missing import PREVIOUS_RESPONSE
from gateway.surfaces.responses import CREATE, EVENT
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import PLAIN, USER, Each, Either, Id, Obj, Role, Typed

METHOD: Final = "WS"
"""Stands where HTTP has a method; no HTTP request has it, for the guard takes none but the standard's."""

CREATES: Final = "response.create"
STEERS: Final = "response.steer"

_PREVIOUS: Final = Id(Kind.RESPONSE, Role.REF, PREVIOUS_RESPONSE)
_RESPONSE: Final = Id(Kind.RESPONSE, Role.REF)
_INPUT: Final = Either(USER, Each(ITEM))

CONNECT: Final = Route(
    "responses.connect", METHOD, "/responses", "opens a socket for responses", Obj({}), events=EVENT, names_user=True
)
"""The socket itself, from its opening to its end."""

FRAMES: Final[Mapping[str, Route]] = MappingProxyType(
    {
        CREATES: Route(
            "responses.create",
            METHOD,
            "/responses",
            "creates a response over a socket",
            Obj({}),
            Body.JSON,
            CREATE,
            events=EVENT,
            creates=Kind.RESPONSE,
            names_user=True,
        ),
        STEERS: Route(
            "responses.steer",
            METHOD,
            "/responses",
            "adds to what a response under way answers",
            Obj({}),
            Body.JSON,
            Obj({"previous_response_id": _PREVIOUS, "input": _INPUT}),
            events=EVENT,
            creates=Kind.RESPONSE,
        ),
        "response.inject": Route(
            "responses.inject",
            METHOD,
            "/responses",
            "puts items into a response under way",
            Obj({}),
            Body.JSON,
            Obj({"response_id": _RESPONSE, "input": _INPUT}),
            events=EVENT,
        ),
        "response.processed": Route(
            "responses.processed",
            METHOD,
            "/responses",
            "says that a response was read",
            Obj({}),
            Body.JSON,
            Obj({"response_id": _RESPONSE}),
            events=EVENT,
        ),
    }
)
"""By the frame's type."""

_STUB: Final = Obj(
    {
        "type": PLAIN,
        "call_id": PLAIN,
        "name": USER,
        "approval_request_id": Id(Kind.ITEM, Role.REF),
    }
)
"""What a client still owes: it names the call or the request for approval that it answers."""

_STEERED: Final = Obj(
    {
        "type": PLAIN,
        "stream_id": PLAIN,
        "steer": Obj({"previous_response_id": _RESPONSE, "input": _INPUT}),
        "required_input": Each(_STUB),
    }
)

SOCKET_EVENT: Final = Typed(
    {**EVENT.table, **{f"response.steer.{state}": _STEERED for state in ("accepted", "pending", "failed")}},
    other=EVENT.other,
)
"""What the service sends: a stream's events, and what becomes of steering."""

ROUTES: Final = (CONNECT, *FRAMES.values())
