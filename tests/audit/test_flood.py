from __future__ import annotations

from gateway.audit.event import Actor, Target
from gateway.audit.flood import Floods
from gateway.names import TenantId

TENANT, OTHER = TenantId("aaaabbbbccccdddd"), TenantId("zzzzyyyyxxxxwwww")
ALICE, BOB = Actor("user", "alice"), Actor("user", "bob")
NOW = 1000.25


def flood(floods: Floods, times: int = 20, now: float = NOW) -> None:
    for _ in range(times):
        assert floods.turn_away(TENANT, ALICE, (), now) is None
        floods.refused(TENANT, ALICE, "not_owned", now)


def test_the_first_twenty_pass_and_the_next_waits_for_the_second_to_end() -> None:
    floods = Floods()
    flood(floods)
    assert floods.turn_away(TENANT, ALICE, (), NOW) == 0.75
    assert floods.turn_away(TENANT, ALICE, (), NOW + 0.7) is not None
    assert floods.turn_away(TENANT, ALICE, (), NOW + 0.75) is None


def test_nobody_else_is_turned_away() -> None:
    floods = Floods()
    flood(floods)
    assert floods.turn_away(TENANT, BOB, (), NOW) is None
    assert floods.turn_away(OTHER, ALICE, (), NOW) is None


def test_a_service_that_acts_for_ever_new_users_is_turned_away_as_a_whole() -> None:
    floods = Floods()
    for n in range(200):
        someone = Actor("user", f"user {n}", chain=("service",))
        assert floods.turn_away(TENANT, someone, (), NOW) is None
        floods.refused(TENANT, someone, "not_owned", NOW)
    assert floods.turn_away(TENANT, Actor("user", "user 200", chain=("service",)), (), NOW) is not None
    assert floods.turn_away(TENANT, Actor("user", "user 200"), (), NOW) is None
    assert floods.turn_away(TENANT, Actor("user", "user 200", chain=("another service",)), (), NOW) is None


def test_different_reasons_are_counted_apart() -> None:
    floods = Floods()
    for n in range(38):
        floods.refused(TENANT, ALICE, f"reason {n % 2}", NOW)
    assert floods.turn_away(TENANT, ALICE, (), NOW) is None
    floods.refused(TENANT, ALICE, "reason 0", NOW)
    assert floods.turn_away(TENANT, ALICE, (), NOW) is not None


def test_what_was_turned_away_becomes_one_sum_a_second() -> None:
    floods = Floods()
    flood(floods)
    for n in range(50):
        floods.turn_away(TENANT, ALICE, (Target("item", f"msg_{n % 25}"),), NOW)
    assert floods.ended(NOW + 0.5) == []
    (total,) = floods.ended(NOW + 1)
    assert (total.reason, total.second, total.count) == ("not_owned", 1000, 50)
    assert [target.id for target in total.targets][:3] == ["msg_0", "msg_1", "msg_2"]
    assert len(total.targets) == 25
    assert floods.ended(NOW + 2) == []


def test_a_flood_that_nobody_followed_leaves_no_sum() -> None:
    floods = Floods()
    flood(floods)
    assert floods.ended(NOW + 1) == []


def test_the_targets_counted_are_bounded() -> None:
    floods = Floods()
    flood(floods)
    for n in range(5000):
        floods.turn_away(TENANT, ALICE, (Target("item", str(n)),), NOW)
    (total,) = floods.ended(NOW + 1)
    assert total.count == 5000
    assert len(total.targets) == 4096
