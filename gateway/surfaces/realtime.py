"""What goes over the sockets of the Realtime API (https://platform.openai.com/docs/api-reference/realtime).

Each type of frame that a client may send is a route of its own. What is not in this table is refused. Nearly all IDs here are
the connection's: the service makes items and responses that nobody can name once their socket is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from gateway.names import Kind
from gateway.surfaces import models
from gateway.surfaces.audio import VOICE
from gateway.surfaces.frames import METHOD
from gateway.surfaces.items import TOOL, echoed
from gateway.surfaces.responses import CREATE
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import (
    MEDIA,
    PLAIN,
    SPEECH,
    USER,
    Each,
    Either,
    Hashed,
    Id,
    Obj,
    Role,
    Spec,
    Typed,
)

ROOT: Final = "root"
"""Stands where an item's ID may: before the first item."""

_MADE_ITEM: Final = Id(Kind.ITEM, Role.MADE, passes=ROOT)
_MADE_RESPONSE: Final = Id(Kind.RESPONSE, Role.MADE)
_MADE_CONVERSATION: Final = Id(Kind.CONVERSATION, Role.MADE)
_NAMED_ITEM: Final = Id(Kind.ITEM, Role.REF)
_PREVIOUS_ITEM: Final = Id(Kind.ITEM, Role.REF, passes=ROOT)
_NAMED_RESPONSE: Final = Id(Kind.RESPONSE, Role.REF)

_CONTENT: Final = Obj(
    {"type": PLAIN, "text": USER, "transcript": SPEECH, "audio": MEDIA, "image_url": MEDIA, "detail": PLAIN}
)


def _item(**fields: Spec) -> Obj:
    return Obj(
        {
            "id": Id(Kind.ITEM, Role.OWN),
            "type": PLAIN,
            "object": PLAIN,
            "status": PLAIN,
            "call_id": PLAIN,
            "name": USER,
            "server_label": USER,
            **fields,
        }
    )


ITEM: Final = Typed(
    {
        "message": _item(role=PLAIN, content=Each(_CONTENT)),
        "function_call": _item(arguments=SPEECH),
        "function_call_output": _item(output=USER),
        "mcp_list_tools": _item(tools=USER),
        "mcp_approval_request": _item(arguments=SPEECH),
        "mcp_approval_response": _item(approval_request_id=_NAMED_ITEM, reason=USER),
        "mcp_call": _item(
            approval_request_id=_NAMED_ITEM,
            arguments=SPEECH,
            output=USER,
            error=USER,
        ),
        "item_reference": Obj({"id": Id(Kind.ITEM, Role.OWN), "type": PLAIN}, payload=()),
    },
    other=_item(content=Each(_CONTENT), arguments=SPEECH, output=USER),
)

_TRANSCRIPTION: Final = Obj({"model": models.NAMED, "prompt": USER, "language": PLAIN, "keywords": USER})
_AUDIO: Final = Obj({"input": Obj({"transcription": _TRANSCRIPTION}), "output": Obj({"voice": VOICE})})

_SETTINGS: Final[dict[str, Spec]] = {
    "type": PLAIN,
    "audio": _AUDIO,
    "instructions": USER,
    "prompt": CREATE.fields["prompt"],
    "tools": Each(TOOL),
    "tool_choice": Either(PLAIN, Obj({"type": PLAIN, "name": USER, "server_label": USER})),
}

_SESSION: Final = Obj(
    {
        **_SETTINGS,
        "model": models.NAMED,
        "include": PLAIN,
        "tracing": Either(PLAIN, Obj({"group_id": Hashed("group_id"), "workflow_name": USER, "metadata": USER})),
    }
)

_RESPONSE_ASKED: Final = Obj(
    {
        **_SETTINGS,
        "conversation": Id(Kind.CONVERSATION, Role.REF, only="conv_"),
        "input": Each(ITEM),
        "metadata": USER,
    }
)

_RESPONSE: Final = Obj(
    {
        "id": Id(Kind.RESPONSE, Role.OWN),
        "object": PLAIN,
        "conversation_id": _MADE_CONVERSATION,
        "output": Each(ITEM),
        "metadata": USER,
        "audio": echoed(_AUDIO),
    }
)

# --- what the service sends

_EVENT: Final[dict[str, Spec]] = {
    "type": PLAIN,
    "event_id": PLAIN,
    "item_id": _MADE_ITEM,
    "previous_item_id": _MADE_ITEM,
    "response_id": _MADE_RESPONSE,
    "call_id": PLAIN,
    "obfuscation": MEDIA,
}


def _event(**fields: Spec) -> Obj:
    return Obj({**_EVENT, **fields})


_SPOKEN: Final = _event(delta=SPEECH, text=SPEECH, transcript=SPEECH, logprobs=SPEECH, languages=PLAIN)
_ARGUED: Final = _event(delta=SPEECH, arguments=SPEECH, name=USER)
_SOUND: Final = _event(delta=MEDIA)
_STATE: Final = _event(session=echoed(_SESSION))
_ITEM: Final = _event(item=ITEM)
_PART: Final = _event(part=_CONTENT)
_RESPONDED: Final = _event(response=_RESPONSE)

EVENT: Final = Typed(
    {
        **{f"session.{state}": _STATE for state in ("created", "updated")},
        "conversation.created": _event(conversation=Obj({"id": Id(Kind.CONVERSATION, Role.OWN), "object": PLAIN})),
        **{f"conversation.item.{state}": _ITEM for state in ("created", "added", "done", "retrieved")},
        **{f"response.{state}": _RESPONDED for state in ("created", "done")},
        **{f"response.output_item.{state}": _ITEM for state in ("added", "done")},
        **{f"response.content_part.{state}": _PART for state in ("added", "done")},
        **{
            f"{spoken}.{state}": _SPOKEN
            for spoken in (
                "response.output_text",
                "response.output_audio_transcript",
                "conversation.item.input_audio_transcription",
            )
            for state in ("delta", "done", "completed", "segment")
        },
        **{
            f"response.{argued}.{state}": _ARGUED
            for argued in ("function_call_arguments", "mcp_call_arguments")
            for state in ("delta", "done")
        },
        "response.output_audio.delta": _SOUND,
        "input_audio_buffer.dtmf_event_received": _event(event=PLAIN),
    },
    other=_event(),
)

TRANSLATION_EVENT: Final = Typed(
    {
        **{f"session.{state}": _STATE for state in ("created", "updated")},
        **{f"session.{side}_transcript.delta": _SPOKEN for side in ("input", "output")},
        "session.output_audio.delta": _SOUND,
    },
    other=_event(),
)

REPLACED: Final[Mapping[str, Mapping[str, Any]]] = {"rate_limits.updated": {"rate_limits": []}}
"""Events that tell what everybody who shares the key has left, and what they tell a tenant instead: it has no such limits of its
own."""


# --- what a client may send


class Weight(Enum):
    """What is asked of a frame before it goes on."""

    SOUND = "sound"
    """Nothing: it holds base64 and says nothing else."""
    CONTROL = "control"
    """It names what lives in the connection, or nothing at all."""
    REQUEST = "request"
    """Everything that HTTP is asked of a request: it is recorded and decided before."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One type. `within`: the member that holds the request; without one, the frame itself does."""

    route: Route
    weight: Weight
    within: str = ""
    items: str = field(default="")
    """The member that is, or lists, items whose IDs the client may choose."""


@dataclass(frozen=True, slots=True)
class Talk:
    """One kind of socket: its opening, what goes up and what comes down."""

    connect: Route
    frames: Mapping[str, Frame]
    events: Spec


def _route(path: str, action: str, does: str, request: Spec, events: Spec) -> Route:
    return Route(action, METHOD, path, does, Obj({}), Body.JSON, request, events=events, keeps=False)


def _connect(path: str, action: str, does: str, events: Spec, **query: Spec) -> Route:
    return Route(action, METHOD, path, does, Obj({}), query=query, events=events, keeps=False)


_NOTHING: Final = Obj({})
_PATH: Final = "/realtime"
_TRANSLATIONS: Final = "/realtime/translations"


def _frames(path: str, events: Spec, *rows: tuple[str, str, str, Weight, Obj, str, str]) -> dict[str, Frame]:
    return {
        kind: Frame(_route(path, action, does, request, events), weight, within, items)
        for kind, action, does, weight, request, within, items in rows
    }


_SENT_ITEM: Final = Obj({"item": ITEM, "previous_item_id": _PREVIOUS_ITEM})
_TRUNCATED: Final = Obj({"item_id": _NAMED_ITEM, "content_index": PLAIN, "audio_end_ms": PLAIN})
_ONE_ITEM: Final = Obj({"item_id": _NAMED_ITEM})
_CANCELLED: Final = Obj({"response_id": _NAMED_RESPONSE})

REALTIME: Final = Talk(
    _connect(
        _PATH,
        "realtime.connect",
        "opens a socket for speech to speech",
        EVENT,
        model=models.NAMED,
        call_id=Id(Kind.CALL, Role.REF),
        intent=PLAIN,
    ),
    _frames(
        _PATH,
        EVENT,
        ("session.update", "realtime.update", "sets what a session is", Weight.REQUEST, _SESSION, "session", ""),
        (
            "response.create",
            "realtime.create",
            "asks for an answer",
            Weight.REQUEST,
            _RESPONSE_ASKED,
            "response",
            "input",
        ),
        ("conversation.item.create", "realtime.add", "adds an item", Weight.REQUEST, _SENT_ITEM, "", "item"),
        ("conversation.item.retrieve", "realtime.item", "shows an item", Weight.CONTROL, _ONE_ITEM, "", ""),
        ("conversation.item.truncate", "realtime.truncate", "cuts what was heard", Weight.CONTROL, _TRUNCATED, "", ""),
        ("conversation.item.delete", "realtime.delete", "removes an item", Weight.CONTROL, _ONE_ITEM, "", ""),
        ("response.cancel", "realtime.cancel", "stops an answer", Weight.CONTROL, _CANCELLED, "", ""),
        ("input_audio_buffer.append", "realtime.append", "sends sound", Weight.SOUND, _NOTHING, "", ""),
        ("input_audio_buffer.commit", "realtime.commit", "ends a turn", Weight.CONTROL, _NOTHING, "", ""),
        ("input_audio_buffer.clear", "realtime.clear", "drops sound sent", Weight.CONTROL, _NOTHING, "", ""),
        ("output_audio_buffer.clear", "realtime.silence", "drops sound to come", Weight.CONTROL, _NOTHING, "", ""),
    ),
    EVENT,
)

TRANSLATIONS: Final = Talk(
    _connect(
        _TRANSLATIONS,
        "realtime.translations.connect",
        "opens a socket for speech in another language",
        TRANSLATION_EVENT,
        model=models.NAMED,
    ),
    _frames(
        _TRANSLATIONS,
        TRANSLATION_EVENT,
        (
            "session.update",
            "realtime.translations.update",
            "sets what a session is",
            Weight.REQUEST,
            _SESSION,
            "session",
            "",
        ),
        (
            "session.input_audio_buffer.append",
            "realtime.translations.append",
            "sends sound",
            Weight.SOUND,
            _NOTHING,
            "",
            "",
        ),
        ("session.close", "realtime.translations.close", "ends a session", Weight.CONTROL, _NOTHING, "", ""),
    ),
    TRANSLATION_EVENT,
)

TALKS: Final = (REALTIME, TRANSLATIONS)

ROUTES: Final = tuple(route for talk in TALKS for route in (talk.connect, *(one.route for one in talk.frames.values())))
