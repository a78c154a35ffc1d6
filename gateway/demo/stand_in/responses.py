"""The endpoints under /v1/responses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request, StreamAnswer, page
from gateway.demo.stand_in.hosted_items import compaction
from gateway.demo.stand_in.inputs import as_items, check_attachments, check_model, check_order, check_tokens, resolve
from gateway.demo.stand_in.items import outputs
from gateway.demo.stand_in.outputs import Json, Turn
from gateway.demo.stand_in.provider import Conversation, Provider, StoredResponse
from gateway.demo.stand_in.response_body import ending_body, usage
from gateway.demo.stand_in.streaming import events, snapshot

_ENDED = frozenset({"completed", "failed", "incomplete", "cancelled"})


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/responses`."""
    body = request.json()
    if body.get("background") and body.get("store") is False:
        raise failures.Failure(400, "Background mode requires store=true.", param="store")
    stored = respond(provider, request, body)
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
        provider.announce("response.cancelled", stored.id)
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
            "usage": usage(turn, made),
        }
    )


def input_tokens(provider: Provider, request: Request) -> Answer:
    """`POST /v1/responses/input_tokens`."""
    turn = _turn(provider, request, request.json())
    return JsonAnswer({"object": "response.input_tokens", "input_tokens": usage(turn, [])["input_tokens"]})


def respond(provider: Provider, request: Request, body: Json) -> StoredResponse:
    """What the model answers, not yet ended and nowhere kept. Raises `Failure`."""
    if "prompt" not in body or isinstance(body.get("model"), str):
        check_model(provider, body)
    check_tokens(body)
    turn = _turn(provider, request, body)
    conversation = _conversation_of(provider, body)
    if conversation is not None and conversation.locked:
        raise failures.conversation_locked(conversation.id)
    made = outputs(turn)
    provider.hidden |= {str(output.item["id"]): output.hidden for output in made if output.hidden}
    if conversation is not None:
        conversation.locked = True
    final = ending_body(provider, turn, made, conversation)
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
        here = request.kept.get(str(previous))
        found = here or provider.responses.get(str(previous))
        if found is None or not (found.stored or here) or found.status not in _ENDED:
            raise failures.previous_response_not_found(str(previous))
        before, lineage = found.history, found.lineage
    elif conversation is not None:
        before, lineage = conversation.items, conversation.lineage
    check_attachments(provider, [body.get("tools"), body.get("prompt")])
    prompt = body.get("prompt")
    if isinstance(prompt, dict) and prompt.get("id") not in provider.ids.attachable:
        raise failures.prompt_not_found(str(prompt.get("id")))
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
