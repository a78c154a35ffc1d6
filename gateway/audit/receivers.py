"""A tenant's receivers of one kind (streams of its log, webhooks): entered with an address and a secret that is shown once,
listed with their state, tried, removed.

Address and secret are sealed under the tenant's audit keys (`sinks.py`). Who changes a receiver gets that on record before and
after; here it is only done.
"""

from __future__ import annotations

import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from gateway.audit.sinks import Sink, seal, send, unseal
from gateway.ids.keys import AuditKeys, KeyRefused, Versions
from gateway.names import TenantId
from gateway.outgoing import Outgoing, OutgoingFailed, OutgoingRefused
from gateway.standard_webhooks import SECRET_BYTES, show_secret
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.keyring import KeysMissing

LOG = logging.getLogger(__name__)

StateT = TypeVar("StateT")
StateT_co = TypeVar("StateT_co", covariant=True)

TRIED_EVERY_S: Final = 1.0
"""One trial of a tenant's in so long."""

TAKEN: Final = range(200, 300)
"""The statuses by which a receiver says that it has what was sent."""
_LONGEST_ERROR: Final = 200


class ReceiverRefused(Exception):
    """What was asked for was not done. The text says why."""


class ReceiverMissing(ReceiverRefused):
    """There is no such receiver."""


class ReceiverBusy(ReceiverRefused):
    """It is tried too often. A second later it may be tried again, unless a trial of it still goes on."""


class Trials:
    """Of all receivers of one process: one at a time of each, and one of a tenant's in `TRIED_EVERY_S`. Each is a request to an
    address that the tenant chose."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._going_on: set[str] = set()
        self._begun_at: dict[TenantId, float] = {}
        """The oldest first, none older than it matters."""

    @contextmanager
    def one(self, tenant: TenantId, name: str) -> Iterator[None]:
        """Raises ReceiverBusy."""
        now = self._clock()
        for other, at in list(self._begun_at.items()):
            if now - at < TRIED_EVERY_S:
                break
            del self._begun_at[other]
        if tenant in self._begun_at or name in self._going_on:
            raise ReceiverBusy("one test at a time, and one a second: try again shortly")
        self._begun_at[tenant] = now
        self._going_on.add(name)
        try:
            yield
        finally:
            self._going_on.discard(name)


@dataclass(frozen=True, slots=True)
class Listed(Generic[StateT]):
    id: str
    sink: Sink | None
    """None: its record cannot be opened."""
    state: StateT


@dataclass(frozen=True, slots=True)
class NewReceiver:
    id: str
    secret: str = field(repr=False)
    """Shown this once."""


class ReceiverStore(Protocol[StateT_co]):
    """What each kind's store has."""

    async def remove(self, tenant: TenantId, name: str, /) -> bool: ...

    async def records(self, tenant: TenantId, /) -> Mapping[str, bytes]: ...

    async def state(self, tenant: TenantId, name: str, /) -> StateT_co: ...

    async def wake(self, tenant: TenantId, name: str, /) -> None: ...


@dataclass(frozen=True)
class Receivers(ABC, Generic[StateT]):
    """What the kinds have in common. All raise ReceiverRefused, ReceiverMissing where the named one is none of the tenant's, and
    what the store raises."""

    store: ReceiverStore[StateT]
    outgoing: Outgoing
    trials: Trials = field(default_factory=Trials)
    noun: ClassVar[str]
    """Of one, as events and records call it."""
    prefix: ClassVar[str]
    most: ClassVar[int]
    """Of a tenant."""

    async def remove(self, tenant: TenantId, name: str) -> None:
        """With all that waits for it."""
        if not await self.store.remove(tenant, name):
            raise self.missing()

    async def list(self, tenant: TenantId, keys: Versions[AuditKeys]) -> Sequence[Listed[StateT]]:
        """The oldest first."""
        rows = [
            Listed(name, unseal(keys, tenant, self.what(name), record), await self.store.state(tenant, name))
            for name, record in (await self.store.records(tenant)).items()
        ]
        return sorted(rows, key=lambda row: (row.sink.created_s if row.sink else 0, row.id))

    async def test(self, tenant: TenantId, keys: Versions[AuditKeys], name: str) -> int:
        """Sends something signed that is about nothing; the receiver's status. Where it is 2xx, what waits is due at once. Raises
        ReceiverBusy too."""
        _, sink = await self.sink(tenant, keys, name)
        id_, body = self.trial(tenant, name, sink)
        with self.trials.one(tenant, name):
            status, error = await self.attempt(tenant, sink, id_, body)
        if not status:
            raise ReceiverRefused(error)
        if not error:
            await self.store.wake(tenant, name)
        return status

    async def attempt(self, tenant: TenantId, sink: Sink, id_: str, body: bytes) -> tuple[int, str]:
        """Sends it: the receiver's status (0: there was no answer), and why it does not have it (empty: it has)."""
        try:
            status = await send(self.outgoing, tenant, sink, id_, body)
        except (OutgoingFailed, OutgoingRefused) as failure:
            return 0, str(failure)[:_LONGEST_ERROR]
        return status, "" if status in TAKEN else f"the receiver answered {status}"

    @abstractmethod
    def trial(self, tenant: TenantId, name: str, sink: Sink) -> tuple[str, bytes]:
        """The message's ID and body by which a receiver is tried."""

    def new(
        self, tenant: TenantId, keys: Versions[AuditKeys], url: str, format_: str = "json"
    ) -> tuple[NewReceiver, bytes]:
        """A receiver at `url` and its record, which is not stored yet."""
        try:
            self.outgoing.check(url)
        except OutgoingRefused as refused:
            raise ReceiverRefused(str(refused)) from None
        name, secret = f"{self.prefix}{secrets.token_hex(8)}", secrets.token_bytes(SECRET_BYTES)
        record = seal(keys, tenant, self.what(name), Sink(url, secret, int(time.time()), format_))
        return NewReceiver(name, show_secret(secret)), record

    async def sink(self, tenant: TenantId, keys: Versions[AuditKeys], name: str) -> tuple[bytes, Sink]:
        """The stored record, and what it says."""
        held = (await self.store.records(tenant)).get(name)
        if held is None:
            raise self.missing()
        sink = unseal(keys, tenant, self.what(name), held)
        if sink is None:
            raise ReceiverRefused("its record cannot be opened; remove it and add it again")
        return held, sink

    async def open(self, tenant: TenantId, keyring: AuditKeyring, name: str) -> tuple[Versions[AuditKeys], Sink] | None:
        """The tenant's keys and what the record says, for a delivery; None where there is none to be made."""
        try:
            keys = await keyring.tenant(tenant)
            _, sink = await self.sink(tenant, keys, name)
        except (KeysMissing, KeyRefused, ReceiverMissing):
            return None  # erased, not to be opened with these roots, or removed
        except ReceiverRefused:
            LOG.error("receiver.record_unreadable", extra={"fields": {"tenant": tenant, self.noun: name}})
            return None
        return keys, sink

    @classmethod
    def what(cls, name: str) -> str:
        """What a record is sealed as."""
        return f"{cls.noun} {name}"

    @classmethod
    def missing(cls) -> ReceiverMissing:
        return ReceiverMissing(f"the tenant has no such {cls.noun}")

    @classmethod
    def too_many(cls) -> ReceiverRefused:
        return ReceiverRefused(f"a tenant has at most {cls.most} {cls.noun}s; remove one first")
