"""Decisions: what is allowed, that every failure is a deny, and what is remembered."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import cedarpy
import pytest

from gateway.authz import Policies
from gateway.errors import Reason
from gateway.names import Kind, Owner, Principal, PrincipalKind, TenantId, Visibility
from gateway.policy.decision import Allow, Circumstances, Deny, Resource
from gateway.policy.engine import PolicySet
from gateway.policy.source import ENTITY_OF_KIND, PolicyError, shipped_folder
from gateway.surfaces.table import BY_ACTION
from tests.policy.folder import ACME, ACTIONS, ALICE, ALICE_OWNER, BOLT, CAROL_OWNER, HERS, copied, edited

NOTHING = Circumstances()
DENIED = Deny(Reason.POLICY_DENIED)


@pytest.fixture
def policies() -> PolicySet:
    return PolicySet.load(shipped_folder(), ACTIONS)


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One element for each evaluation by Cedar."""
    actions: list[str] = []
    real = cedarpy.is_authorized

    def counted(request: dict[str, Any], *rest: Any) -> cedarpy.AuthzResult:
        actions.append(str(request["action"]))
        return real(request, *rest)

    monkeypatch.setattr(cedarpy, "is_authorized", counted)
    return actions


def test_the_policies_are_what_the_authorizer_takes(policies: PolicySet) -> None:
    contract: Policies = policies
    assert contract.decide(ALICE, "responses.create", None, Circumstances(model="gpt-5")) == Allow("access")


@pytest.mark.parametrize("action", BY_ACTION)
def test_every_route_is_open_to_users_and_services_on_their_own_and_shared_objects(
    policies: PolicySet, action: str
) -> None:
    shared = Resource(Kind.CONVERSATION, CAROL_OWNER, Visibility.TENANT, ACME)
    for principal in (
        ALICE,
        replace(ALICE, kind=PrincipalKind.SERVICE, auth="api_key", scopes=frozenset({"act_as:idp"})),
    ):
        for resource in (None, HERS, shared):
            assert policies.decide(principal, action, resource, Circumstances(network="2001:db8::1")) == Allow("access")


@pytest.mark.parametrize("kind", Kind)
def test_an_object_of_any_kind_is_closed_to_other_users_and_other_tenants(policies: PolicySet, kind: Kind) -> None:
    hers = Resource(kind, ALICE_OWNER, Visibility.PRIVATE, ACME)
    assert policies.decide(ALICE, "responses.create", hers, NOTHING) == Allow("access")
    assert policies.decide(replace(ALICE, owner=CAROL_OWNER), "responses.create", hers, NOTHING) == replace(
        DENIED, policy="ownership"
    )
    assert policies.decide(replace(ALICE, tenant=BOLT), "responses.create", hers, NOTHING) == replace(
        DENIED, policy="tenants"
    )


def test_every_policy_that_forbids_is_named(policies: PolicySet) -> None:
    theirs = Resource(Kind.RESPONSE, CAROL_OWNER, Visibility.PRIVATE, BOLT)
    decision = policies.decide(
        ALICE, "responses.create", theirs, Circumstances(model="curie:ft-x", tools=("teleport",))
    )
    assert decision == Deny(Reason.POLICY_DENIED, "models,ownership,tenants,tools")


def test_roles_and_names_are_compared_whole_and_as_text(policies: PolicySet) -> None:
    odd = Owner('https://id.example.com/"x', 'a" || true || "\n\\')
    principal = Principal(ACME, odd, PrincipalKind.USER, "jwt", frozenset({'no-store"', "no-stores", "ünï"}))
    hers = Resource(Kind.RESPONSE, odd, Visibility.PRIVATE, ACME)
    assert policies.decide(principal, "responses.create", hers, NOTHING) == Allow("access")
    assert policies.decide(principal, "responses.create", HERS, NOTHING) == replace(DENIED, policy="ownership")


def test_what_no_policy_allows_is_denied(tmp_path: Path) -> None:
    folder = edited(tmp_path, "access.cedar", ',\n        Action::"models"', "")
    policies = PolicySet.load(folder, ACTIONS)
    assert policies.decide(ALICE, "models.list", None, NOTHING) == DENIED
    assert policies.decide(ALICE, "responses.create", None, NOTHING) == Allow("access")


def test_an_action_that_no_route_has_is_denied(policies: PolicySet) -> None:
    assert policies.decide(ALICE, "threads.create", None, NOTHING) == DENIED


def test_a_prohibition_that_fails_to_evaluate_is_a_deny_and_not_lifted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = copied(tmp_path)
    overflow = f"when {{ context.max_output_tokens + {2**63 - 1} > 0 }}"
    (folder / "limit.cedar").write_text(f'@id("limit")\nforbid (principal, action, resource)\n{overflow};\n')
    policies = PolicySet.load(folder, ACTIONS)
    with caplog.at_level(logging.ERROR):
        assert policies.decide(ALICE, "responses.create", None, Circumstances(model="m", max_output_tokens=7)) == DENIED
    assert [record.message for record in caplog.records] == ["policy.failed"]


def test_a_failure_inside_the_evaluator_is_a_deny_that_is_not_remembered_or_quoted(
    policies: PolicySet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> object:
        raise ValueError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(cedarpy, "is_authorized", broken)
        assert policies.decide(ALICE, "responses.create", None, NOTHING) == DENIED
    assert "planted" not in caplog.text
    assert policies.decide(ALICE, "responses.create", None, NOTHING) == Allow("access")


@pytest.mark.parametrize(
    "circumstances",
    [
        Circumstances(network="not an address"),
        Circumstances(max_output_tokens=2**63),
        Circumstances(max_output_tokens=-1),
        Circumstances(model="x" * 257),
        Circumstances(model="gpt-5\n"),
        Circumstances(tools=("function\x00",)),
        Circumstances(tools=("",)),
        Circumstances(tools=("\ud800",)),
        Circumstances(tools=tuple(f"tool{n}" for n in range(65))),
    ],
)
def test_what_cannot_be_judged_is_denied(policies: PolicySet, circumstances: Circumstances) -> None:
    assert policies.decide(ALICE, "responses.create", None, circumstances) == DENIED


def test_a_decision_is_evaluated_once_for_the_same_whole_input(policies: PolicySet, evaluations: list[str]) -> None:
    context = Circumstances(model="gpt-5", tools=("function",))
    for _ in range(3):
        policies.decide(ALICE, "responses.create", HERS, context)
    assert len(evaluations) == 1
    for principal, action, resource, circumstances in (
        (replace(ALICE, roles=frozenset({"no-store"})), "responses.create", HERS, context),
        (replace(ALICE, tenant=BOLT), "responses.create", HERS, context),
        (replace(ALICE, kind=PrincipalKind.SERVICE), "responses.create", HERS, context),
        (ALICE, "responses.compact", HERS, context),
        (ALICE, "responses.create", None, context),
        (ALICE, "responses.create", replace(HERS, tenant=BOLT), context),
        (ALICE, "responses.create", replace(HERS, owner=CAROL_OWNER), context),
        (ALICE, "responses.create", HERS, replace(context, model="gpt-5-mini")),
        (ALICE, "responses.create", HERS, replace(context, tools=("function", "mcp"))),
        (ALICE, "responses.create", HERS, replace(context, store=False)),
        (ALICE, "responses.create", HERS, replace(context, network="203.0.113.9")),
    ):
        before = len(evaluations)
        policies.decide(principal, action, resource, circumstances)
        assert len(evaluations) == before + 1


def test_a_flood_of_invented_models_leaves_other_tenants_decisions_in_the_cache(evaluations: list[str]) -> None:
    policies = PolicySet.load(shipped_folder(), ACTIONS, cache_entries=40)
    bob = replace(ALICE, tenant=BOLT)
    for n in range(5):
        policies.decide(bob, "responses.create", None, Circumstances(model=f"gpt-{n}"))
    for n in range(200):
        policies.decide(ALICE, "responses.create", None, Circumstances(model=f"invented-{n}"))
    before = len(evaluations)
    for n in range(5):
        policies.decide(bob, "responses.create", None, Circumstances(model=f"gpt-{n}"))
    assert len(evaluations) == before


def test_a_reload_takes_the_new_policies_and_forgets_old_decisions(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    policies = PolicySet.load(folder, ACTIONS)
    assert policies.decide(ALICE, "responses.create", None, Circumstances(tools=("mcp",))) == Allow("access")
    tools = folder / "tools.cedar"
    tools.write_text(tools.read_text().replace('"mcp",', ""))
    policies.reload()
    assert policies.decide(ALICE, "responses.create", None, Circumstances(tools=("mcp",))) == replace(
        DENIED, policy="tools"
    )


def test_a_broken_reload_keeps_the_policies_in_force(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    policies = PolicySet.load(folder, ACTIONS)
    (folder / "tenants.cedar").write_text("permit (principal, action, resource) when { resource.nothing };")
    with pytest.raises(PolicyError, match=r"tenants\.cedar:1"):
        policies.reload()
    theirs = Resource(Kind.RESPONSE, ALICE_OWNER, Visibility.PRIVATE, BOLT)
    assert policies.decide(ALICE, "responses.retrieve", theirs, NOTHING) == replace(DENIED, policy="tenants")


def test_every_kind_of_object_has_a_type_in_the_schema() -> None:
    schema = (shipped_folder() / "schema.cedarschema").read_text()
    assert all(entity in schema for entity in ENTITY_OF_KIND.values())
    assert len(set(ENTITY_OF_KIND.values())) == len(Kind)


def test_a_tenant_is_one_and_the_same_whether_an_object_is_named_or_not(policies: PolicySet) -> None:
    strange = replace(ALICE, tenant=TenantId('a"; x'))
    assert policies.decide(strange, "models.list", None, NOTHING) == Allow("access")
    assert policies.decide(strange, "responses.retrieve", HERS, NOTHING) == replace(DENIED, policy="tenants")
