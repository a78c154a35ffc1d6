"""A page as a person reads it."""

from __future__ import annotations

import html
import re

_APART = re.compile(r"</(?:dt|dd|li|td|th|p|h[1-6]|title|a|button|label|summary)>|<br>")


def words_of(page: str) -> str:
    """The text of a page, its tags taken out and its blanks made one."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", _APART.sub(" ", page))).split())
