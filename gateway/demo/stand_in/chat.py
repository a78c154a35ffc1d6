"""The endpoints under /v1/chat/completions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request, StreamAnswer, page
from gateway.demo.stand_in.client_items import custom_tool, function_calls
from gateway.demo.stand_in.fidelity import oddities
from gateway.demo.stand_in.inputs import check_attachments, check_model, check_tokens
from gateway.demo.stand_in.messages import answer, text_of
from gateway.demo.stand_in.outputs import Json, Turn
from gateway.demo.stand_in.provider import Provider, StoredChat
from gateway.demo.stand_in.raw_ids import HEX, RawIds
from gateway.demo.stand_in.response_body import usage

_FLOOD_BYTES = 10_000
_AUDIO_LIVES_S = 3600


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/chat/completions`; kept only where the request says so."""
    body = request.json()
    check_model(provider, body)
    check_tokens(body)
    _check_messages(provider, body.get("messages"))
    turn = _turn(provider, request, body)
    completion = _completion(turn)
    kept = StoredChat({**completion, **_kept(turn)}, _listed(turn))

    def keep() -> None:
        if body.get("store") is True:
            provider.chats[kept.id] = kept

    if body.get("stream"):
        return StreamAnswer(_chunks(turn, completion), before_last=keep, done=True)
    return JsonAnswer(completion, before_send=keep)


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/chat/completions/{id}`."""
    return JsonAnswer(provider.chat(request.path_ids[0]).body)


def update(provider: Provider, request: Request) -> Answer:
    """`POST /v1/chat/completions/{id}`: replaces the metadata."""
    found, body = provider.chat(request.path_ids[0]), request.json()
    if "metadata" not in body:
        raise failures.missing("metadata")
    check_tokens(body)
    found.body = {**found.body, "metadata": body["metadata"] or {}}
    return JsonAnswer(found.body)


def delete(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/chat/completions/{id}`."""
    found = provider.chat(request.path_ids[0])
    del provider.chats[found.id]
    return JsonAnswer({"object": "chat.completion.deleted", "id": found.id, "deleted": True})


def list_messages(provider: Provider, request: Request) -> Answer:
    """`GET /v1/chat/completions/{id}/messages`, oldest first unless told."""
    return JsonAnswer(page(provider.chat(request.path_ids[0]).messages, request, "asc"))


def list_completions(provider: Provider, request: Request) -> Answer:
    """`GET /v1/chat/completions`: everybody's, as on the real service."""
    return JsonAnswer(page([kept.body for kept in provider.chats.values()], request, "asc"))


def _check_messages(provider: Provider, messages: Any) -> None:
    if not isinstance(messages, list):
        raise failures.missing("messages") if messages is None else failures.wrong_type("messages", "an array")
    called: set[object] = set()
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or "role" not in message:
            raise failures.missing(f"messages[{index}].role")
        called.update(call.get("id") for call in message.get("tool_calls") or [])
        if message["role"] == "tool" and message.get("tool_call_id") not in called:
            raise failures.output_without_call(str(message.get("tool_call_id")))
        audio = message.get("audio")
        if isinstance(audio, dict) and audio.get("id") not in provider.ids.attachable:
            raise failures.audio_not_found(str(audio.get("id")))
    check_attachments(provider, messages)


def _turn(provider: Provider, request: Request, body: Json) -> Turn:
    """The chat as a turn of the model: its tools and formats in the words of the Responses API."""
    tools = [{"type": tool.get("type"), **(tool.get(tool.get("type")) or {})} for tool in body.get("tools") or []]
    choice, wanted = body.get("tool_choice"), body.get("response_format") or {}
    items = [
        {"type": "function_call_output", "output": text_of(message)} if message["role"] == "tool" else message
        for message in body["messages"]
    ]
    return Turn(
        ids=provider.ids,
        sealer=provider.sealer,
        lineage=provider.ids.lineage(),
        response_id=provider.ids.new("chatcmpl-", place="chat.completion.id"),
        body={
            **body,
            "tools": tools,
            "tool_choice": choice.get("function") if isinstance(choice, dict) else choice,
            "text": {"format": {"type": wanted.get("type"), **(wanted.get("json_schema") or {})}},
        },
        context=items,
        new_items=items,
        script=request.script,
    )


def _completion(turn: Turn) -> Json:
    body = turn.body
    choices = [
        {
            "index": index,
            "message": (said := _message(turn)).message,
            "logprobs": said.logprobs,
            "finish_reason": "tool_calls" if said.message.get("tool_calls") else "stop",
        }
        for index in range(int(body.get("n") or 1))
    ]
    counted = usage(turn, [])
    completion: Json = {
        "id": turn.response_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": choices,
        "usage": {
            "prompt_tokens": counted["input_tokens"],
            "completion_tokens": 9,
            "total_tokens": counted["input_tokens"] + 9,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": f"fp_{turn.ids.text(HEX, 10)}",
    }
    if "numbers" in turn.script:
        completion |= oddities(extreme=turn.script.text("numbers") == "extreme")
    return completion


@dataclass(slots=True)
class _Said:
    message: Json
    logprobs: Json | None


def _message(turn: Turn) -> _Said:
    message: Json = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
    calls = _calls(turn)
    if calls:
        return _Said({**message, "tool_calls": calls}, None)
    if "refusal" in turn.script:
        return _Said({**message, "refusal": f"I'm sorry, but I can't help with {turn.response_id}."}, None)
    text = answer(turn, turn.response_id)
    if "audio" in (turn.body.get("modalities") or []):
        raw = turn.ids.new("audio_", place="message.audio.id")
        spoken = {"id": raw, "data": "UklGRg==", "expires_at": int(time.time()) + _AUDIO_LIVES_S, "transcript": text}
        return _Said({**message, "audio": spoken}, None)
    if "annotations" in turn.script:
        mark = " ([example.org](https://example.org/a?utm_source=openai))"
        cited = {
            "start_index": len(text) + 1,
            "end_index": len(text) + len(mark),
            "title": "An example",
            "url": "https://example.org/a?utm_source=openai",
        }
        text += mark
        message["annotations"] = [{"type": "url_citation", "url_citation": cited}]
    return _Said({**message, "content": text}, _logprobs(turn, text))


def _logprobs(turn: Turn, text: str) -> Json | None:
    if not turn.body.get("logprobs"):
        return None
    tokens = [
        {"token": piece, "bytes": list(piece.encode()), "logprob": -0.5, "top_logprobs": []}
        for piece in turn.pieces(text)
    ]
    return {"content": tokens, "refusal": None}


def _calls(turn: Turn) -> list[Json]:
    """What the model wants called: as the script, the tool choice or the prompt says."""
    script, choice = turn.script, turn.body.get("tool_choice")
    if turn.answers_a_call() or choice == "none":
        return []
    prompt = text_of(turn.new_items[-1]) if turn.new_items else ""
    functions = turn.tools("function")
    named = any(str(tool.get("name")) in prompt for tool in functions)
    made: list[Json] = []
    if "function_call" in script or (functions and (named or isinstance(choice, dict) or choice == "required")):
        made += [output.item for output in function_calls(turn)]
    if "custom_tool" in script:
        made.append(custom_tool(turn).item)
    return [
        {"id": item["call_id"], "type": "custom", "custom": {"name": item["name"], "input": item["input"]}}
        if item["type"] == "custom_tool_call"
        else {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        for item in made
    ]


def _kept(turn: Turn) -> Json:
    """What a stored completion shows beyond the answer."""
    body = turn.body
    return {
        "request_id": turn.ids.new("req_", place="stored chat completion"),
        "input_user": body.get("user"),
        "metadata": body.get("metadata") or {},
        "temperature": body.get("temperature", 1.0),
        "seed": body.get("seed"),
        "response_format": body.get("response_format"),
        "tools": None,
    }


def _listed(turn: Turn) -> list[Json]:
    """The request's messages, named by the completion and their number."""
    listed = []
    for number, message in enumerate(turn.body["messages"]):
        content = message.get("content")
        parts = content if isinstance(content, list) else None
        raw = turn.ids.note(f"{turn.response_id}-{number}", "chat message id")
        shown = {"id": raw, "name": None, **message, "content": None if parts else content}
        listed.append({**shown, "content_parts": parts})
    return listed


def _chunks(turn: Turn, completion: Json) -> Iterator[Json]:
    """The completion piece by piece; usage last, where it is asked for."""
    options = turn.body.get("stream_options") or {}
    head = {name: completion[name] for name in ("id", "created", "model", "service_tier", "system_fingerprint")}
    head["object"] = "chat.completion.chunk"
    asked = {"usage": None} if options.get("include_usage") else {}

    def chunk(choices: list[Json], **more: Any) -> Json:
        padded = options.get("include_obfuscation") is not False and "no_obfuscation" not in turn.script
        return {**head, "choices": choices, **asked, **({"obfuscation": _padding(turn.ids)} if padded else {}), **more}

    for choice in completion["choices"]:
        for delta in _deltas(turn, choice["message"]):
            said = delta.get("content")
            logprobs = _logprobs(turn, said) if said else None
            yield chunk([{"index": choice["index"], "delta": delta, "logprobs": logprobs, "finish_reason": None}])
        if "unknown_events" in turn.script:
            yield chunk([], x_thing={"id": turn.ids.new("resp_", place="unknown chunk"), "kind": "novel"})
        ending = {"index": choice["index"], "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]}
        yield chunk([ending])
    if asked:
        yield chunk([], usage=completion["usage"])


def _deltas(turn: Turn, message: Json) -> Iterator[Json]:
    yield {"role": "assistant", "content": "", "refusal": None}
    for name in ("content", "refusal"):
        for piece in turn.pieces(message.get(name) or ""):
            yield {name: piece}
    for index, call in enumerate(message.get("tool_calls") or []):
        kind = call["type"]
        said = "arguments" if kind == "function" else "input"
        yield {"tool_calls": [{**call, "index": index, kind: {**call[kind], said: ""}}]}
        for piece in turn.pieces(call[kind][said]):
            yield {"tool_calls": [{"index": index, kind: {said: piece}}]}
    if audio := message.get("audio"):
        yield {"audio": {"id": audio["id"], "transcript": ""}}
        for piece in turn.pieces(audio["transcript"]):
            yield {"audio": {"id": audio["id"], "transcript": piece}}
        yield {"audio": {"data": audio["data"], "expires_at": audio["expires_at"]}}
    for annotation in message["annotations"]:
        yield {"annotations": [annotation]}
    for _ in range(turn.script.count("flood")):
        yield {"content": "a" * _FLOOD_BYTES}


def _padding(ids: RawIds) -> str:
    return ids.text("abcdefghijklmnopqrstuvwxyz0123456789", 12)
