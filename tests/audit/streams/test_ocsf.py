"""The mapping against the published class: schema.ocsf.io/1.6.0/classes/api_activity and the objects that it names."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.chain import Writer
from gateway.audit.event import Actor, Event, EventType, Outcome, Phase, RequestFacts, Result, Target
from gateway.audit.streams.batch import Notice
from gateway.audit.streams.ocsf import to_ocsf
from gateway.names import TenantId
from gateway.surfaces.table import ROUTES

TENANT = TenantId("aaaabbbbccccdddd")
REQUIRED = (
    "activity_id", "actor", "api", "category_uid", "class_uid", "metadata", "severity_id", "src_endpoint", "time",
    "type_uid",
)  # fmt: skip
ENUMERATIONS = {
    "activity_id": {0, 1, 2, 3, 4, 99},
    "severity_id": {0, 1, 2, 3, 4, 5, 6, 99},
    "status_id": {0, 1, 2, 99},
    "type_uid": {600300, 600301, 600302, 600303, 600304, 600399},
}
KNOWN = {
    "": {
        *REQUIRED, "activity_name", "category_name", "class_name", "duration", "http_request", "http_response", "message",
        "raw_data", "resources", "severity", "status", "status_code", "status_detail", "status_id", "type_name", "unmapped",
    },
    "actor": {"app_uid", "user"},
    "api": {"operation", "request", "response", "service"},
    "http_request": {"http_method", "uid", "url"},
    "metadata": {"correlation_uid", "event_code", "log_name", "product", "sequence", "tenant_uid", "uid", "version"},
}  # fmt: skip
"""Attributes that the class and its objects have, of those that are used."""
ACTIONS = sorted({route.action for route in ROUTES} | {one.value for one in EventType} | {one.value for one in Notice})


def check(event: dict[str, Any]) -> None:
    assert all(name in event for name in REQUIRED)
    assert all(event[name] in allowed for name, allowed in ENUMERATIONS.items())
    assert (event["class_uid"], event["category_uid"]) == (6003, 6)
    assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
    assert isinstance(event["time"], int)
    for name, known in KNOWN.items():
        assert set(event.get(name, {}) if name else event) <= known
    assert event["metadata"]["version"] == "1.6.0"
    assert event["metadata"]["product"].keys() >= {"name", "vendor_name"}
    assert isinstance(event["api"]["operation"], str)
    assert "uid" in event["api"].get("request", {"uid": ""})
    assert event["actor"]["user"]["uid"]
    assert event["actor"]["user"]["type_id"] in {0, 1, 2, 3, 99}
    assert event["src_endpoint"].keys() & {"uid", "svc_name"}
    assert all(one["uid"] for one in event.get("resources", ()))
    assert isinstance(event.get("http_response", {}).get("code", 200), int)
    assert event.get("http_request", {}).get("http_method", "GET") in {"GET", "POST", "DELETE", "PUT", "PATCH"}
    orjson.dumps(event)


def stored(event: Event) -> bytes:
    return Writer("0" * 24).next(event)[1].body


@given(
    st.sampled_from(ACTIONS),
    st.sampled_from(Phase),
    st.one_of(st.none(), st.builds(Outcome, st.sampled_from(Result), st.sampled_from(("", "not_owned")), st.integers(0, 599))),
    st.one_of(st.none(), st.builds(RequestFacts, st.text(max_size=8), st.sampled_from(("", "GET", "BREW")), st.text(max_size=8))),
    st.builds(Actor, st.sampled_from(("user", "service", "operator", "system")), st.sampled_from(("", "a" * 24))),
)  # fmt: skip
def test_every_event_has_what_the_class_requires_and_nothing_that_it_does_not_know(
    action: str, phase: Phase, outcome: Outcome | None, request: RequestFacts | None, actor: Actor
) -> None:
    targets = (Target("response", "resp_x"),)
    event = Event(TENANT, 1_790_000_000_123_456, action, phase, actor, request, outcome, targets, {"count": 1})
    body = stored(event)
    mapped = to_ocsf(7, body, TENANT)
    check(mapped)
    assert mapped["time"] == 1_790_000_000_123
    assert mapped["raw_data"].encode() == body
    assert (mapped["metadata"]["sequence"], mapped["metadata"]["tenant_uid"]) == (7, TENANT)


@given(st.one_of(st.binary(max_size=64), st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(("actor", "request", "outcome", "targets", "type", "ts", "kind", "id", "chain", "status", "duration_us")),
        inner, max_size=6),
).map(orjson.dumps)))  # fmt: skip
def test_what_nobody_of_ours_wrote_is_mapped_too(body: bytes) -> None:
    mapped = to_ocsf(1, body, TENANT)
    assert all(name in mapped for name in REQUIRED)
    assert all(mapped[name] in allowed for name, allowed in ENUMERATIONS.items())
    orjson.dumps(mapped)


@pytest.mark.parametrize("depth", [250, 251, 252, 253, 254, 900])
def test_what_is_nested_too_deeply_to_be_sent_on_holds_no_stream_up(depth: int) -> None:
    body = b'{"type":"files.create","changes":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    mapped = to_ocsf(1, body, TENANT)
    orjson.dumps(mapped)
    assert mapped["raw_data"].encode() == body


@pytest.mark.parametrize(
    ("action", "activity"),
    [
        ("responses.create", 1),
        ("responses.retrieve", 2),
        ("conversations.update", 3),
        ("files.delete", 4),
        ("images.generate", 1),
        ("responses.compact", 99),
        ("audit.read", 2),
        ("stream.remove", 4),
    ],
)
def test_a_types_last_part_says_the_activity(action: str, activity: int) -> None:
    event = Event(TENANT, 1, action, Phase.SINGLE, Actor("operator"), None, Outcome(Result.ALLOW))
    assert to_ocsf(1, stored(event), TENANT)["activity_id"] == activity


@pytest.mark.parametrize(
    ("result", "reason", "status", "severity"),
    [
        (Result.ALLOW, "", 1, 1),
        (Result.ACCEPTED, "", 1, 1),
        (Result.DENY, "not_owned", 2, 2),
        (Result.DENY, "foreign_or_retired", 2, 4),
        (Result.ERROR, "upstream_error", 2, 3),
        (Result.UNKNOWN, "", 0, 3),
    ],
)
def test_the_result_says_status_and_severity(result: Result, reason: str, status: int, severity: int) -> None:
    facts = Outcome(result, reason, 404)
    event = Event(TENANT, 1, "responses.create", Phase.OUTCOME, Actor("user", "a" * 24), None, facts)
    mapped = to_ocsf(1, stored(event), TENANT)
    assert (mapped["status_id"], mapped["severity_id"]) == (status, severity)
    assert mapped.get("status_detail", "") == reason


def test_most_of_the_routes_actions_have_an_activity_of_their_own() -> None:
    routes = sorted({route.action for route in ROUTES})
    events = [Event(TENANT, 1, action, Phase.INTENT, Actor("user", "a")) for action in routes]
    others = [event.type for event in events if to_ocsf(1, stored(event), TENANT)["activity_id"] == 99]
    assert len(others) < len(routes) / 5
