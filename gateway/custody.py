"""The part of the composition that every process with a log shares: the store, root keys, and what signs, anchors and archives
logs.

A gateway, a console alone and a command each sign what they write; a gateway archives as well.
"""

from __future__ import annotations

from gateway.audit.anchors.bucket import Bucket, BucketSettings
from gateway.audit.anchors.contract import Anchor
from gateway.audit.anchors.file import FileAnchor
from gateway.audit.anchors.s3 import S3Anchor
from gateway.audit.anchors.webhook import WebhookAnchor
from gateway.audit.archive import Archive
from gateway.audit.checkpoints import Checkpointer, CheckpointSettings
from gateway.audit.log import AuditLog
from gateway.audit.retention import Retention
from gateway.ids.keys import LocalRoot, RootKey, RootRotation
from gateway.outgoing import Outgoing, Reach
from gateway.settings import Settings
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.embedded import JOIN_TIMEOUT_S, START_TIMEOUT_S, open_embedded
from gateway.stores.link import Link
from gateway.stores.redis import SCRIPTS, RedisStore


async def open_store(settings: Settings, *, joins: bool) -> RedisStore:
    """The store. `joins`: for what only passes by, which may work on the embedded store of a gateway that is running.

    Raises StoreError.
    """
    link = settings.redis.link()
    if link is None:
        return await open_embedded(settings.data, joins=joins)
    return RedisStore(await Link.open(link, SCRIPTS, JOIN_TIMEOUT_S if joins else START_TIMEOUT_S))


def root(settings: Settings) -> RootKey:
    """The root key, which opens what its predecessor wrapped as well."""
    newest, previous = LocalRoot(settings.root_key), settings.previous_root_key
    return RootRotation(newest, LocalRoot(previous)) if previous else newest


def audit_root(settings: Settings) -> RootKey:
    """The root key of the audit keys: given, or derived from the root key; and so is its predecessor."""
    newest = (
        LocalRoot(settings.audit_root_key) if settings.audit_root_key else LocalRoot(settings.root_key).audit_root()
    )
    formers = [LocalRoot(settings.previous_audit_root_key)] if settings.previous_audit_root_key else []
    formers += [LocalRoot(settings.previous_root_key).audit_root()] if settings.previous_root_key else []
    return RootRotation(newest, *formers) if formers else newest


def checkpointer(settings: Settings, store: RedisStore, keyring: AuditKeyring, log: AuditLog) -> Checkpointer:
    """What signs the events of `log`. It is to be closed after the log and before the store."""
    interval_s = settings.audit.checkpoint_interval_s
    made = Checkpointer(store, keyring, _anchors(settings, store), CheckpointSettings(interval_s))
    log.watch = made
    return made


def retention(settings: Settings, store: RedisStore, keyring: AuditKeyring, log: AuditLog) -> Retention:
    """What archives and trims old events."""
    bucket = _bucket(settings)
    archive = Archive(settings.data / "archive", Bucket(bucket, timeout_s=60) if bucket is not None else None)
    return Retention(store, keyring, log, _file(settings), archive, settings.audit.retention_days)


def outgoing(settings: Settings, timeout_s: float = 10.0) -> Outgoing:
    """What calls the addresses that tenants set."""
    return Outgoing(Reach.LOOPBACK if settings.audit.webhooks_on_loopback else Reach.PUBLIC, timeout_s=timeout_s)


def _anchors(settings: Settings, store: RedisStore) -> tuple[Anchor, ...]:
    """The data folder, a bucket if there is one, and the tenants' own webhooks."""
    made: list[Anchor] = [_file(settings), WebhookAnchor(store.log, outgoing(settings))]
    bucket = _bucket(settings)
    if bucket is not None:
        made.append(S3Anchor(Bucket(bucket)))
    return tuple(made)


def _file(settings: Settings) -> FileAnchor:
    return FileAnchor(settings.data / "anchors")


def _bucket(settings: Settings) -> BucketSettings | None:
    audit = settings.audit
    if not audit.bucket:
        return None
    key, secret = audit.bucket_key_id, audit.bucket_secret or ""
    return BucketSettings(audit.bucket, audit.bucket_prefix, audit.bucket_endpoint, audit.bucket_region, key, secret)
