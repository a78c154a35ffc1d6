"""Every place of the table at which a client may name an object, found by walking it, and requests that fill one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.surfaces.route import Route
from gateway.surfaces.spec import Each, Either, Id, Obj, Role, Spec, Speech, Typed, Unknown, User

UNHEARD = "x_unheard_of"
"""A type that no table knows."""

Example = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    """A member of an object."""

    name: str


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an array."""


@dataclass(frozen=True, slots=True)
class Tag:
    """An object of this type; None: without one."""

    tag: str | None
    whole: bool = True
    """Whether it carries its payload, so that its own `id` is no pure reference."""


Step = Key | Element | Tag


@dataclass(frozen=True, slots=True)
class Place:
    """One ID of one route: in the path, the query or the body (then `steps` lead to it from the top)."""

    route: Route
    where: str
    name: str
    spec: Id
    steps: tuple[Step, ...] = ()
    inline: bool = False
    """An item's own `id` beside its payload: dropped where it does not open."""

    @property
    def many(self) -> bool:
        return any(isinstance(step, Element) for step in self.steps)

    @property
    def tags(self) -> list[str]:
        return [step.tag for step in self.steps if isinstance(step, Tag) and step.tag is not None]

    def __str__(self) -> str:
        return f"{self.route.action} {self.where} {self.name}"


def places(route: Route) -> list[Place]:
    """All of the route's, in the order of the table."""
    found = [Place(route, "path", name, spec) for name, spec in route.path_ids.items()]
    found += [Place(route, "query", name, spec) for name, spec in route.query.items() if isinstance(spec, Id)]
    if route.request is not None:
        for steps, spec, inline in _ids(route.request, ()):
            found.append(Place(route, "body", spell(steps), spec, steps, inline))
    return found


def spoken(route: Route) -> list[tuple[tuple[Step, ...], bool]]:
    """Where a user or a model speaks in the route's request, and whether it may say more than a string there."""
    return list(_spoken(route.request, (), True)) if route.request is not None else []


def objects(route: Route) -> list[tuple[Step, ...]]:
    """Where the route's request has objects with room for fields that the table does not know."""
    return list(dict.fromkeys(_objects(route.request, ()))) if route.request is not None else []


def spell(steps: tuple[Step, ...]) -> str:
    text = ""
    for step in steps:
        match step:
            case Key():
                text += f".{step.name}" if text else step.name
            case Element():
                text += "[]"
            case Tag():
                text += f"<{step.tag}{'' if step.whole else ' alone'}>"
    return text


def _ids(spec: Spec, steps: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], Id, bool]]:
    match spec:
        case Id():
            yield steps, spec, False
        case Each():
            yield from _ids(spec.of, (*steps, Element()))
        case Either():
            yield from _ids(spec.text, steps)
            yield from _ids(spec.structure, steps)
        case Obj():
            yield from _members(spec, steps)
        case Typed():
            for tag, of in _variants(spec):
                yield from _members(of, (*steps, Tag(tag)))
        case _:
            pass


def _members(spec: Obj, steps: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], Id, bool]]:
    for name, of in spec.fields.items():
        if isinstance(of, Id) and of.role is Role.OWN:
            if spec.payload != ():
                yield (*steps, Key(name)), of, True
            if spec.payload is not None:
                *before, last = steps
                assert isinstance(last, Tag), "an object that is told by its payload has a type"
                yield (*before, Tag(last.tag, whole=False), Key(name)), of, False
        else:
            yield from _ids(of, (*steps, Key(name)))
    if not isinstance(spec.rest, Unknown):
        yield from _ids(spec.rest, (*steps, Key("anything")))


def _variants(spec: Typed) -> Iterator[tuple[str | None, Obj]]:
    yield from spec.table.items()
    yield UNHEARD, spec.other
    if spec.absent is not None:
        yield None, spec.absent


def _spoken(spec: Spec, steps: tuple[Step, ...], more: bool) -> Iterator[tuple[tuple[Step, ...], bool]]:
    match spec:
        case User():
            yield steps, more
        case Speech():
            yield steps, False
        case Each():
            yield from _spoken(spec.of, (*steps, Element()), True)
        case Either():
            yield from _spoken(spec.text, steps, False)
            yield from _spoken(spec.structure, steps, True)
        case Obj():
            for name, of in (*spec.fields.items(), ("anything", spec.rest)):
                yield from _spoken(of, (*steps, Key(name)), True)
        case Typed():
            for tag, variant in _variants(spec):
                yield from _spoken(variant, (*steps, Tag(tag)), True)
        case _:
            pass


def _objects(spec: Spec, steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    match spec:
        case Each():
            yield from _objects(spec.of, (*steps, Element()))
        case Either():
            yield from _objects(spec.text, steps)
            yield from _objects(spec.structure, steps)
        case Obj():
            yield from _within(spec, steps)
        case Typed():
            for tag, of in _variants(spec):
                yield from _within(of, (*steps, Tag(tag)))
        case _:
            pass


def _within(spec: Obj, steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if isinstance(spec.rest, Unknown):
        yield steps
    for name, of in spec.fields.items():
        yield from _objects(of, (*steps, Key(name)))
    if not isinstance(spec.rest, Unknown):
        yield from _objects(spec.rest, (*steps, Key("anything")))


def fill(steps: tuple[Step, ...], leaves: list[Any], examples: Mapping[str | None, Example]) -> Any:
    """A value in which the leaves stand where the steps lead; several leaves share the innermost array.

    Around them everything is as `examples` has it, by type: `whole` with its payload.
    """
    arrays = [at for at, step in enumerate(steps) if isinstance(step, Element)]
    splits = arrays[-1] if arrays else -1

    def build(at: int, leaves: list[Any]) -> Any:
        if at == len(steps):
            (leaf,) = leaves
            return leaf
        match steps[at]:
            case Key(name):
                return {name: build(at + 1, leaves)}
            case Element():
                if at == splits:
                    return [build(at + 1, [leaf]) for leaf in leaves]
                return [build(at + 1, leaves)]
            case Tag(tag, whole):
                example = dict(examples.get(tag, {}))
                payload = example.pop("payload", {})
                typed = {"type": tag} if tag is not None else {}
                return {**typed, **example, **(payload if whole else {}), **build(at + 1, leaves)}

    return build(0, leaves)


def reach(value: Any, steps: tuple[Step, ...]) -> list[Any]:
    """What stands where the steps lead, in every element of the innermost array; absent members are left out."""
    found = [value]
    for step in steps:
        match step:
            case Key(name):
                found = [one[name] for one in found if isinstance(one, dict) and name in one]
            case Element():
                found = [inner for one in found for inner in one]
            case Tag():
                pass
    return found
