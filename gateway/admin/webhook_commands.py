"""`webhook …`: each command calls one function and prints what it gives."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from gateway.admin.command_line import group, of_tenant, print_table, standing, tell, when
from gateway.admin.desk import Desk
from gateway.admin.receivers import list_receivers, remove_receiver, test_receiver
from gateway.admin.tenants import find_tenant
from gateway.admin.webhooks import add_webhook, dead_letters, replay_webhook, rotate_webhook
from gateway.audit.receivers import TAKEN, Listed
from gateway.stores.webhooks import WebhookState
from gateway.webhooks.registry import Dead


def declare(groups: Any) -> None:
    webhooks = group(groups, "webhook", "a tenant's receivers of the service's webhooks: add, list, test, and more")
    adding = of_tenant(webhooks, "add", "enter a receiver; prints its secret alone", webhook_add)
    adding.add_argument("url", metavar="URL", help="the https address that events are posted to")
    of_tenant(webhooks, "list", "a tenant's webhooks, and what waits for each", webhook_list)
    replaying = of_tenant(webhooks, "replay", "send dead letters again, all or one", webhook_replay)
    for one in (
        of_tenant(webhooks, "test", "send a signed event that is about nothing", webhook_test),
        of_tenant(webhooks, "rotate", "make a new secret; prints it alone", webhook_rotate),
        of_tenant(webhooks, "remove", "end a webhook and all that waits for it", webhook_remove),
        of_tenant(webhooks, "dead", "what was given up and can be sent again", webhook_dead),
        replaying,
    ):
        one.add_argument("webhook", metavar="WEBHOOK", help="as `webhook list` shows it")
    replaying.add_argument("message", nargs="?", metavar="MESSAGE", help="one, as `webhook dead` shows it")


async def webhook_add(desk: Desk, args: Namespace) -> int:
    made = await add_webhook(desk.admin, desk.webhooks, await find_tenant(desk.admin, args.tenant), args.url)
    tell(f"webhook {made.id} begins; its events are signed with this secret, which is shown this once:")
    print(made.secret)
    return 0


async def webhook_list(desk: Desk, args: Namespace) -> int:
    rows = await list_receivers(desk.admin, desk.webhooks, await find_tenant(desk.admin, args.tenant))
    print_table(("WEBHOOK", "STATE", "WAITING", "DEAD", "TO", "LAST ERROR"), map(_row, rows))
    return 0


async def webhook_remove(desk: Desk, args: Namespace) -> int:
    await remove_receiver(desk.admin, desk.webhooks, await find_tenant(desk.admin, args.tenant), args.webhook)
    tell(f"webhook {args.webhook} is removed, with all that waited for it")
    return 0


async def webhook_rotate(desk: Desk, args: Namespace) -> int:
    made = await rotate_webhook(desk.admin, desk.webhooks, await find_tenant(desk.admin, args.tenant), args.webhook)
    tell("for a day, events are signed with the old secret and with this one, which is shown this once:")
    print(made.secret)
    return 0


async def webhook_test(desk: Desk, args: Namespace) -> int:
    status = await test_receiver(desk.admin, desk.webhooks, await find_tenant(desk.admin, args.tenant), args.webhook)
    taken = status in TAKEN
    tell(f"the receiver answered {status}" + ("; what waits goes out now" if taken else ": it did not take the event"))
    return 0 if taken else 1


async def webhook_dead(desk: Desk, args: Namespace) -> int:
    letters = await dead_letters(desk.admin, desk.webhooks, await find_tenant(desk.admin, args.tenant), args.webhook)
    print_table(("MESSAGE", "CAME", "GIVEN UP", "ATTEMPTS", "EVENT", "OBJECT", "ERROR"), map(_letter, letters))
    return 0


async def webhook_replay(desk: Desk, args: Namespace) -> int:
    tenant = await find_tenant(desk.admin, args.tenant)
    replayed = await replay_webhook(desk.admin, desk.webhooks, tenant, args.webhook, args.message or "")
    tell(f"{replayed} dead letters wait for their delivery again")
    return 0


def _row(row: Listed[WebhookState]) -> tuple[str, ...]:
    state = row.state
    to = row.sink.shown if row.sink else "?"
    return row.id, standing(state, state.waiting), str(state.waiting), str(state.dead), to, state.error or "-"


def _letter(dead: Dead) -> tuple[str, ...]:
    letter, content = dead.letter, dead.content
    said = (content.type, content.target.id) if content else ("?", "?")
    times = [when(moment_ms / 1000, ":%S") for moment_ms in (letter.message.put_ms, letter.died_ms)]
    return letter.message.id, *times, str(letter.attempts), *said, letter.error
