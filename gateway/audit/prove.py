"""Makes the proof of one event of a tenant's log."""

from __future__ import annotations

from collections.abc import Callable

from gateway.audit.checkpoint import Checkpoint, sign
from gateway.audit.proof import write_proof
from gateway.audit.source import PAGE, EvidenceRefused, Log, events, signed_before
from gateway.audit.tree import Tree, leaf
from gateway.stores.contract import StoredEvent


async def prove(log: Log, event: str, progress: Callable[[int, int], None] = lambda done, of: None) -> str:
    """The text of a proof file for the event of that ID, or of that number. It names the checkpoint that was signed before
    where that covers the event. Reads the whole log. Raises EvidenceRefused, and what the store raises."""
    tree, found = Tree(log.base), None
    async for stored in events(log, log.base.size, log.end):
        tree.append(leaf(log.tenant, stored.seq, stored.body))
        if found is None and _is(stored, event):
            found = stored
        if stored.seq % PAGE == 0:
            progress(stored.seq, log.end)
    if found is None:
        archived = f"; those up to {log.base.size:,} are in the archive" if log.base.size else ""
        raise EvidenceRefused(f"there is no such event in the log{archived}")
    signed = signed_before(log, log.note, tree)
    if signed is not None and signed.size >= found.seq:
        size, note = signed.size, log.note
    else:
        size, note = tree.size, sign(Checkpoint(log.origin, tree.size, tree.root()), log.seed)
    return write_proof(found.seq, found.body, tree.inclusion(found.seq - 1, size), note)


def _is(stored: StoredEvent, event: str) -> bool:
    # Looked for in the bytes: to read each event of a large log takes minutes.
    return str(stored.seq) == event if event.isdecimal() else b'"id":"%b"' % event.encode() in stored.body
