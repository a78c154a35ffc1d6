"""Ownership first, then the policies, all or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gateway.authz import Allow, Circumstances, Decision, Deny, Resource, decide, owns
from gateway.errors import Reason
from gateway.names import Kind, Owner, Principal, PrincipalKind, TenantId, Visibility

TENANT = TenantId("a" * 16)
ALICE, CAROL = Owner("issuer", "alice"), Owner("issuer", "carol")
CIRCUMSTANCES = Circumstances(model="gpt-5")


def principal(owner: Owner, kind: PrincipalKind = PrincipalKind.USER) -> Principal:
    return Principal(TENANT, owner, kind, "api_key")


def resource(owner: Owner, visibility: Visibility = Visibility.PRIVATE) -> Resource:
    return Resource(Kind.RESPONSE, owner, visibility, TENANT)


@dataclass
class Book:
    """Policies that answer from a list and remember what they were asked."""

    answers: list[Decision]
    asked: list[Resource | None] = field(default_factory=list)

    def decide(
        self, principal: Principal, action: str, resource: Resource | None, circumstances: Circumstances
    ) -> Decision:
        self.asked.append(resource)
        return self.answers[len(self.asked) - 1]


def test_an_owner_opens_what_is_theirs_and_nobody_else_does() -> None:
    assert owns(principal(ALICE), resource(ALICE))
    assert not owns(principal(CAROL), resource(ALICE))


@pytest.mark.parametrize(
    "other", [Owner("issuer2", "alice"), Owner("issuer", "Alice"), Owner("issuer", "alice "), CAROL]
)
def test_the_same_subject_of_another_issuer_or_spelling_is_somebody_else(other: Owner) -> None:
    assert not owns(principal(other), resource(ALICE))


def test_what_the_tenant_shares_opens_for_all_of_it() -> None:
    assert owns(principal(CAROL), resource(ALICE, Visibility.TENANT))


def test_a_service_is_no_exception() -> None:
    assert not owns(principal(CAROL, PrincipalKind.SERVICE), resource(ALICE))


def test_an_owner_without_a_part_cannot_be_made() -> None:
    for issuer, subject in (("", "alice"), ("issuer", ""), ("", "")):
        with pytest.raises(ValueError, match="owner"):
            Owner(issuer, subject)


def test_an_action_that_names_nothing_is_asked_about_once() -> None:
    book = Book([Allow("access")])
    assert decide(book, principal(ALICE), "responses.create", [], CIRCUMSTANCES) == Allow("access")
    assert book.asked == [None]


def test_every_named_object_is_asked_about_and_one_refusal_refuses_all() -> None:
    shared = resource(ALICE, Visibility.TENANT)
    book = Book([Allow("access"), Deny(Reason.POLICY_DENIED, "tools")])
    decision = decide(book, principal(ALICE), "responses.create", [resource(ALICE), shared], CIRCUMSTANCES)
    assert decision == Deny(Reason.POLICY_DENIED, "tools")
    assert book.asked == [resource(ALICE), shared]


def test_equal_objects_are_asked_about_once_and_policies_are_named_once() -> None:
    shared = resource(ALICE, Visibility.TENANT)
    book = Book([Allow("access"), Allow("access")])
    decision = decide(book, principal(ALICE), "x", [resource(ALICE), resource(ALICE), shared], CIRCUMSTANCES)
    assert decision == Allow("access")
    assert len(book.asked) == 2
