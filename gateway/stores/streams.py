"""What is asked of shared state for the streams of a tenant's log to its receivers.

Who reads this learns how many streams a tenant has, how far each is and when it failed; addresses and secrets are sealed by the
caller. Who writes it can stop a stream, or have events sent again or left out: the receiver sees that by their numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.names import TenantId


@dataclass(frozen=True, slots=True)
class StreamState:
    """How far a stream is."""

    cursor: int
    """The newest event that was delivered."""
    seq: int
    """The newest event in the log."""
    digest: str = ""
    """SHA-256 (hex) of the event `cursor`, by which a log that was replaced is known; empty: not known."""
    upto: int = 0
    """The last event of a batch that may be on its way; the same batch goes again. Not above `cursor`: none is."""
    failures: int = 0
    """In a row."""
    error: str = ""
    """The last one's; empty once something was delivered."""
    retry_in_s: float = 0.0
    stopped: bool = False
    """The receiver said that it wants no more."""

    @property
    def behind(self) -> int:
        return max(0, self.seq - self.cursor)


class StreamStore(Protocol):
    """Each call is one round trip (`add` and `remove` two) and raises StoreError as the `Store` does."""

    async def tenants(self) -> frozenset[TenantId]:
        """Those that may have a stream."""

    async def forget(self, tenant: TenantId) -> None:
        """Takes the tenant out of `tenants`."""

    async def add(self, tenant: TenantId, stream: str, record: bytes, most: int, *, from_start: bool) -> bool:
        """False: the tenant is unknown or erased, or has `most` streams; nothing changed."""

    async def remove(self, tenant: TenantId, stream: str) -> bool: ...

    async def records(self, tenant: TenantId) -> Mapping[str, bytes]:
        """By the stream's name."""

    async def names(self, tenant: TenantId) -> Collection[str]:
        """Of the tenant's streams."""

    async def state(self, tenant: TenantId, stream: str) -> StreamState: ...

    async def lease(
        self, tenant: TenantId, stream: str, owner: str, lease_s: float, *, upto: int = 0
    ) -> StreamState | None:
        """Takes or keeps the stream for `owner`; `upto` (if not 0) notes the batch that is about to be sent. None: somebody
        else has it, it waits after a failure, it is stopped, or it is gone."""

    async def delivered(self, tenant: TenantId, stream: str, owner: str, cursor: int, digest: str) -> bool:
        """Moves the cursor and forgets failures. False: `owner` has lost its lease; nothing changed."""

    async def failed(
        self, tenant: TenantId, stream: str, owner: str, failures: int, error: str, retry_in_s: float, *, stop: bool
    ) -> bool: ...

    async def wake(self, tenant: TenantId, stream: str) -> None:
        """Forgets failures and a stop: the next attempt is made at once."""
