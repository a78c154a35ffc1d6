"""What the SDK's tests ask with, and what they compare of the items that come and go."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from openai.types.responses import Response

MODEL = "gpt-5"
EVERYTHING: Any = [
    "code_interpreter_call.outputs",
    "file_search_call.results",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
]
FUNCTION: Any = {
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
WEATHER: Any = {"type": "function", **FUNCTION}


def ids_of(response: Response) -> list[list[str]]:
    """The IDs of each item and of what its annotations cite."""
    return [re.findall(r"\b[a-z]+[_-][0-9A-Za-z]{34}\b", json.dumps(item.to_dict())) for item in response.output]


def answers_to(output: list[Any]) -> Iterator[dict[str, Any]]:
    """What a client sends back for the calls that it has carried out."""
    for item in output:
        match item["type"]:
            case "function_call" | "custom_tool_call" | "local_shell_call":
                yield {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "done"}
            case "apply_patch_call":
                yield {"type": "apply_patch_call_output", "call_id": item["call_id"], "status": "completed"}
            case "computer_call":
                yield {
                    "type": "computer_call_output",
                    "call_id": item["call_id"],
                    "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"},
                    "acknowledged_safety_checks": item["pending_safety_checks"],
                }


SPOKEN = frozenset({"text", "logprobs", "index", "start_index", "end_index"})
"""What the model says goes back as the client has read it, and so do positions in it."""


def unspoken(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unspoken(member) for key, member in value.items() if key not in SPOKEN}
    return [unspoken(element) for element in value] if isinstance(value, list) else value


def layout(value: Any) -> Any:
    """A JSON value's keys in their order, without what stands under them."""
    if isinstance(value, dict):
        return [(key, layout(member)) for key, member in value.items()]
    return [layout(element) for element in value] if isinstance(value, list) else None
