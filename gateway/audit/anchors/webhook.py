"""A tenant's own anchor: each of its notes, at most one a minute, is sent where the tenant said.

The body is the note as it stands. Its signature is all that a receiver needs: it is checked with the tenant's public key.
"""

from __future__ import annotations

from gateway.audit.anchors.contract import AnchorFailed
from gateway.audit.checkpoint import Checkpoint
from gateway.audit.tree import Frontier
from gateway.outgoing import Outgoing, OutgoingFailed, OutgoingRefused
from gateway.stores.contract import StoreError
from gateway.stores.log import LogStore

PAUSE_S = 60.0


class WebhookAnchor:
    name = "webhook"
    required = False
    """A tenant's receiver that is down holds nothing up."""

    def __init__(self, store: LogStore, outgoing: Outgoing, pause_s: float = PAUSE_S) -> None:
        self.pause_s = pause_s
        self._store = store
        self._outgoing = outgoing

    async def append(self, checkpoint: Checkpoint, note: str, tree: Frontier) -> None:
        try:
            rules = await self._store.rules(checkpoint.tenant)
            if not rules.webhook:
                return
            answer = await self._outgoing.send(
                "POST",
                rules.webhook,
                headers=(("Content-Type", "text/plain; charset=utf-8"),),
                body=note.encode(),
                tenant=checkpoint.tenant,
            )
        except (OutgoingFailed, OutgoingRefused, StoreError) as error:
            raise AnchorFailed(f"the tenant's webhook was not reached: {error}") from error
        if not 200 <= answer.status < 300:
            raise AnchorFailed(f"the tenant's webhook answered {answer.status}")

    async def newest(self, log: str) -> None:
        """Nothing is given back: the tenant is the one who compares."""

    async def aclose(self) -> None: ...
