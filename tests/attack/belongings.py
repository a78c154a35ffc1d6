"""What one caller owns, and for each type of the table an example in which the service finds nothing wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.admin.administration import AdminEvent
from gateway.ids.kinds import KINDS
from gateway.names import Kind, Owner, Visibility
from gateway.stores.contract import Mode
from gateway.surfaces.spec import Role
from tests.attack.house import Caller, House
from tests.attack.places import UNHEARD, Example, Place
from tests.attack.resources import delete_resources, fresh, gather_resources
from tests.forms import spelt, uploaded

MODEL = "gpt-5"


@dataclass(slots=True, eq=False)
class Belongings:
    """Opaque IDs of objects that `caller` made and may use."""

    caller: Caller
    response: str = ""
    its_item: str = ""
    """An input item of `response`."""
    conversation: str = ""
    items: dict[str, str] = field(default_factory=dict)
    """By type; all in `conversation`."""
    elsewhere: str = ""
    """An item of another conversation."""
    shelf: str = ""
    """A conversation to which items can be added."""
    talk: str = ""
    """A conversation that can be continued."""
    chat: str = ""
    """A stored chat completion."""
    said: str = ""
    """A message of `chat`."""
    upload: str = ""
    """An upload to which `part` was added, until it is used."""
    part: str = ""
    kinds: dict[Kind, str] = field(default_factory=dict)
    blob: str = ""
    deleted: dict[Kind, str] = field(default_factory=dict)

    @property
    def house(self) -> House:
        return self.caller.house


def gather(caller: Caller) -> Belongings:
    """Makes one of everything, by the means that every client has; kinds that no surface makes are recorded directly."""
    own = Belongings(caller)
    own.response = answer(caller)["id"]
    own.its_item = caller.ok("GET", f"/responses/{own.response}/input_items")["data"][0]["id"]
    own.talk, own.shelf = conversation(caller), conversation(caller)
    thought = answer(caller, input="[[script: reasoning]] think", include=["reasoning.encrypted_content"])
    own.blob = thought["output"][0]["encrypted_content"]
    _use_tools(own)
    own.kinds |= gather_resources(caller, own.kinds[Kind.FILE])
    own.chat = chat(caller, store=True)["id"]
    own.said = first_message(caller, own.chat)
    spoken = chat(caller, modalities=["text", "audio"], audio={"voice": "alloy", "format": "wav"})
    own.kinds[Kind.CHAT_AUDIO] = spoken["choices"][0]["message"]["audio"]["id"]
    for kind in Kind:
        if kind not in own.kinds and not KINDS[kind].served and not KINDS[kind].roots:
            own.kinds[kind] = _record(own, kind)
    own.conversation = conversation(caller)
    known = examples(own)
    of_items = [tag for tag in (*map(str, ITEM_TYPES), UNHEARD) if tag not in ("item_reference", "reasoning")]
    for batch in (of_items[:20], of_items[20:], ["reasoning"]):
        sent = [whole(tag, known) for tag in batch]
        made = caller.ok("POST", f"/conversations/{own.conversation}/items", {"items": sent})["data"]
        own.items |= {tag: item["id"] for tag, item in zip(batch, made, strict=True)}
    own.elsewhere = add_item(caller, conversation(caller))
    _delete(own)
    return own


def answer(caller: Caller, **more: Any) -> Any:
    return caller.ok("POST", "/responses", {"model": MODEL, "input": "hello", **more})


def chat(caller: Caller, **more: Any) -> Any:
    messages = [{"role": "user", "content": "hello"}, {"role": "user", "content": "and again"}]
    return caller.ok("POST", "/chat/completions", {"model": MODEL, "messages": messages, **more})


def first_message(caller: Caller, of: str) -> str:
    return str(caller.ok("GET", f"/chat/completions/{of}/messages")["data"][0]["id"])


def conversation(caller: Caller) -> str:
    return str(caller.ok("POST", "/conversations", {})["id"])


def add_item(caller: Caller, to: str) -> str:
    sent = {"items": [{"role": "user", "content": "hello"}]}
    return str(caller.ok("POST", f"/conversations/{to}/items", sent)["data"][0]["id"])


def file(caller: Caller) -> str:
    return str(caller.ok("POST", "/files", uploaded())["id"])


def upload(caller: Caller) -> str:
    """An upload of nothing, which can be completed with any of its parts or none."""
    sent = {"bytes": 0, "filename": "a", "mime_type": "text/plain", "purpose": "user_data"}
    return str(caller.ok("POST", "/uploads", sent)["id"])


def part(own: Belongings) -> str:
    """A part, of the upload that is completed next."""
    if not own.upload:
        own.upload = upload(own.caller)
        own.part = own.caller.ok("POST", f"/uploads/{own.upload}/parts", spelt({"data": b""}))["id"]
    return own.part


def _use_tools(own: Belongings) -> None:
    made = answer(
        own.caller,
        input="[[script: file_search, code_interpreter]] work",
        include=["file_search_call.results"],
    )
    search, code, message = made["output"]
    (result,), (cited,) = search["results"], message["content"][0]["annotations"]
    own.kinds = {
        Kind.FILE: result["file_id"],
        Kind.VECTOR_STORE: result["vector_store_id"],
        Kind.CONTAINER: code["container_id"],
        Kind.CONTAINER_FILE: cited["file_id"],
    }


def _record(own: Belongings, kind: Kind) -> str:
    """A record as a later version of the gateway would write it when it serves `kind`."""
    house, tenant = own.house, own.caller.tenant
    mapper = house.mapper(tenant)
    raw = house.stand_in.provider.new_attachment(KINDS[kind].canonical)
    owner = Owner("local", own.caller.subject)
    root = mapper.root(kind, raw, owner=owner, visibility=Visibility.PRIVATE, parent=b"", now=int(time.time()))

    async def write() -> None:
        async with house.deployment.admin.recorded(mapper.tenant, AdminEvent.ID_ADOPT) as recording:
            assert await recording.write(mapper.write_root(root, Mode.CREATE)) is None

    house.run(write())
    return mapper.to_opaque(kind, raw).text


def _delete(own: Belongings) -> None:
    response, gone = answer(own.caller)["id"], conversation(own.caller)
    item = add_item(own.caller, gone)
    own.caller.ok("DELETE", f"/responses/{response}")
    own.caller.ok("DELETE", f"/conversations/{gone}")
    chatted = chat(own.caller, store=True)["id"]
    message = first_message(own.caller, chatted)
    own.caller.ok("DELETE", f"/chat/completions/{chatted}")
    filed = file(own.caller)
    own.caller.ok("DELETE", f"/files/{filed}")
    own.deleted = {
        Kind.FILE: filed,
        Kind.RESPONSE: response,
        Kind.CONVERSATION: gone,
        Kind.ITEM: item,
        Kind.CHAT_COMPLETION: chatted,
        Kind.CHAT_MESSAGE: message,
        **delete_resources(own.caller, own.kinds[Kind.FILE]),
    }


def owned(place: Place, own: Belongings) -> str:
    """An ID of the caller's that the service takes at this place. What a success deletes is fresh each time."""
    caller, route = own.caller, place.route
    match place.spec.kind:
        case Kind.RESPONSE:
            if route.deletes:
                return str(answer(caller)["id"])
            if route.action == "responses.cancel":
                return str(answer(caller, background=True)["id"])
            return own.response
        case Kind.CONVERSATION:
            if route.deletes == place.name:
                return conversation(caller)
            if place.where == "body":
                return own.talk
            return own.shelf if route.action == "conversations.items.create" else own.conversation
        case Kind.CHAT_COMPLETION:
            return str(chat(caller, store=True)["id"]) if route.deletes else own.chat
        case Kind.CHAT_MESSAGE:
            return own.said
        case Kind.FILE if route.deletes == place.name:
            return file(caller)
        case Kind.UPLOAD:
            held, own.upload = own.upload or upload(caller), ""
            return held
        case Kind.UPLOAD_PART:
            return part(own)
        case Kind.ITEM:
            if place.where == "path":
                return add_item(caller, own.conversation) if route.deletes else own.items["message"]
            if place.where == "query":
                return own.its_item if "response_id" in route.path_ids else own.items["message"]
            if place.spec.role is not Role.OWN:
                return own.items["mcp_approval_request"]
            return own.items[{"item_reference": "message"}.get(tag := (place.tags or ["message"])[-1], tag)]
        case kind:
            return fresh(place, caller, own.kinds) or own.kinds[kind]


def whole(tag: str, known: Mapping[str | None, Example]) -> Any:
    """The example of a type with its payload."""
    example = dict(known[tag])
    payload = example.pop("payload", {})
    return {"type": tag, **example, **payload}


def around(tag: str, own: Belongings) -> tuple[list[Any], list[Any]]:
    """The items that must stand before and after one of this type in a request's input."""
    known = examples(own)
    match tag:
        case "reasoning":
            return [], [{"type": "message", "role": "assistant", "content": "so"}]
        case "function_call" | "custom_tool_call":
            return [], [whole(f"{tag}_output", known)]
        case "function_call_output" | "custom_tool_call_output":
            return [whole(tag.removesuffix("_output"), known)], []
        case "mcp_approval_response":
            return [{**whole("mcp_approval_request", known), "id": own.items["mcp_approval_request"]}], []
        case _:
            return [], []


def examples(own: Belongings) -> dict[str | None, Example]:
    """By type, of items, content, annotations, tools and whatever else the table tells by type. `payload` is what makes an
    item more than a reference to itself."""
    approval = {"approval_request_id": own.items["mcp_approval_request"]} if own.items else {}
    return {
        **ITEM_TYPES,
        "reasoning": {"summary": [], "payload": {"encrypted_content": own.blob}},
        "compaction": {"payload": {"encrypted_content": own.blob}},
        "program": {"call_id": "call_p", "code": "return 7", "fingerprint": own.blob},
        "mcp_approval_response": {"approve": False, **approval},
        **_OTHER_TYPES,
        None: {"role": "user", "payload": {"content": "hello"}},
        UNHEARD: {},
    }


_CALL = {"call_id": "call_1", "name": "fetch"}

ITEM_TYPES: dict[str | None, Example] = {
    "message": {"role": "user", "content": "hello"},
    "file_search_call": {"queries": ["coats"], "status": "completed"},
    "function_call": {**_CALL, "arguments": "{}"},
    "function_call_output": {"call_id": "call_1", "output": "7"},
    "custom_tool_call": {**_CALL, "input": "7"},
    "custom_tool_call_output": {"call_id": "call_1", "output": "7"},
    "web_search_call": {"status": "completed", "action": {"type": "search", "query": "coats"}},
    "computer_call": {"call_id": "call_1", "action": {"type": "wait"}, "pending_safety_checks": []},
    "computer_call_output": {"call_id": "call_1", "output": {"type": "computer_screenshot", "image_url": "data:,"}},
    "reasoning": {},
    "compaction": {},
    "compaction_trigger": {},
    "image_generation_call": {"status": "completed", "payload": {"result": "aGVsbG8="}},
    "code_interpreter_call": {"code": "print(7)", "outputs": None},
    "local_shell_call": {"call_id": "call_1", "action": {"type": "exec", "command": ["ls"], "env": {}}},
    "local_shell_call_output": {"output": "7"},
    "shell_call": {"call_id": "call_1", "action": {"commands": ["ls"]}},
    "shell_call_output": {"call_id": "call_1", "output": [{"stdout": "7", "stderr": ""}]},
    "apply_patch_call": {"call_id": "call_1", "operation": {"type": "delete_file", "path": "coat.txt"}},
    "apply_patch_call_output": {"call_id": "call_1", "status": "completed", "output": "done"},
    "tool_search_call": {"arguments": {}, "execution": "server"},
    "tool_search_output": {"tools": [], "execution": "server"},
    "additional_tools": {"role": "developer", "tools": []},
    "configuration_update": {"tools": []},
    "mcp_list_tools": {"server_label": "cloakroom", "tools": []},
    "mcp_approval_request": {"server_label": "cloakroom", "name": "fetch", "arguments": "{}"},
    "mcp_approval_response": {},
    "mcp_call": {"server_label": "cloakroom", "name": "fetch", "arguments": "{}"},
    "program": {},
    "program_output": {"call_id": "call_p", "result": "7"},
    "agent_message": {"author": "a", "recipient": "b", "content": "hello"},
    "multi_agent_call": {"call_id": "call_m", "arguments": "{}", "action": "spawn"},
    "multi_agent_call_output": {"call_id": "call_m", "output": "7", "action": "spawn"},
    "item_reference": {},
}

_OTHER_TYPES: dict[str | None, Example] = {
    # content
    "input_text": {"text": "hello"},
    "text": {"text": "hello"},
    "output_text": {"text": "hello"},
    "refusal": {"refusal": "no"},
    "summary_text": {"text": "so"},
    "reasoning_text": {"text": "so"},
    "input_image": {"detail": "auto"},
    "computer_screenshot": {},
    "input_file": {},
    "input_audio": {"input_audio": {"data": "aGVsbG8=", "format": "wav"}},
    "output_audio": {"data": "aGVsbG8=", "transcript": "hello"},
    "encrypted_content": {},
    "image_url": {"image_url": {"url": "https://example.org/7.png"}},
    "file": {},
    # annotations
    "file_citation": {"index": 0, "filename": "notes.txt"},
    "container_file_citation": {"start_index": 0, "end_index": 1, "filename": "notes.txt"},
    "file_path": {"index": 0},
    "url_citation": {"start_index": 0, "end_index": 1, "url": "https://example.org/", "title": "An example"},
    # outputs of code
    "logs": {"logs": "7"},
    "image": {"url": "https://example.org/7.png"},
    # tools, and what stands in them
    "function": {"name": "fetch", "parameters": {"type": "object"}},
    "custom": {"name": "fetch"},
    "file_search": {},
    "web_search": {},
    "mcp": {"server_label": "cloakroom", "require_approval": "never"},
    "code_interpreter": {},
    "image_generation": {},
    "shell": {},
    "tool_search": {},
    "apply_patch": {},
    "computer": {},
    "computer_use_preview": {"display_width": 800, "display_height": 600, "environment": "browser"},
    "local_shell": {},
    "programmatic_tool_calling": {},
    "web_search_2025_08_26": {},
    "web_search_preview": {},
    "web_search_preview_2025_03_11": {},
    "namespace": {"name": "coats", "description": "of coats"},
    # graders
    "string_check": {"name": "g", "operation": "eq"},
    "text_similarity": {"name": "g", "evaluation_metric": "bleu"},
    "python": {"name": "g", "source": "def grade(sample, item): return 1.0"},
    "score_model": {"name": "g", "input": []},
    "label_model": {"name": "g", "input": [], "labels": ["a"], "passing_labels": ["a"]},
    "multi": {"name": "g", "calculate_output": "g"},
    "container_auto": {},
    "container_reference": {},
    "local": {},
    "skill_reference": {},
    "inline": {"name": "fold", "description": "folds", "source": {"type": "base64", "data": "aGVsbG8="}},
}
