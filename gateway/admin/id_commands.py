"""`id …`: each command calls one function and prints what it gives."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from gateway.admin.command_line import group, of_tenant, tell, typed
from gateway.admin.desk import Desk
from gateway.admin.ids import adopt, adopt_lines, show
from gateway.admin.tenants import find_tenant
from gateway.names import Owner

PROGRESS_LINES: Final = 1000


def declare(groups: Any) -> None:
    ids = group(groups, "id", "IDs: adopt those of the service, show what an opaque one stands for")
    adopting = of_tenant(ids, "adopt", "enter an ID of the service as somebody's; prints the opaque ID", id_adopt)
    adopted = adopting.add_mutually_exclusive_group(required=True)
    adopted.add_argument(
        "raw", nargs="?", metavar="RAW", help="the service's ID of an object, such as resp_… or file-…"
    )
    adopted.add_argument(
        "--from", dest="lines", type=typed(_read_lines), metavar="FILE",
        help="many: a line each, RAW or RAW ISSUER#SUB; prints RAW, a tab and the opaque ID",
    )  # fmt: skip
    adopting.add_argument(
        "--upstream", metavar="NAME", help="the key that made it, as the settings call it (default: the first)"
    )
    adopting.add_argument(
        "--owner",
        type=typed(Owner.parse),
        metavar="ISSUER#SUB",
        help="whose it becomes, such as local#alice; with --from, where a line says nothing",
    )
    showing = of_tenant(ids, "show", "print the service's ID behind an opaque one; this is recorded", id_show)
    showing.add_argument("opaque", metavar="OPAQUE", help="the opaque ID")


async def id_adopt(desk: Desk, args: Namespace) -> int:
    tenant, upstream = await find_tenant(desk.admin, args.tenant), desk.upstream(args.upstream)
    if args.lines is None:
        print(await adopt(desk.admin, tenant, args.raw, args.owner, upstream))
        return 0
    adopted = refused = 0
    try:
        async for line in adopt_lines(desk.admin, tenant, args.lines, args.owner, upstream):
            if line.opaque is None:
                refused += 1
                tell(f"line {line.number}: {line.error}")
            else:
                adopted += 1
                print(f"{args.lines[line.number - 1].split()[0]}\t{line.opaque}", flush=True)
            if (adopted + refused) % PROGRESS_LINES == 0:
                tell(f"{line.number} of {len(args.lines)} lines")
    finally:
        # Also where the store fails on the way: what was printed is done.
        tell(f"{adopted} adopted, {refused} refused; the same file can be given again, what is done stays as it is")
    return 1 if refused else 0


async def id_show(desk: Desk, args: Namespace) -> int:
    shown = await show(desk.admin, await find_tenant(desk.admin, args.tenant), args.opaque, desk.upstream())
    state = "deleted " if shown.opened.deleted else ""
    tell(f"{state}{shown.raw.kind.value} of {shown.opened.root.owner}; it is on record that this was shown")
    print(shown.raw.text)
    return 0


def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"cannot read {path}: it is not UTF-8") from None
