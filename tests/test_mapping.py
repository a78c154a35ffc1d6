"""Raw to opaque and back: the identity for its tenant, a miss for every other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.kinds import KINDS
from gateway.mapping import Mapper, Mappers, Opened, is_child
from gateway.names import Kind, Owner, Visibility
from gateway.stores.contract import Found, Mode, Write
from tests.mapping_fixture import deployment, found, mapper, stored, unlocked

ALICE, CAROL = Owner("issuer", "alice"), Owner("issuer", "carol")
RAW = "resp_" + "0123456789abcdef" * 3
ITEM = "msg_" + "fedcba9876543210" * 3

HOUSE = deployment()
ACME, BRAVO = mapper("acme", HOUSE), mapper("bravo", HOUSE)

ROOTS = st.sampled_from([kind for kind in Kind if not KINDS[kind].roots])
RAWS = st.text("0123456789abcdefXYZ_-", min_size=1, max_size=60)
OWNERS = st.builds(Owner, st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))


def root_of(one: Mapper, kind: Kind = Kind.RESPONSE, raw: str = RAW, owner: Owner = ALICE, **more: object) -> object:
    return one.root(kind, raw, owner=owner, visibility=Visibility.PRIVATE, parent=b"", now=1, **more)  # type: ignore[arg-type]


def opened(
    one: Mapper, text: str, kind: Kind, store: dict[tuple[str, bytes], bytes], root: object = None
) -> Opened | None:
    parsed = one.verify(text)
    assert parsed is not None
    lookup = one.lookup(kind, parsed)
    return one.to_raw(lookup, found(store, lookup, root))  # type: ignore[arg-type]


@given(kind=ROOTS, raw=RAWS, owner=OWNERS)
def test_a_roots_round_trip_is_the_identity_with_its_owner(kind: Kind, raw: str, owner: Owner) -> None:
    root = ACME.root(kind, raw, owner=owner, visibility=Visibility.PRIVATE, parent=b"", now=7)
    store = stored(ACME.write_root(root, Mode.CREATE))
    got = opened(ACME, ACME.to_opaque(kind, raw).text, kind, store)
    assert got is not None
    assert (got.raw.text, got.kind, got.root.owner, got.is_root, got.deleted) == (raw, kind, owner, True, False)


@given(kind=ROOTS, raw=RAWS)
def test_a_record_opens_in_no_other_tenant_even_where_its_bytes_are_put_there(kind: Kind, raw: str) -> None:
    root = ACME.root(kind, raw, owner=ALICE, visibility=Visibility.PRIVATE, parent=b"", now=7)
    write = ACME.write_root(root, Mode.CREATE)
    text = ACME.to_opaque(kind, raw).text
    assert text != BRAVO.to_opaque(kind, raw).text
    parsed = BRAVO.verify(text)
    assert parsed is not None, "the tag is the deployment's: it is told from garbage"
    lookup = BRAVO.lookup(kind, parsed)
    assert BRAVO.to_raw(lookup, Found(None, None)) is None
    assert BRAVO.to_raw(lookup, Found(write.data, None)) is None
    assert BRAVO.to_raw(lookup, Found(write.data, write.data)) is None


@given(kind=ROOTS, raw=RAWS)
def test_an_opaque_id_is_the_same_each_time_and_never_the_raw_one(kind: Kind, raw: str) -> None:
    text = ACME.to_opaque(kind, raw).text
    assert text == mapper("acme", HOUSE).to_opaque(kind, raw).text
    assert len(text) <= 64
    assert raw not in text or len(raw) < 8


def test_another_project_or_deployment_gives_another_id() -> None:
    texts = {
        one.to_opaque(Kind.RESPONSE, RAW).text
        for one in (ACME, BRAVO, mapper("acme", HOUSE, "other"), mapper("acme", deployment(b"x" * 40)))
    }
    assert len(texts) == 4


def test_an_id_of_another_deployment_is_garbage() -> None:
    assert ACME.verify(mapper("acme", deployment(b"x" * 40)).to_opaque(Kind.RESPONSE, RAW).text) is None


def test_a_child_opens_through_its_root_and_not_without_it() -> None:
    write = ACME.write_root(root_of(ACME), Mode.CREATE)  # type: ignore[arg-type]
    child = ACME.write_child(Kind.ITEM, ITEM, Kind.RESPONSE, write.h)
    store, text = stored(write, child), ACME.to_opaque(Kind.ITEM, ITEM).text
    got = opened(ACME, text, Kind.ITEM, store, (Kind.RESPONSE.value, write.h))
    assert got is not None
    assert (got.raw.text, got.root.owner, got.root_h, got.is_root) == (ITEM, ALICE, write.h, False)
    assert opened(ACME, text, Kind.ITEM, store) is None


def test_a_child_does_not_open_through_another_root() -> None:
    write = ACME.write_root(root_of(ACME), Mode.CREATE)  # type: ignore[arg-type]
    other = ACME.write_root(root_of(ACME, raw=RAW + "0", owner=CAROL), Mode.CREATE)  # type: ignore[arg-type]
    child = ACME.write_child(Kind.ITEM, ITEM, Kind.RESPONSE, write.h)
    lookup = ACME.lookup(Kind.ITEM, ACME.verify(ACME.to_opaque(Kind.ITEM, ITEM).text))  # type: ignore[arg-type]
    assert ACME.to_raw(lookup, Found(child.data, other.data)) is None


def test_a_record_put_under_another_name_does_not_open() -> None:
    write = ACME.write_root(root_of(ACME), Mode.CREATE)  # type: ignore[arg-type]
    parsed = ACME.verify(ACME.to_opaque(Kind.RESPONSE, RAW + "0").text)
    assert parsed is not None
    assert ACME.to_raw(ACME.lookup(Kind.RESPONSE, parsed), Found(write.data, None)) is None
    lookup = ACME.lookup(Kind.CONVERSATION, parsed)
    assert ACME.to_raw(lookup, Found(write.data, None)) is None


@given(position=st.integers(0, 200), flip=st.integers(1, 255))
def test_a_record_with_a_changed_byte_does_not_open(position: int, flip: int) -> None:
    write = ACME.write_root(root_of(ACME), Mode.CREATE)  # type: ignore[arg-type]
    data = bytearray(write.data)
    data[position % len(data)] ^= flip
    parsed = ACME.verify(ACME.to_opaque(Kind.RESPONSE, RAW).text)
    assert ACME.to_raw(ACME.lookup(Kind.RESPONSE, parsed), Found(bytes(data), None)) is None  # type: ignore[arg-type]


def test_a_tombstone_says_deleted_keeps_the_owner_and_takes_its_children_along() -> None:
    write = ACME.write_root(root_of(ACME), Mode.CREATE)  # type: ignore[arg-type]
    child = ACME.write_child(Kind.ITEM, ITEM, Kind.RESPONSE, write.h)
    first = opened(ACME, ACME.to_opaque(Kind.RESPONSE, RAW).text, Kind.RESPONSE, stored(write))
    assert first is not None
    tombstone = ACME.write_tombstone(first)
    assert (tombstone.mode, tombstone.h) == (Mode.TOMBSTONE, write.h)
    store = stored(tombstone, child)
    again = opened(ACME, ACME.to_opaque(Kind.RESPONSE, RAW).text, Kind.RESPONSE, store)
    item = opened(ACME, ACME.to_opaque(Kind.ITEM, ITEM).text, Kind.ITEM, store, (Kind.RESPONSE.value, write.h))
    assert again is not None
    assert item is not None
    assert again.deleted
    assert item.deleted
    assert again.root.owner == ALICE


def test_a_deleted_child_leaves_its_root_alone() -> None:
    write = ACME.write_root(root_of(ACME), Mode.CREATE)  # type: ignore[arg-type]
    child = ACME.write_child(Kind.ITEM, ITEM, Kind.RESPONSE, write.h)
    place = (Kind.RESPONSE.value, write.h)
    text = ACME.to_opaque(Kind.ITEM, ITEM).text
    item = opened(ACME, text, Kind.ITEM, stored(write, child), place)
    assert item is not None
    gone = opened(ACME, text, Kind.ITEM, stored(write, ACME.write_tombstone(item)), place)
    assert gone is not None
    assert gone.deleted
    assert gone.root_h == write.h


def test_a_buried_record_is_nobodys() -> None:
    write = ACME.write_root(root_of(ACME), Mode.CREATE)  # type: ignore[arg-type]
    buried = ACME.bury(write, RAW)
    assert (buried.mode, buried.h) == (Mode.TOMBSTONE, write.h)
    got = opened(ACME, ACME.to_opaque(Kind.RESPONSE, RAW).text, Kind.RESPONSE, stored(buried))
    assert got is not None
    assert got.deleted
    assert got.root.owner != ALICE


def test_only_a_living_record_of_the_same_owner_is_the_same_owners() -> None:
    write = ACME.write_root(root_of(ACME), Mode.CREATE)  # type: ignore[arg-type]
    first = opened(ACME, ACME.to_opaque(Kind.RESPONSE, RAW).text, Kind.RESPONSE, stored(write))
    assert first is not None
    assert ACME.same_owner(write, write.data, ALICE)
    assert not ACME.same_owner(write, write.data, CAROL)
    assert not ACME.same_owner(write, ACME.write_tombstone(first).data, ALICE)
    assert not ACME.same_owner(write, b"anything", ALICE)


def test_a_claim_is_held_by_its_tenant_alone_and_its_key_is_the_same_for_all() -> None:
    write = ACME.write_root(root_of(ACME), Mode.CREATE)  # type: ignore[arg-type]
    acme, bravo = ACME.claim(write, RAW), BRAVO.claim(write, RAW)
    assert acme.key == bravo.key
    assert RAW.encode() not in acme.key + acme.value
    assert ACME.holds(acme, acme.value)
    assert ACME.holds(acme, ACME.claim(write, RAW).value)
    assert not ACME.holds(acme, bravo.value)
    assert not ACME.holds(acme, b"forged")
    other = ACME.claim(write, RAW + "0")
    assert not ACME.holds(acme, other.value), "a claim cannot be moved to another object"


def test_a_private_blob_opens_for_its_owner_and_a_shared_one_for_the_tenant() -> None:
    from gateway.ids.blobs import seal_blob  # noqa: PLC0415

    cap = ACME.keys.storage.newest.cap
    private = seal_blob(cap, 1, ACME.tenant, "p", ALICE, "blob", project=ACME.project)
    shared = seal_blob(cap, 1, ACME.tenant, "t", ALICE, "blob", project=ACME.project)
    assert (ACME.open_blob(ALICE, private), ACME.open_blob(CAROL, private)) == ("blob", None)
    assert ACME.open_blob(CAROL, shared) == "blob"
    assert BRAVO.open_blob(ALICE, private) is None
    assert BRAVO.open_blob(ALICE, shared) is None


def test_children_and_roots_are_told_apart() -> None:
    assert is_child(Kind.ITEM)
    assert not is_child(Kind.RESPONSE)


def test_a_mapper_is_made_again_when_its_keys_are_and_the_oldest_leave_first() -> None:
    mappers = Mappers("openai", "project", most=2)
    first = unlocked("acme", HOUSE)
    made = mappers.of(HOUSE, first)
    assert mappers.of(HOUSE, first) is made
    assert mappers.of(HOUSE, unlocked("acme", HOUSE)) is not made
    for name in ("bravo", "cairn"):
        mappers.of(HOUSE, unlocked(name, HOUSE))
    assert mappers.of(HOUSE, first) is not made


@pytest.mark.parametrize("kind", list(Kind))
def test_an_id_of_every_kind_keeps_its_prefix(kind: Kind) -> None:
    for prefix in KINDS[kind].prefixes:
        # The prefix of an opaque ID has digits in its first word alone; of a call's `rtc_u1_` it keeps that.
        kept = KINDS[kind].canonical if prefix == "rtc_u1_" else prefix
        assert ACME.to_opaque(kind, prefix + "0123456789abcdef" * 3).text.startswith(kept)


# --- lists

FILE = "file-" + "A1b2C3d4E5f6G7h8J9k0Lm"


def written(one: Mapper, owner: Owner = ALICE, visibility: Visibility = Visibility.PRIVATE) -> Write:
    root = one.root(Kind.FILE, FILE, owner=owner, visibility=visibility, parent=b"", now=7)
    return one.write_root(root, Mode.CREATE)


def test_a_list_is_its_owners_and_names_nobody() -> None:
    own, shared = ACME.scopes(ALICE)
    assert written(ACME).scope == own
    assert written(ACME, CAROL).scope == ACME.scopes(CAROL)[0]
    assert len({own, shared, ACME.scopes(CAROL)[0], BRAVO.scopes(ALICE)[0]}) == 4
    assert not [name for name in ("alice", "issuer") if name in own]
    assert written(ACME, visibility=Visibility.TENANT).scope == shared == ACME.scopes(CAROL)[1]


def test_what_no_list_shows_enters_none() -> None:
    root = ACME.root(Kind.RESPONSE, RAW, owner=ALICE, visibility=Visibility.PRIVATE, parent=b"", now=7)
    write = ACME.write_root(root, Mode.CREATE)
    assert not write.scope
    assert not ACME.write_child(Kind.ITEM, ITEM, Kind.RESPONSE, write.h).scope


@pytest.mark.parametrize("visibility", Visibility)
def test_what_is_deleted_or_buried_leaves_the_list_that_showed_it(visibility: Visibility) -> None:
    write = written(ACME, visibility=visibility)
    got = opened(ACME, ACME.to_opaque(Kind.FILE, FILE).text, Kind.FILE, stored(write))
    assert got is not None
    assert ACME.write_tombstone(got).scope == ACME.bury(write, FILE).scope == write.scope


def test_what_is_gone_is_passed_over_for_as_long_as_it_was_here() -> None:
    write = written(ACME)
    got = opened(ACME, ACME.to_opaque(Kind.FILE, FILE).text, Kind.FILE, stored(write))
    assert got is not None
    gone = ACME.write_gone(got, 7 + 86_400)
    assert (gone.mode, gone.h, gone.data, gone.lifetime_s, gone.scope) == (Mode.GONE, write.h, b"", 86_400, "")
    assert ACME.write_gone(got, 8).lifetime_s == 10
