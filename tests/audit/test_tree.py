"""The tree against RFC 6962's definitions, written here once more as the RFC has them, and against known roots."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.tree import (
    EMPTY_ROOT,
    Frontier,
    Tree,
    consistency,
    inclusion,
    leaf,
    root,
    verify_consistency,
    verify_inclusion,
)
from gateway.names import TenantId

TENANT = TenantId("aaaabbbbccccdddd")

# The inputs and roots of the test vectors that Certificate Transparency's implementations share.
INPUTS = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
KNOWN = [hashlib.sha256(b"\x00" + bytes.fromhex(text)).digest() for text in INPUTS]

Hashes = Sequence[bytes]


def mth(d: Hashes) -> bytes:
    """RFC 6962 section 2.1, over leaf hashes."""
    if not d:
        return hashlib.sha256(b"").digest()
    if len(d) == 1:
        return d[0]
    k = split(len(d))
    return hashlib.sha256(b"\x01" + mth(d[:k]) + mth(d[k:])).digest()


def path(m: int, d: Hashes) -> list[bytes]:
    """RFC 6962 section 2.1.1."""
    if len(d) == 1:
        return []
    k = split(len(d))
    return [*path(m, d[:k]), mth(d[k:])] if m < k else [*path(m - k, d[k:]), mth(d[:k])]


def proof(m: int, d: Hashes) -> list[bytes]:
    """RFC 6962 section 2.1.2."""
    return subproof(m, d, True)


def subproof(m: int, d: Hashes, b: bool) -> list[bytes]:
    if m == len(d):
        return [] if b else [mth(d)]
    k = split(len(d))
    if m <= k:
        return [*subproof(m, d[:k], b), mth(d[k:])]
    return [*subproof(m - k, d[k:], False), mth(d[:k])]


def split(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def leaves(count: int) -> list[bytes]:
    return [hashlib.sha256(number.to_bytes(4, "big")).digest() for number in range(count)]


sizes = st.integers(1, 130)


def test_the_roots_are_those_that_certificate_transparency_knows() -> None:
    assert [root(KNOWN[:size]).hex() for size in range(1, 9)] == list(ROOTS)
    assert root([]) == EMPTY_ROOT == mth([])


def test_known_proofs_of_certificate_transparency() -> None:
    assert [one.hex() for one in inclusion(KNOWN, 0, 8)] == [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]
    assert [one.hex() for one in consistency(KNOWN, 6, 8)] == [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]


def test_a_leaf_is_bound_to_tenant_and_number() -> None:
    body = b'{"a":1}'
    spelled = b"\0\0\0\x10aaaabbbbccccdddd" + b"\0\0\0\x08\0\0\0\0\0\0\0\x05" + b"\0\0\0\x07" + body
    assert leaf(TENANT, 5, body) == hashlib.sha256(b"\x00" + spelled).digest()
    assert len({leaf(TENANT, 5, body), leaf(TENANT, 6, body), leaf(TenantId("a" * 16), 5, body)}) == 3


@given(sizes)
def test_frontier_and_tree_have_the_root_of_the_definition(size: int) -> None:
    all_leaves, frontier, tree = leaves(size), Frontier(), Tree()
    for count, one in enumerate(all_leaves, start=1):
        frontier = frontier.append(one)
        tree.append(one)
        assert frontier.root() == tree.root() == mth(all_leaves[:count])
    assert Frontier.from_bytes(frontier.to_bytes()) == frontier == tree.frontier() == Frontier().extend(all_leaves)


@given(sizes, st.data())
def test_inclusion_proofs_are_the_definitions_and_verify(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    all_leaves = leaves(size)
    found = inclusion(all_leaves, index, size)
    assert list(found) == path(index, all_leaves)
    assert verify_inclusion(all_leaves[index], index, size, found, mth(all_leaves))


@given(sizes, st.data())
def test_consistency_proofs_are_the_definitions_and_verify(size: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, size))
    all_leaves = leaves(size)
    found = consistency(all_leaves, old, size)
    assert list(found) == proof(old, all_leaves)
    assert verify_consistency(old, size, mth(all_leaves[:old]), mth(all_leaves), found)


@given(sizes, st.data())
def test_a_tree_that_begins_at_a_frontier_gives_the_same_proofs(size: int, data: st.DataObject) -> None:
    all_leaves = leaves(size)
    start = data.draw(st.integers(0, size - 1))
    whole, later = Tree(), Tree(Frontier().extend(all_leaves[:start]))
    whole.extend(all_leaves)
    later.extend(all_leaves[start:])
    index, old = data.draw(st.integers(start, size - 1)), data.draw(st.integers(start, size))
    assert later.inclusion(index, size) == whole.inclusion(index, size)
    assert later.consistency(old, size) == whole.consistency(old, size)
    assert later.frontier(old) == whole.frontier(old) == Frontier().extend(all_leaves[:old])


@given(st.integers(1, 40), st.data())
def test_nothing_else_verifies_as_included(size: int, data: st.DataObject) -> None:
    index, all_leaves = data.draw(st.integers(0, size - 1)), leaves(size)
    found, top = inclusion(all_leaves, index, size), mth(all_leaves)
    for other in {*range(size + 2)} - {index}:
        assert not verify_inclusion(all_leaves[index], other, size, found, top)
    assert not verify_inclusion(leaves(99)[-1], index, size, found, top)
    assert not verify_inclusion(all_leaves[index], index, size, (*found, top), top)
    assert not verify_inclusion(all_leaves[index], -1, size, found, top)
    for at in range(len(found)):
        changed = (*found[:at], bytes(32), *found[at + 1 :])
        assert not verify_inclusion(all_leaves[index], index, size, changed, top)
        assert not verify_inclusion(all_leaves[index], index, size, found[:at] + found[at + 1 :], top)


@given(st.integers(2, 40), st.data())
def test_nothing_else_verifies_as_consistent(size: int, data: st.DataObject) -> None:
    old, all_leaves = data.draw(st.integers(1, size - 1)), leaves(size)
    found, before, after = consistency(all_leaves, old, size), mth(all_leaves[:old]), mth(all_leaves)
    assert not verify_consistency(old, size, bytes(32), after, found)
    assert not verify_consistency(old, size, before, bytes(32), found)
    assert not verify_consistency(old, size, before, after, (*found, before))
    assert not verify_consistency(size, old, after, before, found)
    assert not verify_consistency(size, size, before, after, ())
    for at in range(len(found)):
        changed = (*found[:at], bytes(32), *found[at + 1 :])
        assert not verify_consistency(old, size, before, after, changed)
        assert not verify_consistency(old, size, before, after, found[:at] + found[at + 1 :])


def test_an_empty_tree_is_consistent_with_every_tree_and_nothing_else_is_empty() -> None:
    all_leaves = leaves(3)
    assert consistency(all_leaves, 0, 3) == ()
    assert verify_consistency(0, 3, EMPTY_ROOT, mth(all_leaves), ())
    assert verify_consistency(0, 0, EMPTY_ROOT, EMPTY_ROOT, ())
    assert not verify_consistency(0, 3, bytes(32), mth(all_leaves), ())
    assert not verify_consistency(0, 3, EMPTY_ROOT, mth(all_leaves), (EMPTY_ROOT,))
    assert not verify_consistency(0, 0, EMPTY_ROOT, bytes(32), ())


def test_what_a_tree_does_not_hold_is_refused() -> None:
    tree = Tree(Frontier().extend(leaves(5)))
    tree.extend(leaves(4))
    for wrong in (
        lambda: tree.inclusion(4, 9),
        lambda: tree.inclusion(9, 9),
        lambda: tree.inclusion(5, 10),
        lambda: tree.consistency(4, 9),
        lambda: tree.consistency(8, 7),
        lambda: tree.frontier(4),
        lambda: tree.frontier(10),
        lambda: Frontier(3, (bytes(32),)),
        lambda: Frontier(1, (bytes(31),)),
        lambda: Frontier(-1, ()),
        lambda: Frontier.from_bytes(b"\0" * 7),
        lambda: Frontier.from_bytes(Frontier(1, (bytes(32),)).to_bytes() + b"\0"),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - the kind is the point, the texts differ
            wrong()
