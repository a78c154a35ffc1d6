"""What is asked of a tenant's log beyond its events: checkpoints, halts, a new epoch, rules of keeping, trimming.

Who reads this learns sizes, hashes and days. Who writes it can take the newest checkpoints away or put older ones in their
place; a checkpoint cannot be forged, and the anchor tells of one that went back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.names import TenantId
from gateway.stores.contract import Entry, TenantStatus

MOST_DAYS: Final = 36_500
"""The longest that a rule may let events stay, short of for ever."""


@dataclass(frozen=True, slots=True)
class LogState:
    """One tenant's log: how far it goes, and its newest checkpoint."""

    status: TenantStatus
    seq: int
    """Of the newest event."""
    halted: str
    """Why nothing is appended until the log is resealed; empty: it is not halted."""
    epoch: int = 0
    size: int = 0
    """Of the newest checkpoint; 0: none yet."""
    note: str = ""
    """The newest checkpoint, as a signed note."""
    frontier: bytes = b""
    """Of its tree (`audit/tree.py`)."""
    leaf: bytes = b""
    """Of its last event."""
    anchored: int = 0
    """The size up to which the log is in every anchor."""
    trimmed: int = 0
    """Events up to this one were archived and are no longer here."""
    base: bytes = b""
    """The frontier of `trimmed`; empty where that is 0."""
    keys: str = ""
    """The public keys of its checkpoints, a line each; they stay when the tenant is erased."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A checkpoint to be stored: `before` is the size of the one that it follows, `last` the body of its last event."""

    epoch: int
    before: int
    size: int
    note: str
    frontier: bytes
    keys: str
    last: bytes
    leaf: bytes
    """Of that event."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a tenant's log is kept."""

    days: int | None = None
    """Older events are archived and trimmed. None: by the deployment's setting; 0: never."""
    hold: bool = False
    """A legal hold: nothing is trimmed, and the tenant is not erased."""
    webhook: str = ""
    """Where the tenant wants its checkpoints sent."""


class LogStore(Protocol):
    """Each call is one round trip (`ended_records` and `purge` aside) and raises StoreError as the `Store` does."""

    @property
    def connections(self) -> int:
        """Rises with each new connection to a server, after which logs may have gone back."""

    async def state(self, tenant: TenantId) -> LogState | None: ...

    async def put_checkpoint(self, tenant: TenantId, signed: Signed) -> bool:
        """False: another one was first, the log is halted, or its event `size` is not `last`; nothing changed."""

    async def set_anchored(self, tenant: TenantId, epoch: int, size: int) -> bool: ...

    async def halt(self, tenant: TenantId, why: str) -> None: ...

    async def reseal(self, tenant: TenantId, entry: Entry, signed: Signed) -> bool:
        """Ends a halt. `signed` is of the next epoch and covers `entry`, which is its last event; `before` is the epoch
        that ends. False: not halted, or the log is not what was signed; nothing changed."""

    async def trim(self, tenant: TenantId, last: int, base: bytes) -> bool:
        """Removes events up to `last`. False: a hold, not anchored, or trimmed further already; nothing changed."""

    async def rules(self, tenant: TenantId) -> Rules: ...

    async def set_rules(self, tenant: TenantId, **changes: str | int) -> None:
        """`days` (-1: by the deployment's setting), `hold` (0 or 1), `webhook`."""

    def records(self, tenant: TenantId) -> AsyncIterator[tuple[bytes, bytes]]:
        """Every record of the tenant: its key's name and its bytes. In no order; one may come twice."""

    async def drop(self, tenant: TenantId, key: bytes) -> None: ...

    async def purge(self, tenant: TenantId) -> int:
        """Deletes all of the tenant's keys but its state, its log, its checkpoint and its rules. How many they were."""
