"""Requests: find every place where a client may name an object, and put raw IDs there once they are known to be its own.

The parsed body is walked once by the table. What the table names becomes a `Reference`; a string of raw shape anywhere
else outside the user's subtrees is refused, so that a field the table does not know yet opens no hole. `put` then writes
the decisions into the same parsed value, and what goes upstream is made from that value alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.errors import Problem, Reason
from gateway.ids.form import TAIL_CHARS, Parsed
from gateway.ids.kinds import PREFIXES, kind_of_prefix
from gateway.ids.shape import find_raw, is_only_raw
from gateway.names import Kind
from gateway.surfaces.missing import missing_for
from gateway.surfaces.route import Route
from gateway.surfaces.spec import (
    BLOB,
    UNKNOWN,
    Blob,
    Each,
    Either,
    Hashed,
    Id,
    Label,
    Media,
    Obj,
    Plain,
    Role,
    Spec,
    Speech,
    Typed,
    Unknown,
    User,
)

MAX_REFERENCES: Final = 4096
"""Places a request may name objects at; beyond it the request is refused before any look-up."""

SEALED: Final = "encrypted_content"
"""The key of replay blobs. The service reads them in more types of items than the table knows, so wherever no spec says that a
user wrote it, a string under this key must be a blob of the caller's."""

_SHOWN_CHARS: Final = 64
"""Of a member's name, in the place that a refusal tells. A place is made for every member, so it may not grow with the names
above it."""

# The prefixes of the table and no grammar of prefixes: in a hostile text, every place could be the beginning of one.
_EMBEDDED: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?:{'|'.join(sorted(PREFIXES, key=len, reverse=True))})[0-9A-Za-z]{{{TAIL_CHARS}}}(?![A-Za-z0-9])"
)

_SCALARS: Final = frozenset({bool, int, float})

Container = dict[str, Any] | list[Any]

Verify = Callable[[str], Parsed | None]
"""What an opaque ID states, if this deployment wrote it (`DeploymentForm.verify`)."""


@dataclass(slots=True, eq=False)
class Reference:
    """One ID at one place. `parsed` is None where its tag does not verify."""

    spec: Id
    text: str
    param: str
    """Where it stands: `input[3].id`, `response_id`."""
    required: bool
    """Not opening refuses the request; else the ID is dropped (an inline item's own, a soft reference)."""
    parsed: Parsed | None
    container: Container | None = None
    key: str | int = ""
    raw: str = ""
    """Set by the pipeline where it opened."""

    @property
    def kind(self) -> Kind:
        return self.spec.kind

    def problem(self, reason: Reason) -> Problem:
        """The uniform not-found of this place, with the reason that only the audit log sees."""
        return Problem(reason, quoted=self.text, missing=missing_for(self.spec.kind, self.spec.missing))


@dataclass(slots=True, eq=False)
class Quotation:
    """An opaque ID inside a replayed string; restored if it opens, left alone if not."""

    text: str
    parsed: Parsed
    kind: Kind
    container: Container
    key: str | int
    raw: str = ""


@dataclass(slots=True, eq=False)
class Slot:
    """A string that is replaced by a value computed from it: a hashed token or a replay blob."""

    spec: Hashed | Blob
    text: str
    param: str
    container: Container
    key: str | int


@dataclass(slots=True, eq=False)
class Collected:
    """Everything that a request names."""

    references: list[Reference] = field(default_factory=list)
    quotations: list[Quotation] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    dropped: int = 0
    """Inline items' own IDs that did not open and were left out."""


def collect(
    route: Route, segments: Mapping[str, str], query: list[tuple[str, str]], body: object, verify: Verify
) -> Collected:
    """Every ID in path, query and body, each with its place and kind. Reads only; raises `Problem` for a raw shape out of
    place, a query parameter or value that the table does not allow, and more than `MAX_REFERENCES` places."""
    walker = _Walker(verify)
    for name, spec in route.path_ids.items():
        walker.reference(spec, segments[name], name, None, name, required=True)
    if query:
        walker.query(route, query)
    if body is not None:
        visit = compiled(route.request or UNKNOWN)
        if visit is not None:
            visit(walker, body, "", None, "")
    return walker.collected


def put(collected: Collected) -> None:
    """Writes raw IDs into the parsed body, and leaves out what was dropped. Path and query are read from `raw`."""
    for reference in collected.references:
        if reference.container is None:
            continue
        if reference.raw:
            reference.container[reference.key] = reference.raw  # type: ignore[index]
        elif isinstance(reference.container, dict):
            reference.container.pop(str(reference.key), None)
    quoting: dict[tuple[int, str | int], tuple[Quotation, dict[str, str]]] = {}
    for quotation in collected.quotations:
        if quotation.raw:
            _, raws = quoting.setdefault((id(quotation.container), quotation.key), (quotation, {}))
            raws[quotation.text] = quotation.raw
    for one, raws in quoting.values():
        text: str = one.container[one.key]  # type: ignore[index]
        # One pass a text, however many IDs stand in it.
        one.container[one.key] = _EMBEDDED.sub(lambda found, raws=raws: raws.get(found[0], found[0]), text)  # type: ignore[index,misc]


class _Walker:
    __slots__ = ("collected", "verify")

    def __init__(self, verify: Verify) -> None:
        self.verify = verify
        self.collected = Collected()

    def query(self, route: Route, query: list[tuple[str, str]]) -> None:
        for name, value in query:
            plain = name.removesuffix("[]")
            spec = route.query.get(plain)
            if spec is None:
                raise Problem(Reason.BAD_PARAMETER, "this path does not take that query parameter", param=plain)
            if isinstance(spec, Id):
                self.reference(spec, value, plain, None, plain, required=True)
            elif is_only_raw(value):
                raise Problem(Reason.RAW_ID_OUT_OF_PLACE, quoted=value, param=plain)

    def reference(
        self, spec: Id, text: str, param: str, container: Container | None, key: str | int, *, required: bool
    ) -> None:
        if spec.passes and text.startswith(spec.passes):
            return
        if len(self.collected.references) >= MAX_REFERENCES:
            raise Problem(Reason.BAD_PARAMETER, f"more than {MAX_REFERENCES} IDs in one request")
        parsed = self.verify(text)
        self.collected.references.append(Reference(spec, text, param, required, parsed, container, key))

    def unknown(self, value: object, param: str, container: Container | None, key: str | int) -> None:
        """Refuses a raw shape anywhere below `value`, and takes what stands under `SEALED` for a blob."""
        if type(value) in _SCALARS:
            return
        for holder, at, text in _strings(value, container, key):
            if at == SEALED:
                if holder is None:
                    raise Problem(Reason.BLOB_NOT_YOURS, param=param)
                self.collected.slots.append(Slot(BLOB, text, param, holder, at))
            elif self.is_raw(text):
                raise Problem(Reason.RAW_ID_OUT_OF_PLACE, quoted=text, param=param)

    def is_raw(self, text: str) -> bool:
        """Whether `text` is one raw ID or a list of some: what reads a field that the table does not know may strip or split.
        An ID that this deployment wrote names nothing upstream: what an answer's new field held may be replayed."""
        return is_only_raw(text) and any(self.verify(text[start:end]) is None for start, end in find_raw(text))

    def quotations(self, value: object, container: Container | None, key: str | int) -> None:
        if isinstance(value, str):
            if container is None:
                return
            for text in dict.fromkeys(_EMBEDDED.findall(value)):
                parsed = self.verify(text)
                kind = kind_of_prefix(parsed.prefix) if parsed else None
                if parsed and kind:
                    if len(self.collected.quotations) >= MAX_REFERENCES:
                        raise Problem(Reason.BAD_PARAMETER, f"more than {MAX_REFERENCES} IDs in replayed texts")
                    self.collected.quotations.append(Quotation(text, parsed, kind, container, key))
        elif isinstance(value, dict):
            for name, member in value.items():
                self.quotations(member, value, name)
        elif isinstance(value, list):
            for index, element in enumerate(value):
                self.quotations(element, value, index)


# --- the table, compiled once into a function for each node, so that a walk looks at no spec

Visit = Callable[[_Walker, Any, str, Container | None, str | int], None]
"""Walks a parsed value at a place: its name for people, what holds it, and its key there."""

_COMPILED: Final[dict[int, tuple[Spec, Visit | None]]] = {}


def compiled(spec: Spec) -> Visit | None:
    """The walk of `spec`; None for what is not looked at. Specs are constants, so each is compiled once."""
    known = _COMPILED.get(id(spec))
    if known is None:
        known = _COMPILED[id(spec)] = (spec, _compile(spec))
    return known[1]


def _compile(spec: Spec) -> Visit | None:
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
        case Plain() | Media():
            return _plain
        case Unknown():
            return _unknown
        case User():
            return None


def _unknown(walker: _Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
    walker.unknown(value, param, container, key)


def _plain(walker: _Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
    if type(value) is not str:
        walker.unknown(value, param, container, key)


def _quoting(walker: _Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
    walker.quotations(value, container, key)


def _id(spec: Id, *, required: bool) -> Visit:
    def visit(walker: _Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        if type(value) is str:
            walker.reference(spec, value, param, container, key, required=required)
        elif value is not None:
            raise Problem(Reason.BAD_PARAMETER, "an ID must be a string", param=param)

    return visit


def _slot(spec: Hashed | Blob) -> Visit:
    def visit(walker: _Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        if type(value) is not str:
            if isinstance(spec, Hashed):
                # What is not replaced must not go on: upstream it would stand in the name space of all tenants.
                raise Problem(Reason.BAD_PARAMETER, "this must be a string", param=param)
            walker.unknown(value, param, container, key)
        elif container is not None:
            walker.collected.slots.append(Slot(spec, value, param, container, key))

    return visit


def _each(of: Visit | None) -> Visit:
    def visit(walker: _Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        if type(value) is not list:
            walker.unknown(value, param, container, key)
        elif of is not None:
            for index, element in enumerate(value):
                of(walker, element, f"{param}[{index}]", value, index)

    return visit


def _either(spec: Either) -> Visit:
    text, structure = compiled(spec.text), compiled(spec.structure)
    names = isinstance(spec.text, Id)

    def visit(walker: _Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
        # A number is no structure: where an ID may stand, that is told of the ID.
        is_text = type(value) is str or (names and type(value) in _SCALARS)
        of = text if is_text else structure
        if of is not None:
            of(walker, value, param, container, key)

    return visit


def _typed(spec: Typed) -> Visit:
    table = {tag: _object(of) for tag, of in spec.table.items()}
    other = _object(spec.other)
    absent = _object(spec.absent) if spec.absent else other
    tag_key = spec.key

    def visit(walker: _Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
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

    def visit(walker: _Walker, value: Any, param: str, container: Container | None, key: str | int) -> None:
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


def _strings(
    value: object, container: Container | None, key: str | int
) -> Iterator[tuple[Container | None, str | int, str]]:
    """Every string below `value`, itself included, with what holds it and its key there. The name of a member is held by
    nothing (maps can be keyed by IDs), nor is what stands deeper below `SEALED`, where only a string belongs."""
    if isinstance(value, str):
        yield container, key, value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield None, "", name
            yield from _strings(member, None, SEALED) if key == SEALED else _strings(member, value, name)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _strings(element, None, SEALED) if key == SEALED else _strings(element, value, index)


def refusal(reference: Reference) -> Reason | None:
    """Why this reference can't open, as far as its form tells; None where a look-up must decide."""
    if reference.parsed is None:
        return Reason.NOT_AN_OPAQUE_ID
    kind = kind_of_prefix(reference.parsed.prefix)
    if kind is not None and kind is not reference.spec.kind:
        return Reason.WRONG_KIND
    return None
