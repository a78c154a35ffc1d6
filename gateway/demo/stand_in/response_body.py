"""The response object as it ends: every field that the real service writes, with its echoes of the request."""

from __future__ import annotations

import json
import time
from typing import Any

from gateway.demo.stand_in.fidelity import oddities
from gateway.demo.stand_in.messages import user_texts
from gateway.demo.stand_in.outputs import Json, Output, Turn
from gateway.demo.stand_in.provider import Conversation, Provider


def usage(turn: Turn, made: list[Output]) -> Json:
    def tokens(value: Any) -> int:
        return len(json.dumps(value)) // 4 + 1

    sent, written = tokens(turn.context), sum(tokens(output.item) for output in made)
    thought = sum(tokens(output.item) for output in made if output.item["type"] == "reasoning")
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": sent + written,
    }


def _echoed_tool(tool: Json) -> Json:
    if tool.get("type") == "mcp":
        hidden = {key: "<redacted>" for key in ("authorization", "headers") if tool.get(key)}
        return {"require_approval": "always", **tool, **hidden}
    if tool.get("type") == "file_search":
        return {"filters": None, "max_num_results": 20, **tool}
    if tool.get("type") == "function":
        return {"description": None, "strict": True, **tool}
    return tool


def _instructions(turn: Turn) -> Any:
    """What the client wrote, or the items of a stored prompt, which come with IDs of their own."""
    if "prompt" not in turn.body:
        return turn.body.get("instructions")
    part = {"type": "input_text", "text": "You look after coats."}
    raw = turn.new_id("msg_", "instructions[].id")
    return [{"id": raw, "type": "message", "role": "developer", "content": [part]}]


def _ending(turn: Turn, provider: Provider) -> Json:
    if "failed" in turn.script:
        text = f"The model failed on {turn.response_id} of {provider.organization}."
        return {"status": "failed", "error": {"code": "server_error", "message": text}}
    if "incomplete" in turn.script:
        return {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return {"status": "completed", "completed_at": int(time.time())}


def _cache(provider: Provider, turn: Turn) -> Json:
    """The prompt cache fields; comparing with a response works for the whole organization, as in the real service."""
    options = turn.body.get("prompt_cache_options")
    if not isinstance(options, dict):
        return {}
    answer: Json = {"prompt_cache_options": {"mode": "implicit", "ttl": "30m", **options}}
    compared = options.get("comparison_response_id")
    if compared is not None:
        known = compared in provider.responses
        answer["prompt_cache_diagnostics"] = (
            {
                "type": "cache_miss",
                "reason": "input_changed",
                "cache_missed_tokens": 12,
                "comparison_reusable_tokens": len(user_texts(turn)),
            }
            if known
            else {"type": "comparison_response_not_found"}
        )
    return answer


def ending_body(provider: Provider, turn: Turn, made: list[Output], conversation: Conversation | None) -> Json:
    """The response object as it ends, with every field that the real service writes."""
    body = turn.body
    safety = body.get("safety_identifier")
    final: Json = {
        "id": turn.response_id,
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "background": bool(body.get("background")),
        "billing": {"payer": "developer"},
        "completed_at": None,
        "error": None,
        "frequency_penalty": 0.0,
        "incomplete_details": None,
        "instructions": _instructions(turn),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "model": body.get("model") or "gpt-5",
        "output": [output.item for output in made],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "presence_penalty": 0.0,
        "previous_response_id": body.get("previous_response_id"),
        "prompt_cache_key": body.get("prompt_cache_key"),
        "prompt_cache_retention": body.get("prompt_cache_retention"),
        "reasoning": body.get("reasoning") or {"effort": None, "summary": None},
        "safety_identifier": safety,
        "service_tier": "default",
        "store": body.get("store") is not False,
        "temperature": body.get("temperature", 1.0),
        "text": {"format": {"type": "text"}, "verbosity": "medium", **(body.get("text") or {})},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": [_echoed_tool(tool) for tool in body.get("tools") or []],
        "top_logprobs": body.get("top_logprobs", 0),
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation", "disabled"),
        "usage": usage(turn, made),
        "user": body.get("user"),
        "metadata": body.get("metadata") or {},
    }
    if conversation is not None:
        final["conversation"] = {"id": conversation.id}
        if "conversation_id" in turn.script:
            final["conversation_id"] = conversation.id
    if "prompt" in body:
        final["prompt"] = body["prompt"]
    if "continuation_id" in (body.get("background_options") or {}):
        final["background_options"] = body["background_options"]
    if "numbers" in turn.script:
        final |= oddities(extreme=turn.script.text("numbers") == "extreme")
    return {**final, **_cache(provider, turn), **_ending(turn, provider)}
