"""What an endpoint gets and what it returns: values only. `exchange.py` writes them to the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from gateway.demo.stand_in import failures, forms
from gateway.demo.stand_in.forms import Form
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import StoredResponse
from gateway.demo.stand_in.scripts import Script, in_prompt


def _nothing() -> None:
    return None


@dataclass(slots=True)
class JsonAnswer:
    """A JSON value with its status. `before_send` runs after all delays and before the first byte."""

    value: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    before_send: Callable[[], None] = _nothing
    abandoned: Callable[[], None] = _nothing


@dataclass(slots=True)
class StreamAnswer:
    """Events. `before_last` runs before the terminal one is written, `abandoned` when the client has left before. `done`: the
    events have no type, and `[DONE]` is the terminal one."""

    events: Iterator[Json]
    before_last: Callable[[], None] = _nothing
    abandoned: Callable[[], None] = _nothing
    done: bool = False


@dataclass(slots=True)
class BytesAnswer:
    """A file's content."""

    data: bytes
    media_type: str
    filename: str = ""
    before_send: Callable[[], None] = _nothing
    abandoned: Callable[[], None] = _nothing


Answer = JsonAnswer | StreamAnswer | BytesAnswer


@dataclass(slots=True)
class Request:
    """A matched request: the IDs of its path in order, its query, its body, and the script that applies to it."""

    path_ids: tuple[str, ...]
    query: dict[str, list[str]]
    body: bytes
    script: Script
    content_type: str = ""
    kept: Mapping[str, StoredResponse] = field(default_factory=dict)
    """Responses that live in a socket's connection alone."""

    def form(self) -> Form:
        """The body as a form. Raises `Failure` for anything else."""
        return forms.read(self.content_type, self.body)

    def json(self) -> Json:
        """The body as an object; an empty body is an empty object. Raises `Failure` for anything else."""
        if not self.body.strip():
            return {}
        try:
            value = json.loads(self.body)
        except ValueError:
            raise failures.malformed_json() from None
        if not isinstance(value, dict):
            raise failures.malformed_json()
        return value

    def flag(self, name: str) -> bool:
        return self.query.get(name, [""])[-1].lower() in {"true", "1"}

    def text(self, name: str) -> str | None:
        return self.query.get(name, [None])[-1]

    def number(self, name: str, default: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        if not value.lstrip("-").isdigit():
            raise failures.wrong_type(name, "an integer")
        return int(value)


def query_of(raw: bytes) -> dict[str, list[str]]:
    """A query string with `name[]` read as `name`."""
    return {key.removesuffix("[]"): values for key, values in parse_qs(raw.decode("latin-1")).items()}


def script_in(body: bytes) -> Script:
    """The script in the last user message of a request body, if there is one."""
    if b"script" not in body:
        return Script()
    try:
        value = json.loads(body)
        names = ("input", "items", "messages", "prompt")
        sent = next((value[name] for name in names if name in value), None) if isinstance(value, dict) else None
    except ValueError:
        return Script()
    if isinstance(sent, str):
        return in_prompt(sent)
    for item in reversed(sent if isinstance(sent, list) else []):
        if isinstance(item, dict) and item.get("role") == "user":
            return in_prompt(json.dumps(item.get("content")))
    return Script()


def page(items: list[Json], request: Request, default_order: str = "desc") -> Json:
    """A list object: `items` (oldest first) in the wanted order, after the cursor, cut to the limit."""
    limit, after = request.number("limit", 20), request.text("after")
    order = request.text("order") or default_order
    if not 1 <= limit <= 100:
        raise failures.Failure(
            400,
            f"Invalid 'limit': expected a value between 1 and 100, but got {limit} instead.",
            param="limit",
            code="integer_out_of_range",
        )
    if order not in {"asc", "desc"}:
        raise failures.wrong_type("order", "one of 'asc' and 'desc'")
    ordered = items if order == "asc" else items[::-1]
    if after is not None:
        places = [index for index, item in enumerate(ordered) if item["id"] == after]
        if not places:
            raise failures.item_not_found(after)
        ordered = ordered[places[0] + 1 :]
    shown = ordered[:limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "has_more": len(ordered) > limit,
        "last_id": shown[-1]["id"] if shown else None,
    }
