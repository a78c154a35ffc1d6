"""What a request asks of a list: from where on, which way, how many, and of what kind. Pure.

Bounds and texts are the service's own (https://platform.openai.com/docs/api-reference/files/list).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.errors import Problem, Reason, Relayed, quotable
from gateway.rewrite.named import Collected, Reference
from gateway.surfaces.route import Listing

LARGEST_PAGE: Final = 100
"""Rows. Each is a call upstream."""

_WHOLE: Final = re.compile(r"-?[0-9]{1,9}")
_ORDERS: Final = ("asc", "desc")


@dataclass(frozen=True, slots=True)
class Filter:
    """A row's `member`, or its value under `key` where the member is an object, must be `value`."""

    member: str
    key: str | None
    value: str
    named: Reference | None = None
    """The object that the value names, where it does."""

    def takes(self, row: Mapping[str, Any]) -> bool:
        """`row`: as the service has it."""
        said = row.get(self.member)
        if self.named is not None:
            return bool(said == self.named.raw)
        if self.key is not None:
            return isinstance(said, dict) and said.get(self.key) == self.value
        return said == self.value or (said is None and self.value == "null")


@dataclass(frozen=True, slots=True)
class Asked:
    """A page of a list."""

    limit: int
    newest_first: bool
    """The order of the page."""
    cursor: Reference | None = None
    backwards: bool = False
    """The page ends before the cursor (`before`); else it begins after it."""
    filters: tuple[Filter, ...] = ()


def asked(listing: Listing, query: Sequence[tuple[str, str]], collected: Collected) -> Asked:
    """Raises Problem for what the service would refuse, and for a parameter that is given twice."""
    said = _once(listing, query)
    limit = _limit(said.get("limit"), listing)
    order = said.get("order", listing.order)
    if order not in _ORDERS:
        text = f"Invalid value: '{quotable(order)}'. Supported values are: 'asc' and 'desc'."
        raise _refused(text, "order", "invalid_value")
    if "after" in said and "before" in said:
        raise Problem(
            Reason.BAD_PARAMETER, "a page begins after one object or ends before one, not both", param="before"
        )
    cursor = next((one for one in collected.references if one.param in ("after", "before")), None)
    backwards = cursor is not None and cursor.param == "before"
    return Asked(
        min(limit, LARGEST_PAGE), order == "desc", cursor, backwards, tuple(_filters(listing, said, collected))
    )


def _once(listing: Listing, query: Sequence[tuple[str, str]]) -> dict[str, str]:
    said: dict[str, str] = {}
    for name, value in query:
        plain = name.partition("[")[0]
        if name in said or (name != plain and plain not in listing.filters):
            raise Problem(Reason.BAD_PARAMETER, "a parameter is given more than one value", param=plain)
        said[name] = value
    return said


def _limit(said: str | None, listing: Listing) -> int:
    if said is None:
        return listing.limit
    if not _WHOLE.fullmatch(said):
        text = "Invalid type for 'limit': expected an integer, but got a string instead."
        raise _refused(text, "limit", "invalid_type")
    limit = int(said)
    if limit < 1:
        text = f"Invalid 'limit': integer below minimum value. Expected a value >= 1, but got {limit} instead."
        raise _refused(text, "limit", "integer_below_min_value")
    if limit > listing.most:
        text = f"Invalid 'limit': integer above maximum value. Expected a value <= {listing.most}, but got {limit} instead."
        raise _refused(text, "limit", "integer_above_max_value")
    return limit


def _filters(listing: Listing, said: Mapping[str, str], collected: Collected) -> Iterable[Filter]:
    named = {one.param: one for one in collected.references if one.container is None}
    for name, value in said.items():
        member, bracket, key = name.partition("[")
        if member in listing.filters:
            yield Filter(member, key[:-1] if bracket else None, value, named.get(name))


def _refused(text: str, param: str, code: str) -> Problem:
    return Problem(Reason.BAD_PARAMETER, relayed=Relayed(400, text, "invalid_request_error", param, code))
