"""Text of others on a page: escaped, cut, and what cannot be seen in it made visible. Pure.

A record may hold what a client chose (a model's name, say): controls, characters that turn the direction of what follows, or
ones that take no room, any of which makes a page say something else than the record does.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Final

from markupsafe import Markup, escape

LONGEST: Final = 200
"""Characters of one value on a page."""
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Printable by their category, and seen by nobody."""
_MARKS: Final = 2
"""Combining marks in a row that are still text."""


def is_seen(character: str) -> bool:
    """Whether a person sees `character` as itself: printable excludes controls, format characters (the bidirectional ones
    too), separators but the space, surrogates and what is not assigned."""
    return character.isprintable() and character not in _BLANK


def shown(value: object, limit: int = LONGEST) -> Markup:
    """`value` as a piece of HTML whose direction touches nothing around it."""
    text = str(value)
    parts: list[str] = []
    marks = 0
    for character in text[:limit]:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if is_seen(character) and marks <= _MARKS:
            parts.append(str(escape(character)))
        else:
            parts.append(f'<span class="unseen">{_code(character)}</span>')
    cut = f'<span class="cut">… {len(text) - limit:,} more</span>' if len(text) > limit else ""
    # Everything in it was escaped above.
    return Markup(f"<bdi>{''.join(parts)}</bdi>{cut}")  # noqa: S704


def plain(value: object, limit: int = LONGEST) -> str:
    """The same as text: for titles, attributes and what a script puts on the page."""
    text = str(value)
    seen = "".join(c if is_seen(c) else f"[{_code(c)}]" for c in text[:limit])
    return f"{seen}… {len(text) - limit:,} more" if len(text) > limit else seen


def pretty(fields: object) -> str:
    """JSON over several lines, everything outside ASCII as its escape, so that it can be copied as it is."""
    return json.dumps(fields, indent=2, ensure_ascii=True)


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"
