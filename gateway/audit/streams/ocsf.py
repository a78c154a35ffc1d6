"""An audit event as OCSF's API Activity, class 6003 (schema.ocsf.io, version 1.6.0). Pure.

Required there, and always here: `activity_id`, `actor` (with a user that has a `uid`), `api` (with its `operation`),
`category_uid`, `class_uid`, `metadata` (with `product` and `version`), `severity_id`, `src_endpoint` (with one of its names),
`time` (ms) and `type_uid`. A number that ends in `_id` is one of its enumeration; 0 is Unknown and 99 Other.
The stored bytes go along whole as `raw_data`, so that what the receiver keeps can be proved against a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

import gateway
from gateway.audit.lenient import caller, part, parts, text

SCHEMA: Final = "1.6.0"
CATEGORY: Final = 6
CLASS: Final = 6003

_CREATE, _READ, _UPDATE, _DELETE, _OTHER = 1, 2, 3, 4, 99
_ACTIVITIES: Final = {
    "add": _CREATE,
    "adopt": _CREATE,
    "cancel": _UPDATE,
    "checkpoints": _READ,
    "complete": _UPDATE,
    "content": _READ,
    "create": _CREATE,
    "create_variation": _CREATE,
    "dead": _READ,
    "delete": _DELETE,
    "edit": _CREATE,
    "events": _READ,
    "export": _READ,
    "generate": _CREATE,
    "input_items": _READ,
    "input_tokens": _READ,
    "list": _READ,
    "list_files": _READ,
    "pause": _UPDATE,
    "prove": _READ,
    "read": _READ,
    "remove": _DELETE,
    "resume": _UPDATE,
    "retire": _UPDATE,
    "retrieve": _READ,
    "revoke": _UPDATE,
    "rewrap": _UPDATE,
    "rotate": _UPDATE,
    "search": _READ,
    "show": _READ,
    "suspend": _UPDATE,
    "update": _UPDATE,
    "view": _READ,
}
"""By the last part of an event's type; what is not here is Other."""
_ACTIVITY_NAMES: Final = {_CREATE: "Create", _READ: "Read", _UPDATE: "Update", _DELETE: "Delete"}

_STATUSES: Final = {
    "accepted": (1, "Success"),
    "allow": (1, "Success"),
    "deny": (2, "Failure"),
    "error": (2, "Failure"),
}
"""`status_id` and `status` by result; an intent has none yet, and of one that was closed by the sweeper nobody knows."""

_INFORMATIONAL, _LOW, _MEDIUM, _HIGH, _CRITICAL = (
    (1, "Informational"), (2, "Low"), (3, "Medium"), (4, "High"), (5, "Critical"),
)  # fmt: skip
_SEVERITIES: Final = {"deny": _LOW, "error": _MEDIUM, "unknown": _MEDIUM}
_GRAVE: Final = {
    "foreign_or_retired": _HIGH,
    "log.resealed": _CRITICAL,
    "refusals.summed": _MEDIUM,
    "stream.cut": _CRITICAL,
    "stream.gap": _HIGH,
    "stream.invented": _CRITICAL,
    "stream.replaced": _CRITICAL,
    "tag.retire": _HIGH,
}
"""By type or reason, before the result counts."""

_USER_TYPES: Final = {"user": (1, "User"), "operator": (2, "Admin"), "system": (3, "System")}
_METHODS: Final = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})


def to_ocsf(seq: int | None, body: bytes, tenant: str) -> dict[str, Any]:
    """Of any stored bytes: what cannot be read is an Other activity that says no more than where it stands and what it is.

    `seq`: the event's number in the log; None: it is not in the log.
    """
    event = _read(body)
    actor, request, outcome = part(event, "actor"), part(event, "request"), part(event, "outcome")
    kind, result, reason = (
        text(event, "type") or "event.unreadable",
        text(outcome, "result"),
        text(outcome, "reason"),
    )
    verb = kind.rpartition(".")[2]
    activity = _ACTIVITIES.get(verb, _OTHER)
    severity = _GRAVE.get(kind) or _GRAVE.get(reason) or _SEVERITIES.get(result, _INFORMATIONAL)
    status = _STATUSES.get(result, (0, "Unknown"))
    ts_us = event.get("ts")
    return _without_empty(
        {
            "activity_id": activity,
            "activity_name": _ACTIVITY_NAMES.get(activity, verb),
            "actor": _actor(actor),
            "api": {
                "operation": kind,
                "request": {"uid": text(request, "id")} if text(request, "id") else None,
                "response": {"code": outcome.get("status"), "error": reason} if outcome.get("status") else None,
                "service": {"name": "coatcheck"},
            },
            "category_name": "Application Activity",
            "category_uid": CATEGORY,
            "class_name": "API Activity",
            "class_uid": CLASS,
            "duration": _milliseconds(request.get("duration_us")),
            "http_request": _http_request(request),
            "http_response": {"code": outcome["status"]} if outcome.get("status") else None,
            "message": " ".join(filter(None, (kind, result or text(event, "phase"), reason))),
            "metadata": {
                "correlation_uid": text(request, "id"),
                "event_code": kind,
                "log_name": "audit",
                "product": {"name": "Coatcheck", "vendor_name": "Coatcheck", "version": gateway.__version__},
                "sequence": seq,
                "tenant_uid": tenant,
                "uid": text(event, "id"),
                "version": SCHEMA,
            },
            "raw_data": body.decode("utf-8", "backslashreplace"),
            "resources": [{"type": text(one, "kind"), "uid": text(one, "id")} for one in parts(event, "targets")],
            "severity": severity[1],
            "severity_id": severity[0],
            "src_endpoint": {"uid": text(request, "network")}
            if text(request, "network")
            else {"svc_name": "coatcheck"},
            "status": status[1],
            "status_code": str(outcome["status"]) if outcome.get("status") else None,
            "status_detail": reason,
            "status_id": status[0],
            "time": ts_us // 1000 if isinstance(ts_us, int) else 0,
            "type_name": f"API Activity: {_ACTIVITY_NAMES.get(activity, 'Other')}",
            "type_uid": CLASS * 100 + activity,
            "unmapped": _unmapped(event, request, outcome),
        }
    )


def _actor(actor: Mapping[str, Any]) -> dict[str, Any]:
    """People stand in the log as pseudonyms, and so they do here."""
    kind = text(actor, "kind") or "unknown"
    number, name = _USER_TYPES.get(kind, (_OTHER, kind))
    return {
        "app_uid": caller(actor),
        "user": {
            "domain": text(actor, "issuer"),
            "type": name,
            "type_id": number,
            "uid": text(actor, "pseudonym") or kind,
        },
    }


def _http_request(request: Mapping[str, Any]) -> dict[str, Any] | None:
    method, route = text(request, "method"), text(request, "route")
    if not method and not route:
        return None
    return {
        "http_method": method if method in _METHODS else None,
        "uid": text(request, "id"),
        "url": {"path": route} if route else None,
    }


def _unmapped(event: Mapping[str, Any], request: Mapping[str, Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    """What OCSF has no place for, under our names."""
    return {
        "bytes_in": request.get("bytes_in"),
        "bytes_out": request.get("bytes_out"),
        "changes": event.get("changes"),
        "model": request.get("model"),
        "phase": event.get("phase"),
        "policy": outcome.get("policy"),
        "stream": request.get("stream"),
        "targets_count": event.get("targets_count"),
        "tokens_in": request.get("tokens_in"),
        "tokens_out": request.get("tokens_out"),
    }


def _read(body: bytes) -> Mapping[str, Any]:
    try:
        event = orjson.loads(body)
        # What is nested so deeply that it cannot be sent on, a step further in, would hold up the whole stream.
        orjson.dumps([event])
    except (ValueError, orjson.JSONEncodeError):
        return {}
    return event if isinstance(event, dict) else {}


def _milliseconds(duration_us: object) -> int | None:
    return duration_us // 1000 if isinstance(duration_us, int) else None


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    """An attribute is left out where nothing is known; a number is never nothing."""
    kept = {}
    for name, held in value.items():
        inner = _without_empty(held) if isinstance(held, dict) else held
        if inner is not None and inner not in ("", {}, []):
            kept[name] = inner
    return kept
