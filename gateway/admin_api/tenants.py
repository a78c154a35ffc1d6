"""Tenants, the keys of their callers, and their IDs: each function calls one of `gateway/admin/` and says what it gave."""

from __future__ import annotations

import asyncio

from gateway.admin.ids import adopt, show
from gateway.admin.keys import NewKey, create_key, find_key, list_keys, revoke_key, rotate_key
from gateway.admin.tenants import create_tenant, list_tenants, resume_tenant, rotate_tenant, suspend_tenant
from gateway.admin_api.route import Answer, Call
from gateway.ids.keys import Purpose
from gateway.names import Owner


async def tenant_create(call: Call) -> Answer:
    return {"id": await create_tenant(call.admin, call.body["name"])}


async def tenant_list(call: Call) -> Answer:
    tenants = [{"id": one.id, "state": one.state, "name": one.name} async for one in list_tenants(call.admin)]
    return {"tenants": sorted(tenants, key=lambda one: (one["name"], one["id"]))}


async def tenant_suspend(call: Call) -> Answer:
    await suspend_tenant(call.admin, call.tenant)
    return {"id": call.tenant, "state": "suspended"}


async def tenant_resume(call: Call) -> Answer:
    await resume_tenant(call.admin, call.tenant)
    return {"id": call.tenant, "state": "active"}


async def tenant_rotate(call: Call) -> Answer:
    purposes = (Purpose.IDENTITY,) if call.body["identity"] else (Purpose.STORAGE, Purpose.AUDIT)
    rotated = await rotate_tenant(call.admin, call.tenant, purposes, accept_loss=call.body["accept_loss"])
    return {"versions": {purpose.value: version for purpose, version in rotated}}


async def tenant_erase(call: Call) -> Answer:
    done = await call.desk.erase(call.tenant, leave=call.body["leave"])
    report = await asyncio.to_thread(done.report.read_text) if done.report else ""
    left = [{"kind": one.kind, "id": one.id, "why": one.why} for one in done.left]
    return {"deleted": done.deleted, "left": left, "report": report}


async def key_create(call: Call) -> Answer:
    said = call.body
    made = await create_key(
        call.admin,
        call.tenant,
        Owner(said["issuer"], said["subject"]),
        service=said["service"],
        scopes=said["scopes"],
        lifetime_s=said["expires"],
    )
    return _key(made)


async def key_list(call: Call) -> Answer:
    rows = []
    for key in await list_keys(call.admin, call.tenant):
        record = key.record
        rows.append(
            {
                "id": str(key.id),
                "state": key.state,
                "expires": key.expires,
                "created": record.created if record else None,
                "kind": record.kind.value if record else None,
                "owner": str(record.owner) if record else None,
                "scopes": record.scopes if record else None,
            }
        )
    return {"keys": rows}


async def key_rotate(call: Call) -> Answer:
    return _key(await rotate_key(call.admin, find_key(call.tenant, call.names["key"]), grace_s=call.body["grace"]))


async def key_revoke(call: Call) -> Answer:
    await revoke_key(call.admin, find_key(call.tenant, call.names["key"]))
    return {"state": "revoked"}


async def id_adopt(call: Call) -> Answer:
    upstream = call.desk.upstream(call.body["upstream"])
    return {"id": (await adopt(call.admin, call.tenant, call.body["raw"], call.body["owner"], upstream)).text}


async def id_show(call: Call) -> Answer:
    shown = await show(call.admin, call.tenant, call.names["opaque"], call.desk.upstream())
    return {
        "raw": shown.raw.text,
        "kind": shown.raw.kind.value,
        "owner": str(shown.opened.root.owner),
        "deleted": shown.opened.deleted,
    }


def _key(made: NewKey) -> Answer:
    return {"id": str(made.id), "key": made.key}
