"""`tenant …`: each command calls one function and prints what it gives."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from gateway.admin.command_line import command, group, print_table, tell
from gateway.admin.desk import Desk
from gateway.admin.tenants import create_tenant, find_tenant, list_tenants, resume_tenant, rotate_tenant, suspend_tenant
from gateway.ids.keys import Purpose

_IDENTITY = "every ID that the tenant holds stops opening, for good"


def declare(groups: Any) -> None:
    tenants = group(groups, "tenant", "tenants: create, list, suspend, resume, rotate, erase")
    create = command(tenants, "create", "make a tenant; prints its ID", work=tenant_create)
    create.add_argument("name", metavar="NAME", help="for people; the ID is what counts")
    command(tenants, "list", "all tenants: ID, state, name", work=tenant_list)
    suspend = command(
        tenants, "suspend", "refuse all calls of a tenant from now on, until `tenant resume`", work=tenant_suspend
    )
    resume = command(tenants, "resume", "let a suspended tenant's calls through again", work=tenant_resume)
    rotate = command(
        tenants,
        "rotate",
        "give a tenant new storage and audit keys; what was sealed with the old ones still opens",
        work=tenant_rotate,
    )
    erase = command(
        tenants,
        "erase",
        "delete a tenant's objects at the service, then all of it but its log, then its keys",
        work=tenant_erase,
    )
    for one in (suspend, resume, rotate):
        one.add_argument("name", metavar="NAME", help="the tenant's name or ID")
    rotate.add_argument("--identity", action="store_true", help=f"an emergency: new identity keys instead; {_IDENTITY}")
    rotate.add_argument("--accept-loss", action="store_true", help="say so, with --identity: nothing brings them back")
    erase.add_argument("name", metavar="NAME", help="the tenant's name or ID; what broke off goes on")
    erase.add_argument(
        "--leave", action="store_true", help="finish although some objects are left; the report lists them"
    )


async def tenant_create(desk: Desk, args: Namespace) -> int:
    print(await create_tenant(desk.admin, args.name))
    return 0


async def tenant_list(desk: Desk, args: Namespace) -> int:
    rows = [(one.id, one.state, one.name) async for one in list_tenants(desk.admin)]
    print_table(("TENANT", "STATE", "NAME"), sorted(rows, key=lambda row: (row[2], row[0])))
    return 0


async def tenant_suspend(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.name)
    await suspend_tenant(desk.admin, tenant)
    tell(f"{tenant} is suspended: all its calls are refused from now on")
    return 0


async def tenant_resume(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.name)
    await resume_tenant(desk.admin, tenant)
    tell(f"{tenant} is active: its calls are let through again")
    return 0


async def tenant_rotate(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.name)
    purposes = (Purpose.IDENTITY,) if args.identity else (Purpose.STORAGE, Purpose.AUDIT)
    for purpose, version in await rotate_tenant(desk.admin, tenant, purposes, accept_loss=args.accept_loss):
        used = (
            "within a minute" if purpose is Purpose.IDENTITY else "from two minutes on, once all can open what it seals"
        )
        tell(f"the {purpose.value} key of {tenant} is version {version}; gateways use it {used}")
    return 0


async def tenant_erase(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.name)
    done = await desk.erase(tenant, leave=args.leave, progress=tell)
    tell(f"{tenant} is erased; the signed report is in {done.report}")
    return 1 if done.left else 0
