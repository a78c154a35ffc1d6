"""Input items: brought into their stored form, and checked as strictly as the real service checks them."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.outputs import Json, strings_under
from gateway.demo.stand_in.provider import Provider
from gateway.demo.stand_in.raw_ids import IdStyle

PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fc",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctc",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "computer_call": "cu",
    "computer_call_output": "cu",
    "local_shell_call": "lsh",
    "local_shell_call_output": "lsh",
    "shell_call": "sh",
    "shell_call_output": "sh",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apc",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "compaction": "cmp",
    "program": "prog",
    "program_output": "prog",
    "additional_tools": "at",
}
"""Item type → what its ID must begin with."""

_MADE = {
    "function_call_output": "fco",
    "custom_tool_call_output": "ctco",
    "computer_call_output": "cuo",
    "local_shell_call_output": "lsho",
    "shell_call_output": "sho",
    "apply_patch_call_output": "apco",
    "program_output": "progo",
}
"""Item type → prefix of the ID that the service gives it, where it is longer than what it accepts."""

_PAYLOAD = {"reasoning": "encrypted_content", "compaction": "encrypted_content", "image_generation_call": "result"}
"""Items that are looked up by their ID unless they carry this field."""

_TOKENS = {"prompt_cache_key": 64, "safety_identifier": 64}
"""The client's own tokens → most characters."""

_MOST_METADATA, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512
_ATTACHED: tuple[tuple[tuple[str, ...], Callable[[str], failures.Failure]], ...] = (
    (("file_id", "file_ids"), failures.file_not_found),
    (("vector_store_ids",), failures.vector_store_not_found),
    (("skill_id",), failures.skill_not_found),
    (("tunnel_id",), failures.tunnel_not_found),
    (("container", "container_id"), failures.container_not_found),
)
"""Keys under which an ID of something attached stands, and the failure where it does not exist."""

_ALLOWED = re.compile(r"[A-Za-z0-9_-]+")
_MAX_ID_CHARACTERS = 64


def as_items(value: Any, place: str) -> list[Json]:
    """`input` or `items` as a list of items that have a type. Raises `Failure` on other shapes."""
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    if not isinstance(value, list):
        raise failures.wrong_type(place, "one of an array of objects or string")
    items: list[Json] = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise failures.wrong_type(f"{place}[{index}]", "an object")
        kind = item.get("type") or ("message" if "role" in item else "item_reference" if "id" in item else "")
        if not kind:
            raise failures.missing(f"{place}[{index}].type")
        items.append({**item, "type": kind})
    return items


def resolve(provider: Provider, items: list[Json], before: list[Json], lineage: str, place: str) -> list[Json]:
    """The items as they are stored: references replaced, every item with an ID. `before` is what the model saw already.

    Raises `Failure` where the real service refuses: unknown, malformed or repeated IDs, edited blobs, unknown files.
    """
    made: list[Json] = []
    seen = {item.get("id") for item in before}
    for index, item in enumerate(items):
        raw = item.get("id")
        if raw is not None:
            _check_form(provider, f"{place}[{index}].id", item, raw)
        call_id = item.get("call_id")
        if isinstance(call_id, str) and not 1 <= len(call_id) <= _MAX_ID_CHARACTERS:
            raise failures.too_long(f"{place}[{index}].call_id", len(call_id))
        resolved = _resolve(provider, item, raw, lineage)
        if raw is not None and resolved["id"] in seen:
            raise failures.duplicate_item(str(raw))
        seen.add(resolved["id"])
        made.append(resolved)
    check_attachments(provider, items)
    return made


def _check_form(provider: Provider, place: str, item: Json, raw: Any) -> None:
    if not isinstance(raw, str):
        raise failures.wrong_type(place, "a string")
    if len(raw) > _MAX_ID_CHARACTERS:
        raise failures.too_long(place, len(raw))
    if not _ALLOWED.fullmatch(raw):
        raise failures.wrong_characters(place, raw)
    expected = PREFIXES.get(str(item["type"]))
    if expected and provider.ids.style is not IdStyle.BARE and not raw.startswith(expected):
        raise failures.wrong_prefix(place, raw, expected)


def _resolve(provider: Provider, item: Json, raw: str | None, lineage: str) -> Json:
    kind = str(item["type"])
    known = provider.items.get(raw) if raw else None
    if kind == "item_reference":
        if known is None:
            raise failures.item_not_found(str(raw))
        return known.item
    payload = _PAYLOAD.get(kind)
    if payload and raw and not item.get(payload):
        if known is None:
            raise failures.item_not_found(raw, persisted_hint=True)
        return known.item
    blob = item.get("encrypted_content")
    if blob is not None and not (isinstance(blob, str) and provider.sealer.genuine(blob)):
        raise failures.bad_encrypted_content(str(raw), str(blob), provider.organization)
    if known is None and not (raw and kind == "mcp_approval_request"):  # whose answer, in the same input, names it
        prefix = _MADE.get(kind) or PREFIXES.get(kind, "item")
        item = {**item, "id": provider.ids.new(f"{prefix}_", lineage, place="input item")}
    return {**item, "content": _content(item), "status": "completed"} if kind == "message" else item


def _content(item: Json) -> Any:
    content = item.get("content")
    if not isinstance(content, str):
        return content
    if item.get("role") == "assistant":
        return [{"type": "output_text", "text": content, "annotations": [], "logprobs": []}]
    return [{"type": "input_text", "text": content}]


def check_attachments(provider: Provider, value: Any) -> None:
    """Every file, vector store, skill and container that a request names must exist. Raises `Failure`."""
    for keys, failure in _ATTACHED:
        for raw in strings_under(value, *keys):
            if raw not in provider.ids.attachable:
                raise failure(raw)
            if raw in provider.containers and provider.containers[raw].body["status"] == "expired":
                raise failures.container_expired()


def check_model(provider: Provider, body: Json) -> None:
    """The model must be named and be there. Raises `Failure`."""
    model = body.get("model")
    if not isinstance(model, str):
        raise failures.missing("model")
    if model == "no-such-model" or (model.startswith("ft:") and model not in provider.models):
        raise failures.model_not_found(model, provider.project)


def check_tokens(body: Json) -> None:
    """The limits of the tokens that clients choose, and of metadata. Raises `Failure`."""
    for name, most in _TOKENS.items():
        if isinstance(body.get(name), str) and len(body[name]) > most:
            raise failures.too_long(name, len(body[name]), most)
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict) or len(metadata) > _MOST_METADATA:
        raise failures.wrong_type("metadata", f"an object with at most {_MOST_METADATA} properties")
    for key, value in metadata.items():
        if len(key) > _LONGEST_KEY:
            raise failures.too_long("metadata", len(key), _LONGEST_KEY)
        if not isinstance(value, str):
            raise failures.wrong_type(f"metadata.{key}", "a string")
        if len(value) > _LONGEST_VALUE:
            raise failures.too_long(f"metadata.{key}", len(value), _LONGEST_VALUE)


def check_order(provider: Provider, new: list[Json], context: list[Json]) -> None:
    """The rules that bind items together: reasoning and what it led to, calls and their outputs, approvals."""
    for item, following in zip_longest(new, new[1:]):
        if item["type"] == "reasoning" and not _was_written_by_model(following):
            raise failures.reasoning_alone(str(item["id"]))
    present = {str(item.get("id")) for item in context}
    for item in new:
        known = provider.items.get(str(item["id"]))
        if known is not None and known.requires and known.requires not in present:
            raise failures.call_without_reasoning(str(item["id"]), str(item["type"]), known.requires)
    _check_calls(context)
    requests = {item["id"] for item in context if item["type"] == "mcp_approval_request"}
    for item in new:
        if item["type"] == "mcp_approval_response" and item.get("approval_request_id") not in requests:
            raise failures.approval_not_found(str(item.get("approval_request_id")))


def _was_written_by_model(item: Json | None) -> bool:
    if item is None or str(item["type"]).endswith("_output"):
        return False
    return item["type"] != "message" or item.get("role") == "assistant"


def _check_calls(context: list[Json]) -> None:
    """Every function call has its output and the other way round. A compaction item may stand for either."""
    if any(item["type"] == "compaction" for item in context):
        return
    for family in ("function_call", "custom_tool_call"):
        calls = {item["call_id"]: None for item in context if item["type"] == family}
        outputs = {item.get("call_id"): None for item in context if item["type"] == f"{family}_output"}
        for call_id in outputs:
            if call_id not in calls:
                raise failures.output_without_call(str(call_id))
        for call_id in calls:
            if call_id not in outputs:
                raise failures.call_without_output(str(call_id))
