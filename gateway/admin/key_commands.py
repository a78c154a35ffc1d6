"""`key …`: each command calls one function and prints what it gives. A key is printed once, alone."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from gateway.admin.command_line import command, group, of_tenant, print_table, tell, typed, when
from gateway.admin.desk import Desk
from gateway.admin.keys import (
    LOCAL_ISSUER,
    ListedKey,
    NewKey,
    create_key,
    list_keys,
    parse_lifetime,
    revoke_key,
    rotate_key,
)
from gateway.admin.tenants import find_tenant
from gateway.authn.api_key_form import KeyId
from gateway.names import Owner


def declare(groups: Any) -> None:
    keys = group(groups, "key", "gateway API keys: create, list, rotate, revoke")
    create = of_tenant(keys, "create", "make a key; prints it alone on standard output", key_create)
    create.add_argument("--subject", required=True, metavar="SUB", help="whose key it is: a person or a service")
    create.add_argument("--issuer", default=LOCAL_ISSUER, help="who names the subject (default: %(default)s)")
    create.add_argument("--service", action="store_true", help="the key of a service, not of a person")
    create.add_argument(
        "--scope",
        action="append",
        default=[],
        metavar="S",
        help="act_as:ISSUER lets a service speak for its users, webhooks:write change its tenant's webhooks",
    )
    create.add_argument(
        "--expires", type=typed(parse_lifetime), metavar="TIME", help="90d, 12h or 30m (default: never)"
    )
    of_tenant(keys, "list", "a tenant's keys, without the keys themselves", key_list)
    rotate = command(keys, "rotate", "make a key in the place of one; prints it alone", work=key_rotate)
    revoke = command(keys, "revoke", "refuse a key from now on", work=key_revoke)
    for one in (rotate, revoke):
        one.add_argument("key_id", type=typed(KeyId.parse), metavar="KEY_ID", help="as `key list` shows it")
    rotate.add_argument(
        "--grace", type=typed(parse_lifetime), default="1h", metavar="TIME", help="how long the old key works on (1h)"
    )


async def key_create(desk: Desk, args: Namespace) -> int:
    tenant, owner = await find_tenant(desk.admin, args.tenant), Owner(args.issuer, args.subject)
    made = await create_key(desk.admin, tenant, owner, service=args.service, scopes=args.scope, lifetime_s=args.expires)
    return _show(made, f"for {owner} of tenant {tenant}")


async def key_list(desk: Desk, args: Namespace) -> int:
    rows = [_row(key) for key in await list_keys(desk.admin, await find_tenant(desk.admin, args.tenant))]
    print_table(("KEY ID", "STATE", "EXPIRES", "CREATED", "KIND", "OWNER", "SCOPES"), rows)
    return 0


async def key_rotate(desk: Desk, args: Namespace) -> int:
    made = await rotate_key(desk.admin, args.key_id, grace_s=args.grace)
    return _show(made, f"in the place of {args.key_id}")


async def key_revoke(desk: Desk, args: Namespace) -> int:
    await revoke_key(desk.admin, args.key_id)
    tell(f"{args.key_id} is revoked: it is refused from now on")
    return 0


def _row(key: ListedKey) -> tuple[str, ...]:
    record, row = key.record, (str(key.id), key.state, when(key.expires))
    if record is None:
        return *row, "?", "?", "?", "?"
    return *row, when(record.created), record.kind.value, str(record.owner), " ".join(record.scopes)


def _show(made: NewKey, whose: str) -> int:
    tell(f"key {made.id} {whose}. It is shown this once and stored nowhere:")
    print(made.key)
    return 0
