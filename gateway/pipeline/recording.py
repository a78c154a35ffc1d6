"""What an answer makes the gateway remember: which records, of whom, under which root. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.mapping import Claim, Mapper, is_child
from gateway.names import Kind, Owner, Visibility
from gateway.rewrite.id_table import Minted
from gateway.stores.contract import Mode, Write

_KEPT_BY_STORE = frozenset({Kind.RESPONSE, Kind.ITEM, Kind.CHAT_COMPLETION})


@dataclass(frozen=True, slots=True)
class Heritage:
    """Whose the objects of one answer are, and what they hang on. There is none without an owner."""

    owner: Owner
    visibility: Visibility
    creates: Kind | None
    """The kind of root that the route makes; its first ID in the answer is the new object's."""
    conversation: bytes = b""
    """`h` of the conversation that the request or the response's record names: the root of the items."""
    response: bytes = b""
    """`h` of the response that items hang on where there is no conversation; a new response's is found in the answer."""
    completion: bytes = b""
    """`h` of the chat completion that the path names: the root of its messages."""
    stored: bool = True
    background: bool = False


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
    response = heritage.response
    for one in minted:
        if is_child(one.kind):
            continue
        created = one.kind is heritage.creates
        parent = heritage.conversation if one.kind is Kind.RESPONSE else b""
        root = mapper.root(
            one.kind,
            one.raw,
            owner=heritage.owner,
            visibility=heritage.visibility,
            parent=parent,
            now=now,
            background=heritage.background and created,
        )
        write = mapper.write_root(root, Mode.CREATE if created else Mode.PUT)
        if one.kind is Kind.RESPONSE:
            response = write.h
        made.append(Record(write, one.raw, mapper.to_opaque(one.kind, one.raw).text, mapper.claim(write, one.raw)))
    for one in minted:
        if not is_child(one.kind):
            continue
        if one.kind is Kind.CONTAINER_FILE:
            root_kind, root_h = Kind.CONTAINER, mapper.h(Kind.CONTAINER, one.parent) if one.parent else b""
        elif one.kind is Kind.CHAT_MESSAGE:
            root_kind, root_h = Kind.CHAT_COMPLETION, heritage.completion
        elif heritage.conversation:
            root_kind, root_h = Kind.CONVERSATION, heritage.conversation
        else:
            root_kind, root_h = Kind.RESPONSE, response
        if root_h:
            made.append(Record(mapper.write_child(one.kind, one.raw, root_kind, root_h), one.raw))
    return made
