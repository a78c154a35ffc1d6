"""What the rest of the gateway asks of shared state: the `Store` protocol, its values and its failures.

The tenant is the first argument of every method that touches a tenant's data, and is part of every key behind it. Record
bytes are opaque here: this module, and whoever imports only this module, cannot read a raw ID.

What a request makes of these values is not frozen, though nobody changes one: a frozen dataclass is six times as slow to make.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from gateway.names import Kind, TenantId

if TYPE_CHECKING:
    from gateway.stores.log import LogStore


class StoreError(Exception):
    """Root of what a store raises. Its text names no ID and no value."""


class StoreUnavailable(StoreError):
    """The call was not confirmed. It may or may not have been carried out; the same bytes may be sent again."""


class NotDurable(StoreUnavailable):
    """Carried out, but not confirmed at the configured durability. `seq` is the sequence number that was given."""

    def __init__(self, message: str, seq: int = 0) -> None:
        super().__init__(message)
        self.seq = seq


class WriterRefused(StoreError):
    """The entry is not the next one of its writer, or the writer was ended. Nothing was written."""


class EventsLost(StoreError):
    """The store holds fewer events of a writer than it confirmed: the tenant is halted until its log is resealed."""


class StoreMisconfigured(StoreError):
    """The server cannot keep what the gateway needs kept. Raised at start, with what to change."""


class TenantStatus(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    ERASED = "erased"

    @classmethod
    def read(cls, stored: bytes) -> TenantStatus:
        """What is no status suspends: the scripts let only an active tenant's calls through, and `tenant resume` mends it."""
        return next((one for one in cls if one.value.encode() == stored), cls.SUSPENDED)


@dataclass(slots=True)
class Entry:
    """One audit event, already chained. `wseq` counts from 1 per writer (a writer belongs to one tenant).

    The store takes an entry only if `wseq` is the last of its writer + 1. The same `wseq` with the same bytes was carried
    out before: the answer is given again and nothing is appended.
    """

    writer: str
    wseq: int
    body: bytes
    ends: str = ""
    """A predecessor that takes no entry any more once this one is appended."""
    ends_after: int = 0
    """The predecessor's last confirmed `wseq`; if the store holds less, it lost events (`EventsLost`)."""
    mac: bytes = b""
    """Of the body, by the writer's key (`audit/genuine.py`); stored beside it."""


@dataclass(slots=True)
class Lookup:
    kind: Kind
    h: bytes
    """16 bytes."""


@dataclass(slots=True)
class Stretch:
    """A part of a list: what has entered it in any of `scopes`, by time, from some place on."""

    kind: Kind
    scopes: tuple[str, ...]
    count: int
    newest_first: bool
    after: bytes = b""
    """`h` of the entry that it begins behind, in one of `scopes`. Empty: as `position` says."""
    position: int = 0
    """Of the entry that it begins behind; 0: it begins at the beginning."""


@dataclass(slots=True)
class Row:
    h: bytes
    record: bytes
    position: int


@dataclass(slots=True)
class Rows:
    known: bool
    """Whether `Stretch.after` is in the list, or was until a day ago. False: there are no rows."""
    rows: tuple[Row, ...]
    """At most as many as were asked for. There may be fewer though more follow."""
    position: int
    """That the next stretch begins behind; 0: the list ends here."""


@dataclass(slots=True)
class Begin:
    entry: Entry
    credential: str = ""
    """The API key's tag, whose record is checked in the same call; empty for a credential without one."""
    lookups: tuple[Lookup, ...] = ()
    open_until_s: int = 0
    """UTC seconds after which an intent without an outcome is closed as unknown; 0: a single event, nothing stays open."""
    stretch: Stretch | None = None
    """Of a list, read in the same call."""


@dataclass(slots=True)
class Found:
    """The stored bytes of one look-up, and those of the root that a child's clear pointer names."""

    record: bytes | None
    root: bytes | None


@dataclass(slots=True)
class Begun:
    """`found` has one element for each look-up, in their order, or none where tenant or credential were refused."""

    seq: int
    """The event's sequence number in the tenant's log, from 1; 0: the tenant is erased or unknown, nothing was appended."""
    generation: int
    """Rises with each change of the tenant's status; `Finish` hands it back."""
    tenant_active: bool
    credential_live: bool
    found: tuple[Found, ...] = ()
    rows: Rows | None = None
    """Of the stretch that was asked for."""


class Mode(StrEnum):
    CREATE = "create"
    """The record must be absent, or hold the same bytes."""
    PUT = "put"
    """Creates, or lengthens the life of what is there; never changes it."""
    TOMBSTONE = "tombstone"
    """Overwrites; keeps the longer of both lives, and leaves the list."""
    GONE = "gone"
    """Writes no record; lists pass over the one that is there for `lifetime_s`."""


@dataclass(slots=True)
class Write:
    kind: Kind
    h: bytes
    data: bytes
    lifetime_s: int | None
    """None: does not expire."""
    mode: Mode
    scope: str = ""
    """Of its kind's list, which it enters if it is new; empty: no list shows it."""


@dataclass(slots=True)
class Finish:
    """`entries` are consecutive entries of one writer; at least one."""

    entries: tuple[Entry, ...]
    writes: tuple[Write, ...] = ()
    generation: int = 0
    """`Begun.generation`; a tenant whose generation differs takes no writes."""
    closes: int = 0
    """`Begun.seq` of the intent that these entries close; 0: none."""


@dataclass(slots=True)
class Finished:
    seq: int
    """Of the last entry; 0: the tenant is erased or unknown, nothing was appended."""
    tenant_active: bool
    """False: the writes were refused; the entries were appended all the same (unless `seq` is 0)."""
    conflicts: tuple[bytes | None, ...] = ()
    """For each write the bytes that a CREATE met, or None. One conflict, and none of the writes was done."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    seq: int
    body: bytes
    mac: bytes = b""
    """As the entry brought it; empty where it came otherwise."""


@dataclass(frozen=True, slots=True)
class TenantState:
    status: TenantStatus
    generation: int
    last_seq: int
    halted: bool
    """Events were lost; nothing is appended until the log is resealed."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A gateway API key's record: what `begin` must read, and bytes that only the authenticator reads."""

    data: bytes
    expires: int | None
    """UTC seconds; None: never."""
    revoked: bool


T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Where a call's answer goes, as soon as it is there: a future, or something of the caller's that knows more."""

    def done(self) -> bool:
        """Whether it has taken its answer, or takes none any more."""

    def set_result(self, answer: T_contra, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class Store(Protocol):
    """Shared state. Every await ends within the store's own time-outs, in an answer or a `StoreError`.

    `begin`, `finish` and `claim` are not coroutine functions: they put the call on the wire's queue before they return, so
    calls for one tenant are carried out in the order in which they were made. Each is one round trip. `send_begin` and
    `send_finish` are the same for who brings a sink.
    """

    @property
    def log(self) -> LogStore:
        """What is asked of a tenant's log beyond its events."""

    def ready(self, tenant: TenantId) -> bool:
        """False while the tenant's server is known to be out of reach. A call made then fails at once."""

    def begin(self, tenant: TenantId, call: Begin) -> Future[Begun]: ...

    def finish(self, tenant: TenantId, call: Finish) -> Future[Finished]: ...

    def send_begin(self, tenant: TenantId, call: Begin, sink: Sink[Begun]) -> None: ...

    def send_finish(self, tenant: TenantId, call: Finish, sink: Sink[Finished]) -> None: ...

    async def read_rows(self, tenant: TenantId, stretch: Stretch) -> Rows: ...

    async def read_events(self, tenant: TenantId, after_seq: int, count: int) -> tuple[StoredEvent, ...]:
        """At most `count` events with a sequence number above `after_seq`, oldest first."""

    async def read_events_before(self, tenant: TenantId, before_seq: int, count: int) -> tuple[StoredEvent, ...]:
        """At most `count` events with a sequence number below `before_seq`, newest first."""

    async def take_overdue(self, tenant: TenantId, now_s: int, lease_s: int, count: int) -> tuple[StoredEvent, ...]:
        """Intents whose deadline has passed, oldest first, each handed to one caller for `lease_s` seconds."""

    async def create_tenant(self, tenant: TenantId, record: bytes) -> bool:
        """Enters the tenant as active. False: the ID was used before, and nothing changed."""

    def tenants(self) -> AsyncIterator[tuple[TenantId, bytes]]:
        """Every tenant ever created with its directory record, in no order; one may come twice while the directory grows."""

    async def tenant_record(self, tenant: TenantId) -> bytes | None: ...

    async def tenant_state(self, tenant: TenantId) -> TenantState | None: ...

    async def set_tenant_status(self, tenant: TenantId, status: TenantStatus, *, at: int | None = None) -> bool:
        """Sets the status and raises the generation. `at`: only while it is this. False: unknown, erased (which is final), or
        of another generation; nothing changed."""

    async def put_api_key(self, tenant: TenantId, tag: str, key: ApiKey) -> None: ...

    async def api_key(self, tenant: TenantId, tag: str) -> ApiKey | None: ...

    async def api_keys(self, tenant: TenantId) -> Mapping[str, ApiKey]:
        """By tag."""

    async def wrapped_keys(self, tenant: TenantId) -> Mapping[str, bytes]:
        """By name, e.g. `identity.1`."""

    async def put_wrapped_key(self, tenant: TenantId, name: str, blob: bytes) -> bytes:
        """Stores the blob unless one is there. Returns the blob that is stored now."""

    async def replace_wrapped_key(self, tenant: TenantId, name: str, held: bytes, blob: bytes) -> bool:
        """Another blob in the place of `held`. False: it is not what is there."""

    async def delete_wrapped_keys(self, tenant: TenantId) -> None: ...

    async def reserve_slot(self, tenant: TenantId, token: str, value: bytes, lifetime_s: int) -> bytes | None:
        """Takes the idempotency slot for `value` (unique to the request). None: taken; else the value that holds it, whose
        time this does not lengthen."""

    async def fill_slot(self, tenant: TenantId, token: str, held: bytes, value: bytes, lifetime_s: int) -> bool:
        """Replaces `held` by `value`. False: somebody else holds the slot, and nothing changed."""

    async def release_slot(self, tenant: TenantId, token: str, held: bytes) -> bool: ...

    async def put_session(self, tenant: TenantId, name: str, data: bytes, lifetime_s: int) -> None:
        """Keeps a console session for `lifetime_s`. `name` and `data` tell nothing (`console/session.py`)."""

    async def keep_session(self, tenant: TenantId, name: str, data: bytes, lifetime_s: int) -> bool:
        """Replaces a session that is there. False: it is gone, and stays so."""

    async def session(self, tenant: TenantId, name: str) -> bytes | None: ...

    async def sessions(self, tenant: TenantId) -> Mapping[str, bytes]:
        """By name, those that are there."""

    async def drop_session(self, tenant: TenantId, name: str) -> bool:
        """False: it was gone."""

    async def put_sign_in(self, name: str, data: bytes, lifetime_s: int) -> None:
        """Keeps what a sign-in that was begun must come back with. Outside the tenants' slots: the tenant is not known."""

    async def take_sign_in(self, name: str) -> bytes | None:
        """Hands it out to one caller, once."""

    def claim(self, own_key: bytes, sealed_tenant: bytes, lifetime_s: int | None) -> Future[bytes]:
        """Claims a raw root ID (by its keyed hash, as it stands in the key) unless claimed; lengthens the claim's life.

        Returns the value that holds now. Outside the tenants' slots.
        """

    async def deployment_secret(self, name: str) -> bytes | None: ...

    async def put_deployment_secret(self, name: str, blob: bytes) -> bytes:
        """Stores the blob unless one is there. Returns the blob that is stored now."""

    async def replace_deployment_secret(self, name: str, held: bytes, blob: bytes) -> bool:
        """Another blob in the place of `held`. False: it is not what is there."""

    async def append_operator_event(self, body: bytes) -> None:
        """Appends to the operator's log, which belongs to no tenant and is cut to its newest part."""

    async def read_operator_events(self, after_id: str, count: int) -> tuple[tuple[str, bytes], ...]:
        """At most `count` (stream ID, body) after `after_id` (`0` for the first), oldest first."""

    async def aclose(self) -> None: ...
