"""A tenant's log as proofs are made from it: every event in order, and the checkpoint that was signed before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gateway.audit.checkpoint import Checkpoint, VerifierKey, log_name, log_origin, open_note, public_key
from gateway.audit.known import verifier_keys
from gateway.audit.tree import Frontier, Tree
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.stores.contract import Store, StoredEvent
from gateway.stores.log import LogState

PAGE: Final = 1000

Read = Callable[[int, int], Awaitable[tuple[StoredEvent, ...]]]


class EvidenceRefused(Exception):
    """There is nothing to prove, or the log is not one that can be proven. The text says why."""


@dataclass(frozen=True, slots=True)
class Log:
    """One tenant's log at a moment."""

    tenant: TenantId
    origin: str
    seed: bytes = field(repr=False)
    """Of the tenant's signing key."""
    end: int
    """Sequence number of the newest event."""
    after: Read
    """`after(seq, count)`: events above `seq`, oldest first."""
    before: Read
    """`before(seq, count)`: events below `seq`, newest first."""
    base: Frontier = field(default_factory=Frontier)
    """Of the events that the log no longer holds."""
    note: str = ""
    """The newest checkpoint that was signed before, if there is one."""
    keys: tuple[VerifierKey, ...] = ()
    """Which may have signed it, besides that of `seed`."""


def log_of(
    store: Store, tenant: TenantId, deployment: str, keys: Versions[AuditKeys], state: LogState, end: int | None = None
) -> Log:
    """The tenant's log as `state` says, up to `end` (None: its newest event)."""
    return Log(
        tenant,
        log_origin(deployment, tenant, state.epoch),
        keys.newest.seed,
        state.seq if end is None else end,
        partial(store.read_events, tenant),
        partial(store.read_events_before, tenant),
        Frontier.from_bytes(state.base) if state.trimmed else Frontier(),
        state.note,
        verifier_keys(log_origin(deployment, tenant), keys),
    )


async def events(log: Log, after: int, end: int) -> AsyncIterator[StoredEvent]:
    """All events above `after` up to `end`. Raises EvidenceRefused where one is missing, and what the store raises."""
    while after < end:
        page = await log.after(after, min(PAGE, end - after))
        for event in page:
            if event.seq != after + 1:
                break
            after += 1
            yield event
        if page and after == page[-1].seq:
            continue
        raise EvidenceRefused(f"event {after + 1:,} is missing: the log was cut or changed, and it cannot be proven")


def signed_before(log: Log, note: str, tree: Tree) -> Checkpoint | None:
    """The checkpoint in `note`, where it is the log's and the tree reaches it.

    Raises EvidenceRefused where the tree is not the one that was signed.
    """
    signed = open_note(note, (public_key(log_name(log.origin), log.seed), *log.keys)) if note else None
    if signed is None or signed.origin != log.origin or not tree.start <= signed.size <= tree.size:
        return None
    if tree.root(signed.size) != signed.root:
        raise EvidenceRefused(f"the log is not the one that was signed when it had {signed.size:,} events")
    return signed
