"""Decisions by their whole input. Bounded, and fair: what clients write is part of the input, so one tenant's flood of
invented model names may only push out its own decisions, and those of tenants that have been idle for longest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from gateway.names import TenantId
from gateway.policy.decision import Decision

_SHARE: Final = 4
"""One tenant holds at most a fourth of all entries."""


class DecisionCache:
    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._per_tenant = max(1, entries // _SHARE)
        self._tenants: OrderedDict[TenantId, OrderedDict[Hashable, Decision]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def get(self, tenant: TenantId, key: Hashable) -> Decision | None:
        decisions = self._tenants.get(tenant)
        if decisions is None or (decision := decisions.pop(key, None)) is None:
            return None
        # Taken out and put back at the end: `move_to_end` would hash and compare the whole input once more than that.
        decisions[key] = decision
        self._tenants.move_to_end(tenant)
        return decision

    def put(self, tenant: TenantId, key: Hashable, decision: Decision) -> None:
        decisions = self._tenants.setdefault(tenant, OrderedDict())
        self._tenants.move_to_end(tenant)
        self._size += key not in decisions
        decisions[key] = decision
        if len(decisions) > self._per_tenant:
            decisions.popitem(last=False)
            self._size -= 1
        elif self._size > self._entries:
            idle, oldest = next(iter(self._tenants.items()))
            oldest.popitem(last=False)
            self._size -= 1
            if not oldest:
                del self._tenants[idle]

    def clear(self) -> None:
        self._tenants.clear()
        self._size = 0
