"""What proves a tenant's log to others: its public key, exports, and proofs of single events."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from gateway.admin.administration import AdminEvent, Administration, AdminRefused, AdminUnavailable
from gateway.audit.checkpoint import log_origin, open_note
from gateway.audit.event import Change
from gateway.audit.export import export
from gateway.audit.known import verifier_keys
from gateway.audit.layout import Manifest
from gateway.audit.prove import prove
from gateway.audit.search.query import Query
from gateway.audit.source import EvidenceRefused, Log, log_of
from gateway.clock import now_us
from gateway.names import TenantId
from gateway.stores.contract import TenantStatus

EVENT_ID: Final = re.compile(r"[0-9a-f]{16,32}\.[1-9][0-9]{0,18}|[1-9][0-9]{0,18}", re.ASCII)
"""An event's `id`, or its number in the log."""
_TRIES: Final = 20
_PAUSE_S: Final = 0.25
"""Another process may be signing; it takes a moment."""


async def public_keys(admin: Administration, tenant: TenantId) -> list[str]:
    """The public keys of the tenant's log, a line each, the newest first: keys of before have signed older checkpoints.

    They outlive the tenant's own keys, as the log does. Raises AdminRefused where there are none.
    """
    state = await admin.store.log.state(tenant)
    if state is not None and state.status is TenantStatus.ERASED and state.keys:
        return state.keys.splitlines()
    keys = (await admin.unlock(tenant)).keys.audit
    deployment = (await admin.keyring.deployment()).keys.deployment
    return [str(key) for key in verifier_keys(log_origin(deployment, tenant), keys)]


async def export_log(
    admin: Administration, tenant: TenantId, query: Query, folder: Path, progress: Callable[[int, int], None]
) -> Manifest:
    """Exports what the query finds into `folder`, or goes on with it. On record. Raises AdminRefused."""
    log = await _recorded_log(admin, tenant, AdminEvent.AUDIT_EXPORT, {"query": urlencode(query.items())})
    try:
        return await export(log, query, folder, made_us=now_us(), progress=progress)
    except EvidenceRefused as refused:
        raise AdminRefused(str(refused)) from None


async def prove_event(
    admin: Administration, tenant: TenantId, event: str, progress: Callable[[int, int], None] = lambda done, of: None
) -> str:
    """The proof of one event, by its ID or number, as a file's text. On record. Raises AdminRefused."""
    log = await _recorded_log(admin, tenant, AdminEvent.AUDIT_PROVE, {"event": event})
    try:
        return await prove(log, event, progress)
    except EvidenceRefused as refused:
        raise AdminRefused(str(refused)) from None


async def _recorded_log(
    admin: Administration, tenant: TenantId, what: AdminEvent, changes: Mapping[str, Change]
) -> Log:
    """The log up to its newest checkpoint, which covers the event that says who reads it.

    One event, before: an outcome after it would be in no export of itself, so that each export were behind its own anchor.
    With a checkpointer, which compares a log with its anchors before it signs, nothing else signs it: what was changed in the
    store is not made genuine by being exported.
    """
    seq = await admin.record(tenant, what, changes)
    for _ in range(_TRIES):
        await admin.flush()
        log = await _open(admin, tenant)
        if admin.checkpointer is None:
            return log
        signed = open_note(log.note, log.keys)
        if signed is not None and signed.origin == log.origin and signed.size >= seq > 0:
            return replace(log, end=signed.size)
        await asyncio.sleep(_PAUSE_S)
    raise AdminUnavailable("the log cannot be signed up to its end right now; `audit status` says why")


async def _open(admin: Administration, tenant: TenantId) -> Log:
    try:
        return await open_log(admin, tenant)
    except EvidenceRefused as refused:
        raise AdminRefused(str(refused)) from None


async def open_log(admin: Administration, tenant: TenantId) -> Log:
    """The tenant's log as it is now."""
    keys = (await admin.unlock(tenant)).keys.audit
    deployment = (await admin.keyring.deployment()).keys.deployment
    state = await admin.store.log.state(tenant)
    if state is None:
        raise EvidenceRefused("the tenant is unknown")
    return log_of(admin.store, tenant, deployment, keys, state)
