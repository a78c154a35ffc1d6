"""Whether the log in Redis is still the one that was signed: compared before anything is signed on, and at every start.

A failover may lose events that were confirmed, a restored backup takes the log back by days, and who writes Redis can cut it.
None of that can make a signed checkpoint fit another log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.audit.checkpoint import Checkpoint, VerifierKey, open_note
from gateway.audit.tree import Frontier, leaf
from gateway.names import TenantId
from gateway.stores.contract import StoredEvent
from gateway.stores.log import LogState

PAGE: Final = 256
"""Events that are hashed in a row: about 1 ms."""
MOST_READ: Final = 20_000
"""Events that are read to get from a known tree to its checkpoint."""


class Events(Protocol):
    """What is needed of the `Store`."""

    async def read_events(self, tenant: TenantId, after_seq: int, count: int) -> tuple[StoredEvent, ...]: ...


class LogMismatch(Exception):
    """The log is not the one that was signed. `size`: of the checkpoint that it contradicts."""

    def __init__(self, why: str, size: int) -> None:
        super().__init__(why)
        self.size = size


@dataclass(frozen=True, slots=True)
class Standing:
    """The newest that this process knows of a log, from its own work or out of an anchor."""

    checkpoint: Checkpoint
    note: str
    tree: Frontier
    """Of the checkpoint's size or a smaller one; empty where only the root is known."""


@dataclass(frozen=True, slots=True)
class Extended:
    frontier: Frontier
    last: bytes
    """Body of the last event; empty where none was read."""


async def extend(
    events: Events,
    tenant: TenantId,
    begin: Frontier,
    to: int,
    seen: Callable[[Frontier], None] | None = None,
    check: Callable[[tuple[StoredEvent, ...]], Awaitable[None]] | None = None,
) -> Extended | None:
    """The tree after the events up to `to`, as the store holds them; None where one is not there.

    `seen` gets the tree after every event: for what needs to know more than its end. `check` gets the events, some at a time,
    before they are in the tree; what it raises ends it.
    """
    frontier, last = begin, b""
    while frontier.size < to:
        first = frontier.size + 1
        page = await events.read_events(tenant, frontier.size, min(PAGE, to - frontier.size))
        if not page or [event.seq for event in page] != list(range(first, first + len(page))):
            return None
        if check is not None:
            await check(page)
        leaves = [leaf(tenant, event.seq, event.body) for event in page]
        if seen is None:
            frontier = frontier.extend(leaves)
        else:
            for one in leaves:
                frontier = frontier.append(one)
                seen(frontier)
        last = page[-1].body
    return Extended(frontier, last)


async def compare(
    events: Events, tenant: TenantId, state: LogState, known: Standing | None, keys: Iterable[VerifierKey]
) -> Frontier:
    """The tree that everything agrees on, from which the log goes on: the store's, or a known one where the store's
    checkpoint is older and its events lead there. Raises LogMismatch, and what the store raises."""
    held = _held(state, keys)
    if known is not None:
        checkpoint = known.checkpoint
        if checkpoint.epoch > state.epoch:
            raise LogMismatch("the log is of an older epoch than its newest checkpoint", checkpoint.size)
        if checkpoint.epoch == state.epoch:
            held = await _agree(events, tenant, state, held, known)
    if state.seq < held.size:
        raise LogMismatch(f"the log ends at event {state.seq} and was signed to {held.size}", held.size)
    if held.size == state.size > state.trimmed:
        await _check_last(events, tenant, state)
    return held


async def _check_last(events: Events, tenant: TenantId, state: LogState) -> None:
    """That the log was not cut below its checkpoint and filled up again since: then another event stands in the last place.

    What else was changed below a checkpoint costs the whole log to find: an export, the archive and the console do.
    """
    found = await events.read_events(tenant, state.size - 1, 1)
    if not found or found[0].seq != state.size or leaf(tenant, state.size, found[0].body) != state.leaf:
        raise LogMismatch(f"event {state.size} is not the one that was signed", state.size)


def _held(state: LogState, keys: Iterable[VerifierKey]) -> Frontier:
    """The store's tree, whose checkpoint is genuine. An epoch but the first begins with a checkpoint, so nobody can open
    one by writing its number."""
    if state.size == 0 and state.epoch == 0:
        return Frontier()
    checkpoint = open_note(state.note, keys)
    try:
        frontier = Frontier.from_bytes(state.frontier)
    except ValueError:
        frontier = Frontier()
    found = checkpoint and (checkpoint.epoch, checkpoint.size, checkpoint.root)
    if found != (state.epoch, state.size, frontier.root()) or frontier.size != state.size:
        raise LogMismatch("the stored checkpoint is not one that was signed for this log", state.size)
    return frontier


async def _agree(events: Events, tenant: TenantId, state: LogState, held: Frontier, known: Standing) -> Frontier:
    size, root = known.checkpoint.size, known.checkpoint.root
    if held.size < size:
        longer = await extend(events, tenant, held, size) if state.seq >= size else None
        if longer is None:
            raise LogMismatch(f"events up to {size} were signed, and the log holds {state.seq}", size)
        held = longer.frontier
    elif held.size > size:
        # Another replica signed on. Its checkpoint is genuine; where the events are still here, it must also continue ours.
        if known.tree.size < state.trimmed or size - known.tree.size > MOST_READ:
            return held
        longer = await extend(events, tenant, known.tree, size)
        if longer is not None and longer.frontier.root() == root:
            longer = await extend(events, tenant, longer.frontier, held.size)
            if longer is not None and longer.frontier.root() == held.root():
                return held
        raise LogMismatch(f"another log than the one up to event {size} was signed on", size)
    if held.root() != root:
        raise LogMismatch(f"the events up to {size} are not the ones that were signed", size)
    return held
