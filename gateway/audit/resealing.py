"""Ends a halt: an operator accepts that events were lost, the log says so itself, and goes on under a new origin.

The event and the checkpoint that covers it, of the next epoch, are written in one call: an epoch whose first checkpoint is not
signed is none. The checkpoints of the epochs before stay what they are, and show what is missing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.audit.anchors.contract import Anchor, AnchorFailed
from gateway.audit.chain import Writer
from gateway.audit.checkpoint import Checkpoint, log_origin, open_note, sign
from gateway.audit.consistency import PAGE, LogMismatch
from gateway.audit.event import Actor, Change, Event, EventType, Outcome, Phase, Result
from gateway.audit.genuine import event_key, is_genuine
from gateway.audit.known import newest, verifier_keys
from gateway.audit.tree import Frontier, leaf
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.stores.contract import Store
from gateway.stores.log import Signed

SHOWN: Final = 32
"""Numbers of invented events that are named."""
_MOST_UNSIGNED: Final = 1_000_000
"""Epochs that are believed without a signature: where the newest checkpoint is gone, none may come twice; but who writes a number
there may not use them all up."""


class ResealRefused(Exception):
    """Nothing was changed. The text says why."""


@dataclass(frozen=True, slots=True)
class Resealed:
    epoch: int
    """Of the log's origin from here on."""
    first: int
    """Number of the event that says so: what had this number before, or a higher one, is lost."""
    last: int
    """The highest number that a checkpoint knew; `first` - 1: none is known to be lost."""
    not_anchored: tuple[str, ...] = ()
    """Anchors that did not take the new epoch's checkpoint yet; the gateway goes on trying."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The log as it stands in the store, up to the first event that is missing."""

    tree: Frontier
    covered: int
    """Up to here it is what a signed checkpoint says; 0: no such one was met."""
    strange: list[int]
    """Rows whose MAC is not the tenant's."""


async def _look(
    store: Store, tenant: TenantId, base: Frontier, audit: Versions[AuditKeys], roots: Mapping[int, bytes]
) -> _Found:
    """`roots`: of signed checkpoints, by their size."""
    tree, strange = base, list[int]()
    covered = base.size if roots.get(base.size) == base.root() else 0
    while page := await store.read_events(tenant, tree.size, PAGE):
        whole = [event for at, event in enumerate(page, tree.size + 1) if event.seq == at]
        for event in whole:
            tree = tree.append(leaf(tenant, event.seq, event.body))
            if not is_genuine(event, audit):
                strange.append(event.seq)
            if event.seq in roots and tree.root() == roots[event.seq]:
                covered = event.seq
        if len(whole) < len(page):
            break
    return _Found(tree, covered, strange)


async def reseal(
    store: Store,
    anchors: Iterable[Anchor],
    tenant: TenantId,
    deployment: str,
    audit: Versions[AuditKeys],
    actor: Actor,
    now_us: int,
) -> Resealed:
    """Raises ResealRefused, AnchorFailed where an anchor cannot be asked for what was signed before, and what
    the store raises."""
    state = await store.log.state(tenant)
    if state is None or not state.halted:
        raise ResealRefused("the log is not halted")
    name = log_origin(deployment, tenant)
    keys = verifier_keys(name, audit)
    try:
        known = await newest(anchors, name)
        base = Frontier.from_bytes(state.base) if state.trimmed else Frontier()
    except (LogMismatch, ValueError) as error:
        raise ResealRefused(f"{error}: put back what was there, or take it away") from None
    # What the store says of checkpoints may be whoever's; a note is believed by its signature alone.
    held = open_note(state.note, keys)
    anchored = open_note(known.note, keys) if known is not None else None
    roots = {one.size: one.root for one in (anchored, held) if one is not None}
    found = await _look(store, tenant, base, audit, roots)
    if await store.read_events(tenant, found.tree.size, 1):
        raise ResealRefused(
            "an event in the middle of the log is missing, so that no proof can be made: restore a backup"
        )
    signed_to = max(held.size if held else 0, known.checkpoint.size if known else 0)
    seq = found.tree.size + 1
    epochs = (held.epoch if held else 0, known.checkpoint.epoch if known else 0)
    epoch = max(*epochs, state.epoch if state.epoch < _MOST_UNSIGNED else 0) + 1
    last = max(seq - 1, signed_to)
    changes: dict[str, Change] = {
        "epoch": epoch, "lost_first": seq, "lost_last": last, "signed_to": signed_to, "why": state.halted,
    }  # fmt: skip
    invented = [number for number in found.strange if number > found.covered]
    if state.trimmed > found.covered:
        changes["archived_unproven"] = state.trimmed
    if invented:
        changes |= {"invented": ", ".join(map(str, invented[:SHOWN])), "invented_count": len(invented)}
    event = Event(
        tenant, now_us, EventType.LOG_RESEALED, Phase.SINGLE, actor, outcome=Outcome(Result.ALLOW), changes=changes
    )
    _, entry = Writer(secrets.token_hex(12)).next(event, event_key(audit))
    leaf_hash = leaf(tenant, seq, entry.body)
    tree = found.tree.append(leaf_hash)
    checkpoint = Checkpoint(f"{name}/{epoch}", seq, tree.root())
    note = sign(checkpoint, audit.newest.seed)
    lines = "\n".join(map(str, keys))
    signed = Signed(epoch, state.epoch, seq, note, tree.to_bytes(), lines, entry.body, leaf_hash)
    if not await store.log.reseal(tenant, entry, signed):
        raise ResealRefused("the log has changed meanwhile; do it again")
    missed = []
    for anchor in anchors:
        try:
            await anchor.append(checkpoint, note, tree)
        except AnchorFailed:
            missed.append(anchor.name)
    return Resealed(epoch, seq, last, tuple(missed))
