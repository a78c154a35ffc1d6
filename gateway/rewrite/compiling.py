"""What is made of a spec is made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from gateway.surfaces.spec import Spec

T = TypeVar("T")


def once_a_spec(make: Callable[[Spec], T]) -> Callable[[Spec], T]:
    """`make`, carried out once for each spec: specs are constants, known by which one it is and not by what it says."""
    made: dict[int, tuple[Spec, T]] = {}

    @wraps(make)
    def known(spec: Spec) -> T:
        found = made.get(id(spec))
        if found is None:
            found = made[id(spec)] = (spec, make(spec))  # holding the spec keeps its number from being another's
        return found[1]

    return known
