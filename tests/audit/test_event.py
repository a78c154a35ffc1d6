from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.event import (
    MAX_BYTES,
    SHOWN_TARGETS,
    SYSTEM,
    Actor,
    Event,
    Outcome,
    Phase,
    RequestFacts,
    Result,
    Target,
    decode,
    encode,
)
from gateway.ids.encoding import lp
from gateway.names import TenantId

TENANT = TenantId("aaaabbbbccccdddd")
EVENT = Event(
    tenant=TENANT,
    ts_us=1_700_000_000_000_000,
    type="responses.create",
    phase=Phase.OUTCOME,
    actor=Actor("user", "p" * 32, "https://idp.example", "jwt", "sealed", ("q" * 32,)),
    request=RequestFacts("req_1", "POST", "/v1/responses", "10.0.0.1", "a" * 16, 10, 20, 300, False, "gpt", 4, 5),
    outcome=Outcome(Result.DENY, "not_owned", 404, "policy-1"),
    targets=(Target("response", "resp_x"), Target("item", "msg_y")),
    changes={"visibility": "tenant", "count": 3, "shared": True, "before": None},
)


def encoded(event: Event) -> bytes:
    return encode(event, "w" * 24, 7, "0" * 64)


def test_an_event_is_one_line_of_json_with_sorted_keys() -> None:
    body = encoded(EVENT)
    fields = json.loads(body)
    assert json.dumps(fields, sort_keys=True, separators=(",", ":")).encode() == body
    assert b"\n" not in body
    assert fields["id"] == "w" * 24 + ".7"
    assert fields["outcome"] == {"policy": "policy-1", "reason": "not_owned", "result": "deny", "status": 404}


def test_an_event_that_fits_is_read_back_whole() -> None:
    assert decode(encoded(EVENT)) == EVENT
    bare = Event(TENANT, 1, "x.y", Phase.INTENT, SYSTEM)
    assert decode(encoded(bare)) == bare


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"tenant":1}', b"\xff", encoded(EVENT).replace(b"deny", b"deni")]
)
def test_what_is_no_event_is_not_read(body: bytes) -> None:
    with pytest.raises(ValueError, match="not an audit event"):
        decode(body)


def test_more_targets_than_are_shown_are_counted_and_digested() -> None:
    targets = tuple(Target("item", f"msg_{n}") for n in range(SHOWN_TARGETS + 8))
    fields = json.loads(encoded(replace(EVENT, targets=targets)))
    assert [target["id"] for target in fields["targets"]] == [target.id for target in targets[:SHOWN_TARGETS]]
    assert fields["targets_count"] == SHOWN_TARGETS + 8
    every = b"".join(lp(target.kind, target.id) for target in targets)
    assert fields["targets_digest"] == hashlib.sha256(every).hexdigest()


def test_a_text_that_makes_the_event_too_long_is_cut_and_named_by_its_hash() -> None:
    model = "m" * 5000
    fields = json.loads(encoded(replace(EVENT, request=RequestFacts("req_1", model=model))))
    digest = hashlib.sha256(model.encode()).hexdigest()[:16]
    assert fields["request"]["model"] == "m" * 111 + "~" + digest
    assert fields["cut"] == 1
    assert fields["outcome"]["reason"] == "not_owned"


def test_an_event_that_is_still_too_long_is_cut_further() -> None:
    targets = tuple(Target("vector_store_batch", "\x01" * 64) for _ in range(40))
    fields = json.loads(encoded(replace(EVENT, targets=targets)))
    assert fields["cut"] == 4
    assert len(fields["targets"]) == 4
    assert fields["targets_count"] == 40
    every = b"".join(lp(target.kind, target.id) for target in targets)
    assert fields["targets_digest"] == hashlib.sha256(every).hexdigest()


def test_text_that_is_no_utf_8_does_not_keep_an_event_out() -> None:
    fields = json.loads(encoded(replace(EVENT, request=RequestFacts("req_1", model="a\ud800b"))))
    assert fields["request"]["model"] == "a?b"


text = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    ["\x00" * 400, "\ud800" * 90, "€" * 300]
)
number = st.none() | st.integers(0, 2**63 - 1)
anything = st.builds(
    Event,
    tenant=st.just(TENANT),
    ts_us=st.integers(0, 2**62),
    type=text,
    phase=st.sampled_from(Phase),
    actor=st.builds(Actor, text, text, text, text, text, st.lists(text, max_size=6).map(tuple)),
    request=st.none()
    | st.builds(
        RequestFacts,
        text,
        text,
        text,
        text,
        text,
        number,
        number,
        number,
        st.none() | st.booleans(),
        text,
        number,
        number,
    ),
    outcome=st.none() | st.builds(Outcome, st.sampled_from(Result), text, st.integers(0, 599), text),
    targets=st.lists(st.builds(Target, text, text), max_size=3).flatmap(
        lambda few: st.integers(1, 40).map(lambda times: tuple(few * times))
    ),
    changes=st.dictionaries(text, text | st.booleans() | st.integers() | st.none(), max_size=8),
)


@given(anything)
def test_every_event_fits_and_is_sorted_whatever_stands_in_it(event: Event) -> None:
    body = encoded(event)
    assert len(body) <= MAX_BYTES
    assert body == encoded(event)
    assert decode(body).phase is event.phase


def test_the_worst_event_fits() -> None:
    worst = "\x01" * 5000
    event = replace(
        EVENT,
        tenant=TenantId(worst),
        type=worst,
        actor=Actor(worst, worst, worst, worst, worst, (worst,) * 9),
        request=RequestFacts(worst, worst, worst, worst, worst, 2**60, 2**60, 2**60, True, worst, 2**60, 2**60),
        outcome=Outcome(Result.UNKNOWN, worst, 599, worst),
        targets=(Target(worst, worst),) * 500,
        changes={chr(n) + worst: worst for n in range(2, 30)},
    )
    body = encoded(event)
    assert len(body) <= MAX_BYTES
    assert json.loads(body)["targets_count"] == 500
