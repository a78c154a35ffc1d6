"""What the upstreams of the benchmark answer: one Responses object of 4.3 KB, and one stream of 208 events.

`UNIQUE` stands where each answer has 32 hexadecimal digits of its own, so that every create makes objects never seen before,
as with the real service: a response, a reasoning item and a message, with IDs of the length that the service gives.
"""

from __future__ import annotations

import json
from typing import Any, Final

UNIQUE: Final = "~" * 32
MODEL: Final = "gpt-5"
DELTAS: Final = 198
EVENTS: Final = DELTAS + 10

_PROSE: Final = (
    "A coat left at the door is given a token, and the token says nothing of the coat, of the hook that it hangs on, or of "
    "the person who left it there. Whoever finds the token in the street learns that somebody, somewhere, has a coat. The "
    "attendant keeps the one list that joins the two, and hands a coat over only to the person who brought it. "
)
_TEXT: Final = _PROSE * 7


def _id(prefix: str, lineage: int) -> str:
    """A raw ID: prefix, 18 digits that all answers share, 32 of this answer."""
    return f"{prefix}_{lineage:018x}{UNIQUE}"


_RESPONSE: Final = _id("resp", 0x68A0B1C2D3E4F50061)
_REASONING: Final = _id("rs", 0x68A0B1C2D3E4F50062)
_MESSAGE: Final = _id("msg", 0x68A0B1C2D3E4F50063)


def _summary() -> dict[str, Any]:
    return {"type": "summary_text", "text": _PROSE}


def _reasoning() -> dict[str, Any]:
    return {"id": _REASONING, "type": "reasoning", "status": None, "encrypted_content": None, "summary": [_summary()]}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _message(status: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": _MESSAGE, "type": "message", "status": status, "role": "assistant", "content": list(parts)}


def _response(status: str, *output: dict[str, Any]) -> dict[str, Any]:
    usage = {
        "input_tokens": 412, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 655,
        "output_tokens_details": {"reasoning_tokens": 64}, "total_tokens": 1067,
    }  # fmt: skip
    return {
        "id": _RESPONSE, "object": "response", "created_at": 1_780_000_000, "status": status, "background": False,
        "billing": {"payer": "developer"}, "error": None, "incomplete_details": None, "instructions": None,
        "max_output_tokens": None, "max_tool_calls": None, "model": MODEL, "output": list(output),
        "parallel_tool_calls": True, "previous_response_id": None, "prompt_cache_key": None,
        "reasoning": {"effort": "medium", "summary": "detailed"}, "safety_identifier": None, "service_tier": "default",
        "store": True, "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled",
        "usage": usage if status == "completed" else None, "user": None, "metadata": {},
    }  # fmt: skip


def json_answer() -> str:
    """The answer in one piece."""
    return json.dumps(_response("completed", _reasoning(), _message("completed", _part(_TEXT))))


def stream_events() -> tuple[bytes, ...]:
    """The events of the answer as a stream, in the order of the service."""
    words = _TEXT.split(" ")[:DELTAS]
    said = "".join(f"{word} " for word in words)
    at: dict[str, Any] = {"item_id": _MESSAGE, "output_index": 1, "content_index": 0}
    deltas = [
        ("output_text.delta", {**at, "delta": f"{word} ", "logprobs": [], "obfuscation": "x" * (16 - len(word))})
        for word in words
    ]
    rows: list[tuple[str, dict[str, Any]]] = [
        ("created", {"response": _response("in_progress")}),
        ("in_progress", {"response": _response("in_progress")}),
        ("output_item.added", {"output_index": 0, "item": _reasoning() | {"summary": []}}),
        ("output_item.done", {"output_index": 0, "item": _reasoning()}),
        ("output_item.added", {"output_index": 1, "item": _message("in_progress")}),
        ("content_part.added", {**at, "part": _part("")}),
        *deltas,
        ("output_text.done", {**at, "text": said, "logprobs": []}),
        ("content_part.done", {**at, "part": _part(said)}),
        ("output_item.done", {"output_index": 1, "item": _message("completed", _part(said))}),
        ("completed", {"response": _response("completed", _reasoning(), _message("completed", _part(said)))}),
    ]
    return tuple(_event(f"response.{name}", number, data) for number, (name, data) in enumerate(rows))


def _event(name: str, number: int, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, 'sequence_number': number, **data})}\n\n".encode()
