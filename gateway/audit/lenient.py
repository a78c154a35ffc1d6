"""Reading an event that nobody vouches for: what is not of its kind counts as not there. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def part(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def parts(event: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    values = event.get(name)
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else ()


def text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def caller(actor: Mapping[str, Any]) -> str:
    """Who acts for the actor, the outermost; empty: nobody."""
    chain = actor.get("chain")
    return chain[0] if isinstance(chain, list) and chain and isinstance(chain[0], str) else ""
