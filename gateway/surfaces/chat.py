"""Chat completions (https://platform.openai.com/docs/api-reference/chat).

Tool-call IDs are tokens that models and clients invent; they address nothing and pass unchanged. A completion is kept
by the service only where the request says `store: true`; the audio of an answer for an hour in any case, and the next
request of its owner may name it.
"""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces import models
from gateway.surfaces.audio import VOICE
from gateway.surfaces.route import Body, Listing, Route, cursor, page_of
from gateway.surfaces.spec import (
    MEDIA,
    PLAIN,
    RUNNING,
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

_ID: Final = Id(Kind.CHAT_COMPLETION, Role.REF)
_NEW: Final = Id(Kind.CHAT_COMPLETION, Role.OWN)

PART: Final = Typed(
    {
        "text": Obj({"text": USER}),
        "refusal": Obj({"refusal": SPEECH}),
        "image_url": Obj({"image_url": Obj({"url": MEDIA})}),
        "input_audio": Obj({"input_audio": Obj({"data": MEDIA})}),
        "file": Obj({"file": Obj({"file_id": Id(Kind.FILE, Role.REF), "file_data": MEDIA, "filename": USER})}),
    },
    other=Obj({"text": USER}),
)
"""A part of a message's content."""

ANNOTATION: Final = Typed({"url_citation": Obj({"url_citation": Obj({"url": USER, "title": USER})})}, other=Obj({}))

TOOL: Final = Typed({"function": Obj({"function": USER}), "custom": Obj({"custom": USER})}, other=Obj({}))


def _calls(said: Spec) -> dict[str, Spec]:
    """What the model wants called; `said`: how it says it."""
    called = Obj({"name": USER, "arguments": said})
    return {
        "tool_calls": Each(
            Obj({"id": PLAIN, "type": PLAIN, "function": called, "custom": Obj({"name": USER, "input": said})})
        ),
        "function_call": called,
    }


def _audio(role: Role) -> Obj:
    return Obj({"id": Id(Kind.CHAT_AUDIO, role), "data": MEDIA, "transcript": SPEECH})


_SENT: Final = Obj(
    {
        "role": PLAIN,
        "name": USER,
        "content": Either(USER, Each(PART)),
        "refusal": SPEECH,
        "tool_call_id": PLAIN,
        "annotations": Each(ANNOTATION),
        "audio": _audio(Role.REF),
        **_calls(SPEECH),
    }
)

_CREATE: Final = Obj(
    {
        "model": models.NAMED,
        "messages": Each(_SENT),
        "tools": Each(TOOL),
        "functions": USER,
        "audio": Obj({"format": PLAIN, "voice": VOICE}),
        "prediction": Obj({"content": Either(USER, Each(PART))}),
        "response_format": USER,
        "stop": USER,
        "web_search_options": Obj({"user_location": USER}),
        "metadata": USER,
        "prompt_cache_key": Hashed("prompt_cache_key"),
        "safety_identifier": Hashed("safety_identifier"),
        "user": Hashed("user"),
    }
)

_ANSWERED: Final[dict[str, Spec]] = {
    "role": PLAIN,
    "name": USER,
    "content": SPEECH,
    "refusal": SPEECH,
    "annotations": Each(ANNOTATION),
    "audio": _audio(Role.OWN),
    **_calls(SPEECH),
}

COMPLETION: Final = Obj(
    {
        "id": _NEW,
        "object": PLAIN,
        "model": models.NAMED,
        "choices": Each(Obj({"message": Obj(_ANSWERED), "logprobs": SPEECH})),
        "metadata": USER,
        "tools": Each(TOOL),
        "response_format": USER,
        "prompt_cache_key": Hashed("prompt_cache_key"),
        "safety_identifier": Hashed("safety_identifier"),
        "input_user": Hashed("user"),
    }
)

CHUNK: Final = Obj(
    {
        "id": _NEW,
        "object": PLAIN,
        "model": models.NAMED,
        "obfuscation": MEDIA,
        "choices": Each(
            Obj(
                {
                    "delta": Obj(
                        {
                            **_ANSWERED,
                            "content": RUNNING,
                            "refusal": RUNNING,
                            "audio": Obj({"id": Id(Kind.CHAT_AUDIO, Role.OWN), "data": MEDIA, "transcript": RUNNING}),
                            **_calls(RUNNING),
                        }
                    ),
                    "logprobs": SPEECH,
                }
            )
        ),
    }
)
"""Every event of a stream; it has no `type`."""

_MESSAGE: Final = Id(Kind.CHAT_MESSAGE, Role.REF)

_MESSAGES: Final = Obj(
    {
        "object": PLAIN,
        "data": Each(
            Obj(
                {
                    **_ANSWERED,
                    "id": Id(Kind.CHAT_MESSAGE, Role.OWN),
                    "content": USER,
                    "audio": _audio(Role.REF),
                    "content_parts": Each(PART),
                    "tool_call_id": PLAIN,
                }
            )
        ),
        "first_id": _MESSAGE,
        "last_id": _MESSAGE,
    }
)

_ONE: Final = {"completion_id": _ID}

ROUTES: Final = (
    Route(
        "chat.completions.create",
        "POST",
        "/chat/completions",
        "answers a chat",
        COMPLETION,
        Body.JSON,
        _CREATE,
        events=CHUNK,
        creates=Kind.CHAT_COMPLETION,
        keeps=False,
        idempotent=True,
        refetch="chat.completions.retrieve",
        names_user=True,
    ),
    Route(
        "chat.completions.list",
        "GET",
        "/chat/completions",
        "lists one's own stored chat completions",
        page_of(COMPLETION, Kind.CHAT_COMPLETION),
        query={
            "after": cursor(Kind.CHAT_COMPLETION),
            "limit": PLAIN,
            "order": PLAIN,
            "model": models.NAMED,
            "metadata": USER,
        },
        lists=Listing(
            Kind.CHAT_COMPLETION, row="chat.completions.retrieve", order="asc", filters=("model", "metadata")
        ),
    ),
    Route(
        "chat.completions.retrieve",
        "GET",
        "/chat/completions/{completion_id}",
        "retrieves a stored chat completion",
        COMPLETION,
        path_ids=_ONE,
    ),
    Route(
        "chat.completions.update",
        "POST",
        "/chat/completions/{completion_id}",
        "updates a stored chat completion's metadata",
        COMPLETION,
        Body.JSON,
        Obj({"metadata": USER}),
        _ONE,
    ),
    Route(
        "chat.completions.delete",
        "DELETE",
        "/chat/completions/{completion_id}",
        "deletes a stored chat completion",
        Obj({"id": _ID, "object": PLAIN}),
        path_ids=_ONE,
        deletes="completion_id",
    ),
    Route(
        "chat.completions.messages.list",
        "GET",
        "/chat/completions/{completion_id}/messages",
        "lists the messages that a stored chat completion answers",
        _MESSAGES,
        path_ids=_ONE,
        query={"after": _MESSAGE, "limit": PLAIN, "order": PLAIN},
    ),
)
