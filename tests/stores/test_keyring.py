from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.ids.keys import KeyRefused, LocalRoot, Purpose, RootRotation
from gateway.names import Kind, TenantId
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.fake import FakeLink
from gateway.stores.keyring import KEPT_S, USED_AFTER_S, Keyring, KeysMissing
from gateway.stores.redis import SCRIPTS, RedisStore

ACME, RIVAL = TenantId("abcdefghijklmnop"), TenantId("ponmlkjihgfedcba")
ROOT_KEY = b"r" * 32
RAW = "resp_0c392a2e7f017469006a6c0507abcdef0123456789abcdef01"


class Shelf:
    """A key store in memory, shared by the replicas of a test. `reads` counts round trips that read."""

    def __init__(self) -> None:
        self.deployment: dict[str, bytes] = {}
        self.tenants: dict[TenantId, dict[str, bytes]] = {}
        self.reads = 0

    async def wrapped_keys(self, tenant: TenantId) -> Mapping[str, bytes]:
        self.reads += 1
        await asyncio.sleep(0)
        return dict(self.tenants.get(tenant, {}))

    async def put_wrapped_key(self, tenant: TenantId, name: str, blob: bytes) -> bytes:
        await asyncio.sleep(0)
        return self.tenants.setdefault(tenant, {}).setdefault(name, blob)

    async def replace_wrapped_key(self, tenant: TenantId, name: str, held: bytes, blob: bytes) -> bool:
        return _replaced(self.tenants.get(tenant, {}), name, held, blob)

    async def delete_wrapped_keys(self, tenant: TenantId) -> None:
        self.tenants.pop(tenant, None)

    async def deployment_secret(self, name: str) -> bytes | None:
        self.reads += 1
        await asyncio.sleep(0)
        return self.deployment.get(name)

    async def put_deployment_secret(self, name: str, blob: bytes) -> bytes:
        await asyncio.sleep(0)
        return self.deployment.setdefault(name, blob)

    async def replace_deployment_secret(self, name: str, held: bytes, blob: bytes) -> bool:
        return _replaced(self.deployment, name, held, blob)

    def backup(self) -> Shelf:
        copy = Shelf()
        copy.deployment, copy.tenants = dict(self.deployment), {t: dict(keys) for t, keys in self.tenants.items()}
        return copy


def _replaced(keys: dict[str, bytes], name: str, held: bytes, blob: bytes) -> bool:
    if keys.get(name) != held:
        return False
    keys[name] = blob
    return True


class Clock:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def redis_store() -> RedisStore:
    return RedisStore(FakeLink(SCRIPTS))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def replica(
    shelf: Shelf,
    folder: Path,
    clock: Clock | None = None,
    key: bytes = ROOT_KEY,
    max_tenants: int = 10,
    wall: Clock | None = None,
) -> Keyring:
    """`clock` counts from anywhere, `wall` tells the time of day."""
    root, now_s = LocalRoot(key), wall or Clock(1_800_000_000)
    path, clock = folder / "erasures", clock or Clock()
    return Keyring(shelf, root, root.audit_root(), path, clock=clock, max_tenants=max_tenants, now_s=now_s)


@pytest.fixture
async def keyring(shelf: Shelf, tmp_path: Path, clock: Clock) -> Keyring:
    ring = replica(shelf, tmp_path, clock)
    await ring.create_deployment()
    await ring.create_tenant(ACME)
    return ring


async def opaque(ring: Keyring, tenant: TenantId = ACME) -> str:
    return (await ring.tenant(tenant)).form.opaque(Kind.RESPONSE, RAW, "proj").text


async def test_every_replica_and_every_restart_has_the_same_keys(
    keyring: Keyring, shelf: Shelf, tmp_path: Path
) -> None:
    other = replica(shelf, tmp_path)
    await other.create_deployment()
    await other.create_tenant(ACME)
    assert (await other.deployment()).keys == (await keyring.deployment()).keys
    assert (await other.tenant(ACME)).keys == (await keyring.tenant(ACME)).keys
    assert await opaque(other) == await opaque(keyring)


async def test_replicas_that_start_together_agree(shelf: Shelf, tmp_path: Path) -> None:
    rings = [replica(shelf, tmp_path) for _ in range(5)]
    async with asyncio.TaskGroup() as group:
        starts = [group.create_task(ring.create_deployment()) for ring in rings]
    assert len({start.result().keys.deployment for start in starts}) == 1
    async with asyncio.TaskGroup() as group:
        for ring in rings:
            group.create_task(ring.create_tenant(ACME))
    assert len({await opaque(ring) for ring in rings}) == 1


async def test_tenants_have_independent_keys_and_the_store_holds_none_in_the_clear(
    keyring: Keyring, shelf: Shelf
) -> None:
    await keyring.create_tenant(RIVAL)
    assert await opaque(keyring, RIVAL) != await opaque(keyring)
    stored = [*shelf.deployment.values(), *(blob for keys in shelf.tenants.values() for blob in keys.values())]
    assert len(stored) == 3 + 2 * 3
    assert len({blob[-48:] for blob in stored}) == len(stored)


async def test_keys_at_hand_are_those_that_waiting_gives_and_none_once_they_are_old(
    keyring: Keyring, clock: Clock
) -> None:
    assert keyring.at_hand(ACME) is None
    unlocked = await keyring.tenant(ACME)
    assert keyring.at_hand(ACME) == (await keyring.deployment(), unlocked)
    assert keyring.at_hand(RIVAL) is None
    clock.now = 60.0
    assert keyring.at_hand(ACME) is None


async def test_asking_for_a_tenant_never_creates_its_keys(keyring: Keyring, shelf: Shelf) -> None:
    with pytest.raises(KeysMissing):
        await keyring.tenant(RIVAL)
    assert RIVAL not in shelf.tenants
    with pytest.raises(KeysMissing):
        await keyring.rotate(RIVAL, Purpose.STORAGE)


async def test_a_deployment_that_was_never_created_has_no_keys(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(KeysMissing):
        await replica(shelf, tmp_path).deployment()
    assert not shelf.deployment


async def test_a_start_that_broke_off_is_taken_up_by_the_next(shelf: Shelf, tmp_path: Path) -> None:
    folder = tmp_path / "later"
    folder.touch()
    with pytest.raises(OSError, match="later"):
        await replica(shelf, folder).create_deployment()
    folder.unlink()
    ring = replica(shelf, folder)
    await ring.create_deployment()
    await ring.create_tenant(ACME)
    assert await opaque(ring)


async def test_another_root_key_opens_nothing_and_creates_nothing(
    keyring: Keyring, shelf: Shelf, tmp_path: Path
) -> None:
    before = dict(shelf.deployment)
    with pytest.raises(KeyRefused):
        await replica(shelf, tmp_path, key=b"x" * 32).create_deployment()
    assert shelf.deployment == before


async def test_keys_moved_to_another_tenant_or_version_are_refused(
    keyring: Keyring, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.tenants[RIVAL] = dict(shelf.tenants[ACME])
    with pytest.raises(KeyRefused):
        await keyring.tenant(RIVAL)
    shelf.tenants[ACME]["storage.2"] = shelf.tenants[ACME]["storage.1"]
    with pytest.raises(KeyRefused):
        await replica(shelf, tmp_path).tenant(ACME)


@pytest.mark.parametrize(
    "name", ["storage", "storage.0", "storage.01", "storage.256", "storage.x", "other.1", "", ".1"]
)
async def test_a_key_under_a_name_that_nobody_writes_is_refused(keyring: Keyring, shelf: Shelf, name: str) -> None:
    shelf.tenants[ACME][name] = shelf.tenants[ACME]["storage.1"]
    with pytest.raises(KeyRefused, match="unknown name"):
        await keyring.tenant(ACME)


async def test_keys_are_kept_for_a_while_and_no_longer(keyring: Keyring, shelf: Shelf, clock: Clock) -> None:
    await keyring.tenant(ACME)
    reads = shelf.reads
    clock.now = KEPT_S - 0.1
    await keyring.tenant(ACME)
    assert shelf.reads == reads
    shelf.tenants.clear()
    clock.now = float(KEPT_S)
    with pytest.raises(KeysMissing):
        await keyring.tenant(ACME)


async def test_many_requests_at_once_load_a_tenants_keys_once(keyring: Keyring, shelf: Shelf) -> None:
    reads = shelf.reads
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(keyring.tenant(ACME)) for _ in range(50)]
    assert shelf.reads == reads + 1
    assert len({id(task.result()) for task in asked}) == 1


async def test_the_cache_is_bounded(shelf: Shelf, tmp_path: Path) -> None:
    ring = replica(shelf, tmp_path, max_tenants=2)
    await ring.create_deployment()
    tenants = [TenantId(letter * 16) for letter in "abc"]
    for tenant in tenants:
        await ring.create_tenant(tenant)
        await ring.tenant(tenant)
    reads = shelf.reads
    await ring.tenant(tenants[2])
    assert shelf.reads == reads
    await ring.tenant(tenants[0])
    assert shelf.reads == reads + 1


def test_keys_cannot_be_set_to_live_longer_than_a_minute(shelf: Shelf, tmp_path: Path) -> None:
    root = LocalRoot(ROOT_KEY)
    with pytest.raises(ValueError, match="60"):
        Keyring(shelf, root, root, tmp_path / "erasures", max_age_s=61)


@pytest.mark.parametrize("purpose", [Purpose.STORAGE, Purpose.AUDIT])
async def test_storage_and_audit_rotate_without_changing_an_id(
    keyring: Keyring, shelf: Shelf, tmp_path: Path, purpose: Purpose
) -> None:
    before, unlocked = await opaque(keyring), await keyring.tenant(ACME)
    assert await keyring.rotate(ACME, purpose) == 2
    later = Clock(1_800_000_000 + USED_AFTER_S)
    for ring in (replica(shelf, tmp_path, wall=later), replica(shelf, tmp_path, wall=later)):
        keys = (await ring.tenant(ACME)).keys
        rotated = keys.storage if purpose is Purpose.STORAGE else keys.audit
        old = unlocked.keys.storage if purpose is Purpose.STORAGE else unlocked.keys.audit
        assert (rotated.current, rotated.keys[1]) == (2, old.newest)
        assert rotated.newest != old.newest
        assert keys.identity == unlocked.keys.identity
        assert await opaque(ring) == before


async def test_a_rotated_key_is_used_by_nobody_until_everybody_can_open_what_it_seals(
    keyring: Keyring, shelf: Shelf, tmp_path: Path, clock: Clock
) -> None:
    wall = Clock(1_800_000_000)
    rings = [replica(shelf, tmp_path, clock, wall=wall) for _ in range(2)]
    for ring in rings:
        assert (await ring.tenant(ACME)).keys.storage.current == 1
    await rings[0].rotate(ACME, Purpose.STORAGE)
    for second in range(0, 241, 10):
        clock.now, wall.now = float(second), 1_800_000_000.0 + second
        versions = [(await ring.tenant(ACME)).keys.storage for ring in rings]
        for one in versions:
            assert all(one.current in other.keys for other in versions), f"after {second} s"
        assert second >= USED_AFTER_S or {one.current for one in versions} == {1}
    assert {(await ring.tenant(ACME)).keys.storage.current for ring in rings} == {2}


def rotating(shelf: Shelf, folder: Path) -> Keyring:
    """A replica that was given another root key, and still has the one before."""
    old, new = LocalRoot(ROOT_KEY), LocalRoot(b"s" * 32)
    audit = RootRotation(new.audit_root(), old.audit_root())
    return Keyring(shelf, RootRotation(new, old), audit, folder / "erasures", clock=Clock())


async def test_a_root_rotation_changes_no_key_and_no_id(keyring: Keyring, shelf: Shelf, tmp_path: Path) -> None:
    await keyring.retire_tag()
    before, both = await opaque(keyring), rotating(shelf, tmp_path)
    assert await opaque(both) == before, "while the rotation goes on, both keys serve"
    with pytest.raises(KeyRefused):
        await replica(shelf, tmp_path, key=b"s" * 32).deployment()
    rewrapping = await both.rewrapping()
    assert await rewrapping.has_former(ACME)
    assert (await rewrapping.of_deployment(), await rewrapping.tenant(ACME)) == (4, 3)
    assert (await rewrapping.of_deployment(), await rewrapping.tenant(ACME)) == (0, 0), "again: nothing is left"
    assert not await rewrapping.has_former(ACME)
    for ring in (both, replica(shelf, tmp_path, key=b"s" * 32)):
        assert await opaque(ring) == before
        await ring.create_deployment()
    with pytest.raises(KeyRefused):
        await replica(shelf, tmp_path).deployment()


async def test_what_is_made_during_a_root_rotation_is_under_the_new_root_key(
    keyring: Keyring, shelf: Shelf, tmp_path: Path
) -> None:
    both = rotating(shelf, tmp_path)
    await both.create_tenant(RIVAL)
    assert not await (await both.rewrapping()).has_former(RIVAL)
    with pytest.raises(KeyRefused):
        await keyring.tenant(RIVAL)


async def test_a_key_that_opens_by_no_root_key_is_not_rewrapped(keyring: Keyring, shelf: Shelf, tmp_path: Path) -> None:
    rewrapping = await rotating(shelf, tmp_path).rewrapping()
    shelf.tenants[RIVAL] = dict(shelf.tenants[ACME])
    with pytest.raises(KeyRefused):
        await rewrapping.tenant(RIVAL)
    assert shelf.tenants[RIVAL] == shelf.tenants[ACME]


async def test_a_new_identity_epoch_kills_the_tenants_older_ids(keyring: Keyring) -> None:
    await keyring.create_tenant(RIVAL)
    old, others = await opaque(keyring), await opaque(keyring, RIVAL)
    assert await keyring.rotate(ACME, Purpose.IDENTITY) == 2
    unlocked = await keyring.tenant(ACME)
    parsed = (await keyring.deployment()).form.verify(old)
    assert parsed is not None
    assert not unlocked.form.is_current(parsed)
    assert set(unlocked.keys.identity.keys) == {2}
    assert await opaque(keyring) != old
    assert await opaque(keyring, RIVAL) == others


async def test_a_retired_tag_key_kills_every_id_within_a_minute_on_every_replica(
    keyring: Keyring, shelf: Shelf, tmp_path: Path, clock: Clock
) -> None:
    other = replica(shelf, tmp_path, clock)
    old = await opaque(other)
    assert await opaque(keyring) == old
    assert await keyring.retire_tag() == 2
    assert (await keyring.deployment()).form.verify(await opaque(keyring)) is not None
    assert (await keyring.deployment()).form.verify(old) is None
    clock.now = 30.0
    await other.create_tenant(RIVAL)
    await other.tenant(RIVAL)
    clock.now = 61.0
    assert (await other.deployment()).form.verify(old) is None
    for tenant in (ACME, RIVAL):
        fresh = await opaque(other, tenant)
        assert (await keyring.deployment()).form.verify(fresh) is not None


async def test_emergency_versions_end_where_an_id_has_no_bits_left(keyring: Keyring) -> None:
    for expected in range(2, 16):
        assert await keyring.retire_tag() == expected
        assert await keyring.rotate(ACME, Purpose.IDENTITY) == expected
    with pytest.raises(ValueError, match="15"):
        await keyring.retire_tag()
    with pytest.raises(ValueError, match="identity"):
        await keyring.rotate(ACME, Purpose.IDENTITY)


async def test_an_erased_tenant_stays_unreadable_when_a_backup_of_the_store_comes_back(
    keyring: Keyring, shelf: Shelf, tmp_path: Path, clock: Clock
) -> None:
    await keyring.create_tenant(RIVAL)
    backup = shelf.backup()
    await keyring.tenant(ACME)
    await keyring.erase(ACME, 1_800_000_000)
    assert ACME not in shelf.tenants
    with pytest.raises(KeysMissing):
        await keyring.tenant(ACME)
    restored = replica(backup, tmp_path, clock)
    with pytest.raises(KeysMissing, match="erased"):
        await restored.tenant(ACME)
    assert await opaque(restored, RIVAL)
    with pytest.raises(KeysMissing, match="erased"):
        await restored.create_tenant(ACME)


async def test_other_replicas_forget_an_erased_tenant_within_a_minute(
    keyring: Keyring, shelf: Shelf, tmp_path: Path, clock: Clock
) -> None:
    other = replica(shelf, tmp_path, clock)
    await other.tenant(ACME)
    await keyring.erase(ACME, 1_800_000_000)
    clock.now = 60.0
    with pytest.raises(KeysMissing):
        await other.tenant(ACME)


async def test_without_its_erasure_list_a_deployment_opens_no_tenant(
    keyring: Keyring, shelf: Shelf, tmp_path: Path
) -> None:
    path = tmp_path / "erasures"
    text = path.read_text()
    for change in (path.unlink, lambda: path.write_text(text.replace("coatcheck", "coatchecx"))):
        change()
        ring = replica(shelf, tmp_path)
        with pytest.raises(ErasuresUnreadable):
            await ring.tenant(ACME)
        with pytest.raises(ErasuresUnreadable):
            await ring.create_deployment()
        with pytest.raises(ErasuresUnreadable):
            await ring.create_tenant(RIVAL)


async def test_a_list_made_for_a_new_machine_must_be_made_on_purpose(
    keyring: Keyring, shelf: Shelf, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    ring = replica(shelf, tmp_path / "elsewhere")
    with pytest.raises(ErasuresUnreadable):
        await ring.create_deployment()
    await ring.create_deployment(new_list=True)
    assert await opaque(ring) == await opaque(keyring)


async def test_the_keys_of_a_tenants_whole_life_over_the_redis_store(
    redis_store: RedisStore, tmp_path: Path, clock: Clock
) -> None:
    root = LocalRoot(ROOT_KEY)
    rings = [Keyring(redis_store, root, root.audit_root(), tmp_path / "erasures", clock=clock) for _ in range(2)]
    for ring in rings:
        await ring.create_deployment()
        await ring.create_tenant(ACME)
    before = await opaque(rings[0])
    assert await opaque(rings[1]) == before
    await rings[0].rotate(ACME, Purpose.STORAGE)
    assert await opaque(rings[0]) == before
    assert set((await rings[0].tenant(ACME)).keys.storage.keys) == {1, 2}
    await rings[1].erase(ACME, 1_800_000_000)
    clock.now = 60.0
    for ring in rings:
        with pytest.raises(KeysMissing):
            await ring.tenant(ACME)
    await redis_store.aclose()
