"""A day of a client with sockets, for the canary: every frame of the table is sent, and some are refused."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from gateway.surfaces.frames import CONNECT, FRAMES
from gateway.surfaces.realtime import REALTIME, TALKS, TRANSLATIONS
from gateway.surfaces.route import Route
from gateway.surfaces.table import PREFIX
from gateway.websocket import QUIET
from tests.attack.belongings import MODEL
from tests.attack.canary_words import INCLUDE, ITEMS
from tests.attack.house import Caller

if TYPE_CHECKING:
    from tests.attack.canary_haul import Haul

SPEAKER = "?model=gpt-realtime"
SOUND = base64.b64encode(bytes(range(256))).decode()
HELLO = [{"role": "user", "content": "hello"}]
PATIENCE_S = 20.0

_ROUTES: dict[tuple[str, str], Route] = {
    **{(PREFIX + CONNECT.path, kind): route for kind, route in FRAMES.items()},
    **{(PREFIX + talk.connect.path, kind): frame.route for talk in TALKS for kind, frame in talk.frames.items()},
}
"""By the socket's path and the frame's type."""

REFUSED = frozenset({"WS realtime.cancel"})
"""Rows that never succeed: the stand-in answers at once, so that there is nothing to cancel."""


@dataclass(slots=True)
class Wire:
    """A socket of a client's. Each answer is an exchange of the haul, and, unless it is an error, a success of all frames that
    the service received since the last one."""

    haul: Haul
    connection: ClientConnection
    before: int
    """How much the service had received by the last answer."""
    what: str = ""
    """What was sent since."""

    def send(self, kind: str, **frame: Any) -> None:
        """A frame that nothing answers."""
        self.what += f" {kind} {str(frame)[:300]}"
        self.connection.send(json.dumps({"type": kind, **frame}))

    def ask(self, kind: str, until: str, **frame: Any) -> Any:
        """The last event of a frame's answer, of the type `until`."""
        self.send(kind, **frame)
        return self.hear(until)

    def hear(self, until: str) -> Any:
        """The last event of an answer, of the type `until`."""
        shown, kind = [], ""
        while kind not in (until, "error", "close"):
            shown.append(self._next())
            kind = json.loads(shown[-1])["type"]
        assert kind == until, (self.what, shown[-1])
        received = self.haul.house.received[self.before :] if kind != "error" else []
        taken = [_ROUTES[one.path, one.json()["type"]] for one in received if one.method == "WS"]
        events = "\n\n".join(f"data: {one}" for one in shown)
        self.haul.add(f"WS{self.what}", f"WS\r\n\r\n{events}".encode(), self.before, *taken)
        self.before, self.what = len(self.haul.house.received), ""
        return json.loads(shown[-1])

    def _next(self) -> str:
        """The next event, or how the socket was closed, as if that were one."""
        try:
            return str(self.connection.recv(timeout=PATIENCE_S))
        except ConnectionClosed as closed:
            return json.dumps({"type": "close", "said": str(closed)})


@contextlib.contextmanager
def _opened(haul: Haul, caller: Caller, route: Route, query: str = "") -> Iterator[Wire]:
    before = len(haul.house.received)
    url = f"ws://127.0.0.1:{haul.house.port}{PREFIX}{route.path}{query}"
    headers = {"authorization": f"Bearer {caller.key}"}
    opening = connect(url, additional_headers=headers, proxy=None, max_size=None, logger=QUIET)
    with contextlib.closing(opening) as connection:
        response = connection.response
        assert response is not None
        haul.add(f"WS {route.path}", f"HTTP/1.1 101\r\n{response.headers}".encode(), before, route)
        yield Wire(haul, connection, len(haul.house.received))


def converse(haul: Haul, caller: Caller) -> None:
    """All of it."""
    _respond(haul, caller)
    _talk(haul, caller)
    _translate(haul, caller)


def _respond(haul: Haul, caller: Caller) -> None:
    done = "response.completed"
    with _opened(haul, caller, CONNECT) as wire:
        asked = {"model": MODEL, "input": f"[[script: {ITEMS}]] a", "include": INCLUDE}
        wire.ask("response.create", done, **asked)
        wire.ask("response.create", done, response=asked, stream_id="a")
        made = wire.ask("response.create", done, model=MODEL, input="b")["response"]["id"]
        wire.ask("response.steer", done, previous_response_id=made, input="c")
        kept = {"model": MODEL, "input": "[[script: recall, annotations]] c", "store": False}
        after = wire.ask("response.create", done, **kept, previous_response_id=made, stream_id="a")["response"]["id"]
        wire.ask("response.create", done, **kept, previous_response_id=after)
        wire.ask("response.inject", "response.inject.created", response_id=made, input=HELLO)
        wire.send("response.processed", response_id=made)
        wire.ask("response.create", done, model=MODEL, input="d", previous_response_id=made)
        wire.ask("response.unheard_of", "error")
        for words in ("status=400", "status=403", "status=429", "status=500"):
            wire.ask("response.create", "error", model=MODEL, input=f"[[script: {words}]] e")
        wire.ask("response.create", "error", model="no-such-model", input="f")
        wire.ask("response.create", "error", model=MODEL, input="g", conversation=after)
        raw = haul.house.raw_of(caller.tenant, made)
        haul.house.stand_in.provider.responses.pop(raw)  # gone upstream, and yet on the socket
        wire.ask("response.create", done, model=MODEL, input="h", previous_response_id=made)
    with _opened(haul, caller, CONNECT) as wire:
        wire.ask("response.steer", "response.steer.failed", previous_response_id=made, input="i")
        wire.ask("response.create", "close", model=MODEL, input="[[script: close_socket=1013]] j")


def _talk(haul: Haul, caller: Caller) -> None:
    message = _message("[[script: message, function_call, mcp_call]] a")
    heard = "conversation.item.input_audio_transcription.completed"
    with _opened(haul, caller, REALTIME.connect, SPEAKER) as wire:
        wire.hear("conversation.created")
        wire.ask("session.update", "session.updated", session={"type": "realtime"})
        named = {**message, "id": "mine"}
        added = [wire.ask("conversation.item.create", "conversation.item.done", item=item) for item in (named, message)]
        own, other = (event["item"]["id"] for event in added)
        wire.send("input_audio_buffer.append", audio=SOUND)
        wire.ask("input_audio_buffer.commit", heard)
        wire.ask("input_audio_buffer.clear", "input_audio_buffer.cleared")
        wire.ask("response.create", "response.done")
        held = [{"type": "item_reference", "id": other}, message]
        wire.ask("response.create", "response.done", response={"input": held, "metadata": {"k": "v"}})
        cut = {"content_index": 0, "audio_end_ms": 5}
        wire.ask("conversation.item.truncate", "conversation.item.truncated", item_id=own, **cut)
        for item in (own, other):
            wire.ask("conversation.item.retrieve", "conversation.item.retrieved", item_id=item)
        wire.ask("conversation.item.delete", "conversation.item.deleted", item_id=other)
        wire.ask("output_audio_buffer.clear", "output_audio_buffer.cleared")
        wire.ask("session.update", "session.updated", session={"type": "realtime", "output_modalities": ["text"]})
        wire.ask("response.create", "response.done", response={"input": [message]})
        wire.ask("response.cancel", "error")
        wire.ask("input_audio_buffer.commit", "error")
        wire.ask("conversation.item.create", "error", item=named)
        wire.ask("conversation.item.delete", "error", item_id=other)
        failing, ending = _message("[[script: status=500]] b"), _message("[[script: close_socket=1013]] c")
        wire.ask("response.create", "error", response={"input": [failing]})
        wire.ask("response.create", "response.done", response={"input": [ending]})
        wire.hear("close")


def _message(said: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}


def _translate(haul: Haul, caller: Caller) -> None:
    with _opened(haul, caller, TRANSLATIONS.connect, SPEAKER) as wire:
        wire.hear("session.created")
        wire.ask("session.update", "session.updated", session={"audio": {"output": {"language": "de"}}})
        wire.ask("session.input_audio_buffer.append", "session.output_audio.delta", audio=SOUND)
        wire.ask("session.close", "session.closed")
        wire.hear("close")
