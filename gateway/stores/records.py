"""Records: what an opaque ID opens to, sealed for the key that it is stored under.

    version ‖ storage-key version ‖ root's kind ‖ [root's h]  ‖ nonce[12] ‖ AES-256-GCM-SIV(K_rec; AAD; fields)
    AAD = lp(key name, all clear bytes before the nonce)

Who reads the store learns how many records there are, when they were written, and which child belongs to which root: no
raw ID, no owner, no state. Who writes it can delete a record or put an older one of the same key back; a record moved to
another key does not open, and neither does a changed one.

The root's kind is 0 in a root's own record. The one call that looks up a child follows its clear pointer, so owner and
visibility always come from the root. This is the only module of the stores that knows raw IDs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cryptography.exceptions import InvalidTag

from gateway.ids.encoding import lp
from gateway.ids.form import H_BYTES
from gateway.ids.keys import NONCE_BYTES, StorageKeys, Versions
from gateway.ids.kinds import KIND_OF_CODE, KINDS
from gateway.names import Kind, Owner, RawId, TenantId, Visibility
from gateway.stores.keyspace import tenant_keys

VERSION: Final = 1
_ROOT: Final = 0
_CLEAR_BYTES: Final = 3
_CLEAR_BYTES_OF_CHILD: Final = _CLEAR_BYTES + H_BYTES
_FIXED: Final = struct.Struct(">BBQQ")
"""Kind, flags, created, expires (0: never)."""
_TENANT_VISIBLE, _STORED, _BACKGROUND, _DELETED = 1, 2, 4, 8
# Fields are padded to whole blocks, so that a record's length says little about its owner's name.
_BLOCK: Final = 32
_PADDING: Final = tuple(bytes(-size % _BLOCK) for size in range(_BLOCK))
_NO_TEXT: Final = bytes(2)
_SIZES: Final = tuple(size.to_bytes(2, "big") for size in range(256))


class RecordState(Enum):
    ACTIVE = "active"
    DELETED = "deleted"
    """A tombstone: opens nowhere but inside replayed output items of its owner."""


# Both are made several times in each request, and a frozen dataclass costs twice as much. Nobody writes to them.
@dataclass(slots=True)
class Root:
    """An object that has an owner of its own."""

    raw: RawId
    owner: Owner
    visibility: Visibility
    upstream: str
    """Name of the upstream key that the object lives under."""
    project: str
    """The upstream project."""
    created: int
    """UTC seconds."""
    expires: int | None = None
    """UTC seconds; None: until deleted."""
    parent: str = ""
    """`h` of the object that this one was first seen in, in hex; empty for none."""
    stored: bool = True
    background: bool = False
    state: RecordState = RecordState.ACTIVE
    lines: str = ""
    """Of a file whose lines are not its owner's own bytes: the URL that each was checked for as a request of the owner, or
    another word for what they are; empty of every other object."""

    @property
    def kind(self) -> Kind:
        return self.raw.kind


@dataclass(slots=True)
class Child:
    """An object that belongs to a root. Owner, visibility and upstream are the root's; it can be deleted alone, and is
    gone when its root is."""

    raw: RawId
    root_kind: Kind
    root_h: bytes
    """16 bytes."""
    state: RecordState = RecordState.ACTIVE

    @property
    def kind(self) -> Kind:
        return self.raw.kind


def record_key(tenant: TenantId, kind: Kind, h: bytes) -> bytes:
    """The name that a record is stored under and bound to."""
    return tenant_keys(tenant).record(kind, h)


def seal_root(keys: Versions[StorageKeys], key_name: bytes, root: Root, nonce: bytes) -> bytes:
    """The stored bytes. `nonce`: 12 random bytes. ValueError where the kind has no roots of its own."""
    row = KINDS[root.raw.kind]
    if row.roots:
        raise ValueError(f"{root.kind.value} is a child's kind")
    owner = root.owner
    flags = (
        (_TENANT_VISIBLE if root.visibility is Visibility.TENANT else 0)
        | (_STORED if root.stored else 0)
        | (_BACKGROUND if root.background else 0)
        | (_DELETED if root.state is RecordState.DELETED else 0)
    )
    out = [_FIXED.pack(row.code, flags, root.created, root.expires or 0)]
    _pack(out, bytes.fromhex(root.parent))
    for text in (root.raw.text, owner.issuer, owner.subject, root.upstream, root.project):
        _pack(out, text.encode("utf-8", "surrogatepass"))
    if root.lines:
        _pack(out, root.lines.encode())
    return _seal(keys, key_name, _ROOT, b"", b"".join(out), nonce)


def seal_child(keys: Versions[StorageKeys], key_name: bytes, child: Child, nonce: bytes) -> bytes:
    """The stored bytes. `nonce`: 12 random bytes. ValueError where the kind can't belong to such a root."""
    row = KINDS[child.raw.kind]
    if child.root_kind not in row.roots or len(child.root_h) != H_BYTES:
        raise ValueError(f"{child.kind.value} is no child of {child.root_kind.value}")
    out = [bytes((row.code, _DELETED if child.state is RecordState.DELETED else 0))]
    _pack(out, child.raw.text.encode("utf-8", "surrogatepass"))
    return _seal(keys, key_name, KINDS[child.root_kind].code, child.root_h, b"".join(out), nonce)


def open_record(keys: Versions[StorageKeys], key_name: bytes, data: bytes) -> Root | Child | None:
    """What `data`, stored under `key_name`, says. None where it does not verify: for the caller that is an absent record
    and an alert, because the gateway never writes such bytes."""
    try:
        version, key_version, root_code = data[:_CLEAR_BYTES]
        if version != VERSION or (key := keys.keys.get(key_version)) is None:
            return None
        head = _CLEAR_BYTES if root_code == _ROOT else _CLEAR_BYTES_OF_CHILD
        clear, sealed_at = data[:head], head + NONCE_BYTES
        fields = key.box.decrypt(data[head:sealed_at], data[sealed_at:], lp(key_name, clear))
        return _root(fields) if root_code == _ROOT else _child(fields, KIND_OF_CODE[root_code], clear[_CLEAR_BYTES:])
    except (InvalidTag, ValueError, KeyError, IndexError, struct.error):
        return None


def _seal(
    keys: Versions[StorageKeys], key_name: bytes, root_code: int, root_h: bytes, fields: bytes, nonce: bytes
) -> bytes:
    clear = bytes((VERSION, keys.current, root_code)) + root_h
    padded = fields + _PADDING[len(fields) % _BLOCK]
    return clear + nonce + keys.newest.box.encrypt(nonce, padded, lp(key_name, clear))


def _root(fields: bytes) -> Root:
    code, flags, created, expires = _FIXED.unpack_from(fields)
    # Nearly all records end before their lines: the padding, or what is added here, reads as an empty text.
    parent, *texts = _unpacked(fields + _NO_TEXT, _FIXED.size, 7)
    raw, issuer, subject, upstream, project, lines = [text.decode("utf-8", "surrogatepass") for text in texts]
    return Root(
        RawId(KIND_OF_CODE[code], raw),
        Owner(issuer, subject),
        Visibility.TENANT if flags & _TENANT_VISIBLE else Visibility.PRIVATE,
        upstream,
        project,
        created,
        expires or None,
        parent.hex(),
        bool(flags & _STORED),
        bool(flags & _BACKGROUND),
        _state(flags),
        lines,
    )


def _child(fields: bytes, root_kind: Kind, root_h: bytes) -> Child:
    (raw,) = _unpacked(fields, 2, 1)
    text = raw.decode("utf-8", "surrogatepass")
    return Child(RawId(KIND_OF_CODE[fields[0]], text), root_kind, root_h, _state(fields[1]))


def _state(flags: int) -> RecordState:
    return RecordState.DELETED if flags & _DELETED else RecordState.ACTIVE


def _pack(out: list[bytes], part: bytes) -> None:
    """Appends the part after its length in 2 bytes; ValueError beyond 65,535."""
    size = len(part)
    if size > 0xFFFF:
        raise ValueError("a field of a record is too long")
    out.append(_SIZES[size] if size < len(_SIZES) else size.to_bytes(2, "big"))
    out.append(part)


def _unpacked(fields: bytes, at: int, count: int) -> list[bytes]:
    parts = []
    for _ in range(count):
        begin = at + 2
        at = begin + (fields[at] << 8 | fields[at + 1])
        parts.append(fields[begin:at])
    return parts
