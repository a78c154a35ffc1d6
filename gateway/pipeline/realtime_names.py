"""The IDs of one realtime connection: made with it, known to it alone, and gone with it."""

from __future__ import annotations

import hmac
import os
from collections import OrderedDict
from typing import Final

from gateway.ids.encoding import base62, lp
from gateway.ids.form import Parsed, prefix_of
from gateway.ids.kinds import KINDS
from gateway.mapping import Mapper, Opened
from gateway.names import Kind, Principal, RawId, Visibility
from gateway.pipeline.minting import Minting
from gateway.stores.records import Root

MAX_KNOWN: Final = 8_192
"""IDs of one connection that its client may name; the oldest leave first."""
TAIL_CHARS: Final = 22
_LONGEST_PREFIX: Final = 10
_KEY_BYTES: Final = 32

OWN_KINDS: Final = frozenset({Kind.ITEM, Kind.RESPONSE, Kind.CONVERSATION})
"""Kinds of which the service makes some that live no longer than the connection."""


class Names:
    """The IDs of one connection: what stands for a raw one, and what its client may name."""

    def __init__(self, mapper: Mapper, principal: Principal, now: int) -> None:
        self._key = os.urandom(_KEY_BYTES)
        self._epoch = mapper.keys.identity.current
        # Theirs who opened it; no one else's hands reach into it.
        self._root: Root = mapper.root(
            Kind.RESPONSE,
            "",
            owner=principal.owner,
            visibility=Visibility.PRIVATE,
            parent=b"",
            now=now,
            stored=False,
        )
        self._by_text: OrderedDict[str, Opened] = OrderedDict()
        self._chosen: dict[str, str] = {}
        """Raw ID → what the client calls it."""
        self._by_h: dict[tuple[Kind, bytes], Opened] = {}

    def __contains__(self, text: object) -> bool:
        return text in self._by_text

    def text(self, kind: Kind | None, raw: str) -> str:
        """What stands for `raw`: the service takes no more than 32 characters where an item is named, so there is no tag."""
        if (chosen := self._chosen.get(raw)) is not None:
            return chosen
        prefix = prefix_of(kind, raw)
        if len(prefix) > _LONGEST_PREFIX:
            prefix = KINDS[kind].canonical if kind else "id_"
        return prefix + base62(self._digest("text", raw), TAIL_CHARS)

    def _digest(self, use: str, raw: str) -> bytes:
        return hmac.digest(self._key, lp(use, raw), "sha256")[:16]

    def keep(self, kind: Kind, raw: str, text: str) -> None:
        """From here on `text` names `raw`."""
        self._keep(self._opened(kind, raw), text)

    def _opened(self, kind: Kind, raw: str) -> Opened:
        h = self._digest("h", raw)
        return Opened(RawId(kind, raw), h, self._root, h, deleted=False)

    def _keep(self, opened: Opened, text: str) -> None:
        self._by_text[text] = self._by_h[opened.kind, opened.h] = opened
        if len(self._by_text) > MAX_KNOWN:
            _, oldest = self._by_text.popitem(last=False)
            self._by_h.pop((oldest.kind, oldest.h), None)
            self._chosen.pop(oldest.raw.text, None)

    def spoken(self, raw: str) -> str | None:
        """What stands for `raw`, where it is an ID that the client may name."""
        h = self._digest("h", raw)
        kind = next((kind for kind in OWN_KINDS if (kind, h) in self._by_h), None)
        return self.text(kind, raw) if kind is not None else None

    def get(self, key: tuple[Kind, bytes]) -> Opened | None:
        return self._by_h.get(key)


class Draft:
    """The names, and beside them what one frame calls items that it adds: theirs once it is decided."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._chosen: dict[str, Opened] = {}
        self._by_h: dict[tuple[Kind, bytes], Opened] = {}

    def __contains__(self, text: object) -> bool:
        return text in self._chosen or text in self._names

    def __len__(self) -> int:
        """How many items it calls something."""
        return len(self._chosen)

    def choose(self, raw: str, text: str) -> None:
        """An item's ID is the client's `text`."""
        opened = self._names._opened(Kind.ITEM, raw)
        self._chosen[text] = self._by_h[opened.kind, opened.h] = opened

    def verify(self, text: str) -> Parsed | None:
        """What one of them states; the pipeline looks for it under that."""
        known = self._chosen.get(text) or self._names._by_text.get(text)
        return Parsed("", self._names._epoch, 0, known.h) if known else None

    def get(self, key: tuple[Kind, bytes]) -> Opened | None:
        return self._by_h.get(key) or self._names.get(key)

    def keep(self) -> None:
        for text, opened in self._chosen.items():
            self._names._chosen[opened.raw.text] = text
            self._names._keep(opened, text)


class Naming(Minting):
    """The connection's own names for what lives in it, the tenant's for everything else."""

    def __init__(self, names: Names, mapper: Mapper, principal: Principal, tokens: dict[str, str]) -> None:
        super().__init__(mapper, principal.owner, Visibility.PRIVATE, tokens)
        self._names = names

    def opaque(self, kind: Kind, raw: str) -> str:
        return self._names.text(kind, raw) if kind in OWN_KINDS else super().opaque(kind, raw)

    def inert(self, kind: Kind | None, raw: str) -> str:
        return self._names.text(kind, raw)

    def verify(self, text: str) -> bool:
        return text in self._names or super().verify(text)
