"""Responses (https://platform.openai.com/docs/api-reference/responses)."""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces import models
from gateway.surfaces.items import ANNOTATION, CONTENT, ECHOED_ITEM, ITEM, ITEM_LIST, STREAMS, TOOL, echoed
from gateway.surfaces.missing import PREVIOUS_RESPONSE
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import (
    MEDIA,
    PLAIN,
    REPLAYED,
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

_ID: Final = Id(Kind.RESPONSE, Role.REF)
_CONVERSATION: Final = Id(Kind.CONVERSATION, Role.REF)

_CONTEXT: Final[dict[str, Spec]] = {
    "model": models.NAMED,
    "previous_response_id": Id(Kind.RESPONSE, Role.REF, PREVIOUS_RESPONSE),
    "conversation": Either(_CONVERSATION, Obj({"id": _CONVERSATION})),
    "tools": Each(TOOL),
    "text": Obj({"format": USER}),
    "metadata": USER,
    "prompt": Obj({"id": Id(Kind.PROMPT, Role.REF), "variables": Obj({}, rest=Either(USER, CONTENT))}),
    "prompt_cache_key": Hashed("prompt_cache_key"),
    "safety_identifier": Hashed("safety_identifier"),
    "user": Hashed("user"),
    "prompt_cache_options": Obj({"comparison_response_id": Id(Kind.RESPONSE, Role.SOFT, nowhere=True)}),
}
"""What a request says and an answer repeats."""

CREATE: Final = Obj(
    {
        **_CONTEXT,
        "input": Either(USER, Each(ITEM)),
        "instructions": Either(USER, Each(ITEM)),
        "background_options": Obj({"continuation_id": Hashed("continuation_id")}),
        "include": PLAIN,
    }
)

RESPONSE: Final = Obj(
    {
        **{name: echoed(spec) for name, spec in _CONTEXT.items()},
        "id": Id(Kind.RESPONSE, Role.OWN),
        "object": PLAIN,
        "output": Each(ITEM),
        "output_text": SPEECH,
        "instructions": Either(USER, Each(ECHOED_ITEM)),
        "input_transformations": Each(Obj({"id": Id(Kind.ITEM, Role.REF)})),
        "background_options": Obj({"continuation_id": Hashed("continuation_id")}),
    }
)

_ITEM_ID: Final = Id(Kind.ITEM, Role.REF)
"""The item was minted by the event that added it; every other event only names it."""

_EVENT: Final[dict[str, Spec]] = {
    "type": PLAIN,
    "item_id": _ITEM_ID,
    "response_id": _ID,
    "call_id": PLAIN,
    "stream_id": PLAIN,
    "obfuscation": MEDIA,
}


def _event(**fields: Spec) -> Obj:
    return Obj({**_EVENT, **fields})


_SPOKEN: Final = _event(delta=SPEECH, text=SPEECH, logprobs=SPEECH)
_ARGUED: Final = _event(delta=SPEECH, arguments=SPEECH, name=USER)
# A piece may end within an ID, so none is looked for by its shape there.
_CODED: Final = _event(delta=SPEECH, code=REPLAYED)
_STATE: Final = _event(response=RESPONSE)
_ITEM: Final = _event(item=ITEM)
_PART: Final = _event(part=CONTENT)

_STEPS: Final = {
    "web_search_call": ("searching",),
    "file_search_call": ("searching",),
    "code_interpreter_call": ("interpreting",),
    "image_generation_call": ("generating",),
    "mcp_call": ("failed",),
    "mcp_list_tools": ("failed",),
}
"""What a call of the service's own tools goes through; these events hold nothing but the item's ID."""

EVENT: Final = Typed(
    {
        **{
            f"response.{state}": _STATE
            for state in ("created", "queued", "in_progress", "completed", "incomplete", "failed", "cancelled")
        },
        "response.output_item.added": _ITEM,
        "response.output_item.done": _ITEM,
        "response.content_part.added": _PART,
        "response.content_part.done": _PART,
        "response.reasoning_summary_part.added": _PART,
        "response.reasoning_summary_part.done": _PART,
        "response.output_text.annotation.added": _event(annotation=ANNOTATION),
        **{
            f"response.{spoken}.{step}": _SPOKEN
            for spoken in ("output_text", "reasoning_text", "reasoning_summary_text", "audio.transcript")
            for step in ("delta", "done")
        },
        "response.refusal.delta": _event(delta=SPEECH),
        "response.refusal.done": _event(refusal=SPEECH),
        **{
            f"response.{argued}.{step}": _ARGUED
            for argued in ("function_call_arguments", "mcp_call_arguments")
            for step in ("delta", "done")
        },
        "response.custom_tool_call_input.delta": _event(delta=SPEECH),
        "response.custom_tool_call_input.done": _event(input=SPEECH),
        "response.code_interpreter_call_code.delta": _CODED,
        "response.code_interpreter_call_code.done": _CODED,
        "response.shell_call_command.added": _event(command=SPEECH),
        "response.shell_call_command.delta": _event(delta=SPEECH),
        "response.shell_call_command.done": _event(command=SPEECH),
        "response.shell_call_output_content.delta": _event(
            delta=Obj({"stdout": SPEECH, "stderr": SPEECH, "outcome": Obj({"type": PLAIN})})
        ),
        "response.shell_call_output_content.done": _event(output=Each(STREAMS)),
        "response.apply_patch_call_operation_diff.delta": _event(delta=SPEECH),
        "response.apply_patch_call_operation_diff.done": _event(diff=SPEECH),
        "response.audio.delta": _event(delta=MEDIA),
        "response.audio.done": _event(),
        "response.image_generation_call.partial_image": _event(partial_image_b64=MEDIA),
        "response.compaction.compacting": _event(),
        **{
            f"response.{call}.{step}": _event()
            for call, steps in _STEPS.items()
            for step in ("in_progress", *steps, "completed")
        },
        "error": _event(),
    },
    other=_event(),
)

_INCLUDE: Final[dict[str, Spec]] = {"include": PLAIN, "beta": PLAIN}

_PAGE: Final[dict[str, Spec]] = {"after": Id(Kind.ITEM, Role.REF), "limit": PLAIN, "order": PLAIN, **_INCLUDE}

ROUTES: Final = (
    Route(
        "responses.create",
        "POST",
        "/responses",
        "creates a response, continues one, or adds to a conversation",
        RESPONSE,
        Body.JSON,
        CREATE,
        events=EVENT,
        creates=Kind.RESPONSE,
        query={"beta": PLAIN},
        idempotent=True,
        refetch="responses.retrieve",
        names_user=True,
    ),
    Route(
        "responses.compact",
        "POST",
        "/responses/compact",
        "compacts a context into items to replay",
        Obj({"id": Id(Kind.RESPONSE, Role.OWN), "object": PLAIN, "output": Each(ITEM)}),
        Body.JSON,
        CREATE,
        creates=Kind.RESPONSE,
        query={"beta": PLAIN},
        idempotent=True,
    ),
    Route(
        "responses.input_tokens",
        "POST",
        "/responses/input_tokens",
        "counts the tokens of an input",
        Obj({}),
        Body.OPTIONAL_JSON,
        CREATE,
        query={"beta": PLAIN},
    ),
    Route(
        "responses.retrieve",
        "GET",
        "/responses/{response_id}",
        "retrieves a response, or resumes its stream",
        RESPONSE,
        path_ids={"response_id": _ID},
        events=EVENT,
        query={**_INCLUDE, "include_obfuscation": PLAIN, "stream": PLAIN, "starting_after": PLAIN},
    ),
    Route(
        "responses.delete",
        "DELETE",
        "/responses/{response_id}",
        "deletes a response",
        Obj({"id": _ID, "object": PLAIN}),
        path_ids={"response_id": _ID},
        deletes="response_id",
        query={"beta": PLAIN},
    ),
    Route(
        "responses.cancel",
        "POST",
        "/responses/{response_id}/cancel",
        "cancels a background response",
        RESPONSE,
        Body.OPTIONAL_JSON,
        Obj({}),
        {"response_id": _ID},
        query={"beta": PLAIN},
    ),
    Route(
        "responses.input_items",
        "GET",
        "/responses/{response_id}/input_items",
        "lists a response's input items",
        ITEM_LIST,
        path_ids={"response_id": _ID},
        query=_PAGE,
    ),
)
