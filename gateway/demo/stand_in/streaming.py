"""The events of a response, in the order and with the numbers of the real service."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.demo.stand_in.fidelity import verbatim
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import StoredResponse
from gateway.demo.stand_in.raw_ids import RawIds

_FLOOD_BYTES = 10_000


def snapshot(stored: StoredResponse, status: str) -> Json:
    """The response object as it is at `status`: nothing has been written before its end."""
    if status == stored.body["status"]:
        return stored.body
    return {
        **stored.body,
        "status": status,
        "output": [],
        "usage": None,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
    }


def events(stored: StoredResponse, ids: RawIds) -> Iterator[Json]:
    """All events, numbered from 0. Made as they are read, so that a flood of gigabytes takes no memory."""
    odd = {"x_number": verbatim("1.50e+3"), "x_slash": verbatim('"\\/"')} if "numbers" in stored.script else {}
    for number, event in enumerate(_unnumbered(stored, ids)):
        yield {"type": event["type"], "sequence_number": number, **event, **odd}


def _unnumbered(stored: StoredResponse, ids: RawIds) -> Iterator[Json]:
    script = stored.script
    first = "queued" if stored.background else "in_progress"
    yield {"type": "response.created", "response": snapshot(stored, first)}
    if stored.background:
        yield {"type": "response.queued", "response": snapshot(stored, "queued")}
    yield {"type": "response.in_progress", "response": snapshot(stored, "in_progress")}
    if "unknown_events" in script:
        yield _unknown(stored, ids)
    for index, output in enumerate(stored.outputs):
        yield {"type": "response.output_item.added", "output_index": index, "item": output.added}
        for event in output.events:
            yield {**event, "output_index": index, **_padding(stored, event, ids)}
        yield from _flood(stored, index)
        yield {"type": "response.output_item.done", "output_index": index, "item": output.item}
    if "unknown_events" in script:
        yield _unknown(stored, ids)
    yield {"type": f"response.{stored.body['status']}", "response": stored.body}


def _padding(stored: StoredResponse, event: Json, ids: RawIds) -> Json:
    """Deltas carry random characters that hide their length, as the real ones do."""
    if not str(event["type"]).endswith(".delta") or "no_obfuscation" in stored.script:
        return {}
    return {"obfuscation": ids.text("abcdefghijklmnopqrstuvwxyz0123456789", 12)}


def _flood(stored: StoredResponse, index: int) -> Iterator[Json]:
    """`flood=N`: N text deltas of 10,000 bytes that no later event repeats."""
    item = stored.outputs[index].item
    if item["type"] == "message":
        for _ in range(stored.script.count("flood")):
            yield {
                "type": "response.output_text.delta",
                "item_id": item["id"],
                "output_index": index,
                "content_index": 0,
                "delta": "a" * _FLOOD_BYTES,
                "logprobs": [],
            }


def _unknown(stored: StoredResponse, ids: RawIds) -> Json:
    """An event of a type that nobody knows yet, with known and with fresh IDs in it."""
    return {
        "type": "response.x_unheard_of.noted",
        "response_id": stored.id,
        "x_thing": {"id": ids.new("resp_", place="unknown event"), "kind": "novel"},
        "x_related_ids": [ids.new("msg_", place="unknown event"), ids.new("file-", place="unknown event")],
    }
