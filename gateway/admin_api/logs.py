"""A tenant's log, how it is kept, and what proves it: each function calls one of `gateway/admin/` and says what it gave."""

from __future__ import annotations

import orjson

from gateway.admin.events import opened, tail
from gateway.admin.evidence import prove_event, public_keys
from gateway.admin.keeping import hold, reseal_log, retain, set_anchor, standing
from gateway.admin_api.route import Answer, Call


async def log_status(call: Call) -> Answer:
    state, rules = await standing(call.admin, call.tenant)
    return {
        "events": state.seq,
        "signed": state.size,
        "anchored": state.anchored,
        "archived": state.trimmed,
        "epoch": state.epoch,
        "halted": state.halted or None,
        "days": rules.days,
        "hold": rules.hold,
        "anchor": bool(rules.webhook),
    }


async def log_tail(call: Call) -> Answer:
    opens = call.body["open"]
    keys = (await call.admin.unlock(call.tenant)).keys.audit if opens else None
    events = []
    async for stored in tail(call.admin, call.tenant, newest=call.body["newest"], opens=opens):
        personal = {"opened": opened(keys, call.tenant, stored)} if keys is not None else {}
        events.append({"seq": stored.seq, "event": _parsed(stored.body)} | personal)
    return {"events": events}


async def log_retain(call: Call) -> Answer:
    await retain(call.admin, call.tenant, call.body["days"])
    return {"days": call.body["days"]}


async def log_hold(call: Call) -> Answer:
    await hold(call.admin, call.tenant, call.body["on"])
    return {"hold": call.body["on"]}


async def log_anchor(call: Call) -> Answer:
    await set_anchor(call.admin, call.desk.streams.outgoing, call.tenant, call.body["url"] or "")
    return {"anchor": call.body["url"] is not None}


async def log_reseal(call: Call) -> Answer:
    done = await reseal_log(call.admin, call.tenant)
    return {"first": done.first, "last": done.last, "epoch": done.epoch, "not_anchored": done.not_anchored}


async def log_proof(call: Call) -> Answer:
    return {"proof": await prove_event(call.admin, call.tenant, call.body["event"])}


async def log_keys(call: Call) -> Answer:
    return {"keys": await public_keys(call.admin, call.tenant)}


def _parsed(body: bytes) -> object:
    """None: somebody has written what is no event to the log's place."""
    try:
        return orjson.loads(body)
    except ValueError:
        return None
