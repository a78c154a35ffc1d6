"""A Lua script as a link loads and calls it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class Script:
    source: bytes
    sha: str

    @classmethod
    def load(cls, *names: str, before: str = "") -> Script:
        """The files, one after the other, as one script; `before` stands ahead of them."""
        folder = files("gateway.stores")
        text = before + "\n".join(folder.joinpath(name).read_text() for name in names)
        source = text.encode()
        return cls(source, hashlib.sha1(source, usedforsecurity=False).hexdigest())


FIELD_SWAP: Final = Script.load("field_swap.lua")
"""Of several kinds of records."""
