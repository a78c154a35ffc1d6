"""What is asked of shared state for the webhooks that wait for a tenant's receivers.

Messages about one object wait in one lane, oldest first, and only a lane's first is under way; lanes do not wait for each other.
Who reads this learns how many webhooks a tenant has, how many messages wait, for which records and since when; addresses, secrets
and messages are sealed by the caller. Who writes it can lose messages, change their order or have them sent again; a message that
is changed or moved to another webhook does not open.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from gateway.names import Kind, TenantId


@dataclass(frozen=True, slots=True)
class WebhookState:
    waiting: int = 0
    """Messages, those that are under way included."""
    dead: int = 0
    """Messages that were given up and can be sent again."""
    failures: int = 0
    """Of its receiver, in a row."""
    error: str = ""
    """The last one's; empty once something was delivered."""
    retry_in_s: float = 0.0
    """Until then the receiver is left alone."""
    stopped: bool = False
    """The receiver said that it wants no more."""


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    lane: str
    """Hexadecimal digits that stand for the object."""
    put_ms: int
    """UTC, when it came."""
    sealed: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Leased:
    message: Message
    attempts: int
    """Those before."""
    failures: int
    """Of the receiver, in a row."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    message: Message
    died_ms: int
    attempts: int
    error: str


class Put(StrEnum):
    TAKEN = "taken"
    KNOWN = "known"
    """It was put before."""
    FULL = "full"
    GONE = "gone"
    """No such webhook, or no such tenant any more."""


class WebhookStore(Protocol):
    """Each call is one round trip (`add` two) and raises StoreError as the `Store` does."""

    async def claimed(self, own_key: bytes) -> bytes | None:
        """The sealed tenant that holds a raw root ID."""

    async def record(self, tenant: TenantId, kind: Kind, h: bytes) -> bytes | None:
        """The bytes of an object's record."""

    async def tenants(self) -> frozenset[TenantId]:
        """Those that may have a webhook."""

    async def forget(self, tenant: TenantId) -> None: ...

    async def add(self, tenant: TenantId, name: str, record: bytes, most: int) -> bool:
        """False: the tenant is unknown or erased, or has `most` webhooks; nothing changed."""

    async def replace(self, tenant: TenantId, name: str, held: bytes, record: bytes) -> bool:
        """Another record in the place of `held`. False: it is not what is there."""

    async def remove(self, tenant: TenantId, name: str) -> bool:
        """With all that waits for it."""

    async def records(self, tenant: TenantId) -> Mapping[str, bytes]:
        """By the webhook's name."""

    async def names(self, tenant: TenantId) -> Collection[str]: ...

    async def state(self, tenant: TenantId, name: str) -> WebhookState: ...

    async def put(self, tenant: TenantId, name: str, message: Message, most: int, *, again: bool = False) -> Put:
        """Last in its lane, once; `again`: though it was put before."""

    async def lease(self, tenant: TenantId, name: str, owner: str, lease_s: float) -> Leased | None:
        """The first message of the lane that is due longest. None: nothing is due, the receiver is left alone or stopped, or
        the tenant is not active."""

    async def delivered(self, tenant: TenantId, name: str, owner: str, lane: str) -> bool:
        """Takes the lane's first message out. False: `owner` has lost its lease; nothing changed."""

    async def failed(
        self,
        tenant: TenantId,
        name: str,
        owner: str,
        lane: str,
        error: str,
        pauses_s: tuple[float, float],
        *,
        stop: bool,
    ) -> bool:
        """`pauses_s`: of the lane, and of the receiver."""

    async def bury(self, tenant: TenantId, name: str, owner: str, dead: DeadLetter, most: int, pause_s: float) -> bool:
        """Puts the lane's first message among the dead letters, if there are fewer than `most`."""

    async def dead(self, tenant: TenantId, name: str) -> tuple[DeadLetter, ...]:
        """The oldest first."""

    async def exhume(self, tenant: TenantId, name: str, id_: str) -> None:
        """Takes it out of the dead letters."""

    async def wake(self, tenant: TenantId, name: str) -> None:
        """Forgets failures and a stop: all that waits is due at once."""
