"""`deployment …`: each command calls one function and prints what it gives."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from gateway.admin.command_line import Ticker, command, group, tell
from gateway.admin.deployment import operator_log, retire_tag, rewrap
from gateway.admin.desk import Desk
from gateway.admin.events import as_sum


def declare(groups: Any) -> None:
    deployment = group(groups, "deployment", "the whole deployment: rewrap or retire-tag its keys, read its log")
    command(
        deployment,
        "rewrap",
        "wrap all keys anew by the root key that took the place of another",
        work=deployment_rewrap,
    )
    retiring = command(
        deployment,
        "retire-tag",
        "an emergency: every opaque ID of every tenant stops opening within a minute",
        work=deployment_retire_tag,
    )
    retiring.add_argument("--accept-loss", action="store_true", required=True, help="say so: nothing brings them back")

    log = command(
        deployment, "log", "what belongs to no tenant, such as calls without a genuine credential", work=deployment_log
    )
    log.add_argument("--json", action="store_true", help="one JSON object a line")


async def deployment_rewrap(desk: Desk, args: Namespace) -> int:
    done = await rewrap(desk.admin, Ticker("tenants"))
    tell(
        f"{done.keys} keys were wrapped anew; all keys of {done.tenants} tenants are under the root keys of the settings"
    )
    for tenant, why in done.left.items():
        tell(f"{tenant} is left: {why}")
    if done.left:
        tell("keep the previous keys in the settings, and give the command again")
    elif done.keys:
        tell(
            "give the command again once every gateway has the new keys; when it finds none, take the previous ones out"
        )
    else:
        tell(
            "nothing is left to do: if previous root keys are still in the settings, take them out, and keep them with the "
            "backups that they open"
        )
    return 1 if done.left else 0


async def deployment_retire_tag(desk: Desk, args: Namespace) -> int:
    done = await retire_tag(desk.admin, accept_loss=args.accept_loss)
    tell(f"the tag key is version {done.version} of 15: every older ID is dead within a minute, on every gateway")
    for tenant in done.unrecorded:
        tell(f"the log of {tenant} is halted and does not tell of it")
    return 0


async def deployment_log(desk: Desk, args: Namespace) -> int:
    async for line in operator_log(desk.admin):
        print(line.decode("utf-8", "replace") if args.json else as_sum(line), flush=True)
    return 0
