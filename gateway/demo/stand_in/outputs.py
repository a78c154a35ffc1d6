"""One turn of the model, and one output item of it together with the events that announce it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gateway.demo.stand_in.blobs import Sealer
from gateway.demo.stand_in.raw_ids import RawIds
from gateway.demo.stand_in.scripts import Script

Json = dict[str, Any]


@dataclass(slots=True)
class Output:
    """An item as it ends, as it starts, and the events between `output_item.added` and `output_item.done`.

    Events lack `sequence_number` and `output_index`; whoever writes the stream puts them in.
    """

    item: Json
    added: Json
    events: list[Json] = field(default_factory=list)
    ends_turn: bool = False  # the client has to act before the model goes on
    hidden: dict[str, Json] = field(default_factory=dict)  # value of `include` → fields that it shows


@dataclass(slots=True)
class Turn:
    """What an item's builder may look at: the request, the conversation so far, and the makers of IDs and blobs."""

    ids: RawIds
    sealer: Sealer
    lineage: str
    response_id: str
    body: Json
    context: list[Json]  # everything the model sees, the new items last
    new_items: list[Json]
    script: Script
    container: str = ""
    cited_files: list[Json] = field(default_factory=list)

    def new_id(self, prefix: str, place: str) -> str:
        return self.ids.new(prefix, self.lineage, place=place)

    @property
    def planted(self) -> str:
        """An ID that the script asks to be put where third parties write (`plant=resp_…`)."""
        return self.script.text("plant")

    def tools(self, kind: str) -> list[Json]:
        return [tool for tool in self.body.get("tools") or [] if tool.get("type") == kind]

    def includes(self, what: str) -> bool:
        return what in (self.body.get("include") or [])

    def answers_a_call(self) -> bool:
        """Whether the newest item is the outcome of something that the model had asked the client to do."""
        kind = str(self.new_items[-1].get("type", "")) if self.new_items else ""
        return kind.endswith("_output") or kind == "mcp_approval_response"

    def container_id(self) -> str:
        """The container of this turn: the one that the request names, else one made for it."""
        if not self.container:
            named = [tool.get("container") for tool in self.tools("code_interpreter")]
            named += [(tool.get("environment") or {}).get("container_id") for tool in self.tools("shell")]
            self.container = next((one for one in named if isinstance(one, str)), "") or self.new_id(
                "cntr_", "container_id"
            )
        return self.container

    def pieces(self, text: str) -> Iterator[str]:
        """The deltas that a text is streamed in: `delta=N` characters each, eight unless told, so that IDs are split."""
        size = max(1, self.script.count("delta", 8))
        for start in range(0, len(text), size):
            yield text[start : start + size]


def shown_by(hidden: dict[str, Json], include: list[str]) -> Json:
    """The fields of an item that the values of `include` show."""
    return {key: value for what in include for key, value in hidden.get(what, {}).items()}


def strings_under(value: Any, *keys: str) -> list[str]:
    """All strings, also inside lists, that stand under one of `keys` anywhere in a JSON value, without repeats."""
    found: dict[str, None] = {}

    def walk(node: Any) -> None:
        if isinstance(node, list):
            for element in node:
                walk(element)
        elif isinstance(node, dict):
            for key, child in node.items():
                if key in keys:
                    for one in child if isinstance(child, list) else [child]:
                        if isinstance(one, str):
                            found[one] = None
                walk(child)

    walk(value)
    return list(found)


_SAMPLES: Json = {"string": "Paris", "integer": 7, "number": 7.5, "boolean": True, "null": None}
"""JSON schema type → a value of it."""


def sample(schema: Any) -> Any:
    """A value that satisfies a JSON schema of the kind that tools and structured outputs use: what it requires, or all of it
    where it requires nothing."""
    if not isinstance(schema, dict):
        return {}
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            return sample(schema[union][0])
    named = schema.get("type", "object")
    kind = named[0] if isinstance(named, list) else named
    if kind == "array":
        return [sample(schema["items"])] if "items" in schema else []
    if kind in _SAMPLES:
        return _SAMPLES[kind]
    properties = schema.get("properties") or {}
    return {name: sample(properties[name]) for name in schema.get("required") or properties if name in properties}
