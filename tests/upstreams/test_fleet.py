"""Where a tenant's new objects are made, and who serves what exists."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from gateway.names import TenantId
from gateway.upstreams.fleet import Fleet


@dataclass
class Key:
    name: str
    project: str = ""
    weight: int = 1
    is_down: bool = False

    def __post_init__(self) -> None:
        self.project = self.project or self.name


TENANTS = [TenantId(f"{number:016}") for number in range(4_000)]


def homes(*keys: Key) -> dict[TenantId, str]:
    fleet = Fleet(keys)
    return {tenant: fleet.home(tenant).name for tenant in TENANTS}


def test_tenants_are_spread_by_weight() -> None:
    counted = Counter(homes(Key("a"), Key("b", weight=2), Key("c", weight=5)).values())
    for name, share in (("a", 1 / 8), ("b", 2 / 8), ("c", 5 / 8)):
        assert counted[name] == pytest.approx(len(TENANTS) * share, rel=0.1)


def test_a_further_key_takes_over_tenants_and_moves_no_others() -> None:
    before, after = homes(Key("a"), Key("b")), homes(Key("a"), Key("b"), Key("c"))
    moved = {tenant for tenant in TENANTS if before[tenant] != after[tenant]}
    assert {after[tenant] for tenant in moved} == {"c"}
    assert len(moved) == pytest.approx(len(TENANTS) / 3, rel=0.1)


def test_a_drained_key_gets_nothing_new_and_serves_what_it_made() -> None:
    drained = Key("a", weight=0)
    fleet = Fleet([drained, Key("b")])
    assert {fleet.home(tenant).name for tenant in TENANTS} == {"b"}
    assert fleet.serving("a", "a") is drained


def test_a_key_that_is_down_is_passed_over_for_what_is_new_alone() -> None:
    down = Key("a", is_down=True)
    fleet = Fleet([down, Key("b")])
    assert {fleet.home(tenant).name for tenant in TENANTS} == {"b"}
    assert fleet.serving("a", "a") is down
    assert Fleet([down]).home(TENANTS[0]) is down


def test_another_key_of_the_same_scope_takes_over_what_one_made() -> None:
    new = Key("new", project="shared")
    fleet = Fleet([Key("other"), Key("lame", project="shared", is_down=True), new])
    assert fleet.serving("gone", "shared") is new
    assert fleet.serving("lame", "shared") is new, "until it is back"
    assert fleet.serving("gone", "elsewhere") is None
    # A name that was given to another project serves nothing of the old one.
    assert Fleet([Key("a", project="second")]).serving("a", "first") is None


@pytest.mark.parametrize("keys", [[], [Key("a", weight=0)], [Key("a"), Key("a")]])
def test_a_fleet_without_a_taker_or_with_two_of_one_name_is_none(keys: list[Key]) -> None:
    with pytest.raises(ValueError, match="upstream"):
        Fleet(keys)
