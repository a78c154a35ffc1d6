"""Requests: find every place where a client may name an object, and put raw IDs there once they are known to be its own.

The parsed body is walked once by the table. What the table names becomes a `Reference`; a string of raw shape anywhere
else outside the user's subtrees is refused, so that a field the table does not know yet opens no hole. `named.put` then
writes the decisions into the same parsed value, and what goes upstream is made from that value alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from gateway.errors import Problem, Reason
from gateway.ids.shape import is_only_raw
from gateway.rewrite.compiling import once_a_spec
from gateway.rewrite.named import Collected, Container, Slot
from gateway.rewrite.walker import SCALARS, FormWalker, Verify, Walker
from gateway.surfaces.route import Route
from gateway.surfaces.spec import (
    UNKNOWN,
    Blob,
    Each,
    Either,
    Fault,
    File,
    Hashed,
    Id,
    Label,
    Media,
    Obj,
    Plain,
    Role,
    Secret,
    Spec,
    Speech,
    Typed,
    Unknown,
    User,
)

_SHOWN_CHARS: Final = 64
"""Of a member's name, in the place that a refusal tells. A place is made for every member, so it may not grow with the names
above it."""


def collect(
    route: Route,
    segments: Mapping[str, str],
    query: list[tuple[str, str]],
    body: object,
    verify: Verify,
    *,
    form: bool = False,
) -> Collected:
    """Every ID in path, query and body, each with its place and kind. Reads only; raises `Problem` for a raw shape out of
    place, a query parameter or value that the table does not allow, and more than `MAX_REFERENCES` places. `form`: the body
    is what a form's texts spell."""
    walker = FormWalker(verify) if form else Walker(verify)
    for name, spec in route.path_ids.items():
        # Only a model's name has characters that clients encode.
        text = unquote(segments[name]) if spec.only else segments[name]
        walker.reference(spec, text, name, None, name, required=True)
    for name in route.path_names:
        if walker.is_raw(unquote(segments[name])):
            raise Problem(Reason.RAW_ID_OUT_OF_PLACE, quoted=segments[name], param=name)
    if query:
        walker.query(route, query)
    if body is not None:
        visit = compiled(route.request or UNKNOWN)
        if visit is not None:
            visit(walker, body, "", None, "")
    return walker.collected


def names_something(route: Route, value: object, verify: Verify) -> bool:
    """Whether a part of a form's texts names an object or holds a token. Raises `Problem` as `collect` does."""
    walker = FormWalker(verify)
    visit = compiled(route.request or UNKNOWN)
    if visit is not None:
        visit(walker, value, "", None, "")
    return bool(walker.collected.references or walker.collected.slots or walker.collected.quotations)


# --- the table, compiled once into a function for each node, so that a walk looks at no spec

Visit = Callable[[Walker, Any, str, Container | None, str | int], None]
"""Walks a parsed value at a place: its name for people, what holds it, and its key there."""


@once_a_spec
def compiled(spec: Spec) -> Visit | None:  # noqa: PLR0911 - one a kind of spec
    """The walk of `spec`; None for what is not looked at."""
    match spec:
        case Id():
            # A soft reference is removed, never an error; an item's own ID is its object's to judge (`_object`).
            return _id(spec, required=spec.role is not Role.SOFT)
        case Obj():
            return _object(spec)
        case Typed():
            return _typed(spec)
        case Each():
            return _each(compiled(spec.of))
        case Either():
            return _either(spec)
        case Hashed() | Blob():
            return _slot(spec)
        case Speech() | Label():
            return _quoting if isinstance(spec, Label) or spec.restore else None
        case Plain(never=never) if never:
            return _but(dict(never))
        case Plain():
            return _plain
        case Media():
            return _media
        case Unknown() | File() | Fault():
            return _unknown
        case User() | Secret():
            return None


def _unknown(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
    walker.unknown(value, param, container, key)


def _plain(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
    if type(value) is not str:
        walker.unknown(value, param, container, key)


def _media(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
    # What names an object in place of its bytes; they are never searched.
    if type(value) is not str or is_only_raw(value):
        walker.unknown(value, param, container, key)


def _but(never: Mapping[str, str]) -> Visit:
    def visit(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        if type(value) is str and (why := never.get(value.strip().casefold())):
            raise Problem(Reason.BAD_PARAMETER, why, param=param)
        _plain(walker, value, param, container, key)

    return visit


def _quoting(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
    walker.quotations(value, container, key)


def _id(spec: Id, *, required: bool) -> Visit:
    def visit(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        if type(value) is str:
            walker.reference(spec, value, param, container, key, required=required)
        elif spec.only:
            walker.unknown(value, param, container, key)
        elif value is not None:
            raise Problem(Reason.BAD_PARAMETER, "an ID must be a string", param=param)

    return visit


def _slot(spec: Hashed | Blob) -> Visit:
    def visit(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        if type(value) is not str:
            if isinstance(spec, Hashed):
                # What is not replaced must not go on: upstream it would stand in the name space of all tenants.
                raise Problem(Reason.BAD_PARAMETER, "this must be a string", param=param)
            walker.unknown(value, param, container, key)
        elif container is not None:
            walker.collected.slots.append(Slot(spec, value, param, container, key))

    return visit


def _each(of: Visit | None) -> Visit:
    def visit(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        if type(value) is not list:
            walker.unknown(value, param, container, key)
        elif of is not None:
            for index, element in enumerate(value):
                of(walker, element, f"{param}[{index}]", value, index)

    return visit


def _either(spec: Either) -> Visit:
    text, structure = compiled(spec.text), compiled(spec.structure)
    names = isinstance(spec.text, Id)

    def visit(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        # A number is no structure: where an ID may stand, that is told of the ID.
        is_text = type(value) is str or (names and type(value) in SCALARS)
        of = text if is_text else structure
        if of is not None:
            of(walker, value, param, container, key)

    return visit


def _typed(spec: Typed) -> Visit:
    table = {tag: _object(of) for tag, of in spec.table.items()}
    other = _object(spec.other)
    absent = _object(spec.absent) if spec.absent else other
    tag_key = spec.key

    def visit(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        if type(value) is not dict:
            walker.unknown(value, param, container, key)
            return
        tag = value.get(tag_key)
        of = absent if tag is None else table.get(tag, other) if type(tag) is str else other
        of(walker, value, param, container, key)

    return visit


def _object(spec: Obj) -> Visit:
    whole = {name: compiled(of) for name, of in spec.fields.items()}
    bare = dict(whole)
    for name, of in spec.fields.items():
        if isinstance(of, Id) and of.role is Role.OWN:
            # Beside a payload, an item's own ID that does not open is dropped; alone it is a reference.
            whole[name], bare[name] = _id(of, required=False), _id(of, required=True)
    rest, payload = compiled(spec.rest), spec.payload

    def visit(walker: Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        if type(value) is not dict:
            walker.unknown(value, param, container, key)
            return
        fields = whole
        if payload is not None:
            for name in payload:
                if value.get(name) is not None:
                    break
            else:
                fields = bare
        for name, member in value.items():
            of = fields.get(name, rest)
            if of is None or (of is _plain and type(member) is str):
                continue
            if of is _unknown and walker.is_raw(name):
                raise Problem(Reason.RAW_ID_OUT_OF_PLACE, quoted=name, param=param)
            if member is not None:
                shown = name[:_SHOWN_CHARS]
                of(walker, member, f"{param}.{shown}" if param else shown, value, name)

    return visit
