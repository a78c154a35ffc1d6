"""From a request to a row of the table, and to the members that the row takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from gateway.admin_api.route import BodyRefused, Row
from gateway.errors import Problem, Reason
from gateway.transport.bodies import read_json
from gateway.transport.guard import Head, Receive
from gateway.transport.limits import Limits

MAX_BODY_BYTES: Final = 64 * 1024
_DEPTH: Final = 8

Segments = tuple[str, ...]


class Routes:
    """Rows by their path, under a prefix that takes the place of `instead_of` where their paths begin so."""

    def __init__(self, rows: tuple[Row, ...], prefix: str = "", instead_of: str = "") -> None:
        self._rows = [(tuple((prefix + row.path.removeprefix(instead_of)).split("/")[1:]), row) for row in rows]

    def knows(self, path: bytes) -> bool:
        """Whether a row has this path, with whichever method."""
        segments = tuple(path.decode("ascii").split("/")[1:])
        return any(_names(template, segments) is not None for template, _ in self._rows)

    def match(self, head: Head) -> tuple[Row, Mapping[str, str]]:
        """The row, and what the path names. Raises Problem: 404, 405, or 400 for a query, for no row takes one."""
        path = head.raw_path.decode("ascii")
        found = [
            (row, names)
            for template, row in self._rows
            if (names := _names(template, tuple(path.split("/")[1:]))) is not None
        ]
        if not found:
            raise Problem(Reason.ROUTE_UNKNOWN, method=head.method, path=path)
        for row, names in found:
            if row.method == head.method:
                if head.query:
                    raise Problem(Reason.BAD_PARAMETER, "no query is known here")
                return row, names
        allow = ", ".join(sorted({row.method for row, _ in found})).encode()
        raise Problem(Reason.METHOD_NOT_ALLOWED, method=head.method, headers=((b"allow", allow),))


def _names(template: Segments, segments: Segments) -> dict[str, str] | None:
    """What stands at the template's placeholders; None where the path is another one."""
    if len(template) != len(segments):
        return None
    names = {}
    for expected, given in zip(template, segments, strict=True):
        if expected.startswith("{"):
            names[expected[1:-1]] = unquote(given, errors="replace")
        elif expected != given:
            return None
    return names


async def read(row: Row, receive: Receive, head: Head, limits: Limits) -> dict[str, Any]:
    """The members of the request's body. Raises Problem, with the member's name where one is wrong."""
    bounds = replace(limits, body_bytes=MAX_BODY_BYTES, json_depth=_DEPTH)
    parsed = await read_json(receive, head, bounds, allow_empty=True)
    try:
        return row.read(parsed)
    except BodyRefused as refused:
        raise Problem(Reason.BAD_PARAMETER, str(refused), param=refused.member or None) from None
