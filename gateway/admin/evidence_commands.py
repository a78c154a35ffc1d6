"""`audit tail`, `export`, `proof`, `key`; and `audit verify`, which anybody runs, with a key and files alone."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.admin.administration import AdminInvalid
from gateway.admin.command_line import Ticker, command, of_tenant, tell, typed
from gateway.admin.desk import Desk
from gateway.admin.events import as_json, as_line, opened, tail
from gateway.admin.evidence import EVENT_ID, export_log, prove_event, public_keys
from gateway.admin.tenants import find_tenant
from gateway.audit.checkpoint import VerifierKey
from gateway.audit.layout import Unusable
from gateway.audit.offline import read_keys, verify_folder, verify_proof
from gateway.audit.proof import ProofRefused
from gateway.audit.report import describe, describe_proven
from gateway.audit.search.query import Field, Query, QueryRefused
from gateway.stores.contract import StoredEvent


def declare(audit: Any) -> None:
    tailing = of_tenant(audit, "tail", "a tenant's newest events; reading is recorded", audit_tail)
    tailing.add_argument("--follow", action="store_true", help="go on with further events until interrupted")
    tailing.add_argument("--open", action="store_true", help="with the personal fields, which is recorded too")
    tailing.add_argument("--json", action="store_true", help="events as they are stored, a line of JSON each")
    exporting = of_tenant(audit, "export", "write a tenant's log into a folder that proves it", audit_export)
    exporting.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="a new folder; one that was interrupted goes on"
    )
    exporting.add_argument("--since", type=_item("since"), action="append", dest="query", default=[], metavar="TIME",
        help="events from here on, as in 2026-11-30T12:00:00Z")  # fmt: skip
    exporting.add_argument(
        "--until", type=_item("until"), action="append", dest="query", metavar="TIME", help="events before"
    )
    exporting.add_argument("--filter", type=_filter, action="append", dest="query", metavar="NAME=VALUE",
        help=f"only these, each with a proof of its own; NAME!=VALUE leaves out; NAME is {', '.join(Field)}")  # fmt: skip
    verifying = command(
        audit, "verify", "prove an export or a proof, offline: 0 whole, 1 not, 2 unusable", run=audit_verify
    )
    verifying.add_argument("path", type=Path, metavar="PATH", help="the folder of an export, or a proof's file")
    verifying.add_argument("--key", type=Path, required=True, metavar="FILE", help="what `audit key` printed")
    verifying.add_argument(
        "--anchor", type=Path, metavar="FILE", help="checkpoints that were kept elsewhere before the export was made"
    )
    verifying.add_argument("--accept-loss", action="store_true", help="a loss that the log itself declares is no fault")
    proving = of_tenant(audit, "proof", "print the proof of one event", audit_proof)
    proving.add_argument("event", type=_event, metavar="EVENT", help="its ID, or its number in the log")
    of_tenant(audit, "key", "print the public key of a tenant's log", audit_key)


async def audit_tail(desk: Desk, args: Namespace) -> int:
    write, tenant = as_json if args.json else as_line, await find_tenant(desk.admin, args.tenant)
    keys = (await desk.admin.unlock(tenant)).keys.audit if args.open else None
    async for stored in tail(desk.admin, tenant, follow=args.follow, opens=args.open):
        print(write(stored, opened(keys, tenant, stored) if keys is not None else None), flush=True)
    return 0


async def audit_export(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.tenant)
    try:
        query = Query.parse(args.query)
    except QueryRefused as refused:
        raise AdminInvalid(str(refused)) from None
    manifest = await export_log(desk.admin, tenant, query, args.out, Ticker("events read"))
    tell(f"{manifest.count:,} events of {manifest.origin} are in {args.out}")
    tell(f"verify them with: python -m gateway audit verify {args.out} --key FILE")
    tell(f"FILE holds the public key: python -m gateway audit key {args.tenant} > FILE")
    return 0


async def audit_proof(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.tenant)
    print(await prove_event(desk.admin, tenant, args.event, Ticker("events read")), end="")
    return 0


async def audit_key(desk: Desk, args: Namespace) -> int:
    for line in await public_keys(desk.admin, await find_tenant(desk.admin, args.tenant)):
        print(line)
    return 0


def audit_verify(args: Namespace) -> int:
    """What is whole is said on standard output too: it is the command's result."""
    try:
        keys = read_keys(args.key)
        if args.path.is_file():
            return _verify_proof(args, keys)
        verdict = verify_folder(
            args.path, keys, args.anchor, accept_loss=args.accept_loss, progress=Ticker("events verified")
        )
    except Unusable as unusable:
        tell(f"error: {unusable}")
        return 2
    print(*describe(verdict), sep="\n")
    return 1 if verdict.findings else 0


def _verify_proof(args: Namespace, keys: tuple[VerifierKey, ...]) -> int:
    try:
        proven = verify_proof(args.path, keys, args.anchor)
    except ProofRefused as refused:
        print(f"NOT PROVEN: {refused.finding.text}", f"  {refused.finding.meaning}", sep="\n")
        return 1
    print(*describe_proven(proven), as_json(StoredEvent(proven.seq, proven.body)), sep="\n")
    return 0


def _item(name: str) -> Callable[[str], tuple[str, str]]:
    """An argument that is one part of a query, checked by itself."""

    def read(text: str) -> tuple[str, str]:
        Query.parse(((name, text),))
        return name, text

    return typed(read)


def _filter(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not given or name in ("since", "until", "last"):
        raise ArgumentTypeError("NAME=VALUE or NAME!=VALUE is expected")
    return _item(name)(value)


def _event(text: str) -> str:
    if not EVENT_ID.fullmatch(text):
        raise ArgumentTypeError("an event's ID or its number is expected")
    return text
