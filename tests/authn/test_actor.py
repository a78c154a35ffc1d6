"""In whose name a service may speak."""

from __future__ import annotations

import pytest

from gateway.authn.actor import with_actor
from gateway.authn.scopes import check_scopes
from gateway.errors import Problem, Reason
from gateway.names import Owner, Principal, PrincipalKind, TenantId

TENANT = TenantId("tenantaaaaaaaaaa")
SCOPE = "act_as:https://idp.example"
SERVICE = Principal(
    TENANT, Owner("local", "crm"), PrincipalKind.SERVICE, "api_key", frozenset({"r"}), frozenset({SCOPE}), "tag"
)


def test_a_service_without_the_header_owns_what_it_makes() -> None:
    assert with_actor(SERVICE, ((b"host", b"x"),)) is SERVICE


def test_a_named_actor_owns_in_the_issuer_of_the_scope_without_the_services_rights() -> None:
    acting = with_actor(SERVICE, ((b"x-coatcheck-actor", "zoë".encode()),))
    assert acting == Principal(
        TENANT,
        Owner("https://idp.example", "zoë"),
        PrincipalKind.USER,
        "api_key",
        credential="tag",
        chain=("local#crm",),
    )


@pytest.mark.parametrize("principal", [
    Principal(TENANT, Owner("local", "bob"), PrincipalKind.USER, "api_key", scopes=frozenset({SCOPE})),
    Principal(TENANT, Owner("https://idp.example", "bob"), PrincipalKind.USER, "jwt"),
    Principal(TENANT, Owner("local", "crm"), PrincipalKind.SERVICE, "api_key"),
])  # fmt: skip
def test_a_user_or_a_service_without_the_scope_never_speaks_for_another(principal: Principal) -> None:
    for value in (b"alice", b"bob", b""):
        with pytest.raises(Problem) as caught:
            with_actor(principal, ((b"x-coatcheck-actor", value),))
        assert caught.value.reason is Reason.SCOPE_MISSING


@pytest.mark.parametrize("values", [
    [b""], [b" "], [b"a\x00b"], [b"\xff"], [b"x" * 257], ["a\u202eb".encode()], [b"alice", b"alice"], [b"alice", b"bob"],
])  # fmt: skip
def test_an_unclear_actor_is_refused(values: list[bytes]) -> None:
    with pytest.raises(Problem) as caught:
        with_actor(SERVICE, tuple((b"x-coatcheck-actor", value) for value in values))
    assert caught.value.reason is Reason.BAD_PARAMETER


@pytest.mark.parametrize("scopes", [["admin"], ["act_as"], ["act_as:"], ["act_as:a#b"], ["act_as:a", "act_as:b"], [""]])
def test_scopes_are_a_closed_list(scopes: list[str]) -> None:
    with pytest.raises(ValueError, match=r"scope|act_as"):
        check_scopes(scopes)


def test_act_as_for_one_issuer_is_a_scope() -> None:
    check_scopes([SCOPE])
    check_scopes([])
