"""What the model says: a message that depends on the whole conversation, its refusals and its annotations."""

from __future__ import annotations

import json
from typing import Any

from gateway.demo.stand_in.outputs import Json, Output, Turn, sample
from gateway.demo.stand_in.raw_ids import Exposure, find_ids
from gateway.demo.stand_in.scripts import without_scripts


def text_of(item: Json) -> str:
    """The text of a message item, whichever way its content is written."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def user_texts(turn: Turn) -> list[str]:
    """All that the user has said so far; what a compaction item stands for counts too."""
    said: list[str] = []
    for item in turn.context:
        if item.get("type") == "compaction":
            said += turn.sealer.open(item["encrypted_content"]) or []
        elif item.get("role") == "user":
            said.append(without_scripts(text_of(item)))
    return said


def _tool_outcomes(turn: Turn) -> list[str]:
    outcomes = []
    for item in turn.new_items:
        if str(item.get("type", "")).endswith("_output"):
            output = item.get("output")
            outcomes.append(output if isinstance(output, str) else json.dumps(output))
    return outcomes


def _quotations(turn: Turn, message_id: str) -> str:
    """Raw IDs that the model was shown or that stand in this answer, in its own words."""
    quoted = find_ids(json.dumps({**turn.body, "metadata": None, "model": None}))
    own = [turn.response_id, message_id, *([turn.container] if turn.container else [])]
    return f" I was given {', '.join(quoted) or 'nothing'}; I am {', '.join(own)}."


def answer(turn: Turn, message_id: str) -> str:
    """The text of the answer: how much the user has said, the first and the latest of it, and what tools returned."""
    script, wanted = turn.script, (turn.body.get("text") or {}).get("format") or {}
    if wanted.get("type") == "json_schema":
        return json.dumps(sample(wanted.get("schema")))
    if "say" in script:
        return script.text("say")
    said = user_texts(turn)
    text = f"You have sent {len(said)} user message{'' if len(said) == 1 else 's'}."
    if said:
        text += f' The first was: "{said[0]}". The latest was: "{said[-1]}".'
    for outcome in _tool_outcomes(turn):
        text += f" The tool said: {outcome}"
    if "quote" in script:
        text += _quotations(turn, message_id)
    if "recall" in script and turn.context and "id" in turn.context[0]:
        text += f" You began with {turn.context[0]['id']}."
    if "stranger" in script:
        raw = turn.ids.new("resp_", place="model text", exposure=Exposure.MODEL_TEXT)
        text += f" I made up {raw}."
    if turn.planted:
        text += f" Somebody wrote {turn.planted}."
    if "unicode" in script:
        text += " Ünïcödé: 漢字, é, 🧥."
    return text + " lorem" * script.count("words")


def _annotations(turn: Turn, text: str) -> tuple[str, list[Json]]:
    """The text with citation marks added at its end, and the annotations that point at them."""
    found: list[Json] = []
    for cited in turn.cited_files:
        link = f" [{cited['filename']}](sandbox:/mnt/data/{cited['filename']})"
        found.append(
            {
                "type": "container_file_citation",
                **cited,
                "start_index": len(text) + 1,
                "end_index": len(text) + len(link),
            }
        )
        text += link
    if "annotations" in turn.script:
        file_id = turn.new_id("file-", "annotation.file_id")
        found.append({"type": "file_citation", "file_id": file_id, "filename": "notes.txt", "index": len(text)})
        found.append({"type": "file_path", "file_id": turn.new_id("file-", "annotation.file_id"), "index": len(text)})
        mark = " ([example.org](https://example.org/a?utm_source=openai))"
        found.append(
            {
                "type": "url_citation",
                "title": "An example",
                "url": "https://example.org/a?utm_source=openai",
                "start_index": len(text) + 1,
                "end_index": len(text) + len(mark),
            }
        )
        text += mark
    return text, found


def _logprobs(turn: Turn, text: str) -> list[Json]:
    if not turn.includes("message.output_text.logprobs"):
        return []
    return [
        {"token": piece, "bytes": list(piece.encode()), "logprob": -0.5, "top_logprobs": []}
        for piece in turn.pieces(text)
    ]


def message(turn: Turn) -> Output:
    """An assistant message with one `output_text` part."""
    raw = turn.new_id("msg_", "output[].id")
    text, annotations = _annotations(turn, answer(turn, raw))
    where: Json = {"item_id": raw, "content_index": 0}
    empty: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    part: Json = {**empty, "annotations": annotations, "logprobs": _logprobs(turn, text), "text": text}
    events: list[Json] = [{"type": "response.content_part.added", **where, "part": empty}]
    for piece in turn.pieces(text):
        delta = {"delta": piece, "logprobs": _logprobs(turn, piece)}
        events.append({"type": "response.output_text.delta", **where, **delta})
    for index, annotation in enumerate(annotations):
        events.append(
            {
                "type": "response.output_text.annotation.added",
                **where,
                "annotation_index": index,
                "annotation": annotation,
            }
        )
    events.append({"type": "response.output_text.done", **where, "text": text, "logprobs": part["logprobs"]})
    events.append({"type": "response.content_part.done", **where, "part": part})
    return _message(raw, part, events)


def refusal(turn: Turn) -> Output:
    """An assistant message that refuses, quoting the response's own ID as models have been seen to do."""
    raw = turn.new_id("msg_", "output[].id")
    text = "I'm sorry, but I can't help with that."
    if "quote" in turn.script:
        text += f" (See {turn.response_id}.)"
    where: Json = {"item_id": raw, "content_index": 0}
    part: Json = {"type": "refusal", "refusal": text}
    events: list[Json] = [{"type": "response.content_part.added", **where, "part": {**part, "refusal": ""}}]
    events += [{"type": "response.refusal.delta", **where, "delta": piece} for piece in turn.pieces(text)]
    events.append({"type": "response.refusal.done", **where, "refusal": text})
    events.append({"type": "response.content_part.done", **where, "part": part})
    return _message(raw, part, events)


def _message(raw: str, part: Any, events: list[Json]) -> Output:
    item = {"id": raw, "type": "message", "status": "completed", "content": [part], "role": "assistant"}
    return Output(item, {**item, "status": "in_progress", "content": []}, events)
