"""JSON objects from people whom we do not trust: no member may come twice, no number may be unreal."""

from __future__ import annotations

import json


def parse_object(data: bytes) -> dict[str, object]:
    """The object in `data` (strict UTF-8, RFC 8259). Raises ValueError for anything else, also for a duplicate member
    at any depth (RFC 7515 section 4 and RFC 7519 section 4 let a parser refuse those; two parsers that pick different
    ones are how one token means two things), for NaN and Infinity, and for nesting that the parser cannot follow."""
    try:
        value: object = json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member comes twice")
    return members


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
