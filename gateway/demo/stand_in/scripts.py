"""The little language that tells the stand-in what to answer.

`[[script: reasoning, function_call, split=1, status=429]]` in a prompt, the header `X-Stand-In-Script`, or the
server-wide default: words separated by commas, each with an optional value. A word names an output item, a way of
writing to the wire, or a fault: `words.py` has them all, and `GET /_stand_in/words` answers with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARK = re.compile(r"\[\[\s*script\s*:(.*?)\]\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Script:
    """Words in the order in which they were written, each with its value, which may be empty."""

    words: tuple[tuple[str, str], ...] = ()

    def __contains__(self, word: str) -> bool:
        return any(word == name for name, _ in self.words)

    def text(self, word: str, default: str = "") -> str:
        """The value of the last `word`, or the default where the word is absent or has no value."""
        return next((value for name, value in reversed(self.words) if name == word and value), default)

    def number(self, word: str, default: float = 0.0) -> float:
        """The value of the last `word` as a number; the default where it is none."""
        try:
            return float(self.text(word, str(default)))
        except ValueError:
            return default

    def count(self, word: str, default: int = 0) -> int:
        """The value of the last `word` as a whole number; the default where it is none."""
        value = self.text(word, str(default))
        return int(value) if value.removeprefix("-").isdigit() else default

    def __add__(self, other: Script) -> Script:
        return Script(self.words + other.words)


def parse(text: str) -> Script:
    """A script without its brackets: `reasoning, split=1`. Values may not hold a comma."""
    words = []
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name:
            words.append((name.strip().lower(), value.strip()))
    return Script(tuple(words))


def in_prompt(text: str) -> Script:
    """All scripts that stand in a prompt, joined."""
    found = Script()
    for match in _MARK.finditer(text):
        found += parse(match.group(1))
    return found


def without_scripts(text: str) -> str:
    """The prompt as the model sees it."""
    return _MARK.sub("", text).strip()
