"""The two-tenant matrix over sockets: every ID place of every frame, flat and nested, as it is attacked over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from gateway.errors import Problem, Reason, error_fields, quotable
from gateway.surfaces.frames import FRAMES
from gateway.surfaces.missing import missing_for
from tests.attack.belongings import Belongings, conversation, owned
from tests.attack.house import Caller
from tests.attack.matrix import ATTACKS, Town, droppable, opens, request, town
from tests.attack.places import Place, places, reach

__all__ = ["town"]

ENDINGS = frozenset(
    {
        "response.completed", "response.failed", "response.incomplete", "response.inject.created", "response.steer.failed",
        "error",
    }
)  # fmt: skip
SILENT = ("response.processed",)
"""Types of frames that the service does not answer; the next frame tells that they went through."""

TOGETHER = [(kind, nested) for kind in FRAMES for nested in (False, True)]


class Sockets:
    """One socket for each caller, opened when it is first needed."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self._open: dict[str, ClientConnection] = {}

    def ask(self, caller: Caller, frame: dict[str, Any]) -> tuple[dict[str, Any], list[bytes], list[Any]]:
        """The last event, all that was shown, and what reached the service meanwhile."""
        before = len(self.town.house.received)
        socket = self._socket(caller)
        socket.send(json.dumps(frame))
        shown: list[bytes] = []
        while True:
            text = socket.recv(timeout=20)
            shown.append(text.encode() if isinstance(text, str) else text)
            event = json.loads(text)
            if event["type"] in ENDINGS:
                received = [one for one in self.town.house.received[before:] if one.method == "WS"]
                return event, shown, received

    def tell(self, caller: Caller, frame: dict[str, Any]) -> tuple[dict[str, Any], list[bytes], list[Any]]:
        """The same for a frame that has no answer: what comes is what a frame that is no request gets."""
        before = len(self.town.house.received)
        socket = self._socket(caller)
        socket.send(json.dumps(frame))
        socket.send('{"type": "no such"}')
        event = json.loads(socket.recv(timeout=20))
        shown = [json.dumps(event).encode()]
        if event["error"]["param"] != "type":
            socket.recv(timeout=20)
        # The service takes its frames in a thread of its own.
        received = [one for one in self.town.house.received[before:] if one.method == "WS"]
        return event, shown, received

    def _socket(self, caller: Caller) -> ClientConnection:
        known = self._open.get(caller.key)
        if known is None:
            url = f"ws://127.0.0.1:{self.town.house.port}/v1/responses"
            headers = {"authorization": f"Bearer {caller.key}"}
            known = self._open[caller.key] = connect(url, additional_headers=headers, max_size=None)
        return known

    def close(self) -> None:
        for socket in self._open.values():
            socket.close()


@pytest.fixture(scope="module")
def sockets(town: Town) -> Iterator[Sockets]:
    opened = Sockets(town)
    yield opened
    opened.close()


def frame(kind: str, place: Place, own: Belongings, nested: bool, *leaves: Any) -> dict[str, Any]:
    _, _, body = request(place, own, *leaves)
    if kind == "response.steer":
        body.setdefault("previous_response_id", own.response)
    return {"type": kind, "response": body} if nested else {"type": kind, **body}


def asked(
    sockets: Sockets, kind: str, caller: Caller, sent: dict[str, Any]
) -> tuple[dict[str, Any], list[bytes], list[Any]]:
    return (sockets.tell if kind in SILENT else sockets.ask)(caller, sent)


def without(event: dict[str, Any], quoted: str) -> tuple[Any, ...]:
    error = event["error"]
    message = error["message"].replace(quoted, "") if quoted else error["message"]
    return event["status"], message, error["type"], error["param"], error["code"]


def missing(place: Place) -> tuple[Any, ...]:
    """What HTTP says at this place of an ID that does not open, but for the quotation."""
    shape = missing_for(place.spec.kind, place.spec.missing)
    message, kind, param, code = error_fields(Problem(Reason.NOT_RECORDED, quoted="", missing=shape))
    return shape.status, message, kind, param, code


@pytest.mark.parametrize(("kind", "nested"), TOGETHER, ids=str)
def test_ones_own_id_is_taken_at_every_place_of_a_frame_and_reaches_the_service_raw(
    town: Town, sockets: Sockets, kind: str, nested: bool
) -> None:
    wrong = []
    for place in places(FRAMES[kind]):
        if not opens(place):
            continue
        own = owned(place, town.alice)
        town.alice.talk = conversation(town.alice.caller)
        event, shown, received = asked(sockets, kind, town.alice.caller, frame(kind, place, town.alice, nested, own))
        raw = town.raw(own)
        if len(received) != 1 or raw not in reached(place, received[0], nested):
            wrong.append(f"{place}: {event} {[one.body for one in received]}")
        elif any(raw.encode() in one for one in shown):
            wrong.append(f"{place}: the answer names {raw}")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(("kind", "nested"), TOGETHER, ids=str)
def test_what_is_not_the_callers_own_reads_as_missing_over_a_socket_and_reaches_nobody(
    town: Town, sockets: Sockets, kind: str, nested: bool, attack: str
) -> None:
    wrong = []
    for place in places(FRAMES[kind]):
        if droppable(place):
            continue
        for sender, leaves in ATTACKS[attack](town, place):
            sent = frame(kind, place, sender, nested, *leaves)
            event, _, received = asked(sockets, kind, sender.caller, sent)
            foreign = leaves[0] if len(leaves) == 1 else owned(place, town.alice)
            quoted = quotable(foreign)
            if received:
                wrong.append(f"{place}: {leaves} reached the service: {received[0].body!r}")
            elif event["type"] != "error" or without(event, quoted) != missing(place):
                wrong.append(f"{place}: {leaves} reads {event}")
    assert not wrong, "\n".join(wrong[:20])


def reached(place: Place, received: Any, nested: bool) -> list[Any]:
    """What the service read where the client wrote its own ID."""
    body = received.json()
    return list(reach(body["response"] if nested else body, place.steps))
