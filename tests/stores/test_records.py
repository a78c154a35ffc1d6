from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.keys import StorageKeys, Versions
from gateway.ids.kinds import KINDS
from gateway.names import Kind, Owner, RawId, TenantId, Visibility
from gateway.stores.records import Child, RecordState, Root, open_record, record_key, seal_child, seal_root

TENANT = TenantId("abcdefghijklmnop")
KEYS = Versions({1: StorageKeys.derive(b"1" * 32)}, 1)
NONCE = b"n" * 12
H = bytes(range(16))
NAME = record_key(TENANT, Kind.RESPONSE, H)
ITEM_NAME = record_key(TENANT, Kind.ITEM, H)
ROOT = Root(
    raw=RawId(Kind.RESPONSE, "resp_0c392a2e7f017469006a6c0507abcdef0123456789abcdef01"),
    owner=Owner("https://login.example.com/realms/acme", "3f0f1c2e-8a51-4a57-9d3c-6b5a0f1c2e8a"),
    visibility=Visibility.PRIVATE,
    parent="",
    upstream="default",
    project="default",
    stored=True,
    background=False,
    created=1_800_000_000,
    expires=1_802_592_000,
    state=RecordState.ACTIVE,
)
CHILD = Child(RawId(Kind.ITEM, "msg_0c392a2e7f017469006a6c0507abcdef0123456789abcdef01"), Kind.RESPONSE, H)
SIZES = {"root, long owner": 288, "root, short owner": 224, "child": 172}

texts = st.text(min_size=1, max_size=80)
seconds = st.integers(1, 2**40)
roots = st.builds(
    Root,
    raw=st.builds(RawId, st.sampled_from([kind for kind, row in KINDS.items() if not row.roots]), texts),
    owner=st.builds(Owner, texts, texts),
    visibility=st.sampled_from(Visibility),
    parent=st.just("") | st.binary(min_size=16, max_size=16).map(bytes.hex),
    upstream=st.text(max_size=20),
    project=st.text(max_size=40),
    stored=st.booleans(),
    background=st.booleans(),
    created=seconds,
    expires=st.none() | seconds,
    state=st.sampled_from(RecordState),
    lines=st.sampled_from(["", "/v1/responses"]),
)
children = st.sampled_from([(kind, root) for kind, row in KINDS.items() for root in row.roots]).flatmap(
    lambda pair: st.builds(
        Child,
        st.builds(RawId, st.just(pair[0]), texts),
        st.just(pair[1]),
        st.binary(min_size=16, max_size=16),
        st.sampled_from(RecordState),
    )
)


@given(roots, st.binary(min_size=12, max_size=12))
def test_a_root_opens_to_what_was_sealed(root: Root, nonce: bytes) -> None:
    name = record_key(TENANT, root.kind, H)
    assert open_record(KEYS, name, seal_root(KEYS, name, root, nonce)) == root


@pytest.mark.parametrize("length", range(32))
def test_a_root_of_any_length_has_no_lines_unless_it_says_so(length: int) -> None:
    root = dataclasses.replace(ROOT, project="p" * length)
    assert open_record(KEYS, NAME, seal_root(KEYS, NAME, root, NONCE)) == root


@given(children, st.binary(min_size=12, max_size=12))
def test_a_child_opens_to_what_was_sealed_and_points_at_its_root_in_the_clear(child: Child, nonce: bytes) -> None:
    name = record_key(TENANT, child.kind, H)
    data = seal_child(KEYS, name, child, nonce)
    assert open_record(KEYS, name, data) == child
    assert data[2] == KINDS[child.root_kind].code
    assert data[3:19] == child.root_h


def test_a_root_names_no_root_in_the_clear() -> None:
    assert seal_root(KEYS, NAME, ROOT, NONCE)[:3] == bytes([1, 1, 0])


def test_a_record_is_stored_under_tenant_kind_and_h() -> None:
    assert NAME == b"{t:abcdefghijklmnop}:id:response:000102030405060708090a0b0c0d0e0f"


@pytest.mark.parametrize(
    "elsewhere",
    [
        record_key(TENANT, Kind.RESPONSE, bytes(16)),
        record_key(TENANT, Kind.CONVERSATION, H),
        record_key(TenantId("ponmlkjihgfedcba"), Kind.RESPONSE, H),
        b"",
    ],
)
def test_a_record_moved_to_another_key_does_not_open(elsewhere: bytes) -> None:
    assert open_record(KEYS, elsewhere, seal_root(KEYS, NAME, ROOT, NONCE)) is None


def test_any_changed_or_missing_byte_does_not_open() -> None:
    for name, data in (
        (NAME, seal_root(KEYS, NAME, ROOT, NONCE)),
        (ITEM_NAME, seal_child(KEYS, ITEM_NAME, CHILD, NONCE)),
    ):
        for at in range(len(data)):
            assert open_record(KEYS, name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
            assert open_record(KEYS, name, data[:at]) is None
        assert open_record(KEYS, name, data + b"\0") is None


@given(st.binary(max_size=300))
def test_made_up_bytes_do_not_open(data: bytes) -> None:
    assert open_record(KEYS, NAME, data) is None
    assert open_record(KEYS, NAME, b"\x01\x01\x00" + data) is None
    assert open_record(KEYS, NAME, b"\x01\x01\x01" + data) is None


def test_a_childs_pointer_cannot_be_turned_to_another_root() -> None:
    data = seal_child(KEYS, ITEM_NAME, CHILD, NONCE)
    assert open_record(KEYS, ITEM_NAME, data[:3] + bytes(16) + data[19:]) is None
    assert open_record(KEYS, ITEM_NAME, data[:2] + bytes([KINDS[Kind.CONVERSATION].code]) + data[3:]) is None


def test_a_tombstone_looks_like_any_record() -> None:
    tombstone = dataclasses.replace(ROOT, state=RecordState.DELETED)
    alive, dead = seal_root(KEYS, NAME, ROOT, NONCE), seal_root(KEYS, NAME, tombstone, b"m" * 12)
    assert (len(alive), alive[:3]) == (len(dead), dead[:3])
    assert open_record(KEYS, NAME, dead) == tombstone


def test_a_deleted_child_looks_like_any_child() -> None:
    tombstone = dataclasses.replace(CHILD, state=RecordState.DELETED)
    alive, dead = seal_child(KEYS, ITEM_NAME, CHILD, NONCE), seal_child(KEYS, ITEM_NAME, tombstone, b"m" * 12)
    assert (len(alive), alive[:19]) == (len(dead), dead[:19])
    assert open_record(KEYS, ITEM_NAME, dead) == tombstone


def test_nothing_of_a_record_shows_in_its_bytes() -> None:
    data = seal_root(KEYS, NAME, ROOT, NONCE) + seal_child(KEYS, ITEM_NAME, CHILD, NONCE)
    for text in (ROOT.raw.text, ROOT.owner.subject, ROOT.owner.issuer, CHILD.raw.text, "default"):
        assert text.encode() not in data
        assert text.encode()[-12:] not in data


def test_names_of_similar_length_give_records_of_one_length() -> None:
    sizes = {
        len(seal_root(KEYS, NAME, dataclasses.replace(ROOT, owner=Owner("local", "u" * size)), NONCE))
        for size in range(1, 33)
    }
    assert len(sizes) <= 2


def test_a_raw_id_does_not_show_in_a_repr() -> None:
    assert ROOT.raw.text not in repr(ROOT)
    assert CHILD.raw.text not in repr(CHILD)


def test_after_a_storage_rotation_older_records_open_and_new_ones_state_the_new_version() -> None:
    old = seal_root(KEYS, NAME, ROOT, NONCE)
    rotated = Versions({**KEYS.keys, 2: StorageKeys.derive(b"2" * 32)}, 2)
    new = seal_root(rotated, NAME, ROOT, NONCE)
    assert (old[1], new[1]) == (1, 2)
    assert open_record(rotated, NAME, old) == open_record(rotated, NAME, new) == ROOT
    assert open_record(KEYS, NAME, new) is None


def test_a_childs_kind_cannot_be_a_root_nor_belong_to_another_kind() -> None:
    with pytest.raises(ValueError, match="child"):
        seal_root(KEYS, ITEM_NAME, dataclasses.replace(ROOT, raw=CHILD.raw), NONCE)
    for child in (
        dataclasses.replace(CHILD, root_kind=Kind.FILE),
        dataclasses.replace(CHILD, raw=ROOT.raw),
        dataclasses.replace(CHILD, root_h=H[:15]),
    ):
        with pytest.raises(ValueError, match="no child"):
            seal_child(KEYS, ITEM_NAME, child, NONCE)


def test_a_record_takes_a_few_hundred_bytes() -> None:
    """The published sizes, each with its name in the store: a root with a long issuer and a UUID as subject, a root of
    a gateway key's user, and an item."""
    small = dataclasses.replace(ROOT, owner=Owner("local", "alice"))
    assert len(NAME) + len(seal_root(KEYS, NAME, ROOT, NONCE)) <= SIZES["root, long owner"]
    assert len(NAME) + len(seal_root(KEYS, NAME, small, NONCE)) <= SIZES["root, short owner"]
    assert len(ITEM_NAME) + len(seal_child(KEYS, ITEM_NAME, CHILD, NONCE)) <= SIZES["child"]
