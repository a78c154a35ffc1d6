"""`tenant erase`: the tenant's objects upstream, then all that the store holds of it but its log, then its keys.

What stays is the log, whose personal fields nobody can open any more, and an export of it with the public keys, so that it can be
verified for ever. Each step can be done again: a run that broke off goes on where it stood. It ends in a report that is signed
with the tenant's key, by the last use of it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from gateway.admin.administration import AdminEvent, Administration, AdminMissing, AdminRefused
from gateway.admin.evidence import open_log
from gateway.audit.anchors.contract import AnchorFailed
from gateway.audit.checkpoint import Checkpoint, log_origin, open_note, public_key, seal_note
from gateway.audit.export import export
from gateway.audit.known import verifier_keys
from gateway.audit.layout import HEAD, MANIFEST, UNFINISHED
from gateway.audit.search.query import Query
from gateway.audit.source import EvidenceRefused
from gateway.audit.tree import Frontier
from gateway.clock import now_us
from gateway.mapping import Mapper
from gateway.names import Kind, TenantId
from gateway.stores.contract import TenantStatus
from gateway.stores.keyring import Unlocked
from gateway.stores.records import RecordState, Root, open_record

AT_ONCE: Final = 8
REPORT: Final = "report"
KEYS: Final = "public-keys"
LOG: Final = "log"
_DELETED: Final = "deleted"
_TITLE: Final = "coatcheck erasure report"
_CHANGED: Final = (
    "the tenant was resumed, or is being erased twice: what it made meanwhile would stay. Give the command again"
)


class Ender(Protocol):
    """Who deletes objects at the service, or cancels them where nothing deletes them."""

    def ends(self, kind: Kind) -> bool:
        """Whether the service does either with objects of the kind."""

    def deletes(self, kind: Kind) -> bool: ...

    async def end(self, root: Root) -> bool:
        """Whether the object is gone there, or cancelled. Its kind can be."""

    async def sweep(self) -> int:
        """Ends what waits for it on this machine; how many are left."""


@dataclass(frozen=True, slots=True)
class Left:
    """An object that is still there upstream."""

    kind: str
    id: str
    """Opaque."""
    why: str


@dataclass(slots=True)
class Erasure:
    """One run."""

    deleted: int = 0
    """Objects upstream."""
    left: list[Left] = field(default_factory=list)
    failed: int = 0
    """Of those left, how many the service may still delete if asked again."""
    report: Path | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where erasures leave what stays, and what the operator says of backups."""

    folder: Path
    backups_kept_days: int

    def of(self, tenant: TenantId) -> Path:
        return self.folder / tenant


async def erase_tenant(
    admin: Administration,
    tenant: TenantId,
    upstream: Ender,
    mapper: Callable[[Unlocked], Mapper],
    place: Place,
    *,
    leave: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> Erasure:
    """Erases the tenant. `leave`: what the service did not delete is only reported.

    Raises AdminRefused where a legal hold or a halt is on, where objects are left that may still be deleted, or where somebody
    changed the tenant's status meanwhile; the tenant is suspended by then (unless resumed), and the same call goes on.
    """
    folder, done = place.of(tenant), Erasure()
    state = await admin.store.log.state(tenant)
    if state is None:
        raise AdminMissing("the tenant is unknown")
    if (await admin.store.log.rules(tenant)).hold:
        raise AdminRefused("a legal hold is on: lift it first (audit hold TENANT off)")
    if state.halted:
        raise AdminRefused("the log is halted: reseal it first, or the loss would never be told")
    if tenant in await asyncio.to_thread((await admin.keyring.deployment()).erasures.tenants):
        await admin.store.delete_wrapped_keys(tenant)
        done.report = folder / REPORT
        return done
    unlocked = await admin.unlock(tenant)
    if state.status is not TenantStatus.ERASED:
        async with admin.recorded(tenant, AdminEvent.TENANT_ERASE) as recording:
            suspended = await _suspend(admin, tenant)
            await _delete_objects(admin, tenant, unlocked, upstream, mapper(unlocked), done, progress)
            await asyncio.to_thread(_count, folder, done)
            if done.failed and not leave:
                raise AdminRefused(
                    f"{done.failed} objects were not deleted by the service; the tenant is suspended. Give the command again, "
                    "or with --leave, which lists them in the report"
                )
            if await _generation(admin, tenant) != suspended:
                raise AdminRefused(_CHANGED)
            recording.changes |= {"deleted": done.deleted, "left": len(done.left)}
        await admin.flush()
        await asyncio.to_thread(_keep_left, folder, done)
        if not await admin.store.set_tenant_status(tenant, TenantStatus.ERASED, at=suspended):
            raise AdminRefused(_CHANGED)
    else:
        await asyncio.to_thread(_recall, folder, done)
    progress("keeping the log with its proofs")
    head = await _keep_log(admin, tenant, unlocked, folder)
    progress("deleting what the store holds of the tenant")
    removed = await admin.store.log.purge(tenant)
    done.report = await _report(admin, tenant, unlocked, place, done, removed, head)
    await admin.keyring.erase(tenant, int(time.time()))
    return done


async def _suspend(admin: Administration, tenant: TenantId) -> int:
    """The tenant's generation since. What was let through before takes no records any more; who resumes the tenant raises it."""
    await admin.store.set_tenant_status(tenant, TenantStatus.SUSPENDED)
    state = await admin.store.tenant_state(tenant)
    if state is None or state.status is not TenantStatus.SUSPENDED:
        raise AdminRefused(_CHANGED)
    return state.generation


async def _generation(admin: Administration, tenant: TenantId) -> int | None:
    state = await admin.store.tenant_state(tenant)
    return state.generation if state is not None else None


async def _delete_objects(
    admin: Administration,
    tenant: TenantId,
    unlocked: Unlocked,
    upstream: Ender,
    mapper: Mapper,
    done: Erasure,
    progress: Callable[[str], None],
) -> None:
    gate, seen, storage = asyncio.Semaphore(AT_ONCE), 0, unlocked.keys.storage

    async def one(key: bytes, root: Root) -> None:
        async with gate:
            opaque = mapper.at(root.upstream, root.project).to_opaque(root.kind, root.raw.text).text
            if not upstream.ends(root.kind):
                done.left.append(Left(root.kind.value, opaque, "the service has no deletion of its kind"))
            elif not await upstream.end(root):
                done.left.append(Left(root.kind.value, opaque, "the service did not delete it"))
                done.failed += 1
            elif not upstream.deletes(root.kind):
                done.left.append(Left(root.kind.value, opaque, "cancelled; the service has no deletion of its kind"))
            else:
                # Gone here only when it is gone there: a run that breaks off finds it again.
                await admin.store.log.drop(tenant, key)
                done.deleted += 1

    async for batch in _batches(admin.store.log.records(tenant)):
        async with asyncio.TaskGroup() as group:
            for key, data in batch.items():
                record = open_record(storage, key, data)
                if record is None:
                    done.left.append(Left("unknown", "?", "its record does not open"))
                elif isinstance(record, Root) and record.state is RecordState.ACTIVE:
                    group.create_task(one(key, record))
        seen += len(batch)
        progress(f"{seen} records read, {done.deleted} objects deleted, {len(done.left)} left")


async def _batches(records: AsyncIterator[tuple[bytes, bytes]], size: int = 200) -> AsyncIterator[dict[bytes, bytes]]:
    """Each record once in a batch; the store may give one twice."""
    batch: dict[bytes, bytes] = {}
    async for key, data in records:
        batch[key] = data
        if len(batch) == size:
            yield batch
            batch = {}
    if batch:
        yield batch


async def _keep_log(admin: Administration, tenant: TenantId, unlocked: Unlocked, folder: Path) -> Checkpoint:
    """The log as an export, proven by its last checkpoint, which goes to the anchors too."""
    path = folder / LOG
    name = log_origin((await admin.keyring.deployment()).keys.deployment, tenant)
    keys = verifier_keys(name, unlocked.keys.audit)
    await asyncio.to_thread(_write, folder / KEYS, "".join(f"{key}\n" for key in keys))
    if not await asyncio.to_thread((path / MANIFEST).exists):
        try:
            await export(await open_log(admin, tenant), Query(), path, made_us=now_us())
        except EvidenceRefused as refused:
            raise AdminRefused(f"the log cannot be kept: {refused} ({path.name}/{UNFINISHED})") from None
    note = await asyncio.to_thread((path / HEAD).read_text)
    checkpoint = open_note(note, keys)
    if checkpoint is None:
        raise AdminRefused(f"what was kept of the log in {path} was changed: take it away, and give the command again")
    for anchor in admin.anchors:
        if anchor.required:
            try:
                await anchor.append(checkpoint, note, Frontier())
            except AnchorFailed as failed:
                raise AdminRefused(
                    f"the log's last checkpoint is not anchored: {failed}; give the command again"
                ) from None
    return checkpoint


async def _report(
    admin: Administration,
    tenant: TenantId,
    unlocked: Unlocked,
    place: Place,
    done: Erasure,
    removed: int,
    head: Checkpoint,
) -> Path:
    now = datetime.now(UTC)
    until = now + timedelta(days=place.backups_kept_days)
    lines = [
        _TITLE,
        f"tenant: {tenant}",
        f"time: {now:%Y-%m-%dT%H:%M:%SZ}",
        f"objects deleted upstream: {done.deleted}",
        f"objects left upstream: {len(done.left)}",
        *(f"left: {one.kind} {one.id}: {one.why}" for one in sorted(done.left, key=lambda one: (one.kind, one.id))),
        f"keys removed from the store: {removed}",
        f"log: {head.size} events of {head.origin} are kept; the personal fields in them cannot be opened any more",
        f"backups of the store: the last one that holds anything else is gone by {until:%Y-%m-%d}, as its operator says",
        "the tenant's own keys: destroyed when this was signed",
    ]
    name, seed = head.name, unlocked.keys.audit.newest.seed
    path = place.of(tenant) / REPORT
    await asyncio.to_thread(_write, path, seal_note("\n".join(lines) + "\n", public_key(name, seed), seed))
    return path


def _count(folder: Path, done: Erasure) -> None:
    """Of all runs together."""
    path = folder / _DELETED
    done.deleted += int(path.read_text()) if path.exists() else 0
    _write(path, str(done.deleted))


def _keep_left(folder: Path, done: Erasure) -> None:
    _write(folder / "left", "".join(f"{one.kind}\t{one.id}\t{one.why}\n" for one in done.left))


def _recall(folder: Path, done: Erasure) -> None:
    """What the run found that got as far as to mark the tenant as erased."""
    done.deleted = int((folder / _DELETED).read_text())
    done.left = [Left(*line.split("\t")) for line in (folder / "left").read_text().splitlines()]


def _write(path: Path, text: str) -> None:
    """There whole or not at all, on the disk, also where two runs write it at once."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
