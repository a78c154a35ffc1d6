"""What the demo shows on the terminal: short lines, aligned; colour only where a person looks (https://no-color.org)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_BOLD: Final = "1"
_DIM: Final = "2"
_RED: Final = "31"
_GREEN: Final = "32"
_YELLOW: Final = "33"


@dataclass(slots=True)
class Screen:
    """Prints, and counts what was promised and what of it was broken."""

    coloured: bool
    kept: int = 0
    broken: list[str] = field(default_factory=list)

    def title(self, text: str) -> None:
        print(self._in(_BOLD, text), flush=True)

    def act(self, text: str) -> None:
        print(f"\n{self._in(_BOLD, text)}", flush=True)

    def line(self, *cells: str) -> None:
        print("  " + "  ".join(cells).rstrip(), flush=True)

    def note(self, text: str) -> None:
        print("  " + self._in(_DIM, text), flush=True)

    def warn(self, text: str) -> None:
        print("  " + self._in(_YELLOW, text), flush=True)

    def rows(self, rows: Sequence[Sequence[str]]) -> None:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.line(*(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))

    def promise(self, text: str, faults: Sequence[str] = ()) -> None:
        """Kept if there are no faults; some of them are shown."""
        if not faults:
            self.kept += 1
            print(f"  {self._in(_GREEN, '✓')} {text}", flush=True)
            return
        self.broken.append(text)
        print(f"  {self._in(_RED, '✗ ' + text)}", flush=True)
        for fault in faults[:5]:
            print(f"      {fault}", flush=True)
        if len(faults) > 5:
            print(f"      and {len(faults) - 5} more", flush=True)

    def _in(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.coloured else text


def open_screen(colours: bool) -> Screen:
    """`colours`: whether they are wanted; on what is no terminal there are none. What the output's encoding lacks is shown
    as `?`."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    return Screen(colours and sys.stdout.isatty())
