"""What a request names: each ID, quotation and token with its place, and how what was decided of it is put there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.errors import Problem, Reason
from gateway.ids.form import TAIL_CHARS, Parsed
from gateway.ids.kinds import PREFIXES, kind_of_prefix
from gateway.names import Kind
from gateway.surfaces.missing import missing_for
from gateway.surfaces.spec import Blob, Hashed, Id

# The prefixes of the table and no grammar of prefixes: in a hostile text, every place could be the beginning of one.
EMBEDDED: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?:{'|'.join(sorted(PREFIXES, key=len, reverse=True))})[0-9A-Za-z]{{{TAIL_CHARS}}}(?![A-Za-z0-9])"
)

Container = dict[str, Any] | list[Any]


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
        one.container[one.key] = EMBEDDED.sub(lambda found, raws=raws: raws.get(found[0], found[0]), text)  # type: ignore[index,misc]


def refusal(reference: Reference) -> Reason | None:
    """Why this reference can't open, as far as its form tells; None where a look-up must decide."""
    if reference.parsed is None:
        return Reason.NOT_AN_OPAQUE_ID
    kind = kind_of_prefix(reference.parsed.prefix)
    if kind is not None and kind is not reference.spec.kind:
        return Reason.WRONG_KIND
    return None
