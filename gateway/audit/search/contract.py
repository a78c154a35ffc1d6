"""What a search answers, and what the console asks. The rows come from the log itself; only where they stand comes from the
index, so an index that was tampered with can hide an event and cannot forge one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.audit.search.query import Field, Query
from gateway.names import TenantId
from gateway.stores.contract import StoredEvent


class SearchUnavailable(Exception):
    """The index cannot be read now, or the search took too long. The text is for people and names no value."""


@dataclass(frozen=True, slots=True)
class Page:
    rows: tuple[StoredEvent, ...]
    """Newest first."""
    older: int | None
    """Give it as `before_seq` for what follows; None: there is nothing older."""
    newer: int | None
    """Give it as `after_seq` for what came before this page; None: there is nothing newer at the moment."""
    upto_seq: int
    """The newest event that was searched; the live tail goes on from here."""
    behind: int = 0
    """Events above it that the index does not hold yet, because it is being built."""


@dataclass(frozen=True, slots=True)
class Bar:
    start_us: int
    """UTC; the bar ends where the next one begins."""
    total: int
    counts: Mapping[str, int]
    """By the value of the field that splits the bars; without what has no value in it."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars of equal width, none left out. Where the query has no beginning or end, the log's own take their place.
    A sum of refusals counts as often as it says."""

    since_us: int
    until_us: int
    bars: tuple[Bar, ...]


class Search(Protocol):
    """Each call raises SearchUnavailable and StoreError. An erased or unknown tenant has an empty log."""

    async def search(
        self,
        tenant: TenantId,
        query: Query,
        *,
        before_seq: int | None = None,
        after_seq: int | None = None,
        limit: int = 50,
    ) -> Page:
        """The newest `limit` events that match; with `before_seq` those just below it, with `after_seq` those just above."""

    async def count(self, tenant: TenantId, query: Query) -> int: ...

    async def histogram(
        self, tenant: TenantId, query: Query, buckets: int, split: Field = Field.RESULT
    ) -> Histogram: ...

    async def top(self, tenant: TenantId, query: Query, field: Field, n: int) -> tuple[tuple[str, int], ...]:
        """The `n` values of `field` (any but REQUEST) that most of the found events have, with their numbers, largest
        first. A sum of refusals counts as often as it says, but for its targets."""
