"""Every route of the admin API, and which of them a tenant's own service may call. There is no other."""

from __future__ import annotations

from typing import Any, Final

from gateway.admin.evidence import EVENT_ID
from gateway.admin.keys import LOCAL_ISSUER, parse_lifetime
from gateway.admin_api import logs, receivers, tenants
from gateway.admin_api.route import Row, agreed, flag, given_flag, number, text, texts
from gateway.audit.streams.batch import Format
from gateway.authn.scopes import Scope
from gateway.names import Owner
from gateway.stores.log import MOST_DAYS

OF_TENANT: Final = "/tenants/{tenant}"
_ID: Final = {"id": "the tenant's ID"}
_KEY: Final = {"id": "its ID, by which it is rotated and revoked", "key": "the key, this once"}
_SECRET: Final = {"id": "its ID", "secret": "what is sent is signed with it; this once"}
_TRIED: Final = {"status": "what the receiver answered", "taken": "whether that was 2xx: what waits goes out now"}
_REMOVED: Final = {"removed": "true"}
_OWN: Final = Scope.WEBHOOKS_WRITE


def _one_of(allowed: type[Format]) -> Any:
    def parse(value: str) -> Format:
        try:
            return allowed(value)
        except ValueError:
            raise ValueError(f"must be one of {', '.join(allowed)}") from None

    return parse


def _event(value: str) -> str:
    if not EVENT_ID.fullmatch(value):
        raise ValueError("must be an event's ID or its number in the log, as a text")
    return value


def _tenant(method: str, path: str, does: str, run: Any, answer: dict[str, str], **more: Any) -> Row:
    return Row(method, OF_TENANT + path, does, run, answer, **more)


ROWS: Final = (
    Row("GET", "/tenants", "all tenants", tenants.tenant_list, {"tenants": "each with `id`, `state` and `name`"}),
    Row(
        "POST", "/tenants", "make a tenant", tenants.tenant_create, _ID, status=201,
        body={"name": text("for people; the ID is what counts", required=True)},
    ),
    _tenant("POST", "/suspend", "refuse all its calls from now on", tenants.tenant_suspend, {**_ID, "state": "suspended"}),
    _tenant("POST", "/resume", "let its calls through again", tenants.tenant_resume, {**_ID, "state": "active"}),
    _tenant(
        "POST", "/rotate", "give it new storage and audit keys, or a new identity key", tenants.tenant_rotate,
        {"versions": "the new version by purpose"},
        body={
            "identity": flag("an emergency: a new identity key instead, and every ID that it holds is dead"),
            "accept_loss": flag("say so, with `identity`"),
        },
    ),
    _tenant(
        "POST", "/erase", "delete its objects at the service, then all of it but its log, then its keys; what broke off goes on",
        tenants.tenant_erase,
        {"deleted": "objects at the service", "left": "each with `kind`, `id`, `why`", "report": "the signed report"},
        body={"leave": flag("finish although some objects are left; the report lists them")},
    ),
    _tenant(
        "GET", "/keys", "its API keys, without the keys themselves", tenants.key_list,
        {"keys": "each with `id`, `state`, `expires` and `created` (UTC seconds or null), `kind`, `owner`, `scopes`"},
    ),
    _tenant(
        "POST", "/keys", "make an API key", tenants.key_create, _KEY, status=201,
        body={
            "subject": text("whose key it is: a person or a service", required=True),
            "issuer": text("who names the subject", default=LOCAL_ISSUER),
            "service": flag("the key of a service, not of a person"),
            "scopes": texts("of a service: `act_as:ISSUER`, `webhooks:write`"),
            "expires": text("after so long: 90d, 12h or 30m; left out: never", parse=parse_lifetime),
        },
    ),
    _tenant(
        "POST", "/keys/{key}/rotate", "make a key in the place of one", tenants.key_rotate, _KEY, status=201,
        body={"grace": text("how long the old key works on; left out: 1h", parse=parse_lifetime, default=3600)},
    ),
    _tenant("POST", "/keys/{key}/revoke", "refuse a key from now on", tenants.key_revoke, {"state": "revoked"}),
    _tenant(
        "POST", "/ids", "enter an ID of the service as somebody's", tenants.id_adopt, {"id": "the opaque ID"},
        body={
            "raw": text("the service's ID of an object", required=True),
            "owner": text("ISSUER#SUBJECT, whose it becomes", parse=Owner.parse, required=True),
            "upstream": text("the key that made it, as the settings call it; left out: the first"),
        },
    ),
    _tenant(
        "POST", "/ids/{opaque}/show", "tell the service's ID behind an opaque one", tenants.id_show,
        {"raw": "the service's ID", "kind": "of the object", "owner": "ISSUER#SUBJECT", "deleted": "whether it was deleted"},
    ),
    _tenant(
        "GET", "/webhooks", "its webhooks, and what waits for each", receivers.webhook_list,
        {"webhooks": "each with `id`, `to`, `waiting`, `dead`, `failures`, `retry_in_s`, `stopped`, `error`"}, scope=_OWN,
    ),
    _tenant(
        "POST", "/webhooks", "enter a receiver of the service's webhooks", receivers.webhook_add, _SECRET, status=201,
        body={"url": text("the https address that events are posted to", required=True)}, scope=_OWN,
    ),
    _tenant("POST", "/webhooks/{webhook}/test", "send a signed event that is about nothing", receivers.webhook_test, _TRIED,
        scope=_OWN),
    _tenant("POST", "/webhooks/{webhook}/rotate", "make a new secret; for a day both sign", receivers.webhook_rotate, _SECRET,
        scope=_OWN),
    _tenant(
        "GET", "/webhooks/{webhook}/dead", "what was given up", receivers.webhook_dead,
        {"dead": "each with `message`, `came_ms`, `died_ms` (UTC), `attempts`, `event`, `object`, `error`"}, scope=_OWN,
    ),
    _tenant(
        "POST", "/webhooks/{webhook}/replay", "send it again, all or one", receivers.webhook_replay,
        {"replayed": "how many wait again"}, body={"message": text("one; left out: all")}, scope=_OWN,
    ),
    _tenant("DELETE", "/webhooks/{webhook}", "end a webhook and all that waits for it", receivers.webhook_remove, _REMOVED,
        scope=_OWN),
    _tenant(
        "GET", "/streams", "the streams of its log, and how far each is", receivers.stream_list,
        {"streams": "each with `id`, `to`, `format`, `behind`, `failures`, `retry_in_s`, `stopped`, `error`"},
    ),
    _tenant(
        "POST", "/streams", "begin a stream", receivers.stream_add, _SECRET, status=201,
        body={
            "url": text("the https address that batches are posted to", required=True),
            "format": text("json or ocsf", parse=_one_of(Format), default=Format.JSON),
            "whole": flag("begin with the log's first event, not with what follows"),
        },
    ),
    _tenant("POST", "/streams/{stream}/test", "send a signed batch of no events", receivers.stream_test, _TRIED),
    _tenant("DELETE", "/streams/{stream}", "end a stream", receivers.stream_remove, _REMOVED),
    _tenant(
        "GET", "/log", "how far its log goes and how it is kept", logs.log_status,
        {
            "events": "the newest one's number", "signed": "up to here", "anchored": "up to here", "archived": "up to here",
            "epoch": "of its origin", "halted": "why, or null", "days": "of retention: 0 for ever, null as the settings say",
            "hold": "whether a legal hold is on", "anchor": "whether it has one of its own",
        },
    ),
    _tenant(
        "POST", "/log/tail", "its newest events", logs.log_tail,
        {"events": "each with `seq` and `event`, and `opened` where that was asked for"},
        body={
            "newest": number("how many; left out: 20", 1, 500, default=20),
            "open": flag("with the personal fields, which is recorded too"),
        },
    ),
    _tenant(
        "POST", "/log/retain", "how long events stay before they go to the archive", logs.log_retain, {"days": "as given"},
        body={"days": number("0 for ever, null as the settings say", 0, MOST_DAYS, nullable=True)},
    ),
    _tenant(
        "POST", "/log/hold", "a legal hold: nothing leaves the log meanwhile", logs.log_hold, {"hold": "as given"},
        body={"on": given_flag("whether it is on")},
    ),
    _tenant(
        "POST", "/log/anchor", "where its checkpoints are sent as well", logs.log_anchor, {"anchor": "whether it has one"},
        body={"url": text("an https address; null: nowhere", required=True, nullable=True)},
    ),
    _tenant(
        "POST", "/log/reseal", "let a halted log go on; the log says what was lost", logs.log_reseal,
        {
            "first": "the event that says so", "last": "the highest number that is known to be lost",
            "epoch": "of its origin from here on", "not_anchored": "anchors that did not take it yet",
        },
        body={"accept_loss": agreed("say so: nothing brings them back")},
    ),
    _tenant(
        "POST", "/log/proof", "the proof of one event, as a file's text", logs.log_proof, {"proof": "for `audit verify`"},
        body={"event": text("its ID, or its number in the log", parse=_event, required=True)},
    ),
    _tenant("GET", "/log/keys", "the public keys of its log", logs.log_keys, {"keys": "the newest first"}),
)  # fmt: skip
"""Each is the operator's. Those with a scope are served to the tenant's own services too, without the tenant in the path."""
