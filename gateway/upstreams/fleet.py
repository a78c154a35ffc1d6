"""Several upstreams behind one gateway: who serves which object, and where a tenant's new ones are made. Pure.

An upstream is one key. Its `scope` names the project whose objects it sees: it is part of every opaque ID, so it never changes,
and every key of a scope serves what the others made. A tenant has a home, by rendezvous hashing: a further upstream moves only
the tenants that it takes over, and their new objects alone; what exists stays where it was made.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from gateway.ids.encoding import lp
from gateway.names import TenantId
from gateway.upstreams.credentials import UpstreamCredential
from gateway.upstreams.origin import Origin

MAX_WEIGHT: Final = 1_000
FIRST: Final = "openai"
"""The name of the upstream that `[openai]` sets."""


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    name: str
    origin: Origin
    credential: UpstreamCredential = field(repr=False)
    scope: str
    weight: int = 1
    """Its share of the tenants' new objects; 0: none, it is being drained."""
    webhook_secret: str = field(default="", repr=False)
    """What its project's webhooks are signed with; empty: none are received."""


class Member(Protocol):
    """One upstream, as the fleet sees it."""

    @property
    def name(self) -> str: ...
    @property
    def project(self) -> str:
        """Its scope."""
        ...

    @property
    def weight(self) -> int: ...
    @property
    def is_down(self) -> bool:
        """Whether it is known to be out of reach."""
        ...


M = TypeVar("M", bound=Member)


class Fleet(Generic[M]):
    """All upstreams of the deployment, in the order of the settings. At least one takes new objects."""

    def __init__(self, members: Iterable[M]) -> None:
        self.members: Sequence[M] = tuple(members)
        self._open = tuple(one for one in self.members if one.weight > 0)
        self._by_name = {one.name: one for one in self.members}
        if not self._open:
            raise ValueError("at least one upstream needs a weight above 0")
        if len(self._by_name) != len(self.members):
            raise ValueError("two upstreams have one name")

    def home(self, tenant: TenantId) -> M:
        """Where the tenant's new objects are made: its first choice that is not down, or its first choice."""
        if len(self._open) == 1:
            return self._open[0]
        ranked = sorted(self._open, key=lambda one: _rank(tenant, one), reverse=True)
        return next((one for one in ranked if not one.is_down), ranked[0])

    def serving(self, name: str, scope: str) -> M | None:
        """Who serves an object that `name` made in `scope`: the same key, or, where that is down or gone, another of its scope;
        None: nobody any more."""
        made = self._by_name.get(name)
        same = [one for one in self.members if one.project == scope and one is not made]
        if made is not None and made.project == scope:
            same.insert(0, made)
        return next((one for one in same if not one.is_down), same[0] if same else None)


def _rank(tenant: TenantId, one: Member) -> float:
    """The member's score for a tenant, by weighted rendezvous hashing (Schindelhauer and Schomaker, 2005)."""
    digest = hashlib.sha256(lp("coatcheck home", tenant, one.name)).digest()
    share = (int.from_bytes(digest[:7]) + 0.5) / 2**56
    return -one.weight / math.log(share)
