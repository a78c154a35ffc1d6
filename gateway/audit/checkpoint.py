"""Checkpoints: what a tenant's log was at some size, signed with the tenant's key. Pure.

C2SP tlog-checkpoint (c2sp.org/tlog-checkpoint) as a signed note with Ed25519 (c2sp.org/signed-note):

    coatcheck/<deployment>/<tenant>[/<epoch>]      the origin
    512                                            how many events
    <base64 of the tree's root>

    — coatcheck/<deployment>/<tenant> <base64 of key ID and signature>

The key's name is the origin without its epoch, so that a key that a tenant once noted down goes on being good when the log
gets a new epoch (which it does only where events were lost).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.audit.tree import HASH_BYTES, MAX_SIZE
from gateway.names import TenantId

MAX_NOTE_CHARACTERS: Final = 64 * 1024
"""Room for the signatures of many witnesses; a note of the gateway's own has some 250."""
_ED25519: Final = b"\x01"
_KEY_ID_BYTES: Final = 4
_SIGNATURE_BYTES: Final = 64
_ORIGIN: Final = re.compile(r"(coatcheck/[0-9a-f]{16}/[a-z2-7]{16})(?:/([1-9][0-9]{0,8}))?")
_TEXT: Final = re.compile(r"([^\n]+)\n(0|[1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\n")
_SIGNATURE: Final = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_NOTES: Final = re.compile(r"\n*((?:[^\n—][^\n]*\n){3}\n(?:— [^\n]*\n)+)")
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tree of a log's first `size` events. Raises ValueError for an origin that is no log of a tenant."""

    origin: str
    size: int
    root: bytes
    """32 bytes."""

    def __post_init__(self) -> None:
        if not _ORIGIN.fullmatch(self.origin) or not 0 <= self.size <= MAX_SIZE or len(self.root) != HASH_BYTES:
            raise ValueError("not a checkpoint of a tenant's log")

    @property
    def name(self) -> str:
        """Of the key: the origin without its epoch."""
        return _parts(self.origin)[0]

    @property
    def epoch(self) -> int:
        """0, and one more each time the log was resealed."""
        return int(_parts(self.origin)[1] or 0)

    @property
    def tenant(self) -> TenantId:
        return TenantId(self.name.rsplit("/", 1)[1])

    @property
    def text(self) -> str:
        """What is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with its name, written `name+key ID+base64` (the "vkey" that tools for signed notes read)."""

    name: str
    public: bytes
    """32 bytes."""

    @property
    def id(self) -> bytes:
        """4 bytes: SHA-256(name ‖ 0x0A ‖ 0x01 ‖ public key)[:4]."""
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:_KEY_ID_BYTES]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(_ED25519 + self.public).decode()}"

    @classmethod
    def parse(cls, line: str) -> VerifierKey:
        """Raises ValueError for anything but what `str` gives for the key of a tenant's log."""
        name, _, rest = line.partition("+")
        data = _unbase64(rest.partition("+")[2])
        if data is None or len(data) != 1 + HASH_BYTES or not _ORIGIN.fullmatch(name):
            raise ValueError("not the public key of a tenant's log")
        key = cls(name, data[1:])
        if str(key) != line:
            raise ValueError("not the public key of a tenant's log")
        return key


def log_origin(deployment: str, tenant: TenantId, epoch: int = 0) -> str:
    """The log's name, and with it the epoch unless it is 0."""
    return f"coatcheck/{deployment}/{tenant}" + (f"/{epoch}" if epoch else "")


def log_name(origin: str) -> str:
    """The origin without its epoch. ValueError for what is no log of a tenant."""
    if _ORIGIN.fullmatch(origin) is None:
        raise ValueError("not the origin of a tenant's log")
    return _parts(origin)[0]


def public_key(name: str, seed: bytes) -> VerifierKey:
    """The public key to a signing seed of 32 bytes. `name`: an origin without its epoch."""
    return VerifierKey(name, _private(seed).public_key().public_bytes_raw())


def sign(checkpoint: Checkpoint, seed: bytes) -> str:
    """The signed note. The same each time (RFC 8032)."""
    return seal_note(checkpoint.text, public_key(checkpoint.name, seed), seed)


def open_note(note: str, keys: VerifierKey | Iterable[VerifierKey]) -> Checkpoint | None:
    """The checkpoint, if one of the keys signed it as its own log's; None for everything else."""
    text, signers = unseal_note(note, (keys,) if isinstance(keys, VerifierKey) else keys) or ("", frozenset())
    checkpoint = _read(text)
    return checkpoint if checkpoint and checkpoint.name in signers else None


def read_unverified(note: str) -> Checkpoint | None:
    """What a note says of itself, whoever signed it: to tell whose it is, and for nothing else."""
    return _read(note.rpartition("\n\n")[0] + "\n")


def split_notes(text: str) -> list[str] | None:
    """Checkpoints that stand one after the other, with or without empty lines between them; None for anything else."""
    notes, at = [], 0
    while found := _NOTES.match(text, at):
        notes.append(found[1])
        at = found.end()
    return None if text[at:].strip("\n") else notes


def seal_note(text: str, key: VerifierKey, seed: bytes) -> str:
    """A signed note over `text`, which ends in a newline. A text that is no checkpoint must not read as one."""
    signature = base64.b64encode(key.id + _private(seed).sign(text.encode())).decode()
    return f"{text}\n— {key.name} {signature}\n"


def unseal_note(note: str, keys: Iterable[VerifierKey]) -> tuple[str, frozenset[str]] | None:
    """The text of a note, and the names of those of the keys that signed it, at least one; None for everything else.

    Signatures of others (witnesses) are passed over. One by a given key that does not verify spoils the note. Base64 has one
    spelling here, so that no bit of a note can be changed unnoticed.
    """
    known = {(key.name, key.id): key for key in keys}
    body, found, signatures = note.rpartition("\n\n")
    text, signers = body + "\n", set()
    if len(note) > MAX_NOTE_CHARACTERS or not found or _CONTROL.search(note) or note[-1] != "\n":
        return None
    for line in signatures[:-1].split("\n"):
        signed = _SIGNATURE.fullmatch(line)
        signature = _unbase64(signed[2]) if signed else None
        if signed is None or signature is None:
            return None
        if key := known.get((signed[1], signature[:_KEY_ID_BYTES])):
            if not _verifies(key, signature[_KEY_ID_BYTES:], text):
                return None
            signers.add(key.name)
    return (text, frozenset(signers)) if signers else None


def _read(text: str) -> Checkpoint | None:
    parsed = _TEXT.fullmatch(text)
    root = _unbase64(parsed[3]) if parsed else None
    if parsed is None or root is None:
        return None
    try:
        return Checkpoint(parsed[1], int(parsed[2]), root)
    except ValueError:
        return None


def _verifies(key: VerifierKey, signature: bytes, text: str) -> bool:
    if len(signature) != _SIGNATURE_BYTES:
        return False
    try:
        _public(key.public).verify(signature, text.encode())
    except (InvalidSignature, UnicodeEncodeError):
        return False
    return True


def _parts(origin: str) -> tuple[str, str | None]:
    parts = _ORIGIN.fullmatch(origin)
    assert parts is not None  # noqa: S101 - the checkpoint was made of it
    return parts[1], parts[2]


def _unbase64(text: str) -> bytes | None:
    """The bytes that `text` is the one spelling of."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


@lru_cache(maxsize=64)
def _public(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


def _private(seed: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(seed)
