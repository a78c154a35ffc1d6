"""Canaries: fresh raw IDs in every place of an answer where a service could one day write one.

Only places that the service itself writes are used. What a client sent and gets back (metadata, schemas, arguments,
tools) is left as it is, since its own words are no leak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.raw_ids import IdStyle, RawIds

_USERS_OWN = frozenset(
    {
        "metadata",
        "attributes",
        "arguments",
        "parameters",
        "input_schema",
        "schema",
        "tools",
        "variables",
        "logprobs",
        "tool_choice",
        "text",
        "format",
        "env",
        "response_format",
    }
)
_STYLES = (IdStyle.HEX50, IdStyle.HEX48, IdStyle.HEX32, IdStyle.UUID, IdStyle.BASE62)

Plant = Callable[["Canary"], Json]

_PLANTS: tuple[Plant, ...] = (
    lambda canary: {"x_trace_id": canary.fresh("resp_", "unknown field")},
    lambda canary: {"x_item_ids": [canary.fresh("msg_", "unknown list"), canary.fresh("rs_", "unknown list")]},
    lambda canary: {
        "x_url": f"https://api.openai.com/v1/responses/{canary.fresh('resp_', 'URL')}/input_items"
        f"?after={canary.fresh('msg_', 'URL')}"
    },
    lambda canary: {"x_note": f"Moved from {canary.fresh('conv_', 'note')} to {canary.fresh('vs_', 'note')}."},
    lambda canary: {"x_owner": {"organization": canary.fresh("org-", "object"), "id": canary.fresh("proj_", "object")}},
    lambda canary: {"x_shard_id": canary.fresh("", "ID without prefix", IdStyle.BARE)},
    lambda canary: {"x_download": f"{canary.fresh('cfile_', 'file name')}.png"},
    lambda canary: {"x_nested": [{"deep": [{"ref": canary.fresh("file-", "deep list")}]}]},
    lambda canary: {"x_moved": [[canary.fresh("cntr_", "list of lists"), canary.fresh("fc_", "list of lists")]]},
)
"""What is added to objects, one after the other."""


class Canary:
    """Adds unknown fields to JSON values; every ID in them is fresh and recorded."""

    def __init__(self, ids: RawIds) -> None:
        self._ids = ids
        self._plants: Iterator[Plant] = cycle(_PLANTS)
        self._styles: Iterator[IdStyle] = cycle(_STYLES)

    def fresh(self, prefix: str, place: str, style: IdStyle | None = None) -> str:
        return self._ids.new(prefix, place=f"canary: {place}", style=style or next(self._styles))

    def plant(self, value: Any) -> Any:
        """A copy of `value` with an unknown field in each of its objects, outside the user's own."""
        if isinstance(value, list):
            return [self.plant(one) for one in value]
        if not isinstance(value, dict):
            return value
        planted = {key: one if key in _USERS_OWN else self.plant(one) for key, one in value.items()}
        return {**planted, **next(self._plants)(self)}

    def headers(self) -> list[tuple[str, str]]:
        """Headers that no allow-list should know."""
        return [
            ("x-openai-trace", self.fresh("resp_", "header")),
            ("link", f'<https://api.openai.com/v1/responses/{self.fresh("resp_", "header")}>; rel="next"'),
            ("content-location", f"/v1/conversations/{self.fresh('conv_', 'header')}"),
            ("content-disposition", f'inline; filename="{self.fresh("cfile_", "header")}.json"'),
            ("etag", f'"{self.fresh("msg_", "header")}"'),
            ("x-codex-turn-state", self.fresh("rs_", "header")),
        ]

    def stream_lines(self) -> tuple[str, ...]:
        """Lines of an event that are neither `event:` nor `data:`."""
        return (f": from {self.fresh('resp_', 'SSE comment')}", f"id: {self.fresh('resp_', 'SSE id line')}")

    def in_words(self) -> str:
        """The end of an error text."""
        return (
            f" (response {self.fresh('resp_', 'error text')}, organization {self.fresh('org-', 'error text')}, "
            f"project {self.fresh('proj_', 'error text')}, see https://platform.openai.com/logs/"
            f"{self.fresh('resp_', 'error text')})"
        )
