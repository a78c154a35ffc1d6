"""The raw shape, defined once: what an ID of the upstream service looks like to someone who knows only its characters.

A prefix of the closed list, then 20 to 64 alphanumerics with at least one digit, or a hyphenated UUID; bounded on both
sides by a character outside `[A-Za-z0-9_-]`. An ID of our own has this shape too: whoever asks verifies the tag.
IDs without a prefix have no shape. A fine-tuned model's name (`ft:` and words with colons between) names the organization and
can be used by whoever knows it, so it has one too, in upper and lower case: which the service takes is its own to say.
"""

from __future__ import annotations

import re
from bisect import bisect
from typing import AnyStr, Final

from gateway.ids.kinds import PREFIXES

TUNED: Final = "ft:"
"""What a fine-tuned model's name begins with."""

_UUID: Final = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_LONG: Final = rf"(?:(?=[A-Za-z]*[0-9])[A-Za-z0-9]{{20,64}}|{_UUID})(?![A-Za-z0-9])"
_TAIL: Final = _LONG + "(?![_-])"


def _alternation(words: list[str]) -> str:
    """A pattern for any of `words`, as a trie: `re` tries the branches of a `|` one by one, and a trie leaves few."""
    tails: dict[str, list[str]] = {}
    for word in filter(None, words):
        tails.setdefault(word[0], []).append(word[1:])
    branches = [re.escape(head) + _alternation(rest) for head, rest in tails.items()]
    return "(?:" + "|".join(branches) + ")" + ("?" if "" in words else "") if branches else ""


_BEGIN: Final = r"\b(?<!-)"
_PREFIXES: Final = _alternation([prefix for prefix in PREFIXES if prefix != TUNED])
_PREFIX: Final = _BEGIN + _PREFIXES
_NAME: Final = _BEGIN + f"(?i:{TUNED})" + r"[A-Za-z0-9][A-Za-z0-9._:-]{15,250}[A-Za-z0-9]"
_ANY_TUNED: Final = re.compile(rf"(?<![0-9A-Za-z]){TUNED}", re.ASCII | re.IGNORECASE)
_RAW: Final = f"{_PREFIX}{_TAIL}|{_NAME}"

RAW: Final = re.compile(_RAW, re.ASCII)
"""One ID of raw shape. Measured on 4 KB of JSON: 60 to 100 µs; `find_raw` 30 to 40 µs."""
RAW_BYTES: Final = re.compile(_RAW.encode())

_ONLY: Final = re.compile(rf"[^0-9A-Za-z]*(?:(?:{_RAW})[^0-9A-Za-z]*)+", re.ASCII)

# Few characters are `_` or `-`, and hardly any has such a tail behind it: look for those, then for the prefix before.
_GATE: Final = re.compile("[_-]" + _TAIL)
_GATE_BYTES: Final = re.compile(("[_-]" + _TAIL).encode())
_BEFORE: Final = re.compile(_PREFIX + r"\Z", re.ASCII)
_BEFORE_BYTES: Final = re.compile((_PREFIX + r"\Z").encode())
_LONGEST: Final = max(map(len, PREFIXES))
_GATE_IN_NAMES: Final = re.compile("[_-]" + _LONG)
_BEFORE_IN_NAMES: Final = re.compile(rf"(?<![A-Za-z0-9]){_PREFIXES}\Z")


SHORTEST: Final = len(TUNED) + 17
"""Characters that the raw shape has at least; `ft:gpt-4-0613:a::8k01tfYd`, the shortest real name of a model, has more."""


def is_raw_shape(text: str) -> bool:
    """Whether the whole of `text` has the raw shape."""
    return len(text) >= SHORTEST and RAW.fullmatch(text) is not None


def is_only_raw(text: str) -> bool:
    """Whether `text` says nothing but IDs of raw shape: one, with blanks around it perhaps, or several with commas between."""
    return _ONLY.fullmatch(text) is not None


def find_raw(text: AnyStr) -> list[tuple[int, int]]:
    """Start and end of everything of raw shape in `text`, in order: the same as `RAW` finds, faster where no model's name can
    be."""
    if len(text) < SHORTEST:
        return []
    if isinstance(text, bytes):
        if b"ft:" in text.lower():
            return [found.span() for found in RAW_BYTES.finditer(text)]
        return _spans(text, _GATE_BYTES, _BEFORE_BYTES)
    if TUNED in text.lower():
        return [found.span() for found in RAW.finditer(text)]
    return _spans(text, _GATE, _BEFORE)


def names_tuned(text: str) -> bool:
    """Whether a fine-tuned model's name stands in `text`, in upper or lower case: which of them the service takes for one is
    its own to say."""
    return _ANY_TUNED.search(text) is not None


def find_in_names(text: str) -> list[tuple[int, int]]:
    """The same where the service makes names of IDs: there `_` and `-` may join one to other words (`batch_…_output.jsonl`)."""
    spans, joined = find_raw(text), []
    if len(text) >= SHORTEST:
        starts = [start for start, _ in spans]
        for start, end in _spans(text, _GATE_IN_NAMES, _BEFORE_IN_NAMES):
            # They are in order and apart, so only the neighbours may overlap: a name may be full of them.
            at = bisect(starts, start)
            if not (at and spans[at - 1][1] > start) and not (at < len(starts) and starts[at] < end):
                joined.append((start, end))
    return sorted(spans + joined)


def _spans(text: AnyStr, gate: re.Pattern[AnyStr], before: re.Pattern[AnyStr]) -> list[tuple[int, int]]:
    spans = []
    for tail in gate.finditer(text):
        behind = tail.start() + 1
        if prefix := before.search(text, max(0, behind - _LONGEST), behind):
            spans.append((prefix.start(), tail.end()))
    return spans
