"""A tenant's webhooks and the streams of its log: each function calls one of `gateway/admin/` and says what it gave."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.admin.receivers import list_receivers, remove_receiver, test_receiver
from gateway.admin.streams import add_stream
from gateway.admin.webhooks import add_webhook, dead_letters, replay_webhook, rotate_webhook
from gateway.admin_api.route import Answer, Call
from gateway.audit.receivers import TAKEN, Listed, NewReceiver
from gateway.stores.streams import StreamState
from gateway.stores.webhooks import WebhookState
from gateway.webhooks.registry import Dead


async def webhook_add(call: Call) -> Answer:
    return _new(await add_webhook(call.admin, call.desk.webhooks, call.tenant, call.body["url"]))


async def webhook_list(call: Call) -> Answer:
    rows = await list_receivers(call.admin, call.desk.webhooks, call.tenant)
    return {"webhooks": [_shown(row) | {"waiting": row.state.waiting, "dead": row.state.dead} for row in rows]}


async def webhook_test(call: Call) -> Answer:
    return _tried(await test_receiver(call.admin, call.desk.webhooks, call.tenant, call.names["webhook"]))


async def webhook_rotate(call: Call) -> Answer:
    return _new(await rotate_webhook(call.admin, call.desk.webhooks, call.tenant, call.names["webhook"]))


async def webhook_dead(call: Call) -> Answer:
    letters = await dead_letters(call.admin, call.desk.webhooks, call.tenant, call.names["webhook"])
    return {"dead": _letters(letters)}


async def webhook_replay(call: Call) -> Answer:
    message = call.body["message"] or ""
    return {
        "replayed": await replay_webhook(call.admin, call.desk.webhooks, call.tenant, call.names["webhook"], message)
    }


async def webhook_remove(call: Call) -> Answer:
    await remove_receiver(call.admin, call.desk.webhooks, call.tenant, call.names["webhook"])
    return {"removed": True}


async def stream_add(call: Call) -> Answer:
    said = call.body
    return _new(
        await add_stream(
            call.admin, call.desk.streams, call.tenant, said["url"], said["format"], from_start=said["whole"]
        )
    )


async def stream_list(call: Call) -> Answer:
    rows = await list_receivers(call.admin, call.desk.streams, call.tenant)
    return {"streams": [_shown(row) | {"format": _format(row), "behind": row.state.behind} for row in rows]}


async def stream_test(call: Call) -> Answer:
    return _tried(await test_receiver(call.admin, call.desk.streams, call.tenant, call.names["stream"]))


async def stream_remove(call: Call) -> Answer:
    await remove_receiver(call.admin, call.desk.streams, call.tenant, call.names["stream"])
    return {"removed": True}


def _new(made: NewReceiver) -> Answer:
    return {"id": made.id, "secret": made.secret}


def _tried(status: int) -> Answer:
    return {"status": status, "taken": status in TAKEN}


def _shown(row: Listed[WebhookState] | Listed[StreamState]) -> dict[str, object]:
    state = row.state
    return {
        "id": row.id,
        "to": row.sink.shown if row.sink else None,
        "stopped": state.stopped,
        "failures": state.failures,
        "retry_in_s": max(0, round(state.retry_in_s)),
        "error": state.error or None,
    }


def _format(row: Listed[StreamState]) -> str | None:
    return row.sink.format if row.sink else None


def _letters(letters: Sequence[Dead]) -> list[dict[str, object]]:
    return [
        {
            "message": dead.letter.message.id,
            "came_ms": dead.letter.message.put_ms,
            "died_ms": dead.letter.died_ms,
            "attempts": dead.letter.attempts,
            "event": dead.content.type if dead.content else None,
            "object": dead.content.target.id if dead.content else None,
            "error": dead.letter.error,
        }
        for dead in letters
    ]
