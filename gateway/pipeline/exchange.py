"""One request on its way through the stages, and what it becomes for the client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from gateway.audit.event import Actor
from gateway.authz import Resource
from gateway.errors import Problem, Reason
from gateway.mapping import Mapper, Opened
from gateway.names import Kind, Principal, RequestId
from gateway.pipeline.paging import Asked
from gateway.pipeline.recording import Record
from gateway.rewrite.forms import FilePart, TextPart
from gateway.rewrite.named import Collected, Quotation, Reference
from gateway.stores.contract import Begun, Rows
from gateway.surfaces.route import Listing, Route

if TYPE_CHECKING:
    from gateway.pipeline.provider import Provider


class Head(Protocol):
    """A request's head as the guard took it, before the first byte of the body."""

    @property
    def request_id(self) -> RequestId: ...
    @property
    def method(self) -> str: ...
    @property
    def raw_path(self) -> bytes: ...
    @property
    def query(self) -> bytes: ...
    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]: ...
    @property
    def by_name(self) -> Mapping[bytes, bytes]: ...
    @property
    def client(self) -> str: ...


class Outlet(Protocol):
    """Where bytes of a stream may leave at once."""

    def is_ready(self) -> bool: ...
    def push(self, data: bytes) -> None: ...


class Stream(Protocol):
    """The bytes of a streamed answer, piece by piece."""

    def lend(self, outlet: Outlet) -> None:
        """From now on, pieces that wait for nothing may leave by `outlet`, in their order, while the next is awaited."""

    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> bytes: ...
    async def aclose(self) -> None: ...


class Lease(Protocol):
    """A share of the memory that all large bodies and answers have."""

    def hold(self, size: int) -> None:
        """`size` bytes are held by now. Raises Problem where all of them together are too many."""

    def grow(self, more: int) -> None:
        """So many more are. Raises Problem."""

    def shrink(self, size: int) -> None:
        """No more than `size` are."""

    def shed(self, less: int) -> None:
        """So many fewer are."""

    def give_back(self) -> None: ...


class Form(Protocol):
    """A form of which all is known that decides on it; its files may be on their way."""

    @property
    def value(self) -> dict[str, Any]:
        """What its texts spell, as a JSON body would say it; what comes late is added."""

    def parts(self) -> AsyncGenerator[FilePart | TextPart, None]:
        """Its files, and the texts that follow the first of them. Raises Problem: then nothing more may go upstream."""


@dataclass(frozen=True, slots=True)
class Sending:
    """A request's body in pieces. `body` is closed by whoever sends it."""

    content_type: bytes
    body: AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the transport sends. A stream must be closed (`aclose`) wherever it is left early."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes | Stream
    action: str
    """The route's action, or `unknown`: for metrics."""
    media: bool = False
    """The stream is a file's bytes: a failure under way can only cut it off."""


@dataclass(slots=True, eq=False)
class Exchange:
    """What is known of a request so far. Each stage adds its own part and reads the earlier ones."""

    head: Head
    started: float
    """Event-loop time in seconds."""
    now: int
    """UTC seconds at its arrival."""
    route: Route | None = None
    segments: Mapping[str, str] = field(default_factory=dict)
    query: list[tuple[str, str]] = field(default_factory=list)
    principal: Principal | None = None
    mapper: Mapper | None = None
    provider: Provider | None = None
    """Where it goes, once that is known."""
    body: Any = None
    """Parsed; of a form, what its texts spell."""
    form: Form | None = None
    lines: str = ""
    """The URL that the lines of the file that it uploads name, as far as they were checked."""
    keeps: bool = False
    """Whether the service keeps what one of those lines makes."""
    model: str = ""
    collected: Collected = field(default_factory=Collected)
    asked: Asked | None = None
    """Of a list."""
    begun: Begun | None = None
    records: dict[tuple[Kind, bytes], Opened | None] = field(default_factory=dict)
    """What the look-ups gave, by kind and h."""
    opened: dict[str, Opened] = field(default_factory=dict)
    """What opened for the principal, by the opaque ID as the client wrote it."""
    policy: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    """Hashed token → what the client wrote for it."""
    added: list[str] = field(default_factory=list)
    """Hashed tokens that the client did not ask for; an answer that repeats one says null there."""
    correlated: set[str] = field(default_factory=set)
    """Opaque IDs that name nothing but another item of the same input; they go upstream as they are."""
    stand_ins: dict[str, str] = field(default_factory=dict)
    """Made-up raw ID → the opaque ID that did not open, where the service itself shall say that it knows no such thing."""
    lease: Lease | None = None
    """What its answer counts against until the client has it."""
    passing: Container[str] = frozenset()
    """What names something that lives no longer than the connection: no object for the log to tell of, and what a client
    calls it may be anything."""
    made: list[tuple[Kind, str]] = field(default_factory=list)
    """Kind and opaque ID of each root that the answer made."""
    listed: list[tuple[Kind, str]] = field(default_factory=list)
    """Kind and opaque ID of each row of a list."""
    ending: Mapping[str, str | int] | None = None
    """How a socket ended, for its outcome."""
    unrecorded: list[Record] = field(default_factory=list)
    """Children that a stream had shown when it was left."""
    job: str = field(default="", repr=False)
    """The raw ID of a background response that runs on when its client leaves."""
    closed: bool = False
    """Its outcome is in the log."""
    left: bool = False
    """Its client has gone, and what it left was seen to."""
    shown: tuple[Actor, str, str] | None = None
    """Actor, network and agent as the log shows them; made once (`evidence.py`)."""
    upstream_called: bool = False
    streaming: bool = False
    bytes_out: int = 0

    def forget_request(self) -> None:
        """What goes upstream is ready, and only what the answer and the outcome need stays. Each ID that was named holds on to
        the part of the body that it stands in."""
        self.body, self.query = None, []
        self.collected = Collected(dropped=self.collected.dropped)
        self.records, self.opened, self.correlated = {}, {}, set()

    @property
    def action(self) -> str:
        return self.route.action if self.route else "unknown"

    @property
    def known_route(self) -> Route:
        if self.route is None:
            raise Problem(Reason.INTERNAL)
        return self.route

    @property
    def known_mapper(self) -> Mapper:
        if self.mapper is None:
            raise Problem(Reason.INTERNAL)
        return self.mapper

    @property
    def known_provider(self) -> Provider:
        if self.provider is None:
            raise Problem(Reason.INTERNAL)
        return self.provider

    @property
    def known_principal(self) -> Principal:
        if self.principal is None:
            raise Problem(Reason.INTERNAL)
        return self.principal

    @property
    def known_lease(self) -> Lease:
        if self.lease is None:
            raise Problem(Reason.INTERNAL)
        return self.lease

    @property
    def known_listing(self) -> Listing:
        if self.known_route.lists is None:
            raise Problem(Reason.INTERNAL)
        return self.known_route.lists

    @property
    def known_asked(self) -> Asked:
        if self.asked is None:
            raise Problem(Reason.INTERNAL)
        return self.asked

    @property
    def known_rows(self) -> Rows:
        if self.begun is None or self.begun.rows is None:
            raise Problem(Reason.INTERNAL)
        return self.begun.rows

    @property
    def resources(self) -> list[Resource]:
        tenant = self.known_mapper.tenant
        return [Resource(one.raw.kind, one.root.owner, one.root.visibility, tenant) for one in self.opened.values()]

    def record(self, reference: Reference | Quotation) -> Opened | None:
        """What the look-up of a reference gave; None where there was none to do."""
        return self.records.get((reference.kind, reference.parsed.h)) if reference.parsed else None

    def stand_in_for(self, reference: Reference) -> str:
        """A raw ID that exists nowhere, for a soft reference that does not open: the answer is then the service's own for a
        thing that does not exist. It reads back as what the client wrote, if that is an opaque ID, else as null."""
        raw = self.known_mapper.nowhere(reference.kind, reference.text)
        if reference.parsed is None:
            self.added.append(raw)
        self.stand_ins[raw] = reference.text if reference.parsed else raw
        return raw

    @property
    def deleted(self) -> Opened | None:
        """The object that a success of this route deletes."""
        route = self.known_route
        return self.at(route.deletes) if route.deletes else None

    def at(self, param: str) -> Opened | None:
        """The object that a path ID or a place of the body names, once it opened."""
        for reference in self.collected.references:
            if reference.param == param:
                return self.opened.get(reference.text)
        return None
