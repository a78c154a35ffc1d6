"""What a process knows of logs: what it signed or compared last, and what it finds in the anchors.

Anchors are asked for a log at first, after each new connection to Redis (a failover, a restore: then another replica that is gone
may have signed more than this process knows and Redis holds), and once in a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from gateway.audit.anchors.contract import Anchor, age
from gateway.audit.checkpoint import VerifierKey, public_key, read_unverified
from gateway.audit.consistency import LogMismatch, Standing
from gateway.audit.tree import Frontier
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import TenantId
from gateway.stores.log import LogState, LogStore

LOG = logging.getLogger(__name__)

TENANTS: Final = 4096
ASKED_EVERY_S: Final = 600.0


class Known:
    """Of at most so many tenants; of others the anchors are asked again."""

    def __init__(self, store: LogStore, anchors: tuple[Anchor, ...]) -> None:
        self._store = store
        self._anchors = anchors
        self._standings: OrderedDict[TenantId, Standing] = OrderedDict()
        self._asked: set[TenantId] = set()
        self._connections = self._compared = 0
        self._ask_again_at = 0.0

    def keep(self, standing: Standing) -> None:
        tenant = standing.checkpoint.tenant
        self._standings[tenant] = standing
        self._standings.move_to_end(tenant)
        if len(self._standings) > TENANTS:
            self._standings.popitem(last=False)

    def forget(self, tenant: TenantId) -> None:
        self._standings.pop(tenant, None)

    def to_compare(self) -> list[TenantId]:
        """Tenants whose logs may have gone back, for there was a new connection since this was asked: all that are known."""
        before, self._compared = self._compared, self._store.connections
        return list(self._standings) if self._compared != before else []

    async def of(self, tenant: TenantId, log: str, state: LogState) -> Standing | None:
        """The newest that is known; None: nothing. `state`: read before this is called. Raises what `newest` raises."""
        now, connections = asyncio.get_running_loop().time(), self._store.connections
        if connections != self._connections or now > self._ask_again_at:
            self._asked.clear()
            self._connections, self._ask_again_at = connections, now + ASKED_EVERY_S
        known = self._standings.get(tenant)
        if known is not None and tenant in self._asked:
            return known
        kept = await newest(self._anchors, log)
        self._asked.add(tenant)
        if kept is None:
            if state.anchored and known is None:
                # Fine on a new machine, and where nobody has taken it away.
                LOG.warning("audit.anchor_empty", extra={"fields": {"tenant": tenant, "anchored": state.anchored}})
            return known
        if known is None or age(kept.checkpoint) > age(known.checkpoint):
            return kept
        if age(kept.checkpoint) == age(known.checkpoint) and kept.checkpoint != known.checkpoint:
            raise LogMismatch("an anchor holds another tree of this size", known.checkpoint.size)
        return known


async def newest(anchors: Iterable[Anchor], log: str) -> Standing | None:
    """The newest checkpoint that an anchor holds. Raises AnchorFailed where one cannot be asked, and LogMismatch where one
    holds what is no checkpoint of this log. The note's signature is the caller's to check."""
    found: Standing | None = None
    for anchor in anchors:
        kept = await anchor.newest(log)
        if kept is None:
            continue
        checkpoint = read_unverified(kept.note)
        if checkpoint is None or checkpoint.name != log:
            raise LogMismatch("an anchor holds a note that is no checkpoint of this log", 0)
        if found is None or age(checkpoint) > age(found.checkpoint):
            tree = kept.tree if kept.tree is not None and kept.tree.size <= checkpoint.size else Frontier()
            found = Standing(checkpoint, kept.note, tree)
    return found


def verifier_keys(name: str, audit: Versions[AuditKeys]) -> tuple[VerifierKey, ...]:
    """Every version of the tenant's public key, the newest first."""
    return tuple(public_key(name, audit.keys[version].seed) for version in sorted(audit.keys, reverse=True))
