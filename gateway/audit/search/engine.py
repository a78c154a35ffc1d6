"""Search over indexes that follow the logs: each tenant's in a file of its own, brought up to its log before each answer.

What a row shows is read from the log, by the place that the index gave, and compared with the query once more. Where the log
is not the one that was followed (it was cut, rolled back or replaced) the index is built anew; where the tenant was erased, it
goes away.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from gateway.audit.search import find
from gateway.audit.search.contract import Histogram, Page, SearchUnavailable
from gateway.audit.search.index import COUNTED, Index, Position
from gateway.audit.search.query import CLOSED, Field, Query
from gateway.audit.search.terms import terms_of
from gateway.names import TenantId
from gateway.stores.contract import Store, StoredEvent, StoreError, TenantStatus

LOG = logging.getLogger(__name__)

T = TypeVar("T")

LIMIT_S: Final = 5.0
MOST_ROWS: Final = 1000
MOST_BARS: Final = 1000
_THREADS: Final = 2
_BATCH: Final = 1000
_AT_ONCE: Final = 5_000
"""Events that one search adds to the index before it answers: a quarter of a second. The follower adds the rest."""
_ROUND_S: Final = 2.0
_PAUSE_S: Final = 0.05
"""Between two helpings, so that requests served by the same process get their turn."""
_SUFFIX: Final = ".sqlite"
_TENANT_ID: Final = re.compile(r"[a-z0-9]{1,64}")


class IndexedSearch:
    """The `Search` contract on a folder of indexes. Processes of one machine may share the folder."""

    def __init__(
        self, store: Store, folder: Path, *, limit_s: float = LIMIT_S, clock: Callable[[], float] = time.time
    ) -> None:
        """`limit_s`: how long one search may take. `clock` gives UTC seconds."""
        self._store = store
        self._folder = folder
        self._limit_s = limit_s
        self._clock = clock
        self._locks: dict[TenantId, asyncio.Lock] = {}
        # Of its own: in the loop's pool a search would take the threads that open keys for requests.
        self._threads = ThreadPoolExecutor(_THREADS, "search")

    async def aclose(self) -> None:
        """Waits for what still searches, at most `limit_s`."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def search(
        self,
        tenant: TenantId,
        query: Query,
        *,
        before_seq: int | None = None,
        after_seq: int | None = None,
        limit: int = 50,
    ) -> Page:
        if not 1 <= limit <= MOST_ROWS or (before_seq is not None and after_seq is not None):
            raise ValueError("a page has 1 to 1,000 rows, and lies before a place or after it")
        query = self._at_now(query)
        behind = await self._catch_up(tenant)
        if behind is None:
            return Page((), None, None, 0)

        def read(connection: sqlite3.Connection) -> tuple[tuple[int, ...], bool, bool, int]:
            found = find.seqs(connection, query, limit + 1, before=before_seq, after=after_seq)
            seqs, more = tuple(sorted(found[:limit], reverse=True)), len(found) > limit
            beyond = False
            if after_seq is not None:
                beyond = bool(find.seqs(connection, query, 1, before=after_seq + 1))
            elif before_seq is not None:
                beyond = bool(find.seqs(connection, query, 1, after=before_seq - 1))
            older, newer = (more, beyond) if after_seq is None else (beyond, more)
            return seqs, older, newer, find.last(connection)

        seqs, older, newer, last = await self._read(tenant, read)
        rows = tuple([row for row in await self._rows(tenant, seqs) if _matches(query, row)])
        bottom = seqs[-1] if seqs else (after_seq or 0) + 1
        top = seqs[0] if seqs else (before_seq or 1) - 1
        return Page(rows, bottom if older else None, top if newer else None, last, behind)

    async def count(self, tenant: TenantId, query: Query) -> int:
        query = self._at_now(query)
        if await self._catch_up(tenant) is None:
            return 0
        return await self._read(tenant, lambda connection: find.count(connection, query))

    async def histogram(self, tenant: TenantId, query: Query, buckets: int, split: Field = Field.RESULT) -> Histogram:
        if not 1 <= buckets <= MOST_BARS or split not in CLOSED:
            raise ValueError("1 to 1,000 bars, split by a field of few values")
        query = self._at_now(query)
        if await self._catch_up(tenant) is None:
            return Histogram(0, 0, ())
        return await self._read(tenant, lambda connection: find.histogram(connection, query, buckets, split))

    async def top(self, tenant: TenantId, query: Query, field: Field, n: int) -> tuple[tuple[str, int], ...]:
        if field not in COUNTED:
            raise ValueError("every request has an ID of its own")
        query = self._at_now(query)
        if await self._catch_up(tenant) is None:
            return ()
        return await self._read(tenant, lambda connection: find.top(connection, query, field, n))

    async def follow(self, tenant: TenantId) -> None:
        """Brings the tenant's index up to its log, however much that is. Raises as a search does."""
        behind = await self._catch_up(tenant)
        while behind:
            await asyncio.sleep(_PAUSE_S)
            behind = await self._catch_up(tenant)

    async def follow_forever(self) -> None:
        """Keeps the indexes that are in use up to their logs, and removes those of erased tenants. Ends when cancelled."""
        while True:
            for tenant in await self._in_thread(self._indexed):
                try:
                    await self.follow(tenant)
                except (OSError, SearchUnavailable, StoreError) as error:
                    # Another tenant's server may well answer.
                    LOG.warning("audit.search_not_followed", extra={"fields": {"tenant": tenant, "reason": str(error)}})
            await asyncio.sleep(_ROUND_S)

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    # Following

    async def _catch_up(self, tenant: TenantId, at_most: int = _AT_ONCE) -> int | None:
        """Adds at most so many events. How many the index lacks still; None: the tenant has no log (any more)."""
        if not _TENANT_ID.fullmatch(tenant):
            return None
        index, state = self._index(tenant), await self._store.tenant_state(tenant)
        if state is None or state.status is TenantStatus.ERASED:
            await self._in_thread(index.remove)
            return None
        try:
            async with self._locks.setdefault(tenant, asyncio.Lock()):
                at = await self._settle(tenant, index, state.last_seq)
                stop = min(state.last_seq, at + at_most)
                while at < stop and (events := await self._store.read_events(tenant, at, min(_BATCH, stop - at))):
                    at = await self._in_thread(index.append, at, events)
        except sqlite3.Error as error:
            raise _unavailable(error) from None
        return max(0, state.last_seq - at)

    async def _settle(self, tenant: TenantId, index: Index, last_seq: int) -> int:
        """Makes the index hold nothing that the log does not hold; the newest event that it holds."""
        position = await self._in_thread(index.position)
        oldest, newest = await asyncio.gather(
            self._store.read_events(tenant, 0, 1), self._store.read_events(tenant, max(0, position.last - 1), 1)
        )
        replaced = newest and newest[0].seq == position.last and _digest(newest[0]) != position.digest
        if last_seq < position.last or replaced:
            LOG.warning("audit.search_index_cleared", extra={"fields": {"tenant": tenant}})
            await self._in_thread(index.clear)
            position = Position(1, 0, "")
        first = oldest[0].seq if oldest else last_seq + 1
        if first > position.first:
            await self._in_thread(index.trim, first)
        return position.last

    def _indexed(self) -> list[TenantId]:
        return [TenantId(path.stem) for path in self._folder.glob(f"*{_SUFFIX}")]

    def _index(self, tenant: TenantId) -> Index:
        return Index(self._folder / f"{tenant}{_SUFFIX}", self._limit_s)

    # Reading

    async def _read(self, tenant: TenantId, work: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            with self._index(tenant).reading() as connection:
                return work(connection)

        try:
            return await self._in_thread(run)
        except sqlite3.Error as error:
            raise _unavailable(error) from None

    async def _rows(self, tenant: TenantId, seqs: Sequence[int]) -> list[StoredEvent]:
        """The log's own rows, in that order, without those that are gone."""
        runs: list[list[int]] = []
        for seq in seqs:
            if runs and runs[-1][-1] == seq + 1:
                runs[-1].append(seq)
            else:
                runs.append([seq])
        pages = await asyncio.gather(*(self._store.read_events(tenant, run[-1] - 1, len(run)) for run in runs))
        by_seq = {row.seq: row for page in pages for row in page}
        return [by_seq[seq] for seq in seqs if seq in by_seq]

    def _at_now(self, query: Query) -> Query:
        return query.at(int(self._clock() * 1e6))


def _matches(query: Query, row: StoredEvent) -> bool:
    terms = terms_of(row.body)
    return query.matches(terms.ts_us, terms.sets())


def _digest(row: StoredEvent) -> str:
    return hashlib.sha256(row.body).hexdigest()


def _unavailable(error: sqlite3.Error) -> SearchUnavailable:
    LOG.warning("audit.search_failed", extra={"fields": {"reason": str(error)}})
    return SearchUnavailable("the search took too long, or the index is in use; narrow the search or try again")
