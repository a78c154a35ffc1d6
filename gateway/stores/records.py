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

VERSION: Final = 1
_ROOT: Final = 0
_CLEAR: Final = struct.Struct(">BBB")
_FIXED: Final = struct.Struct(">BBQQ")
"""Kind, flags, created, expires (0: never)."""
_TENANT_VISIBLE, _STORED, _BACKGROUND, _DELETED = 1, 2, 4, 8
# Fields are padded to whole blocks, so that a record's length says little about its owner's name.
_BLOCK: Final = 32


class RecordState(Enum):
    ACTIVE = "active"
    DELETED = "deleted"
    """A tombstone: opens nowhere but inside replayed output items of its owner."""


@dataclass(frozen=True, slots=True)
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

    @property
    def kind(self) -> Kind:
        return self.raw.kind


@dataclass(frozen=True, slots=True)
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
    return f"{{t:{tenant}}}:id:{kind.value}:{h.hex()}".encode()


def seal_root(keys: Versions[StorageKeys], key_name: bytes, root: Root, nonce: bytes) -> bytes:
    """The stored bytes. `nonce`: 12 random bytes. ValueError where the kind has no roots of its own."""
    if KINDS[root.kind].roots:
        raise ValueError(f"{root.kind.value} is a child's kind")
    flags = (
        _TENANT_VISIBLE * (root.visibility is Visibility.TENANT)
        | _STORED * root.stored
        | _BACKGROUND * root.background
        | _DELETED * (root.state is RecordState.DELETED)
    )
    texts = (root.raw.text, root.owner.issuer, root.owner.subject, root.upstream, root.project)
    fields = _FIXED.pack(KINDS[root.kind].code, flags, root.created, root.expires or 0)
    fields += _packed(bytes.fromhex(root.parent), *map(_to_bytes, texts))
    return _seal(keys, key_name, _ROOT, b"", fields, nonce)


def seal_child(keys: Versions[StorageKeys], key_name: bytes, child: Child, nonce: bytes) -> bytes:
    """The stored bytes. `nonce`: 12 random bytes. ValueError where the kind can't belong to such a root."""
    if child.root_kind not in KINDS[child.kind].roots or len(child.root_h) != H_BYTES:
        raise ValueError(f"{child.kind.value} is no child of {child.root_kind.value}")
    flags = _DELETED * (child.state is RecordState.DELETED)
    fields = bytes([KINDS[child.kind].code, flags]) + _packed(_to_bytes(child.raw.text))
    return _seal(keys, key_name, KINDS[child.root_kind].code, child.root_h, fields, nonce)


def open_record(keys: Versions[StorageKeys], key_name: bytes, data: bytes) -> Root | Child | None:
    """What `data`, stored under `key_name`, says. None where it does not verify: for the caller that is an absent record
    and an alert, because the gateway never writes such bytes."""
    try:
        version, key_version, root_code = _CLEAR.unpack_from(data)
        if version != VERSION or (key := keys.keys.get(key_version)) is None:
            return None
        head = _CLEAR.size + (H_BYTES if root_code != _ROOT else 0)
        clear, nonce, sealed = data[:head], data[head : head + NONCE_BYTES], data[head + NONCE_BYTES :]
        fields = key.box.decrypt(nonce, sealed, lp(key_name, clear))
        return _root(fields) if root_code == _ROOT else _child(fields, KIND_OF_CODE[root_code], clear[_CLEAR.size :])
    except (InvalidTag, ValueError, KeyError, struct.error):
        return None


def _seal(
    keys: Versions[StorageKeys], key_name: bytes, root_code: int, root_h: bytes, fields: bytes, nonce: bytes
) -> bytes:
    clear = _CLEAR.pack(VERSION, keys.current, root_code) + root_h
    padded = fields + bytes(-len(fields) % _BLOCK)
    return clear + nonce + keys.newest.box.encrypt(nonce, padded, lp(key_name, clear))


def _root(fields: bytes) -> Root:
    code, flags, created, expires = _FIXED.unpack_from(fields)
    parent, *texts = _unpacked(fields, _FIXED.size, 6)
    raw, issuer, subject, upstream, project = map(_to_text, texts)
    return Root(
        raw=RawId(KIND_OF_CODE[code], raw),
        owner=Owner(issuer, subject),
        visibility=Visibility.TENANT if flags & _TENANT_VISIBLE else Visibility.PRIVATE,
        upstream=upstream,
        project=project,
        created=created,
        expires=expires or None,
        parent=parent.hex(),
        stored=bool(flags & _STORED),
        background=bool(flags & _BACKGROUND),
        state=_state(flags),
    )


def _child(fields: bytes, root_kind: Kind, root_h: bytes) -> Child:
    (raw,) = _unpacked(fields, 2, 1)
    return Child(RawId(KIND_OF_CODE[fields[0]], _to_text(raw)), root_kind, root_h, _state(fields[1]))


def _state(flags: int) -> RecordState:
    return RecordState.DELETED if flags & _DELETED else RecordState.ACTIVE


def _packed(*parts: bytes) -> bytes:
    """Each part after its length in 2 bytes; ValueError beyond 65,535."""
    if any(len(part) > 0xFFFF for part in parts):
        raise ValueError("a field of a record is too long")
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


def _unpacked(fields: bytes, at: int, count: int) -> list[bytes]:
    parts = []
    for _ in range(count):
        end = at + 2 + int.from_bytes(fields[at : at + 2], "big")
        parts.append(fields[at + 2 : end])
        at = end
    return parts


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
