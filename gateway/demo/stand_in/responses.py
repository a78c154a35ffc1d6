"""The endpoints under /v1/responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request, StreamAnswer, page
from gateway.demo.stand_in.fidelity import oddities
from gateway.demo.stand_in.hosted_items import compaction
from gateway.demo.stand_in.inputs import as_items, check_attachments, check_order, check_tokens, resolve
from gateway.demo.stand_in.items import outputs
from gateway.demo.stand_in.messages import user_texts
from gateway.demo.stand_in.outputs import Json, Output, Turn
from gateway.demo.stand_in.provider import Conversation, Provider, StoredResponse
from gateway.demo.stand_in.streaming import events, snapshot

_ENDED = frozenset({"completed", "failed", "incomplete", "cancelled"})


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/responses`."""
    body = request.json()
    if body.get("background") and body.get("store") is False:
        raise failures.Failure(400, "Background mode requires store=true.", param="store")
    stored = _respond(provider, request, body)
    provider.responses[stored.id] = stored
    if body.get("stream"):
        return _stream(provider, stored, -1)
    if stored.background:
        return JsonAnswer(snapshot(stored, "queued"), headers=_poll_header())
    return JsonAnswer(
        stored.body,
        before_send=lambda: provider.finish(stored),
        abandoned=lambda: provider.abandon(stored),
    )


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/responses/{id}`; each read brings a background response one step further."""
    stored = provider.response(request.path_ids[0])
    if request.flag("stream"):
        return _stream(provider, stored, request.number("starting_after", -1))
    if stored.background and stored.status not in _ENDED:
        stored.polls += 1
        if stored.polls < stored.script.count("polls", provider.options.background_polls):
            stored.status = "in_progress"
            return JsonAnswer(snapshot(stored, "in_progress"), headers=_poll_header())
        provider.finish(stored)
    shown = snapshot(stored, stored.status)
    return JsonAnswer({**shown, "output": provider.reveal(shown["output"], request.query.get("include", []))})


def delete(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/responses/{id}`."""
    stored = provider.response(request.path_ids[0])
    provider.release(stored)
    del provider.responses[stored.id]
    provider.forget(stored.id)
    return JsonAnswer({"id": stored.id, "object": "response", "deleted": True})


def cancel(provider: Provider, request: Request) -> Answer:
    """`POST /v1/responses/{id}/cancel`; a response that has ended stays as it is."""
    stored = provider.response(request.path_ids[0])
    if not stored.background:
        raise failures.not_cancellable(stored.id)
    if stored.status not in _ENDED:
        stored.status = "cancelled"
        provider.release(stored)
    return JsonAnswer(snapshot(stored, stored.status))


def input_items(provider: Provider, request: Request) -> Answer:
    """`GET /v1/responses/{id}/input_items`, newest first unless told."""
    items = provider.response(request.path_ids[0]).input_items
    return JsonAnswer(page(provider.reveal(items, request.query.get("include", [])), request))


def compact(provider: Provider, request: Request) -> Answer:
    """`POST /v1/responses/compact`: the user's messages and one sealed item for the rest."""
    body = request.json()
    turn = _turn(provider, request, body)
    made = [compaction(turn)]
    kept = [item for item in turn.context if item.get("role") == "user"]
    raw = turn.new_id("resp_", "response.id")
    return JsonAnswer(
        {
            "id": raw,
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": [*kept, *(output.item for output in made)],
            "usage": _usage(turn, made),
        }
    )


def input_tokens(provider: Provider, request: Request) -> Answer:
    """`POST /v1/responses/input_tokens`."""
    turn = _turn(provider, request, request.json())
    return JsonAnswer({"object": "response.input_tokens", "input_tokens": _usage(turn, [])["input_tokens"]})


def _respond(provider: Provider, request: Request, body: Json) -> StoredResponse:
    model = body.get("model")
    if not isinstance(model, str) and "prompt" not in body:
        raise failures.missing("model")
    if isinstance(model, str) and (
        model == "no-such-model" or (model.startswith("ft:") and model not in provider.models)
    ):
        raise failures.model_not_found(model, provider.project)
    check_tokens(body)
    turn = _turn(provider, request, body)
    conversation = _conversation_of(provider, body)
    if conversation is not None and conversation.locked:
        raise failures.conversation_locked(conversation.id)
    made = outputs(turn)
    provider.hidden |= {str(output.item["id"]): output.hidden for output in made if output.hidden}
    if conversation is not None:
        conversation.locked = True
    final = _body(provider, turn, made, conversation)
    shown = turn.context if provider.options.chained_input_items else turn.new_items
    return StoredResponse(
        body=final,
        status="queued" if body.get("background") else "in_progress",
        outputs=made,
        input_items=shown,
        new_items=turn.new_items,
        history=[*turn.context, *final["output"]],
        lineage=turn.lineage,
        script=turn.script,
        stored=body.get("store") is not False,
        background=bool(body.get("background")),
        conversation=conversation.id if conversation else None,
    )


def _turn(provider: Provider, request: Request, body: Json) -> Turn:
    """Checks the request's references and gathers what the model sees. Raises `Failure`."""
    previous, conversation = body.get("previous_response_id"), _conversation_of(provider, body)
    before: list[Json] = []
    lineage = provider.ids.lineage()
    if previous is not None:
        if conversation is not None:
            raise failures.conversation_and_previous()
        found = provider.responses.get(previous) if isinstance(previous, str) else None
        if found is None or not found.stored or found.status not in _ENDED:
            raise failures.previous_response_not_found(str(previous))
        before, lineage = found.history, found.lineage
    elif conversation is not None:
        before, lineage = conversation.items, conversation.lineage
    check_attachments(provider, body.get("tools"))
    new = resolve(provider, as_items(body.get("input", []), "input"), before, lineage, "input")
    context = [*before, *new]
    check_order(provider, new, context)
    return Turn(
        ids=provider.ids,
        sealer=provider.sealer,
        lineage=lineage,
        response_id=provider.ids.new("resp_", lineage, place="response.id"),
        body=body,
        context=context,
        new_items=new,
        script=request.script,
    )


def _conversation_of(provider: Provider, body: Json) -> Conversation | None:
    named: Any = body.get("conversation")
    if isinstance(named, dict):
        named = named.get("id")
    return None if named is None else provider.conversation(str(named))


def _stream(provider: Provider, stored: StoredResponse, starting_after: int) -> StreamAnswer:
    def later() -> Iterator[Json]:
        for event in events(stored, provider.ids):
            if event["sequence_number"] > starting_after:
                yield event

    return StreamAnswer(
        later(), before_last=lambda: provider.finish(stored), abandoned=lambda: provider.abandon(stored)
    )


def _poll_header() -> dict[str, str]:
    return {"openai-poll-after-ms": "20"}


def _usage(turn: Turn, made: list[Output]) -> Json:
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


def _body(provider: Provider, turn: Turn, made: list[Output], conversation: Conversation | None) -> Json:
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
        "usage": _usage(turn, made),
        "user": body.get("user"),
        "metadata": body.get("metadata") or {},
    }
    if conversation is not None:
        final["conversation"] = {"id": conversation.id}
    if "prompt" in body:
        final["prompt"] = body["prompt"]
    if "continuation_id" in (body.get("background_options") or {}):
        final["background_options"] = body["background_options"]
    if "numbers" in turn.script:
        final |= oddities(extreme=turn.script.text("numbers") == "extreme")
    return {**final, **_cache(provider, turn), **_ending(turn, provider)}
