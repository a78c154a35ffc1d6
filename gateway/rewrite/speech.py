"""Text that a model speaks piece by piece: an ID that falls across two pieces is replaced like one that does not.

The end of a piece may be the beginning of a touched ID. It is then held back until the next piece of the same text shows
what it is; at most its own characters are held, and not those that the ID and its replacement begin with alike.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

from gateway.rewrite.id_table import SHORTEST, IdTable

_HEAD: int = 3


class Openings:
    """How the touched IDs of one table begin."""

    def __init__(self, table: IdTable) -> None:
        self.table = table
        self._raws: tuple[bytes, ...] = ()
        self._spelled: list[str] = []
        self._longest = 0
        self._alphabet: set[str] = set()
        self._heads: set[str] = set()
        self._shared: dict[str, int] = {}
        """First characters, and how many characters the IDs that begin so and their replacements begin with alike at least
        (the `rs_` of both): these tell nothing."""

    def has_no(self, piece: str) -> bool:
        """Whether `piece`, alone, can neither hold a touched ID nor end in the beginning of one."""
        if self._raws is not self.table.raws:
            self._learn()
        return len(piece) < SHORTEST and (piece[-1:] not in self._alphabet or self._shared.keys().isdisjoint(piece))

    def open_end(self, text: str) -> tuple[int, int]:
        """Where in `text` the ID that it may break off in begins, and up to where it may leave all the same.

        Both are `len(text)` if it ends in no beginning of a touched ID. What an ID and its replacement begin with alike
        may leave; so ordinary words that end like `msg_` begins are never held.
        """
        if self._raws is not self.table.raws:
            self._learn()
        size = len(text)
        begin = free = size
        lowest = max(0, size - self._longest + 1)
        for first, shared in self._shared.items():
            start = text.find(first, lowest)
            while start >= 0 and (start < begin or start + shared < free):
                if self._begins(text[start:]):
                    begin = min(begin, start)
                    free = min(free, start + shared)
                start = text.find(first, start + 1)
        return begin, free

    def _begins(self, head: str) -> bool:
        """Whether a touched ID begins with `head` and goes on after it."""
        if len(head) >= _HEAD and head[:_HEAD] not in self._heads:
            return False
        spelled = self._spelled
        at = bisect_left(spelled, head)
        if at < len(spelled) and spelled[at] == head:
            at += 1
        return at < len(spelled) and spelled[at].startswith(head)

    def _learn(self) -> None:
        for one in self.table.raws[len(self._raws) :]:
            raw = one.decode()
            insort(self._spelled, raw)
            self._longest = max(self._longest, len(raw))
            self._alphabet.update(raw)
            self._heads.add(raw[:_HEAD])
            shared = _shared_head(raw, self.table.texts[raw])
            self._shared[raw[0]] = min(self._shared.get(raw[0], shared), shared)
        self._raws = self.table.raws


def _shared_head(one: str, other: str) -> int:
    """How many characters both begin with."""
    size = min(len(one), len(other))
    return next((at for at in range(size) if one[at] != other[at]), size)


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

    def hear(self, piece: str, openings: Openings) -> str:
        """What leaves when `piece` comes."""
        if not self.open and openings.has_no(piece):
            self.read += len(piece)
            return piece
        text = self.open + piece
        base = self.read - len(self.open)
        self.read += len(piece)
        begin, free = openings.open_end(text)
        said, at, gone = "", 0, self.free
        for start, end, new in openings.table.spans(text):
            if start >= begin:  # it may yet turn out to be the beginning of a longer one
                break
            said += text[at:start] + new
            at = end
            if len(new) != end - start:
                self.shifts.append((base + end, len(new) - (end - start)))
            if at > begin:
                begin, free = (at + found for found in openings.open_end(text[at:]))
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
