"""`audit status`, `retain`, `hold`, `anchor`, `reseal`: each command calls one function and prints what it gives."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from gateway.admin.command_line import of_tenant, tell, typed
from gateway.admin.desk import Desk
from gateway.admin.keeping import hold, reseal_log, retain, set_anchor, standing
from gateway.admin.tenants import find_tenant
from gateway.stores.log import MOST_DAYS


def declare(audit: Any) -> None:
    of_tenant(audit, "status", "how far a log goes, is signed, anchored, archived", audit_status)
    retaining = of_tenant(audit, "retain", "how long events stay before they go to the archive", audit_retain)
    retaining.add_argument("days", type=typed(_days), metavar="DAYS", help="a number, 0 for ever, or default")
    holding = of_tenant(audit, "hold", "a legal hold: nothing leaves the log meanwhile", audit_hold)
    holding.add_argument("state", choices=("on", "off"))
    anchoring = of_tenant(
        audit, "anchor", "where a tenant's checkpoints are sent as well, its own anchor", audit_anchor
    )
    anchoring.add_argument("url", metavar="URL", help="an https address, or off")
    resealing = of_tenant(audit, "reseal", "let a halted log go on; the log says what was lost", audit_reseal)
    resealing.add_argument("--accept-loss", action="store_true", required=True, help="say so: nothing brings them back")


async def audit_retain(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.tenant)
    await retain(desk.admin, tenant, args.days)
    rule = {None: "as the settings say", 0: "for ever"}.get(args.days, f"for {args.days} days, then in the archive")
    tell(f"events of {tenant} are kept {rule}")
    return 0


async def audit_hold(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.tenant)
    await hold(desk.admin, tenant, args.state == "on")
    tell(f"a legal hold is {args.state} for {tenant}" + ("" if args.state == "off" else ": nothing leaves its log"))
    return 0


async def audit_anchor(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.tenant)
    await set_anchor(desk.admin, desk.streams.outgoing, tenant, "" if args.url == "off" else args.url)
    tell(
        f"checkpoints of {tenant} "
        + ("are sent nowhere" if args.url == "off" else "are sent there, at most one a minute")
    )
    return 0


async def audit_reseal(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.tenant)
    done = await reseal_log(desk.admin, tenant)
    lost = done.last - done.first + 1
    what = f"events {done.first} to {done.last} are lost" if lost else "how many events are lost is not known"
    tell(f"{what}: event {done.first} says so, and the log of {tenant} goes on as epoch {done.epoch}")
    for name in done.not_anchored:
        tell(f"the {name} anchor did not take its checkpoint; the gateway goes on trying")
    return 0


async def audit_status(desk: Desk, args: Namespace) -> int:
    state, rules = await standing(desk.admin, await find_tenant(desk.admin, args.tenant))
    days = "by the settings" if rules.days is None else f"{rules.days} days" if rules.days else "for ever"
    rows = {
        "events": str(state.seq),
        "signed": str(state.size),
        "anchored": str(state.anchored),
        "archived": str(state.trimmed),
        "epoch": str(state.epoch),
        "halted": state.halted or "no",
        "kept": days,
        "legal hold": "on" if rules.hold else "off",
        "own anchor": "a webhook" if rules.webhook else "none",
    }
    for name, value in rows.items():
        print(f"{name}\t{value}")
    return 1 if state.halted else 0


def _days(text: str) -> int | None:
    if text == "default":
        return None
    if not text.isascii() or not text.isdecimal() or int(text) > MOST_DAYS:
        raise ValueError(f"a number of days up to {MOST_DAYS:,}, or default, is expected")
    return int(text)
