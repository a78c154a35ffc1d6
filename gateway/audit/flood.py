"""Sums floods of one refusal, so that forged IDs cannot fill a log.

The first refusals of a second are events of their own. From then on the principal is turned away without any I/O for the rest
of that second, and what was turned away becomes one event per principal, reason and second. Time is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.audit.event import Actor, Target
from gateway.names import TenantId

FIRST: Final = 20
"""Refusals of one principal and reason that are logged one by one, each second."""
ACTING: Final = 10
"""Times as many of all for whom one service acts: it names whom it likes, so each of them alone would be no limit."""
SHOWN: Final = 16
COUNTED_TARGETS: Final = 4096
"""Distinct targets are counted up to here."""

_Principal = tuple[TenantId, str]


@dataclass(slots=True)
class Sum:
    """What one principal was refused for one reason in one second, beyond the first."""

    tenant: TenantId
    actor: Actor
    reason: str
    second: int
    """UTC."""
    count: int = 0
    targets: dict[Target, None] = field(default_factory=dict)
    """Distinct, in the order in which they came."""

    def add(self, targets: Iterable[Target]) -> None:
        self.count += 1
        for target in targets:
            if len(self.targets) < COUNTED_TARGETS:
                self.targets[target] = None


class Floods:
    def __init__(self, first: int = FIRST) -> None:
        self._first = first
        self._second = 0
        self._refused: dict[tuple[TenantId, str, str], int] = {}
        self._flooded: dict[_Principal, Sum] = {}
        self._ended: list[Sum] = []

    def refused(self, tenant: TenantId, actor: Actor, reason: str, now_s: float) -> None:
        """Counts a refusal that is logged by itself."""
        self._turn(now_s)
        for principal, most in self._principals(tenant, actor):
            key = (*principal, reason)
            count = self._refused[key] = self._refused.get(key, 0) + 1
            if count >= most and principal not in self._flooded:
                self._flooded[principal] = Sum(tenant, actor, reason, self._second)

    def _principals(self, tenant: TenantId, actor: Actor) -> list[tuple[_Principal, int]]:
        """Who is asked for a refusal of `actor`, the nearest first, and how many each has: the actor, and who acts for it."""
        asked = [((tenant, actor.pseudonym), self._first)]
        if actor.chain:
            asked.append(((tenant, actor.chain[0]), self._first * ACTING))
        return asked

    def turn_away(self, tenant: TenantId, actor: Actor, targets: Iterable[Target], now_s: float) -> float | None:
        """Seconds until the principal may try again, the attempt being counted; None: go on."""
        if not self._flooded:
            return None
        self._turn(now_s)
        flood = next(filter(None, (self._flooded.get(one) for one, _ in self._principals(tenant, actor))), None)
        if flood is None:
            return None
        flood.add(targets)
        return self._second + 1 - now_s

    def ended(self, now_s: float) -> list[Sum]:
        """The sums of past seconds, each handed out once."""
        self._turn(now_s)
        ended, self._ended = self._ended, []
        return ended

    def _turn(self, now_s: float) -> None:
        # A clock that is set back must not lift a ban early nor keep it for long: any other second is a new one.
        if int(now_s) != self._second:
            self._second = int(now_s)
            self._ended += [flood for flood in self._flooded.values() if flood.count]
            self._flooded.clear()
            self._refused.clear()
