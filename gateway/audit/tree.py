"""The Merkle tree over a tenant's log (RFC 6962 section 2.1, RFC 9162 section 2.1). Pure.

Leaf `i`, counted from 0, is the event with sequence number `i + 1`. Hashes are SHA-256, 32 bytes. A proof is a tuple of them in
the order of the RFC: from the leaf's side up to the root's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gateway.ids.encoding import lp
from gateway.names import TenantId

HASH_BYTES: Final = 32
SIZE_BYTES: Final = 8
MAX_SIZE: Final = 2**63 - 1
EMPTY_ROOT: Final = hashlib.sha256().digest()
"""Of a tree without leaves (RFC 6962 section 2.1)."""

Proof = tuple[bytes, ...]

_sha256 = hashlib.sha256


def leaf(tenant: TenantId, seq: int, body: bytes) -> bytes:
    """The leaf of an event's stored bytes in their place: SHA-256(0x00 ‖ lp(tenant, seq as 8 bytes big-endian, body)).

    Tenant and number are part of it, because the body is made before its number is known.
    """
    return _sha256(_leaf_head(tenant) + seq.to_bytes(SIZE_BYTES, "big") + len(body).to_bytes(4, "big") + body).digest()


@lru_cache(maxsize=64)
def _leaf_head(tenant: TenantId) -> bytes:
    """All that comes before the number: the same for all leaves of a tenant, and half of a leaf's cost."""
    return b"\x00" + lp(tenant, bytes(SIZE_BYTES))[:-SIZE_BYTES]


def node(left: bytes, right: bytes) -> bytes:
    return _sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """All that is needed of a tree to go on with it: the roots of its complete subtrees, the largest first."""

    size: int = 0
    hashes: tuple[bytes, ...] = ()
    """One for each bit that is set in `size`."""

    def __post_init__(self) -> None:
        if not 0 <= self.size <= MAX_SIZE or len(self.hashes) != self.size.bit_count():
            raise ValueError("a frontier has one hash for each bit of its size")
        if any(len(one) != HASH_BYTES for one in self.hashes):
            raise ValueError("a hash has 32 bytes")

    def append(self, leaf_hash: bytes) -> Frontier:
        return self.extend((leaf_hash,))

    def extend(self, leaf_hashes: Iterable[bytes]) -> Frontier:
        """The frontier after all of them."""
        hashes, size = list(self.hashes), self.size
        for one in leaf_hashes:
            # Each 1 at the end of the old size is a complete subtree that the new leaf completes to a larger one.
            rest = size
            while rest & 1:
                one = _sha256(b"\x01" + hashes.pop() + one).digest()  # noqa: PLW2901 - it grows into the subtree's root
                rest >>= 1
            hashes.append(one)
            size += 1
        return Frontier(size, tuple(hashes))

    def root(self) -> bytes:
        if not self.hashes:
            return EMPTY_ROOT
        *larger, root = self.hashes
        for left in reversed(larger):
            root = node(left, root)
        return root

    def to_bytes(self) -> bytes:
        """The size, 8 bytes big-endian, and the hashes."""
        return self.size.to_bytes(SIZE_BYTES, "big") + b"".join(self.hashes)

    @classmethod
    def from_bytes(cls, data: bytes) -> Frontier:
        """Raises ValueError for what `to_bytes` does not write."""
        size, rest = int.from_bytes(data[:SIZE_BYTES], "big"), data[SIZE_BYTES:]
        if len(data) < SIZE_BYTES or len(rest) != HASH_BYTES * size.bit_count():
            raise ValueError("not a frontier")
        return cls(size, tuple(rest[at : at + HASH_BYTES] for at in range(0, len(rest), HASH_BYTES)))


class Tree:
    """A tree that grows and gives proofs, 64 bytes of memory a leaf.

    It may begin at a frontier instead of the first leaf, and then knows nothing older: it proves leaves from `start` on, and
    consistency from sizes of `start` on. (A subtree that lies before the frontier, and that such a proof needs, is one of the
    frontier's own: were it inside a larger one, so would be the leaf or the size that is proven.)
    """

    __slots__ = ("_levels", "size", "start")

    def __init__(self, begin: Frontier | None = None) -> None:
        begin = begin or Frontier()
        self.start = self.size = begin.size
        # Level k holds roots of complete subtrees of 2^k leaves, from index `_first(k)` on.
        self._levels = [bytearray() for _ in range(begin.size.bit_length() + 1)]
        bits = (level for level in reversed(range(begin.size.bit_length())) if begin.size >> level & 1)
        for level, one in zip(bits, begin.hashes, strict=True):
            self._levels[level] += one

    def append(self, leaf_hash: bytes) -> None:
        levels, index, level, one = self._levels, self.size, 0, leaf_hash
        levels[0] += one
        while index & 1:
            one = _sha256(b"\x01" + levels[level][-2 * HASH_BYTES :]).digest()
            index >>= 1
            level += 1
            if level == len(levels):
                levels.append(bytearray())
            levels[level] += one
        self.size += 1

    def extend(self, leaf_hashes: Iterable[bytes]) -> None:
        for one in leaf_hashes:
            self.append(one)

    def frontier(self, size: int | None = None) -> Frontier:
        """Of the first `size` leaves, by default all. ValueError below `start` or above the tree."""
        size = self._checked(self.size if size is None else size)
        bits = (level for level in reversed(range(size.bit_length())) if size >> level & 1)
        return Frontier(size, tuple(self._node(level, (size >> level) - 1) for level in bits))

    def root(self, size: int | None = None) -> bytes:
        """Of the first `size` leaves, by default all. ValueError below `start` or above the tree."""
        return self.frontier(size).root()

    def inclusion(self, index: int, size: int) -> Proof:
        """PATH(index, D[size]) of RFC 6962 section 2.1.1. ValueError for a leaf that is not in that tree or before `start`."""
        self._checked(size)
        if not self.start <= index < size:
            raise ValueError("no such leaf in this tree")
        path, first, end = [], 0, size
        while end - first > 1:
            middle = first + _split(end - first)
            if index < middle:
                path.append(self._hash(middle, end))
                end = middle
            else:
                path.append(self._hash(first, middle))
                first = middle
        return tuple(reversed(path))

    def consistency(self, old: int, new: int) -> Proof:
        """PROOF(old, D[new]) of RFC 6962 section 2.1.2. Empty where `old` is 0 or `new`. ValueError for other sizes."""
        self._checked(old)
        self._checked(new)
        if old > new:
            raise ValueError("a tree is consistent with larger ones")
        if old == 0:
            return ()
        path, first, end = [], 0, new
        while old != end:
            middle = first + _split(end - first)
            if old <= middle:
                path.append(self._hash(middle, end))
                end = middle
            else:
                path.append(self._hash(first, middle))
                first = middle
        if first:
            path.append(self._hash(first, end))
        return tuple(reversed(path))

    def _checked(self, size: int) -> int:
        if not self.start <= size <= self.size:
            raise ValueError("no tree of this size is at hand")
        return size

    def _hash(self, first: int, end: int) -> bytes:
        """MTH(D[first:end]); `first` is a multiple of the largest power of two that fits."""
        size = end - first
        level = size.bit_length() - 1
        if size == 1 << level:
            return self._node(level, first >> level)
        middle = first + _split(size)
        return node(self._hash(first, middle), self._hash(middle, end))

    def _node(self, level: int, index: int) -> bytes:
        at = (index - (self.start >> (level + 1) << 1)) * HASH_BYTES
        one = bytes(self._levels[level][at : at + HASH_BYTES]) if at >= 0 else b""
        if len(one) != HASH_BYTES:
            raise ValueError("the tree begins after this leaf")
        return one


def root(leaves: Sequence[bytes]) -> bytes:
    return Frontier().extend(leaves).root()


def inclusion(leaves: Sequence[bytes], index: int, size: int) -> Proof:
    """That leaf `index` is in the tree of the first `size` leaves. For many proofs keep a `Tree`."""
    return _tree(leaves[:size]).inclusion(index, size)


def consistency(leaves: Sequence[bytes], old: int, new: int) -> Proof:
    """That the tree of the first `new` leaves continues the one of the first `old`."""
    return _tree(leaves[:new]).consistency(old, new)


def verify_inclusion(leaf_hash: bytes, index: int, size: int, proof: Proof, root_hash: bytes) -> bool:
    """RFC 9162 section 2.1.3.2."""
    if not 0 <= index < size:
        return False
    at, last, one = index, size - 1, leaf_hash
    for step in proof:
        if last == 0:
            return False
        if at & 1 or at == last:
            one = node(step, one)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            one = node(one, step)
        at, last = at >> 1, last >> 1
    return last == 0 and one == root_hash


def verify_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Proof) -> bool:
    """RFC 9162 section 2.1.4.2. An empty tree is consistent with every tree, by an empty proof."""
    if not 0 <= old <= new:
        return False
    if old == 0:
        return not proof and old_root == EMPTY_ROOT and (new > 0 or new_root == EMPTY_ROOT)
    if old == new:
        return not proof and old_root == new_root
    steps = (old_root, *proof) if old & (old - 1) == 0 else proof
    if not steps:
        return False
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    before = after = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            before, after = node(step, before), node(step, after)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            after = node(after, step)
        at, last = at >> 1, last >> 1
    return last == 0 and before == old_root and after == new_root


def _split(size: int) -> int:
    """The largest power of two smaller than `size`, which is at least 2."""
    return 1 << ((size - 1).bit_length() - 1)


def _tree(leaves: Iterable[bytes]) -> Tree:
    tree = Tree()
    tree.extend(leaves)
    return tree
