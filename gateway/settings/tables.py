"""The tables of which there may be several: what their keys are, and reading one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TableKey:
    read: Callable[[object], Any]
    doc: str
    example: str
    """In TOML."""


def read_table(
    table: Mapping[str, object], keys: Mapping[str, TableKey], required: Collection[str], what: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Its values, and what is wrong with the others: the mend, each by key. `what` it is: "an issuer"."""
    values: dict[str, Any] = {}
    wrong = {name: "is missing" for name in required if name not in table}
    for name, value in table.items():
        if name not in keys:
            wrong[name] = f"is no key of {what}; the keys are {', '.join(keys)}"
            continue
        try:
            values[name] = keys[name].read(value)
        except ValueError as error:
            wrong[name] = str(error)
    return values, wrong
