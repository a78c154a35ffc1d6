"""The language of the table: what stands where in a request or an answer. Data only; `gateway/rewrite` reads it.

One description serves both directions. Inbound it says which strings must be opaque IDs and which subtrees are the
user's; outbound it says where the service itself writes an ID, where it echoes one, and where a user or a model speaks.
What no spec describes is `UNKNOWN`, and the shape rules of `gateway/rewrite` cover it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from gateway.errors import Missing
from gateway.names import Kind


class Role(Enum):
    """Why an ID stands at a place.

    | role | inbound | outbound |
    |---|---|---|
    | OWN  | an item's own `id`: opened, or dropped where the item carries its payload, or not-found | minted |
    | REF  | a reference: opened or not-found | restored if this request sent it, else referenced |
    | MADE | inside a replayed output item: opened or not-found, also for kinds without a surface | minted |
    | SOFT | opened, or removed | restored or referenced |
    | CURSOR | opened, also where its object was deleted, or not-found | (only in queries) |
    """

    OWN = "own"
    REF = "ref"
    MADE = "made"
    SOFT = "soft"
    CURSOR = "cursor"


@dataclass(frozen=True, slots=True)
class Id:
    """One ID. `missing` is OpenAI's answer where it does not open (None: the kind's own, `surfaces/missing.py`)."""

    kind: Kind
    role: Role
    missing: Missing | None = None
    passes: str = ""
    """A prefix of correlation tokens that this place also takes, unchanged (`call_`)."""
    only: str = ""
    """What does not begin so is no ID here but a plain value: a model's name is the service's own unless it begins `ft:`."""
    correlates: bool = False
    """It may name an inline item of the same input, recorded or not: then both go upstream as they are."""
    nowhere: bool = False
    """Where it does not open, an ID that exists nowhere goes upstream, so that the service itself says so."""


@dataclass(frozen=True, slots=True)
class User:
    """A subtree that the user or a third party wrote: text, arguments, metadata, schemas. Passes untouched inbound;
    outbound only raw IDs that this request has touched are replaced in it."""


@dataclass(frozen=True, slots=True)
class Secret:
    """What the client trusts the service with (an MCP server's token): passes untouched inbound, and reads as `instead` in
    every answer, for who reads an object need not be who made it. `public`: values that are no secret."""

    public: frozenset[str] = frozenset()
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Speech:
    """A string in which the model speaks. Like `User`; with `restore`, opaque IDs of the same owner that stand in a
    replayed string (code, logs, file names) become raw again inbound. With `runs` it is a piece of a text that goes on in
    the next event of a stream whose events have no type."""

    restore: bool = False
    runs: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """A file name or address that the service gives (`cfile_….png`): outbound by the shape rules like `UNKNOWN`,
    inbound the same owner's opaque IDs in it become raw again, like `REPLAYED`. With `refers` the client may have had a say
    in it: outbound the IDs in it are written in their normal form."""

    refers: bool = False


@dataclass(frozen=True, slots=True)
class Plain:
    """A known value that is no ID of the service and is exempt from the shape: enumerations, `call_id`, `stream_id`."""

    never: tuple[tuple[str, str], ...] = ()
    """Values, in lower case, that a request may not have here, each with what its sender is told."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """A client-chosen token of one upstream name space, replaced by an HMAC and restored when echoed. `token` names which
    (`gateway/ids/tokens.py`), and with it what it is bound to."""

    token: str


@dataclass(frozen=True, slots=True)
class Blob:
    """A replay blob (`encrypted_content`): suffixed outbound, checked and stripped inbound; exempt from the shape."""


@dataclass(frozen=True, slots=True)
class Media:
    """Base64 media, `obfuscation`, data URLs: exempt from the shape, never from touched IDs."""


@dataclass(frozen=True, slots=True)
class File:
    """A part of a form with a file name: its bytes pass as they are, its name is the user's. They go on as soon as the parts
    named in `after` are known; None: once all parts are, so that nothing that decides can follow them. In JSON: `UNKNOWN`."""

    after: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """What the service says of a failure (`{"code", "message", …}`) under another name than `error`, where it is known as
    such: outbound its message is rebuilt. Inbound `UNKNOWN`."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known: a whole string of raw shape is refused inbound and made inert outbound, at any depth."""


USER: Final = User()
SECRET: Final = Secret()
SPEECH: Final = Speech()
REPLAYED: Final = Speech(restore=True)
RUNNING: Final = Speech(runs=True)
LABEL: Final = Label()
PATH: Final = Label(refers=True)
PLAIN: Final = Plain()
BLOB: Final = Blob()
MEDIA: Final = Media()
FILE: Final = File()
FAULT: Final = Fault()
UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True)
class Each:
    """Every element of an array. A value that is no array is taken as `UNKNOWN`."""

    of: Spec


@dataclass(frozen=True, slots=True)
class Obj:
    """An object. Keys without a spec are `rest`. `payload` names the keys of which one (not null) makes an item whole:
    with none of them, an `Id` of role OWN in it is a pure reference. None: the item always carries its payload."""

    fields: Mapping[str, Spec]
    rest: Spec = UNKNOWN
    payload: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", MappingProxyType(dict(self.fields)))


@dataclass(frozen=True, slots=True)
class Typed:
    """An object told by its `key` member. An unknown tag takes `other`; no tag takes `absent` (None: `other`)."""

    table: Mapping[str, Obj]
    other: Obj
    absent: Obj | None = None
    key: str = "type"


@dataclass(frozen=True, slots=True)
class Either:
    """A string of one spec, or a structure of another: `conversation` as `"conv_…"` or `{"id": "conv_…"}`."""

    text: Spec
    structure: Spec = field(default_factory=Unknown)


Spec = (
    Id
    | User
    | Secret
    | Speech
    | Label
    | Plain
    | Hashed
    | Blob
    | Media
    | File
    | Fault
    | Unknown
    | Each
    | Obj
    | Typed
    | Either
)
