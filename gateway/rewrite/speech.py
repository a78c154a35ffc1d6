"""Text that a model speaks piece by piece: an ID that falls across two pieces is replaced like one that does not.

The end of a piece may be the beginning of a touched ID. It is then held back until the next piece of the same text shows
what it is; at most its own characters are held, and not those that the ID and its replacement begin with alike.
"""

from __future__ import annotations

from typing import Any

from gateway.rewrite.id_table import SHORTEST, IdTable


class Utterance:
    """One text of one item: what of it has been read and what has left."""

    __slots__ = ("free", "last", "open", "read", "shifts")

    def __init__(self) -> None:
        self.read = 0
        """Characters of the upstream's text so far."""
        self.open = ""
        """Its end, while that may be the beginning of an ID."""
        self.free = 0
        """Characters of `open` that have left."""
        self.shifts: list[tuple[int, int]] = []
        """From this position of the upstream's text on, this many characters more (see `outbound.realign`)."""
        self.last: dict[str, Any] = {}
        """The event that `open` came with."""

    @property
    def held(self) -> str:
        return self.open[self.free :]

    def hear(self, piece: str, table: IdTable) -> str:
        """What leaves when `piece` comes."""
        if not self.open and len(piece) < SHORTEST and table.firsts.keys().isdisjoint(piece):
            self.read += len(piece)
            return piece
        text = self.open + piece
        base = self.read - len(self.open)
        self.read += len(piece)
        begin, free = table.open_end(text)
        said, at, gone = "", 0, self.free
        for start, end, new in table.spans(text):
            if start >= begin:  # it may yet turn out to be the beginning of a longer one
                break
            said += text[at:start] + new
            at = end
            if len(new) != end - start:
                self.shifts.append((base + end, len(new) - (end - start)))
            if at > begin:
                begin, free = (at + found for found in table.open_end(text[at:]))
        if not at:
            free = max(free, gone)
        self.open, self.free = text[begin:], free - begin
        return (said + text[at:free])[gone:]

    def release(self, table: IdTable) -> str:
        """What was held back, now that the text goes no further."""
        said, at = "", 0
        for start, end, new in table.spans(self.open):
            said += self.open[at:start] + new
            at = end
        held = (said + self.open[at:])[self.free :]
        self.open, self.free = "", 0
        return held
