"""The table of routes for people: what each takes and gives, told by kinds of IDs, and what is refused with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from gateway.ids.kinds import KINDS
from gateway.names import Kind
from gateway.surfaces.denied import FAMILIES, OPERATIONS
from gateway.surfaces.route import Route
from gateway.surfaces.spec import Each, Either, Id, Obj, Spec, Typed
from gateway.surfaces.table import EVERY, PREFIX

_WIDTH: Final = 110
_INDENT: Final = 19


def describe_routes() -> Iterator[str]:
    """Lines: each route with what it does and the kinds of IDs in and out, then the refused operations by reason."""
    for route in EVERY:
        yield f"{route.method:<8}{PREFIX}{route.path}"
        yield from _row("does", route.does + (" (also as a stream)" if route.streams else ""))
        yield from _row("IDs in", _kinds(_inbound(route)) or "none")
        yield from _row("IDs out", _kinds(_outbound(route)) or "none")
        yield ""
    unserved = ", ".join(kind.value for kind, row in KINDS.items() if not row.served)
    yield from wrap(
        f"No surface of their own: {unserved}. Their IDs are opaque too, and open only inside output items that their "
        "owner sends again.",
        _WIDTH,
    )
    yield ""
    yield "Everything else is answered 404 in OpenAI's shape. On purpose:"
    yield ""
    by_reason: dict[str, list[str]] = {}
    for family, reason in FAMILIES.items():
        by_reason.setdefault(reason, []).append(f"{PREFIX}/{family}")
    for (method, path), reason in OPERATIONS.items():
        by_reason.setdefault(reason, []).append(f"{method} {PREFIX}{path}")
    for reason, refused in by_reason.items():
        yield f"        {reason}:"
        yield from wrap(", ".join(refused), _WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 12)


def ids_of(spec: Spec | None) -> Iterator[Id]:
    """Every place of an ID in a spec."""
    match spec:
        case Id():
            yield spec
        case Each():
            yield from ids_of(spec.of)
        case Either():
            yield from ids_of(spec.text)
            yield from ids_of(spec.structure)
        case Obj():
            for one in (*spec.fields.values(), spec.rest):
                yield from ids_of(one)
        case Typed():
            for tagged in (*spec.table.values(), spec.other, spec.absent):
                yield from ids_of(tagged)
        case _:
            pass


def _inbound(route: Route) -> Iterator[Id]:
    yield from route.path_ids.values()
    for spec in (*route.query.values(), route.request):
        yield from ids_of(spec)


def _outbound(route: Route) -> Iterator[Id]:
    yield from ids_of(route.answer)
    yield from ids_of(route.events)


def _kinds(ids: Iterator[Id]) -> str:
    """Each kind once, in the order of `Kind`."""
    found = {one.kind for one in ids}
    return ", ".join(kind.value for kind in Kind if kind in found)


def _row(title: str, text: str) -> list[str]:
    return wrap(text, _WIDTH, initial_indent=f"        {title:<11}", subsequent_indent=" " * _INDENT)
