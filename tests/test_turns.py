"""Who takes turns of the loop, and how large one is."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

import pytest

from gateway.turns import TURN_BYTES, Turns, turns_of


@dataclass(slots=True, eq=False)
class Busy:
    """Has something to parse `left` times, each of which is a whole turn."""

    turns: Turns
    served: list[Busy]
    party: str | None
    left: int = 1_000

    def take_turn(self, allowance: int) -> int:
        assert 0 < allowance <= TURN_BYTES
        self.served.append(self)
        self.left -= 1
        if self.left:
            self.turns.ask(self)
        return TURN_BYTES


async def test_a_turn_belongs_to_one_party_and_the_next_to_another_however_many_sockets_each_has() -> None:
    turns, served = Turns(), list[Busy]()
    several = [Busy(turns, served, "several") for _ in range(50)]
    alone, unknown = Busy(turns, served, "alone"), Busy(turns, served, None)
    for one in (*several, alone, unknown):
        turns.ask(one)
    for number in range(1, 301):
        assert len(served) == number
        await asyncio.sleep(0)
    by_party = Counter(one.party for one in served)
    assert all(99 <= count <= 102 for count in by_party.values()), by_party
    assert set(Counter(one for one in served if one.party == "several")) == set(several)


async def test_who_asks_while_nothing_was_spent_is_served_at_once() -> None:
    turns, served = Turns(), list[Busy]()
    first, second = Busy(turns, served, "a", 1), Busy(turns, served, "a", 1)
    turns.ask(first)
    assert served == [first]
    turns.ask(second)
    assert served == [first]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert served == [first, second]


async def test_one_that_fails_takes_no_other_along() -> None:
    class Broken(Busy):
        def take_turn(self, allowance: int) -> int:
            raise ZeroDivisionError

    turns, served = Turns(), list[Busy]()
    with pytest.raises(ZeroDivisionError):
        turns.ask(Broken(turns, served, "a"))
    turns.ask(Busy(turns, served, "b", 1))
    assert len(served) == 1


async def test_a_loop_has_turns_of_its_own() -> None:
    loop = asyncio.get_running_loop()
    assert turns_of(loop) is turns_of(loop)
    other = asyncio.new_event_loop()
    try:
        assert turns_of(other) is not turns_of(loop)
    finally:
        other.close()
