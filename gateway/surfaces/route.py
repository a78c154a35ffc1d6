"""One row of the table: an operation, its IDs, and what the gateway does with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from gateway.names import Kind
from gateway.surfaces.spec import PLAIN, Each, Id, Obj, Role, Spec


class Body(Enum):
    """What a request may carry."""

    NONE = "none"
    JSON = "json"
    OPTIONAL_JSON = "optional_json"
    """JSON, or nothing at all: `conversations.create()` and `responses.cancel()` of the SDKs send an empty body."""
    FORM = "form"
    """`multipart/form-data`, streamed. `request` describes it as the object that the names of its parts spell:
    `expires_after[anchor]` is a member of a member, `image[]` an element."""
    FORM_OR_JSON = "form_or_json"
    """Either; `request` describes both."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of the caller's own objects, served from the gateway's index: the service's own would show everybody's.

    Its query takes `after`, `limit` and what else of `before`, `order` and `filters` the route's `query` names; the answer
    is a `page_of` rows.
    """

    kind: Kind
    row: str
    """The action of the route that retrieves one of them: each row is fetched by it and read by its answer's spec."""
    order: Literal["asc", "desc"] = "desc"
    """By age, where the request says nothing."""
    limit: int = 20
    """Rows of a page, where the request says nothing."""
    most: int = 100
    """The largest `limit` that is taken. No page has more than 100 rows: what a larger limit asks for, the next one has."""
    filters: tuple[str, ...] = ()
    """Query parameters that a row's member of the same name must equal (`purpose=batch`), or one key of it, if it is an
    object (`metadata[k]=v`)."""


@dataclass(frozen=True, slots=True)
class Route:
    """`method` and `path` (a template with `{name}` segments) are the upstream's own, below the base URL's `/v1`."""

    action: str
    """The audit event's type and the policies' action: `responses.create`."""
    method: str
    path: str
    does: str
    """One line for people (`python -m gateway routes`)."""
    answer: Spec
    body: Body = Body.NONE
    request: Spec | None = None
    path_ids: Mapping[str, Id] = field(default_factory=dict)
    """Each `{name}` of the path, in the order of the path; a child after the root that it must belong to."""
    path_names: tuple[str, ...] = ()
    """`{name}` segments that are no IDs (a model's name)."""
    query: Mapping[str, Spec] = field(default_factory=dict)
    """Every query parameter that may be sent. Others are refused."""
    events: Spec | None = None
    """What a stream's events hold, where the route can stream."""
    media: tuple[bytes, ...] = ()
    """How the media types begin of those answers that are bytes and pass as they are (`audio/`); an empty one is any."""
    creates: Kind | None = None
    """The kind of root that a success makes."""
    keeps: bool = True
    """The service keeps what it makes unless the request says `store: false`; else only where it says `store: true`."""
    runs: str = ""
    """The place at which the request names a file whose lines the service then carries out: it must be one whose lines were
    checked, for its owner and for the `endpoint` that the request names."""
    deletes: str = ""
    """The path ID whose object a success deletes."""
    expires: bool = False
    """An object whose `status` is `expired` in the answer reads as missing."""
    lists: Listing | None = None
    """The answer is made here, of the caller's own objects."""
    own: Kind | None = None
    """The service's list passes, and of this kind only the caller's own remain in it (models)."""
    idempotent: bool = False
    """`Idempotency-Key` is honoured: by each route that makes or adds something from a JSON body. A form's bytes are read once,
    as they pass, and are not compared."""
    names_user: bool = False
    """The upstream is told a stable end user (`safety_identifier`), also where the client names none."""
    refetch: str = ""
    """The action by which the object that it creates is fetched again, by its ID alone; empty: a repetition is told that it
    cannot be."""

    @property
    def streams(self) -> bool:
        return self.events is not None

    def stores(self, body: object) -> bool:
        """Whether the service may keep what a request with this body makes: it may read `"true"` in its own way."""
        said = body.get("store") if isinstance(body, dict) else None
        return self.keeps if said is None else said is not False


def page_of(row: Spec, kind: Kind) -> Obj:
    """The answer of a list: rows, and the first and the last one's ID."""
    end = Id(kind, Role.REF)
    return Obj({"object": PLAIN, "data": Each(row), "first_id": end, "last_id": end})


def cursor(kind: Kind) -> Id:
    """A place in a list (`after`, `before`), which is still there when its object was deleted a moment ago."""
    return Id(kind, Role.CURSOR)
