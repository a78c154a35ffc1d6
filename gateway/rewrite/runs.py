"""Texts that run through the chunks of a stream whose events have no type: `choices[0].delta.content` of one, then of the
next. Which strings are pieces of such a text the table says (`Speech.runs`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gateway.rewrite.sift import Holder, Key
from gateway.surfaces.spec import Each, Obj, Spec, Speech

Path = tuple[str | int, ...]
"""Members by their names, elements of arrays by what they call their `index`."""

_CHOICE = 2
"""Steps of a path that lead to the choice (`choices`, its index)."""


class Piece(NamedTuple):
    path: Path
    holder: Holder
    key: Key
    text: str


def pieces(chunk: object, spec: Spec) -> list[Piece]:
    """Every piece of a running text in `chunk`, in the order of the table."""
    return list(_pieces(chunk, spec, (), [chunk], 0))


def _pieces(value: object, spec: Spec, path: Path, holder: Holder, key: Key) -> Iterator[Piece]:
    match spec:
        case Speech(runs=True) if isinstance(value, str):
            yield Piece(path, holder, key, value)
        case Obj() if isinstance(value, dict):
            for name, of in spec.fields.items():
                if name in value:
                    yield from _pieces(value[name], of, (*path, name), value, name)
        case Each() if isinstance(value, list):
            for number, element in enumerate(value):
                yield from _pieces(element, spec.of, (*path, _index(element, number)), value, number)
        case _:
            pass


def choices(chunk: object) -> dict[Path, dict[str, Any]]:
    """The choices of a chunk, by their paths."""
    found = chunk.get("choices") if isinstance(chunk, dict) else None
    elements = enumerate(found if isinstance(found, list) else ())
    return {("choices", _index(one, number)): one for number, one in elements if isinstance(one, dict)}


def choice_of(path: Path) -> Path:
    """The path of the choice that a text belongs to."""
    return path[:_CHOICE]


def only(chunk: dict[str, Any], path: Path, text: str) -> dict[str, Any]:
    """`chunk` with nothing in it but `text` at `path`: what clients add up has to stand in one chunk alone."""
    said: dict[str, Any] = _only(chunk, path, text)
    kept = {name: None if isinstance(member, dict | list) else member for name, member in chunk.items()}
    return {name: said.get(name, kept[name]) for name in kept if name != "obfuscation"}


def _only(value: Any, path: Path, text: str) -> Any:
    if not path:
        return text
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return {step: _only(value[step], rest, text)}
    element = next(one for number, one in enumerate(value) if _index(one, number) == step)
    inner = _only(element, rest, text)
    kept = {name: None if name == "logprobs" else member for name, member in element.items() if name in _TOLD}
    return [kept | inner]


_TOLD = frozenset({"index", "finish_reason", "logprobs"})
"""What an element says of itself in every chunk."""


def _index(element: object, number: int) -> int:
    index = element.get("index") if isinstance(element, dict) else None
    return index if type(index) is int else number
