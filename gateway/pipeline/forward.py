"""What goes upstream: built from the table's template, the parsed and checked body, and an allow-list of headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

from gateway.authz import Circumstances
from gateway.errors import Problem, Reason
from gateway.ids.shape import TUNED, find_raw, names_tuned
from gateway.rewrite.named import Collected
from gateway.surfaces.missing import MODEL
from gateway.surfaces.route import Route
from gateway.surfaces.spec import Id

_HELPERS: Final = ("moderation", "svg")
"""Members that name a model beside the one that answers."""

_MODEL_NAME: Final = re.compile(r"[A-Za-z0-9._:/@-]{1,256}")


def target(route: Route, segments: Mapping[str, str], query: list[tuple[str, str]], collected: Collected) -> bytes:
    """Path and query for the upstream, relative to its base URL. Every ID in it is raw and every segment quoted."""
    raws = {reference.param: reference.raw for reference in collected.references if reference.container is None}
    parts = []
    for part in route.path.split("/"):
        name = part[1:-1] if part.startswith("{") else ""
        if not name:
            parts.append(part)
        else:
            parts.append(quote(raws.get(name) or unquote(segments[name]), safe=":@"))
    pairs = []
    for name, value in query:
        plain = name.removesuffix("[]")
        is_id = isinstance(route.query[plain], Id)
        pairs.append(f"{quote_plus(name, safe='[]')}={quote_plus(raws.get(plain, value) if is_id else value)}")
    return ("/".join(parts) + ("?" + "&".join(pairs) if pairs else "")).encode()


def check_model(segments: Mapping[str, str], body: object, collected: Collected) -> str:
    """The model that the request names, or nothing. A fine-tuned one is its owner's, and read as missing wherever the table
    does not take it for a reference."""
    for helper in map(body.get, _HELPERS) if isinstance(body, dict) else ():
        _checked(helper.get("model") if isinstance(helper, dict) else None)
    said = unquote(segments["model"]) if "model" in segments else body.get("model") if isinstance(body, dict) else None
    named = next((one for one in collected.references if one.param == "model"), None) if _is_tuned(said) else None
    if named is None:
        return _checked(said)
    # What is no ID of ours is refused as such, and not written down.
    return named.text if named.parsed else ""


def _is_tuned(said: object) -> bool:
    return isinstance(said, str) and said.startswith(TUNED)


def _checked(said: object) -> str:
    if not isinstance(said, str):
        return ""
    if names_tuned(said) or find_raw(said) or not _MODEL_NAME.fullmatch(said):
        raise Problem(Reason.NOT_RECORDED, quoted=said, missing=MODEL)
    return said


def base_of(model: str, tuned: str) -> str:
    """What the policies read for a model: a fine-tuned one (`tuned`: its raw name, if it is one) by what it was made from,
    `ft:gpt-4o-mini`; every other by its name."""
    return ":".join(tuned.split(":")[:2]) if tuned else model


_IMPLIED: Final = {"functions": "function", "web_search_options": "web_search"}
"""Chat's other ways to bring a tool → its type."""

_NO_LIMIT: Final = 2**53
"""Tokens of a limit that is not a whole number."""
_LIMITS: Final = ("max_output_tokens", "max_completion_tokens", "max_tokens")
"""What the surfaces call the most tokens that an answer may have."""


def tool_types(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Types of all tools that a request brings: its own, those in a namespace, and those that an item of `input`, `items` or
    `instructions` loads. A tool without a type is `untyped`. What an MCP server listed are no tools of the request's."""
    lists: list[object] = [body.get("tools")]
    types = {kind for name, kind in _IMPLIED.items() if body.get(name) is not None}
    for items in (body.get("input"), body.get("items"), body.get("instructions")):
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and item.get("type") != "mcp_list_tools":
                lists.append(item.get("tools"))
    while lists:
        tools = lists.pop()
        for tool in tools if isinstance(tools, list) else ():
            named = tool.get("type") if isinstance(tool, dict) else None
            types.add(named if isinstance(named, str) else "untyped")
            if isinstance(tool, dict):
                lists.append(tool.get("tools"))
    return tuple(sorted(types))


def circumstances(route: Route, model: str, body: object, network: str) -> Circumstances:
    """What the policies may look at: nothing in it is free text of a user."""
    if not isinstance(body, dict):
        return Circumstances(model=model, network=network)
    # What is no plain value is taken for what a policy would mind: the service may read `"true"` or `1e9` in its own way.
    limits = [value if type(value) is int else _NO_LIMIT for name in _LIMITS if (value := body.get(name)) is not None]
    return Circumstances(
        model=model,
        tools=tool_types(body),
        stream=body.get("stream") not in (None, False),
        background=body.get("background") not in (None, False),
        store=route.stores(body),
        max_output_tokens=max(limits, default=0),
        network=network,
    )
