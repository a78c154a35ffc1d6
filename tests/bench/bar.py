"""The bar: what is asked of the gateway beside its peers, and the table that says whether it is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.bench.measures import TARGETS, Samples

AllSamples = Mapping[str, Samples]


def ratio(measure: str, figure: str, ours: str, theirs: str) -> Callable[[AllSamples], float]:
    """The median over the rounds of ours through theirs, each pair from one round."""
    return lambda samples: median(our[figure] / their[figure] for our, their in _pairs(samples[measure], ours, theirs))


def difference(measure: str, figure: str, ours: str, theirs: str) -> Callable[[AllSamples], float]:
    """The median over the rounds of ours less theirs, each pair from one round."""
    return lambda samples: median(our[figure] - their[figure] for our, their in _pairs(samples[measure], ours, theirs))


def value(measure: str, figure: str) -> Callable[[AllSamples], float]:
    return lambda samples: median(sample[figure] for sample in samples[measure]["coatcheck"])


def within(measure: str, figure: str, base: str) -> Callable[[AllSamples], float]:
    """The median over the rounds of one figure of ours through another of the same round."""
    return lambda samples: median(sample[figure] / sample[base] for sample in samples[measure]["coatcheck"])


def _pairs(samples: Samples, ours: str, theirs: str) -> zip[tuple[dict[str, float], dict[str, float]]]:
    return zip(samples[ours], samples[theirs], strict=True)


@dataclass(frozen=True, slots=True)
class Bar:
    what: str
    figure: Callable[[AllSamples], float]
    unit: str
    first: float
    aim: float
    higher: bool = False
    """Whether more is better."""

    def reached(self, figure: float) -> str:
        sign = -1 if self.higher else 1
        if sign * figure <= sign * self.aim:
            return "aim"
        return "first bar" if sign * figure <= sign * self.first else "no"


BARS: Final = (
    Bar("JSON: CPU per request against nginx", ratio("json", "cpu_us", "coatcheck", "nginx"), "×", 8, 3),
    Bar(
        "JSON: requests/s against LiteLLM", ratio("json", "requests_per_s", "coatcheck", "litellm"), "×", 40, 120, True
    ),
    Bar("SSE burst: CPU per event against nginx", ratio("burst", "cpu_us", "coatcheck", "nginx"), "×", 1.6, 1.2),
    Bar("SSE paced: CPU per event against nginx", ratio("paced", "cpu_us", "coatcheck", "nginx"), "×", 2.5, 1.6),
    Bar("one at a time: added p50 over nginx", difference("alone", "p50_ms", "coatcheck", "nginx"), "ms", 1.5, 0.5),
    Bar("100 requests/s: p99", value("rate", "p99_ms"), "ms", 10, 3),
    Bar("an idle open stream", value("rest", "stream_kb"), "KB", 40, 20),
    Bar("an idle socket, both its ends", value("rest", "socket_kb"), "KB", 40, 20),
    Bar(
        "200 sockets that speak: CPU per event against nginx",
        ratio("sockets", "cpu_us", "coatcheck", "nginx"),
        "×",
        4,
        2.5,
    ),
    Bar(
        "the same beside 1,000 idle ones: p50 against alone", within("sockets", "p50_ms_idle", "p50_ms"), "×", 1.5, 1.15
    ),
    Bar("the same beside 1,000 idle ones: p99 against alone", within("sockets", "p99_ms_idle", "p99_ms"), "×", 2, 1.3),
    Bar(
        "the same beside 20 that do not read: p50 against alone",
        within("sockets", "p50_ms_slow", "p50_ms"),
        "×",
        1.5,
        1.15,
    ),
    Bar(
        "the same beside 20 that do not read: p99 against alone",
        within("sockets", "p99_ms_slow", "p99_ms"),
        "×",
        2,
        1.3,
    ),
    Bar("the process at rest", value("rest", "rest_mb"), "MB", 120, 80),
    Bar("start to first answer", value("rest", "start_s"), "s", 2, 1),
    Bar("stored IDs 10³ → 10⁶: CPU per request", ratio("growth", "cpu_us", "many", "few"), "×", 1.10, 1.05),
    Bar("stored IDs 10³ → 10⁶: p50 one at a time", ratio("growth", "alone_p50_ms", "many", "few"), "×", 1.10, 1.05),
)


def bar_table(samples: AllSamples) -> str:
    """A row for each bar that was measured."""
    rows = []
    for bar in BARS:
        try:
            figure = bar.figure(samples)
        except (KeyError, ValueError):  # not measured, or not in every round
            continue
        sign = "≥" if bar.higher else "≤"
        bounds = [f"{sign} {bound:g} {bar.unit}" for bound in (bar.first, bar.aim)]
        rows.append([bar.what, f"**{_short(figure)} {bar.unit}**", *bounds, bar.reached(figure)])
    return _table(["measure", "Coatcheck", "first bar", "aim", "reached"], rows)


_COLUMNS: Final = (
    ("requests/s", "json", "requests_per_s"),
    ("CPU µs / JSON request", "json", "cpu_us"),
    ("p50 alone, ms", "alone", "p50_ms"),
    ("p99 at 100/s, ms", "rate", "p99_ms"),
    ("CPU µs / event, burst", "burst", "cpu_us"),
    ("paced", "paced", "cpu_us"),
    ("CPU µs / event over a socket", "sockets", "cpu_us"),
    ("p50 of 200 sockets, ms", "sockets", "p50_ms"),
    ("p99, ms", "sockets", "p99_ms"),
)


def target_table(samples: AllSamples) -> str:
    """Medians of each target, with the least of the rounds before them."""
    columns = [column for column in _COLUMNS if column[1] in samples]
    rows = []
    for name in TARGETS:
        cells = []
        for _, measure, figure in columns:
            found = [sample[figure] for sample in samples[measure].get(name, ()) if figure in sample]
            cells.append(f"{_short(min(found))} / {_short(median(found))}" if found else "–")
        if any(cell != "–" for cell in cells):
            rows.append([name, *cells])
    return _table(["least / median", *(title for title, _, _ in columns)], rows) if rows else ""


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
