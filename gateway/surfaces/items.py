"""Items, their content, and tools: where IDs stand in each type, for requests, answers and events alike.

Source: the `openai` package's `ResponseInputItemParam`, `ResponseOutputItem`, `ResponseItem`, `ConversationItem` and
`ToolParam` unions, and what recorded traffic shows beyond them (`vector_store_id` in file search results).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.names import Kind
from gateway.surfaces.missing import INPUT_ITEM
from gateway.surfaces.spec import (
    BLOB,
    LABEL,
    MEDIA,
    PLAIN,
    REPLAYED,
    SECRET,
    SPEECH,
    UNKNOWN,
    USER,
    Each,
    Either,
    Id,
    Obj,
    Role,
    Spec,
    Typed,
)

_OWN: Final = Id(Kind.ITEM, Role.OWN, INPUT_ITEM)
_REFERENCE: Final = Id(Kind.ITEM, Role.REF, INPUT_ITEM)
# A call that was made says by whose leave; a history may outlive the request for approval, and the field is optional.
_APPROVED: Final = replace(_REFERENCE, correlates=True)
_APPROVED_BY: Final = Id(Kind.ITEM, Role.SOFT)
_FILE: Final = Id(Kind.FILE, Role.REF)
_FILES: Final = Each(_FILE)
_CITED_FILE: Final = Id(Kind.FILE, Role.MADE)
_CONTAINER: Final = Id(Kind.CONTAINER, Role.REF)
_USED_CONTAINER: Final = Id(Kind.CONTAINER, Role.MADE)

# `created_by` is not here: whoever it names, also by a word like `company-abc`, is made inert as an ID that no table knows.
_ITEM_FIELDS: Final[dict[str, Spec]] = {
    "id": _OWN,
    "type": PLAIN,
    "status": PLAIN,
    "call_id": PLAIN,
    "caller": Obj({"type": PLAIN, "caller_id": PLAIN}),
    "name": USER,
    "namespace": USER,
    "agent": USER,
    # Reasoning and compactions have one, and so may items that are not in this table.
    "encrypted_content": BLOB,
}


def _item(payload: tuple[str, ...] | None = None, **fields: Spec) -> Obj:
    return Obj({**_ITEM_FIELDS, **fields}, payload=payload)


ANNOTATION: Final = Typed(
    {
        "file_citation": Obj({"file_id": _CITED_FILE, "filename": LABEL}),
        "container_file_citation": Obj(
            {"container_id": _USED_CONTAINER, "file_id": Id(Kind.CONTAINER_FILE, Role.MADE), "filename": LABEL}
        ),
        "file_path": Obj({"file_id": _CITED_FILE}),
        "url_citation": Obj({"url": USER, "title": USER}),
    },
    other=Obj({}),
)

CONTENT: Final = Typed(
    {
        "input_text": Obj({"text": USER}),
        "text": Obj({"text": USER}),
        "output_text": Obj({"text": SPEECH, "annotations": Each(ANNOTATION), "logprobs": SPEECH}),
        "refusal": Obj({"refusal": SPEECH}),
        "summary_text": Obj({"text": SPEECH}),
        "reasoning_text": Obj({"text": SPEECH}),
        "input_image": Obj({"file_id": _FILE, "image_url": MEDIA}),
        "computer_screenshot": Obj({"file_id": _FILE, "image_url": MEDIA}),
        "input_file": Obj({"file_id": _FILE, "file_data": MEDIA, "file_url": USER, "filename": USER}),
        "input_audio": Obj({"input_audio": MEDIA}),
        "output_audio": Obj({"data": MEDIA, "transcript": SPEECH}),
        "encrypted_content": Obj({"encrypted_content": BLOB}),
    },
    other=Obj({"text": USER, "encrypted_content": BLOB}),
)

_OUTPUT: Final = Either(USER, Each(CONTENT))

NETWORK: Final = Obj({"allowed_domains": USER, "domain_secrets": SECRET})

SKILL: Final = Typed(
    {
        "skill_reference": Obj({"skill_id": Id(Kind.SKILL, Role.REF), "version": UNKNOWN}),
        "inline": Obj({"name": USER, "description": USER, "source": USER}),
    },
    other=Obj({}),
)

_TOOLS: Final[dict[str, Obj]] = {
    "function": Obj({"name": USER, "description": USER, "parameters": USER, "output_schema": USER}),
    "custom": Obj({"name": USER, "description": USER, "format": USER}),
    "file_search": Obj({"vector_store_ids": Each(Id(Kind.VECTOR_STORE, Role.REF)), "filters": USER}),
    **{
        dated: Obj({"user_location": USER, "filters": USER})
        for dated in (
            "web_search",
            "web_search_2025_08_26",
            "web_search_preview",
            "web_search_preview_2025_03_11",
        )
    },
    "mcp": Obj(
        {
            "tunnel_id": Id(Kind.TUNNEL, Role.REF),
            "connector_id": PLAIN,
            "server_label": USER,
            "server_url": USER,
            "server_description": USER,
            "authorization": SECRET,
            "headers": SECRET,
            "allowed_tools": USER,
            "require_approval": USER,
        }
    ),
    "code_interpreter": Obj({"container": Either(_CONTAINER, Obj({"file_ids": _FILES, "network_policy": NETWORK}))}),
    "image_generation": Obj({"input_image_mask": Obj({"file_id": _FILE, "image_url": MEDIA})}),
    "shell": Obj(
        {
            "environment": Typed(
                {
                    "container_auto": Obj({"file_ids": _FILES, "skills": Each(SKILL), "network_policy": NETWORK}),
                    "container_reference": Obj({"container_id": _CONTAINER}),
                    "local": Obj({"skills": USER}),
                },
                other=Obj({}),
            )
        }
    ),
    "tool_search": Obj({"description": USER, "parameters": USER}),
    **{bare: Obj({}) for bare in ("computer", "computer_use_preview", "local_shell", "apply_patch")},
    "programmatic_tool_calling": Obj({}),
}

_NESTED_TOOL: Final = Typed(_TOOLS, other=Obj({}))

TOOL: Final = Typed(
    {**_TOOLS, "namespace": Obj({"name": USER, "description": USER, "tools": Each(_NESTED_TOOL)})}, other=Obj({})
)

_MESSAGE: Final = _item(role=PLAIN, content=_OUTPUT)

# What the model wants done. Only what it says there itself is its speech: a member that is not listed is the service's.
_SEARCH: Final = Obj(
    {
        "type": PLAIN,
        "query": SPEECH,
        "queries": SPEECH,
        "url": USER,
        "pattern": SPEECH,
        "sources": Each(Obj({"type": PLAIN, "url": USER, "name": USER})),
    }
)
_CLICK: Final = Obj({"type": PLAIN, "text": SPEECH, "keys": SPEECH})
_EXEC: Final = Obj({"type": PLAIN, "command": SPEECH, "env": USER, "user": USER, "working_directory": USER})
_PATCH: Final = Obj({"type": PLAIN, "path": SPEECH, "diff": SPEECH})
STREAMS: Final = Obj({"stdout": REPLAYED, "stderr": REPLAYED, "outcome": Obj({"type": PLAIN})})

ITEMS: Final[dict[str, Obj]] = {
    "message": _MESSAGE,
    "file_search_call": _item(
        queries=SPEECH,
        results=Each(
            Obj(
                {
                    "file_id": _CITED_FILE,
                    "vector_store_id": Id(Kind.VECTOR_STORE, Role.MADE),
                    "filename": LABEL,
                    "attributes": USER,
                    "text": USER,
                }
            )
        ),
    ),
    "function_call": _item(arguments=SPEECH),
    "function_call_output": _item(output=_OUTPUT),
    "custom_tool_call": _item(input=SPEECH),
    "custom_tool_call_output": _item(output=_OUTPUT),
    "web_search_call": _item(action=_SEARCH),
    "computer_call": _item(
        action=_CLICK, actions=Each(_CLICK), pending_safety_checks=Each(Obj({"id": PLAIN, "message": SPEECH}))
    ),
    "computer_call_output": _item(
        output=Obj({"file_id": _FILE, "image_url": MEDIA}),
        acknowledged_safety_checks=Each(Obj({"id": PLAIN, "message": SPEECH})),
    ),
    "reasoning": _item(("encrypted_content",), summary=Each(CONTENT), content=Each(CONTENT)),
    "compaction": _item(("encrypted_content",)),
    "compaction_trigger": _item(),
    "image_generation_call": _item(("result",), result=MEDIA, revised_prompt=SPEECH, prompt=SPEECH),
    "code_interpreter_call": _item(
        code=REPLAYED,
        container_id=_USED_CONTAINER,
        outputs=Each(Typed({"logs": Obj({"logs": REPLAYED}), "image": Obj({"url": LABEL})}, other=Obj({}))),
    ),
    "local_shell_call": _item(action=_EXEC),
    # Its `id` is the call's: the service's own for some clients, the `call_…` token for others.
    "local_shell_call_output": _item(id=Id(Kind.ITEM, Role.OWN, INPUT_ITEM, passes="call_"), output=USER),
    "shell_call": _item(
        action=Obj({"commands": REPLAYED}),
        environment=Obj({"type": PLAIN, "container_id": _USED_CONTAINER, "skills": USER}),
    ),
    "shell_call_output": _item(output=Either(REPLAYED, Each(STREAMS))),
    "apply_patch_call": _item(operation=_PATCH),
    "apply_patch_call_output": _item(output=USER),
    "tool_search_call": _item(arguments=SPEECH, execution=PLAIN),
    "tool_search_output": _item(tools=Each(TOOL), execution=PLAIN),
    "additional_tools": _item(role=PLAIN, tools=Each(TOOL)),
    "configuration_update": _item(text=Obj({"format": USER}), tools=Each(TOOL)),
    "mcp_list_tools": _item(server_label=USER, tools=USER, error=USER),
    "mcp_approval_request": _item(server_label=USER, arguments=SPEECH),
    "mcp_approval_response": _item(approval_request_id=_APPROVED, reason=USER),
    "mcp_call": _item(server_label=USER, arguments=SPEECH, output=USER, error=USER, approval_request_id=_APPROVED_BY),
    "program": _item(code=REPLAYED, fingerprint=BLOB),
    "program_output": _item(result=REPLAYED, output=_OUTPUT),
    "agent_message": _item(author=USER, recipient=USER, content=_OUTPUT),
    "multi_agent_call": _item(arguments=SPEECH, action=PLAIN),
    "multi_agent_call_output": _item(output=_OUTPUT, action=PLAIN),
    "item_reference": Obj({"id": _OWN, "type": PLAIN}, payload=()),
}

ITEM: Final = Typed(
    ITEMS,
    other=_item(content=_OUTPUT, text=USER, arguments=SPEECH, output=_OUTPUT),
    # Without a type it is a message (told by its content) or, the type being optional there, an item reference.
    absent=replace(_MESSAGE, payload=("content",)),
)

_CURSOR: Final = Id(Kind.ITEM, Role.REF)

ITEM_LIST: Final = Obj({"object": PLAIN, "data": Each(ITEM), "first_id": _CURSOR, "last_id": _CURSOR})


def echoed(spec: Spec) -> Spec:
    """The same places where the service only repeats what was sent: nothing in them is minted."""
    match spec:
        case Id():
            return replace(spec, role=Role.REF)
        case Each():
            return Each(echoed(spec.of))
        case Obj():
            return replace(spec, fields={key: echoed(of) for key, of in spec.fields.items()}, rest=echoed(spec.rest))
        case Typed():
            table = {
                key: replace(of, fields={k: echoed(v) for k, v in of.fields.items()}) for key, of in spec.table.items()
            }
            other = replace(spec.other, fields={k: echoed(v) for k, v in spec.other.fields.items()})
            return Typed(table, other, spec.absent, spec.key)
        case Either():
            return Either(echoed(spec.text), echoed(spec.structure))
        case _:
            return spec


ECHOED_ITEM: Final = echoed(ITEM)
