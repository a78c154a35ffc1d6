"""What can be wrong with a log, in words: what was found, and what it means. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """Closed and alphabetised. The first fault of an event is the one that is told."""

    ANCHOR_AHEAD = "anchor_ahead"
    CHAIN = "chain"
    CHECKPOINT = "checkpoint"
    COUNT = "count"
    ENDED = "ended"
    EPOCH = "epoch"
    EVENT = "event"
    FORK = "fork"
    LEAF = "leaf"
    LINE = "line"
    LOSS = "loss"
    MANIFEST = "manifest"
    PROOF = "proof"
    ROOT = "root"
    SEGMENT = "segment"
    SEQUENCE = "sequence"
    SUCCESSION = "succession"
    TAIL = "tail"
    TENANT = "tenant"
    UNCOVERED = "uncovered"
    UNDECLARED = "undeclared"


MEANING: Final[dict[Fault, tuple[str, str]]] = {
    Fault.ANCHOR_AHEAD: (
        "the anchor holds a checkpoint of more events than this export's",
        "The newest events were cut off and an old checkpoint put in the place of the newest, or this export is older than the "
        "copy of the anchor: then export again, or give the anchor as it was when the export was made.",
    ),
    Fault.CHAIN: (
        "it does not follow its writer's event before",
        "An event of this writer was changed, left out, put in or moved.",
    ),
    Fault.CHECKPOINT: (
        "the checkpoint is not signed by the given key as this log's",
        "It was changed, or made by somebody without the tenant's key, or the key is another tenant's.",
    ),
    Fault.COUNT: (
        "the file does not hold the events that the manifest says",
        "Events were cut off or put in after the export was made.",
    ),
    Fault.ENDED: (
        "its writer had been ended by a successor before",
        "It was moved, or put in by somebody who writes to the log's place.",
    ),
    Fault.EPOCH: (
        "the log's epoch is not the one that its own events say",
        "The log was resealed without the event that says so, or the checkpoint is of another time.",
    ),
    Fault.EVENT: (
        "it is no audit event",
        "Somebody else than the gateway has written to the log's place.",
    ),
    Fault.FORK: (
        "the same key has signed two histories of this log",
        "The log was rewritten: one of the two was shown to somebody else. Keep both files, they prove it.",
    ),
    Fault.LEAF: (
        "its bytes are not the ones whose hash stands beside them",
        "The event was changed after it was exported, or is not at its place.",
    ),
    Fault.LINE: (
        "the line is not of the export's form",
        "The file was changed after the export was made.",
    ),
    Fault.LOSS: (
        "events were lost before it, and an operator accepted that",
        "The log says so itself: what it holds is whole, and what was lost is not in it. Ask the operator why. --accept-loss "
        "takes it as no fault.",
    ),
    Fault.MANIFEST: (
        "the manifest is not signed by the given key as this log's",
        "What the export says of itself (its range, its filter, its files) was changed, or the key is another tenant's.",
    ),
    Fault.PROOF: (
        "its proof does not lead to the checkpoint",
        "The event is not in the log that was signed, or the proof belongs to another one.",
    ),
    Fault.ROOT: (
        "the events do not give the root that was signed",
        "One of these events is not the one that the log held when the checkpoint was made.",
    ),
    Fault.SEGMENT: (
        "the file is not the one that the manifest names",
        "It was changed after the export was made.",
    ),
    Fault.SEQUENCE: (
        "another number stands in its place",
        "Events were left out, put in, doubled or moved.",
    ),
    Fault.SUCCESSION: (
        "it names more events of its predecessor than the log holds",
        "Events that had been confirmed are missing.",
    ),
    Fault.TAIL: (
        "the export ends before its checkpoint does",
        "The newest events were cut off.",
    ),
    Fault.TENANT: (
        "it belongs to another tenant",
        "Events of two logs were mixed.",
    ),
    Fault.UNCOVERED: (
        "the checkpoint does not reach that far",
        "Events were put in after the checkpoint was made, or an old checkpoint was put in the place of the newest.",
    ),
    Fault.UNDECLARED: (
        "a checkpoint was anchored for more events than the log says were lost",
        "More was lost than the operator has declared.",
    ),
}
"""What was found, which goes on after "event 7: ", and what it means."""


@dataclass(frozen=True, slots=True)
class Finding:
    fault: Fault
    seq: int | None = None
    """The first bad event; None: not an event but what is said about them."""
    last: int | None = None
    """The bad event is one from `seq` to this one; None: it is `seq`."""
    detail: str = ""
    """Names a size or a file; never what an event holds."""

    @property
    def text(self) -> str:
        what = MEANING[self.fault][0]
        if self.seq is None:
            where = ""
        elif self.last is None or self.last <= self.seq:
            where = f"event {self.seq:,}: "
        else:
            where = f"events {self.seq:,} to {self.last:,}: "
        return f"{where}{what}{f' ({self.detail})' if self.detail else ''}"

    @property
    def meaning(self) -> str:
        return MEANING[self.fault][1]
