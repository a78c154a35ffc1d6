"""What an answer makes the gateway remember: which records, of whom, under which root. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.ids.kinds import KINDS
from gateway.mapping import Claim, Mapper, is_child
from gateway.names import Kind, Owner, Visibility
from gateway.rewrite.id_table import Minted
from gateway.stores.contract import Mode, Write

ANSWERS: Final = "answers"
"""What the lines of a file are that a batch made."""

_KEPT_BY_STORE = frozenset({Kind.RESPONSE, Kind.ITEM, Kind.CHAT_COMPLETION})


@dataclass(frozen=True, slots=True)
class Heritage:
    """Whose the objects of one answer are, and what they hang on. There is none without an owner."""

    owner: Owner
    visibility: Visibility
    creates: Kind | None
    """The kind of root that the route makes; its first ID in the answer is the new object's."""
    roots: Mapping[Kind, bytes] = field(default_factory=dict)
    """`h` of each root that the request names, and of what its answer makes: children hang on them, by kind."""
    stored: bool = True
    background: bool = False
    lines: str = ""
    """What the lines of the file that the route makes were checked for."""


@dataclass(slots=True)
class Record:
    """One record to write, and the claim beside it where it is a root's."""

    write: Write
    raw: str = field(repr=False)
    opaque: str = ""
    claim: Claim | None = None


def records(mapper: Mapper, heritage: Heritage, minted: Iterable[Minted], now: int) -> list[Record]:
    """Records for what an answer minted, roots before children. What the service does not keep (`store: false`), the
    response and its items, gets none: it can't be named again, neither here nor there. Files and containers live on."""
    minted = [one for one in minted if heritage.stored or one.kind not in _KEPT_BY_STORE]
    made: list[Record] = []
    roots = dict(heritage.roots)
    for one in minted:
        if is_child(one.kind):
            continue
        created = one.kind is heritage.creates
        root = mapper.root(
            one.kind,
            one.raw,
            owner=heritage.owner,
            visibility=heritage.visibility,
            parent=roots.get(Kind.CONVERSATION, b"") if one.kind is Kind.RESPONSE else b"",
            now=now,
            stored=heritage.stored,
            background=heritage.background and created,
        )
        if created:
            root.lines = heritage.lines
        elif one.kind is Kind.FILE and Kind.BATCH in roots:
            root.lines = ANSWERS
        write = mapper.write_root(root, Mode.CREATE if created else Mode.PUT)
        if created:
            roots[one.kind] = write.h
        made.append(Record(write, one.raw, mapper.to_opaque(one.kind, one.raw).text, mapper.claim(write, one.raw)))
    for one in minted:
        if is_child(one.kind) and (root_of := _root_of(mapper, one, roots)):
            made.append(Record(mapper.write_child(one.kind, one.raw, *root_of), one.raw))
    return made


def _root_of(mapper: Mapper, one: Minted, roots: Mapping[Kind, bytes]) -> tuple[Kind, bytes] | None:
    """Kind and `h` of the root that a child hangs on: one that the request names or makes, else, where its kind leaves no
    choice, what the answer says beside it. None: it can't be named again."""
    kinds = KINDS[one.kind].roots
    named = next(((kind, roots[kind]) for kind in kinds if kind in roots), None)
    if named is None and len(kinds) == 1 and one.parent:
        return kinds[0], mapper.h(kinds[0], one.parent)
    return named
