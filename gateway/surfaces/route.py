"""One row of the table: an operation, its IDs, and what the gateway does with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gateway.names import Kind
from gateway.surfaces.spec import Id, Spec


class Body(Enum):
    """What a request may carry."""

    NONE = "none"
    JSON = "json"
    OPTIONAL_JSON = "optional_json"
    """JSON, or nothing at all: `conversations.create()` and `responses.cancel()` of the SDKs send an empty body."""


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
    creates: Kind | None = None
    """The kind of root that a success makes."""
    keeps: bool = True
    """The service keeps what it makes unless the request says `store: false`; else only where it says `store: true`."""
    deletes: str = ""
    """The path ID whose object a success deletes."""
    local: bool = False
    """The answer is filtered as a whole by the pipeline (models)."""
    idempotent: bool = False
    """`Idempotency-Key` is honoured."""
    names_user: bool = False
    """The upstream is told a stable end user (`safety_identifier`), also where the client names none."""
    refetch: str = ""
    """The action by which the object that it creates is fetched again."""

    @property
    def streams(self) -> bool:
        return self.events is not None

    def stores(self, body: object) -> bool:
        """Whether the service may keep what a request with this body makes: it may read `"true"` in its own way."""
        said = body.get("store") if isinstance(body, dict) else None
        return self.keeps if said is None else said is not False
