"""What a row of the table says, and how a body is read by it: each member by its reader, none that the row does not name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.admin.administration import AdminInvalid, Administration
from gateway.admin.desk import Desk
from gateway.authn.scopes import Scope
from gateway.names import TenantId

MOST_CHARS: Final = 2048
MOST_TEXTS: Final = 16

Answer = Mapping[str, object]
"""What becomes the JSON of an answer."""


class BodyRefused(Exception):
    """A member is missing, unknown, or of another type. `member` names it; empty: it is the body itself."""

    def __init__(self, member: str, mend: str) -> None:
        super().__init__(f"{member}: {mend}" if member else mend)
        self.member = member


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read."""

    desk: Desk
    """As it is for whoever calls: their name stands in what it records."""
    tenant: TenantId
    """The one that the path or the credential names; empty where the route has none."""
    names: Mapping[str, str]
    """What else the path names, by the route's placeholders."""
    body: Mapping[str, Any]
    """Every member of the row, the default's value where the body had none."""

    @property
    def admin(self) -> Administration:
        return self.desk.admin


@dataclass(frozen=True, slots=True)
class Member:
    """One of a body. `read` gives the value that the operation takes, or raises ValueError or AdminInvalid with the mend."""

    read: Callable[[object], Any]
    form: str
    """For people: of which JSON type it is."""
    does: str
    required: bool = False
    default: object = None


@dataclass(frozen=True, slots=True)
class Row:
    method: str
    path: str
    """With placeholders; `{tenant}` takes a name or an ID."""
    does: str
    run: Callable[[Call], Awaitable[Answer]]
    answer: Mapping[str, str]
    """Its members, with what each is."""
    body: Mapping[str, Member] = field(default_factory=dict)
    status: int = 200
    scope: Scope | None = None
    """What the key of a tenant's own service needs to call it for its tenant; None: no key of a tenant does."""

    def read(self, value: object) -> dict[str, Any]:
        """The members of a parsed body (None: there is none). Raises BodyRefused."""
        given = {} if value is None else value
        if not isinstance(given, dict):
            raise BodyRefused("", "the body must be a JSON object")
        for name in given:
            if name not in self.body:
                known = ", ".join(self.body) or "none"
                raise BodyRefused(name if name.isidentifier() else "", f"is no member of this body; it has {known}")
        read = {}
        for name, member in self.body.items():
            if name not in given:
                if member.required:
                    raise BodyRefused(name, f"is missing: {member.does}")
                read[name] = member.default
                continue
            try:
                read[name] = member.read(given[name])
            except (AdminInvalid, ValueError) as error:
                raise BodyRefused(name, str(error)) from None
        return read


def text(
    does: str,
    *,
    parse: Callable[[str], Any] = str,
    required: bool = False,
    default: object = None,
    nullable: bool = False,
) -> Member:
    """A text on one line. `parse` gives what it stands for, or raises ValueError. `nullable`: or null."""

    def read(value: object) -> Any:
        if value is None and nullable:
            return None
        if not isinstance(value, str) or not 0 < len(value) <= MOST_CHARS or not value.isprintable():
            raise ValueError(f"must be a text on one line, of 1 to {MOST_CHARS:,} characters")
        return parse(value)

    return Member(read, "text or null" if nullable else "text", does, required, default)


def flag(does: str) -> Member:
    """True or false; false where it is missing."""

    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value

    return Member(read, "true or false", does, default=False)


def agreed(does: str) -> Member:
    """What must be said, and be true."""

    def read(value: object) -> bool:
        if value is not True:
            raise ValueError("must be true")
        return True

    return Member(read, "true", does, required=True)


def given_flag(does: str) -> Member:
    """True or false, and never left out."""
    return Member(flag(does).read, "true or false", does, required=True)


def texts(does: str) -> Member:
    """A list of texts, empty where it is missing."""
    one = text(does)

    def read(value: object) -> list[str]:
        if not isinstance(value, list) or len(value) > MOST_TEXTS:
            raise ValueError(f"must be a list of at most {MOST_TEXTS} texts")
        return [one.read(item) for item in value]

    return Member(read, "list of texts", does, default=())


def number(does: str, low: int, high: int, *, default: int | None = None, nullable: bool = False) -> Member:
    """A whole number within bounds, both included; `nullable`: or null, and then it must be there."""
    bounds = f"{low:,} to {high:,}" + (", or null" if nullable else "")

    def read(value: object) -> int | None:
        if value is None and nullable:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"must be a whole number, {bounds}")
        return value

    return Member(read, f"number, {bounds}", does, required=nullable, default=default)
