"""The operator's commands: each calls one function of this package and prints what it gives.

What a program reads (a key, an ID, rows, events) goes to standard output alone, everything else to standard error. Each
returns the exit code: 0 done, 1 not all of it; what is refused as a whole is raised.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from gateway.admin.administration import Administration
from gateway.admin.events import as_json, as_line, tail
from gateway.admin.ids import Upstream, adopt, adopt_lines, show
from gateway.admin.keys import ListedKey, NewKey, create_key, list_keys, revoke_key, rotate_key
from gateway.admin.tenants import create_tenant, find_tenant, list_tenants, suspend_tenant
from gateway.names import Owner

Command = Callable[[Administration, Upstream, Namespace], Awaitable[int]]

PROGRESS_LINES: Final = 1000


async def tenant_create(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    print(await create_tenant(admin, args.name))
    return 0


async def tenant_list(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    tenants = [tenant async for tenant in list_tenants(admin)]
    rows = [(one.id, "active" if one.active else "suspended", one.name) for one in tenants]
    print_table(("TENANT", "STATE", "NAME"), sorted(rows, key=lambda row: (row[2], row[0])))
    return 0


async def tenant_suspend(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    _tell(f"{await suspend_tenant(admin, args.name)} is suspended: all its calls are refused from now on")
    return 0


async def key_create(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    tenant, owner = await find_tenant(admin, args.tenant), Owner(args.issuer, args.subject)
    made = await create_key(admin, tenant, owner, service=args.service, scopes=args.scope, lifetime_s=args.expires)
    return _show_key(made, f"for {owner} of tenant {tenant}")


async def key_list(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    rows = [_key_row(key) for key in await list_keys(admin, await find_tenant(admin, args.tenant))]
    print_table(("KEY ID", "STATE", "EXPIRES", "CREATED", "KIND", "OWNER", "SCOPES"), rows)
    return 0


async def key_rotate(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    made = await rotate_key(admin, args.key_id, grace_s=args.grace)
    return _show_key(made, f"in the place of {args.key_id}")


async def key_revoke(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    await revoke_key(admin, args.key_id)
    _tell(f"{args.key_id} is revoked: it is refused from now on")
    return 0


async def id_adopt(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    tenant = await find_tenant(admin, args.tenant)
    if args.lines is None:
        print(await adopt(admin, tenant, args.raw, args.owner, upstream))
        return 0
    adopted = refused = 0
    try:
        async for line in adopt_lines(admin, tenant, args.lines, args.owner, upstream):
            if line.opaque is None:
                refused += 1
                _tell(f"line {line.number}: {line.error}")
            else:
                adopted += 1
                print(f"{args.lines[line.number - 1].split()[0]}\t{line.opaque}", flush=True)
            if (adopted + refused) % PROGRESS_LINES == 0:
                _tell(f"{line.number} of {len(args.lines)} lines")
    finally:
        # Also where the store fails on the way: what was printed is done.
        _tell(f"{adopted} adopted, {refused} refused; the same file can be given again, what is done stays as it is")
    return 1 if refused else 0


async def id_show(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    shown = await show(admin, await find_tenant(admin, args.tenant), args.opaque, upstream)
    state = "deleted " if shown.opened.deleted else ""
    _tell(f"{state}{shown.raw.kind.value} of {shown.opened.root.owner}; it is on record that this was shown")
    print(shown.raw.text)
    return 0


async def audit_tail(admin: Administration, upstream: Upstream, args: Namespace) -> int:
    write = as_json if args.json else as_line
    async for stored in tail(admin, await find_tenant(admin, args.tenant), follow=args.follow):
        print(write(stored), flush=True)
    return 0


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned columns. The heads go to standard error, so that a program reads rows only."""
    table = [heads, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    for row in table:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        print(line, file=sys.stderr if row is heads else sys.stdout, flush=True)


def _key_row(key: ListedKey) -> tuple[str, ...]:
    record, expired = key.record, key.expires is not None and key.expires <= time.time()
    state = "revoked" if key.revoked else "expired" if expired else "live" if record else "unreadable"
    row = (str(key.id), state, _when(key.expires))
    if record is None:
        return *row, "?", "?", "?", "?"
    return *row, _when(record.created), record.kind.value, str(record.owner), " ".join(record.scopes)


def _show_key(made: NewKey, whose: str) -> int:
    _tell(f"key {made.id} {whose}. It is shown this once and stored nowhere:")
    print(made.key)
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _when(moment_s: int | None) -> str:
    return "never" if moment_s is None else datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%MZ")
