"""Who did what to an object, read out of single events."""

from __future__ import annotations

from gateway.audit.event import Actor, Event, Outcome, Phase, RequestFacts, Result, Target, encode
from gateway.console.reading import Row, read
from gateway.console.story import steps
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.stores.contract import StoredEvent

ACME = TenantId("acmeacmeacmeacme")
KEYS = Versions({1: AuditKeys.derive(b"k" * 32)}, 1)
CONVERSATION = Target("conversation", "conv_x")
ALICE, OPERATOR = Actor("user", "a" * 24), Actor("operator")


def rows(*events: tuple[str, Actor, str, str, bool]) -> list[Row]:
    """Of type, actor, request ID, result (empty: an intent), and whether the conversation stands in it."""
    found = []
    for seq, (type_, actor, request, result, named) in enumerate(events, 1):
        outcome = Outcome(Result(result), "", 200) if result else None
        facts = RequestFacts(request, "POST") if request else None
        phase = Phase.OUTCOME if result else Phase.INTENT
        event = Event(ACME, seq, type_, phase, actor, facts, outcome, (CONVERSATION,) if named else ())
        found.append(read(StoredEvent(seq, encode(event, "w", seq, "0" * 64)), ACME, KEYS))
    return found


def verbs(*events: tuple[str, Actor, str, str, bool]) -> list[str]:
    return [step.verb for step in steps("conv_x", rows(*events))]


def test_what_an_outcome_alone_names_was_made_by_it() -> None:
    create = (
        ("conversations.create", ALICE, "req_1", "", False),
        ("conversations.create", ALICE, "req_1", "allow", True),
    )
    assert verbs(*create) == ["created"]


def test_what_an_intent_names_was_there_before() -> None:
    assert verbs(
        ("responses.create", ALICE, "req_1", "", True), ("responses.create", ALICE, "req_1", "allow", False)
    ) == ["continued"]
    assert verbs(("responses.create", ALICE, "req_1", "", True)) == ["tried"]
    assert verbs(
        ("responses.create", ALICE, "req_1", "", True), ("responses.create", ALICE, "req_1", "error", False)
    ) == ["tried"]


def test_a_request_that_names_something_else_is_no_part_of_the_story() -> None:
    assert verbs(("responses.create", ALICE, "req_1", "allow", False)) == []


def test_an_operators_command_is_one_step_with_its_intent() -> None:
    shown = ("id.show", OPERATOR, "", "", True), ("id.show", OPERATOR, "", "allow", True)
    assert verbs(*shown, *shown) == ["read", "read"]
    assert verbs(shown[0]) == ["tried"]


def test_a_refusal_and_an_end_are_told() -> None:
    assert verbs(
        ("conversations.delete", ALICE, "req_1", "deny", True), ("conversations.delete", ALICE, "req_2", "allow", True)
    ) == ["was refused", "ended"]
