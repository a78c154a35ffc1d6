"""Persons in the log: one pseudonym within a tenant, none across tenants, and a name that only its own tenant's keys open."""

from __future__ import annotations

from gateway.audit.persons import NETWORK, SUBJECT, person, sealed, unsealed
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import Owner, Principal, PrincipalKind, TenantId

ACME, RIVAL = TenantId("aaaaaaaaaaaaaaaa"), TenantId("bbbbbbbbbbbbbbbb")
OLD, NEW = AuditKeys.derive(b"o" * 32), AuditKeys.derive(b"n" * 32)
KEYS = Versions({1: OLD, 2: NEW}, 2)


def test_a_sealed_name_opens_with_the_version_that_it_states() -> None:
    for version, keys in ((1, OLD), (2, NEW)):
        assert unsealed(KEYS, ACME, SUBJECT, sealed(keys, version, ACME, SUBJECT, "alice ☂")) == "alice ☂"


def test_a_sealed_name_opens_nowhere_else() -> None:
    text = sealed(NEW, 2, ACME, SUBJECT, "alice")
    assert unsealed(KEYS, RIVAL, SUBJECT, text) is None
    assert unsealed(KEYS, ACME, NETWORK, text) is None
    assert unsealed(Versions({1: OLD}, 1), ACME, SUBJECT, text) is None
    for wrong in (
        "",
        "2",
        "2.",
        "1" + text[1:],
        text[:-4],
        text + "~0123456789abcdef",
        "²." + text[2:],
        "2.é",
        "-1.AA",
    ):
        assert unsealed(KEYS, ACME, SUBJECT, wrong) is None, wrong


def test_a_pseudonym_is_one_person_of_one_tenant() -> None:
    owner = Owner("https://id.example.com", "alice")
    here, there = (person(NEW, 2, Principal(one, owner, PrincipalKind.USER, "jwt")) for one in (ACME, RIVAL))
    assert here == person(NEW, 2, Principal(ACME, owner, PrincipalKind.USER, "jwt"))
    assert here.pseudonym != there.pseudonym
    assert "alice" not in repr((here, there))
