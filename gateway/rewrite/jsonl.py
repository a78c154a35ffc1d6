"""JSON lines (https://jsonlines.org): files of one value a line, taken apart however their bytes were cut, and written so that
every reader sees the same lines.

A line ends at LF and nowhere else. A CR before it is white space of JSON; other characters that some readers take for a line's
end (U+0085, U+2028, U+2029) can stand in a JSON string, so what is written here spells them as escapes.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.errors import Problem, Reason

GROUP_LINES: Final = 256
_GROUP_BYTES: Final = 256 * 1024

_ENDS: Final = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


class LineTooLong(Exception):
    """A line holds more bytes than one may; the first line is number 1."""

    def __init__(self, number: int) -> None:
        super().__init__(f"line {number} is too long")
        self.number = number

    def problem(self, max_line_bytes: int) -> Problem:
        """What a client reads of it."""
        return Problem(Reason.BODY_TOO_LARGE, f"{max_line_bytes} bytes", line=self.number)


class LineSplitter:
    """Lines out of chunks. Holds one line at most, and never more than `max_line_bytes` of it."""

    def __init__(self, max_line_bytes: int) -> None:
        self.number = 0
        """Of the line that was given last; the first is 1."""
        self._most = max_line_bytes
        self._begun: list[bytes] = []
        self._size = 0

    @property
    def held_bytes(self) -> int:
        """Of a line that has not ended yet."""
        return self._size

    def feed(self, chunk: bytes) -> list[tuple[int, bytes]]:
        """Number and bytes, without the LF, of each line that `chunk` ends. Raises LineTooLong."""
        first, *others = chunk.split(b"\n")
        self._add(first)
        if not others:
            return []
        lines = [self._take()]
        for line in others[:-1]:
            self._add(line)
            lines.append(self._take())
        self._add(others[-1])
        return lines

    def end(self) -> list[tuple[int, bytes]]:
        """The last line, where no LF ends it."""
        return [self._take()] if self._size else []

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._most:
            raise LineTooLong(self.number + 1)
        if piece:
            self._begun.append(piece)

    def _take(self) -> tuple[int, bytes]:
        line = b"".join(self._begun)
        self._begun, self._size = [], 0
        self.number += 1
        return self.number, line


def is_blank(line: bytes) -> bool:
    """Whether there is nothing in a line but white space."""
    return not line or line.isspace()


def dump_line(value: Any) -> bytes:
    """`value` as one line of compact JSON, its LF included."""
    return one_line(orjson.dumps(value)) + b"\n"


def one_line(line: bytes) -> bytes:
    """`line`, which is JSON, as the same JSON that every reader takes for a single line. A CR at its end stays."""
    for end, escape in _ENDS:
        line = line.replace(end, escape)
    return line if b"\r" not in line[:-1] else line[:-1].replace(b"\r", b" ") + line[-1:]


Group = list[tuple[int, bytes]]
"""Lines with their numbers."""


class LineGroups:
    """Some hundred lines at a time."""

    def __init__(self, max_line_bytes: int) -> None:
        self._splitter = LineSplitter(max_line_bytes)
        self._lines: Group = []
        self._size = 0

    @property
    def held_bytes(self) -> int:
        return self._size + self._splitter.held_bytes

    def feed(self, piece: bytes) -> list[Group]:
        """What is full. Raises LineTooLong."""
        full = []
        for number, line in self._splitter.feed(piece):
            self._lines.append((number, line))
            self._size += len(line)
            if len(self._lines) >= GROUP_LINES or self._size >= _GROUP_BYTES:
                full.append(self._lines)
                self._lines, self._size = [], 0
        return full

    def end(self) -> list[Group]:
        """The rest."""
        rest = self._lines + self._splitter.end()
        self._lines, self._size = [], 0
        return [rest] if rest else []
