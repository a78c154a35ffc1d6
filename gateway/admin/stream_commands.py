"""`audit stream …`: each command calls one function and prints what it gives."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from gateway.admin.command_line import group, of_tenant, print_table, standing, tell
from gateway.admin.desk import Desk
from gateway.admin.receivers import list_receivers, remove_receiver, test_receiver
from gateway.admin.streams import add_stream
from gateway.admin.tenants import find_tenant
from gateway.audit.receivers import TAKEN, Listed
from gateway.audit.streams.batch import Format
from gateway.stores.streams import StreamState


def declare(audit: Any) -> None:
    streams = group(audit, "stream", "a log sent on to the tenant's own systems: add, list, remove, test")
    adding = of_tenant(streams, "add", "begin a stream; prints its secret alone", stream_add)
    adding.add_argument("url", metavar="URL", help="the https address that batches are posted to")
    adding.add_argument(
        "--format", type=Format, choices=tuple(Format), default=Format.JSON, help="ocsf: OCSF API Activity (json)"
    )
    adding.add_argument("--whole", action="store_true", help="begin with the log's first event, not with what follows")
    of_tenant(streams, "list", "a tenant's streams, and how far each is", stream_list)
    for one in (
        of_tenant(streams, "remove", "end a stream", stream_remove),
        of_tenant(streams, "test", "send a signed batch of no events", stream_test),
    ):
        one.add_argument("stream", metavar="STREAM", help="as `audit stream list` shows it")


async def stream_add(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.tenant)
    made = await add_stream(desk.admin, desk.streams, tenant, args.url, args.format, from_start=args.whole)
    tell(f"stream {made.id} begins with " + ("the log's first event" if args.whole else "what follows"))
    tell("its batches are signed with this secret, which is shown this once:")
    print(made.secret)
    return 0


async def stream_list(desk: Desk, args: Namespace) -> int:
    rows = await list_receivers(desk.admin, desk.streams, await find_tenant(desk.admin, args.tenant))
    print_table(("STREAM", "FORMAT", "STATE", "BEHIND", "TO", "LAST ERROR"), map(_row, rows))
    return 0


async def stream_remove(desk: Desk, args: Namespace) -> int:
    await remove_receiver(desk.admin, desk.streams, await find_tenant(desk.admin, args.tenant), args.stream)
    tell(f"stream {args.stream} is removed")
    return 0


async def stream_test(desk: Desk, args: Namespace) -> int:
    status = await test_receiver(desk.admin, desk.streams, await find_tenant(desk.admin, args.tenant), args.stream)
    taken = status in TAKEN
    tell(f"the receiver answered {status}" + ("; the stream goes on" if taken else ": it did not take the batch"))
    return 0 if taken else 1


def _row(row: Listed[StreamState]) -> tuple[str, ...]:
    state = row.state
    to = row.sink.shown if row.sink else "?"
    return (
        row.id,
        row.sink.format if row.sink else "?",
        standing(state, state.behind),
        str(state.behind),
        to,
        state.error or "-",
    )
