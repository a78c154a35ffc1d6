"""The picture of a log over time: bars that are told apart by pattern and order, not by colour alone. Pure.

The numbers become geometry here, and the template draws it: no script, no image service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from gateway.audit.search.contract import Histogram
from gateway.audit.search.query import write_moment

WIDTH: Final = 960
HEIGHT: Final = 150
KINDS: Final = ("deny", "error", "unknown", "allow")
"""From the top of a bar to its foot; what is none of them is not drawn."""
_GAP: Final = 2
_LEAST: Final = 3
"""Pixels of the smallest part, so that a single refusal among thousands of requests is seen."""
_STEPS: Final = (1, 2, 3, 4, 5, 6, 8)


@dataclass(frozen=True, slots=True)
class Part:
    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    width: float
    parts: tuple[Part, ...]
    counts: Mapping[str, int]
    since: datetime
    until: datetime
    since_text: str
    until_text: str
    """RFC 3339, as a query takes them."""

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Picture:
    bars: tuple[Bar, ...]
    highest: int
    """What the full height stands for."""
    totals: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.totals.values())


def draw(histogram: Histogram) -> Picture:
    """Bars of the results in `KINDS`."""
    counted = [{kind: bar.counts.get(kind, 0) for kind in KINDS} for bar in histogram.bars]
    highest = _round_up(max((sum(counts.values()) for counts in counted), default=0))
    slot = WIDTH / max(1, len(counted))
    ends = [*(bar.start_us for bar in histogram.bars[1:]), histogram.until_us][: len(counted)]
    bars = tuple(
        Bar(
            round(index * slot + _GAP / 2, 2),
            round(max(1.0, slot - _GAP), 2),
            _parts(counts, highest),
            counts,
            _when(bar.start_us),
            _when(end),
            write_moment(bar.start_us),
            write_moment(end),
        )
        for index, (bar, counts, end) in enumerate(zip(histogram.bars, counted, ends, strict=True))
    )
    return Picture(bars, highest, {kind: sum(counts[kind] for counts in counted) for kind in KINDS})


def share(number: int, largest: int) -> int:
    """A length in percent, at least 2 where there is anything."""
    return max(2, round(100 * number / largest)) if number and largest else 0


def _parts(counts: Mapping[str, int], highest: int) -> tuple[Part, ...]:
    parts: list[Part] = []
    foot = float(HEIGHT)
    for kind in reversed(KINDS):
        if counts[kind]:
            height = max(float(_LEAST), counts[kind] / highest * HEIGHT)
            foot -= height
            parts.append(Part(kind, round(max(0.0, foot), 2), round(height, 2)))
    return tuple(parts)


def _round_up(number: int) -> int:
    """The next of the steps, times a power of ten."""
    power = 1
    while True:
        for step in _STEPS:
            if step * power >= number:
                return step * power
        power *= 10


def _when(moment_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment_us)
