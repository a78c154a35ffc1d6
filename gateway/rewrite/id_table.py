"""What one request knows of IDs, and the first decision on each, which holds in every event and every place of its answer.

Four things can happen to a raw ID on its way out: it is *minted* (recorded, redeemable), *restored* (this request sent
it), *referenced* (written in its normal form, without a record) or made *inert* (an ID that never opens).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

import orjson

from gateway.errors import Problem, Reason, quotable
from gateway.ids.form import MAX_CHARS, TAIL_CHARS, prefix_of
from gateway.ids.kinds import kind_of_prefix
from gateway.ids.shape import find_in_names, find_raw
from gateway.names import Kind

SHORTEST: Final = 16
"""Characters from which on a raw ID is looked for inside longer strings. A shorter one (`msg_1` of some other server)
guards nothing by being secret, and is replaced only where it is the whole value of an ID's place."""

MAX_TOUCHED: Final = 16_384
"""IDs that one answer may hold, far beyond what any does: a text full of made-up ones must not keep the process busy."""

_FEW: Final = 256
"""Touched IDs up to which each is searched for by itself."""
_HEAD_CHARS: Final = 4

# Nothing that JSON escapes or that has a meaning outside JSON strings, and a letter that no number has: so a run of
# these characters can stand only inside a string, and bytes may be replaced without parsing.
_SEARCHABLE: Final = re.compile(r"(?=[0-9eE.+-]*[^0-9eE.+-])[A-Za-z0-9._~=+/@|:-]{16,512}")


class Minter(Protocol):
    """The tenant's keys at work. Pure: the same answer for the same question, no I/O."""

    def opaque(self, kind: Kind, raw: str) -> str:
        """The normal form of `raw`."""

    def inert(self, kind: Kind | None, raw: str) -> str:
        """An ID that never opens."""

    def verify(self, text: str) -> bool:
        """Whether `text` is an opaque ID that this deployment wrote."""

    def seal_blob(self, text: str) -> str:
        """The replay blob with its suffix. A blob that carries a good suffix already must come back unchanged."""

    def restore_token(self, text: str) -> str | None:
        """What the client wrote for this hashed token, if this request sent it."""


class Minted(NamedTuple):
    """A record to write before the answer leaves."""

    kind: Kind
    raw: str
    parent: str
    """The raw ID of the object that it stands in, or of the container named beside it; empty at the top."""


class Touched(NamedTuple):
    """A raw ID that may stand nowhere in the answer, and what stands there instead."""

    raw: str
    text: str
    raw_bytes: bytes
    text_bytes: bytes
    """As JSON spells it: whatever it holds, it ends no string."""


class IdTable:
    """One request's IDs. `sent`: raw ID → what the client wrote for it."""

    def __init__(self, minter: Minter, sent: Mapping[str, str] | None = None) -> None:
        self.minter = minter
        self.new: list[Minted] = []
        """What was minted and not yet taken, in order. Nothing is minted twice."""
        self.texts: dict[str, str] = {}
        """Raw ID → what is written for it."""
        self.issued: set[str] = set()
        """Every opaque ID of this answer."""
        self._raws: tuple[bytes, ...] = ()
        self._raw_bytes: list[bytes] = []
        """What `raws` is once it is asked for: for each ID a tuple of all would be quadratic."""
        self._sent = dict(sent or {})
        self._said = {text: text for text in self._sent.values()} | self._sent
        self._settled: set[str] = set()
        """What was minted or made inert: nothing more becomes of it."""
        self.everywhere: dict[str, Touched] = {}
        """What is replaced wherever it stands, so that its places need no edit of their own; by raw ID."""
        self._touched: list[Touched] = []
        self._texts_by_bytes: dict[bytes, bytes] = {}
        self._heads_of: tuple[bytes, ...] = ()
        self._heads = re.compile(b"")
        self._sizes: list[int] = []
        self._stale = False
        for raw, text in self._sent.items():
            self._decide(raw, text)

    def mint(self, kind: Kind, raw: str, parent: str) -> str:
        """The service itself wrote `raw` here. What was made inert before stays so: one thing, one opaque ID."""
        if raw in self._settled:
            return self.texts[raw]
        text = self._known(raw)
        if text is None:
            text = self._decide(raw, self.minter.opaque(kind, raw))
        elif text == raw:
            return raw
        self._settled.add(raw)
        self.new.append(Minted(kind, raw, parent))
        return text

    def refer(self, kind: Kind, raw: str) -> str:
        """`raw` is only named here: what the client wrote for it, else its normal form, without a record."""
        text = self._known(raw)
        return self._decide(raw, self.minter.opaque(kind, raw)) if text is None else text

    def disarm(self, raw: str) -> str:
        """`raw` stands where the service is not known to write an ID: inert, unless it was decided before."""
        text = self._known(raw)
        if text is None:
            self._settled.add(raw)
            text = self._decide(raw, self.minter.inert(None, raw))
        return text

    def disarm_within(self, text: str) -> None:
        """Decide on everything of raw shape in `text`, which may be a name that the service made; `replace` then writes it."""
        for start, end in find_in_names(text):
            self.disarm(text[start:end])

    def refer_within(self, text: str, *, name: bool = False) -> None:
        """The same for a text, or a `name`, in which opaque IDs become raw on their way in: what it holds may have been one of
        them."""
        for start, end in find_in_names(text) if name else find_raw(text):
            raw = text[start:end]
            kind = kind_of_prefix(prefix_of(None, raw))
            if kind is None:
                self.disarm(raw)
            else:
                self.refer(kind, raw)

    def scrub(self, data: bytes) -> bytes:
        """`data` that is no JSON (a comment, an event name): without raw shapes and touched IDs."""
        for start, end in find_raw(data):
            self.disarm(data[start:end].decode())
        return self.replace(data)

    def quote(self, text: str) -> str:
        """What an error message may say for what the upstream said: the client's own words, else nothing."""
        said = self._said.get(text, "") or (text if text in self.issued or self._is_ours(text) else "")
        return quotable(said)

    def say(self, *texts: str) -> None:
        """Values of the request that an error message may quote where they are no IDs."""
        for text in texts:
            self._said.setdefault(text, text)

    def restore(self, raw: str, text: str) -> None:
        """From here on `raw` reads as `text`, which the client wrote for it."""
        if raw not in self.texts:
            self._sent[raw] = text
            self._said |= {text: text, raw: text}
            self._decide(raw, text)

    def forget(self, raws: Collection[str]) -> None:
        """These were never seen: for a table that lasts. Where a minter always says the same of one, so does the table."""
        for raw in raws:
            text = self.texts.pop(raw)
            self._sent.pop(raw, None)
            self._said.pop(raw, None)
            self._said.pop(text, None)
            self._settled.discard(raw)
            if (one := self.everywhere.pop(raw, None)) is not None:
                del self._texts_by_bytes[one.raw_bytes]
        self.issued = set(self.texts.values())
        self._touched = list(self.everywhere.values())
        self._stale = True
        self._raw_bytes = [one.raw_bytes for one in self._touched]
        self._raws = tuple(self._raw_bytes)

    def take_new(self) -> tuple[Minted, ...]:
        """What was minted since the last call: the records to write before anything else leaves."""
        new = tuple(self.new)
        self.new.clear()
        return new

    @property
    def raws(self) -> tuple[bytes, ...]:
        """All touched IDs in their order, for the egress scan; another tuple once there is one more."""
        if len(self._raws) != len(self._raw_bytes):
            self._raws = tuple(self._raw_bytes)
        return self._raws

    @property
    def touched(self) -> list[Touched]:
        """What is replaced everywhere, longest first: the order in which `replace` goes."""
        if self._stale:
            self._touched.sort(key=lambda one: -len(one.raw))
            self._stale = False
        return self._touched

    def replace(self, data: bytes) -> bytes:
        """`data` with every touched ID replaced. JSON may be given, unless it spells an ID with escapes."""
        if len(self._touched) > _FEW:
            return self._replace_many(data)
        for _, _, raw, text in self.touched:
            data = data.replace(raw, text)
        return data

    def _replace_many(self, data: bytes) -> bytes:
        """The same in one pass over `data`: IDs begin in few ways (`msg_`), and where one begins, the table tells which."""
        if self._heads_of is not self.raws:
            heads = {one.raw_bytes[:_HEAD_CHARS] for one in self._touched}
            sizes = sorted({len(one.raw_bytes) for one in self._touched}, reverse=True)
            self._heads_of, self._sizes = self.raws, sizes
            # Looked ahead for, so that what only begins like one hides no other.
            self._heads = re.compile(b"(?=" + b"|".join(re.escape(head) for head in sorted(heads)) + b")")
        pieces: list[bytes] = []
        at = 0
        for found in self._heads.finditer(data):
            start = found.start()
            if start < at:
                continue
            for size in self._sizes:
                text = self._texts_by_bytes.get(data[start : start + size])
                if text is not None:
                    pieces += (data[at:start], text)
                    at = start + size
                    break
        pieces.append(data[at:])
        return b"".join(pieces)

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """Start, end and replacement of every touched ID in `text`, in order, without overlaps."""
        found: list[tuple[int, int, str]] = []
        if len(text) < SHORTEST:
            return found
        for one in self.touched:
            start = text.find(one.raw)
            while start >= 0:
                end = start + len(one.raw)
                if all(end <= other[0] or start >= other[1] for other in found):
                    found.append((start, end, one.text))
                start = text.find(one.raw, start + 1)
        return sorted(found)

    def _known(self, raw: str) -> str | None:
        """What was decided on `raw`; itself if it is an opaque ID of ours already."""
        text = self.texts.get(raw)
        if text is None and (raw in self.issued or self._is_ours(raw)):
            self.issued.add(raw)
            return raw
        return text

    def _is_ours(self, text: str) -> bool:
        """An opaque ID, told by its form before its tag is computed."""
        return TAIL_CHARS < len(text) <= MAX_CHARS and text[-TAIL_CHARS - 1] in "_-:" and self.minter.verify(text)

    def _decide(self, raw: str, text: str) -> str:
        self.texts[raw] = text
        self.issued.add(text)
        if raw != text and _SEARCHABLE.fullmatch(raw):
            if len(self._touched) >= MAX_TOUCHED:
                raise Problem(Reason.UPSTREAM_BAD_ANSWER)
            one = Touched(raw, text, raw.encode(), orjson.dumps(text)[1:-1])
            self._touched.append(one)
            self.everywhere[raw] = one
            self._texts_by_bytes[one.raw_bytes] = one.text_bytes
            self._stale = True
            self._raw_bytes.append(one.raw_bytes)
        return text
