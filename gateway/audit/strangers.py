"""What belongs to no tenant, refusals as a rule, summed for the operator's log: how often, and from which networks."""

from __future__ import annotations

from typing import Final

import orjson

from gateway.audit.flood import SHOWN
from gateway.stores.contract import Store, StoreError

NETWORKS: Final = 4096
"""Distinct networks are counted up to here, per reason and second."""


class Strangers:
    def __init__(self) -> None:
        self._by_reason: dict[str, tuple[int, dict[str, None]]] = {}

    def count(self, reason: str, network: str) -> None:
        count, networks = self._by_reason.get(reason, (0, {}))
        if len(networks) < NETWORKS:
            networks[network] = None
        self._by_reason[reason] = (count + 1, networks)

    async def send(self, store: Store, ts_us: int) -> None:
        """Appends a sum for each reason; what the store does not take is kept for the next time."""
        for reason in sorted(self._by_reason):
            count, networks = self._by_reason.pop(reason)
            line = {
                "ts": ts_us,
                "reason": reason,
                "count": count,
                "networks": [*networks][:SHOWN],
                "networks_count": len(networks),
            }
            try:
                await store.append_operator_event(orjson.dumps(line, option=orjson.OPT_SORT_KEYS))
            except StoreError:
                seen = self._by_reason.get(reason, (0, {}))
                self._by_reason[reason] = (count + seen[0], networks | seen[1])
