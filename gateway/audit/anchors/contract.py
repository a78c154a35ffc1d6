"""What an anchor is: a place outside Redis that takes signed checkpoints and gives none of them back for another.

Who writes an anchor's place can take its newest notes away, and then a log cut back to what is left passes unnoticed here; it
cannot forge a note. A tenant who keeps notes of its own (webhook, download, witness) needs nobody's word for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.audit.checkpoint import Checkpoint
from gateway.audit.tree import Frontier


class AnchorFailed(Exception):
    """The note is not confirmed to be kept, or the newest one cannot be read. The text names no tenant and no address."""


class AnchorForked(Exception):
    """The anchor holds another tree of the same epoch and size: one of the two logs is not the tenant's."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The newest that an anchor gives back of a log."""

    note: str
    tree: Frontier | None = None
    """Of the note's size or a smaller one, where the anchor keeps trees: with it the log is compared from there on. It is
    believed only where events lead from it to the note's root."""


class Anchor(Protocol):
    name: str
    """For logs and metrics."""
    required: bool
    """Whether events count as anchored, and may be trimmed, only once they are here."""
    pause_s: float
    """At least so long between two notes of a tenant; the newest goes."""

    async def append(self, checkpoint: Checkpoint, note: str, tree: Frontier) -> None:
        """Keeps the note, on the disk or confirmed when this returns; a note that an equal or a later one is there already
        for may be passed over. Raises AnchorFailed and AnchorForked."""

    async def newest(self, log: str) -> Kept | None:
        """The newest of a log (an origin without its epoch); None where there is none, or where nothing is given back.
        Raises AnchorFailed."""

    async def aclose(self) -> None: ...


def age(checkpoint: Checkpoint) -> tuple[int, int]:
    """Orders checkpoints of one log."""
    return checkpoint.epoch, checkpoint.size
