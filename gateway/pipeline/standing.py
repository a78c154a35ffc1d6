"""Whoever has a stream open is looked at again: a key that was revoked, a token that expired, a tenant that was suspended or
erased ends it.

One round for all streams of the process: none has a timer of its own, and those of one credential are one look at the store.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import Final, Protocol

from gateway.authn.authenticate import Authentication
from gateway.errors import Problem, Reason
from gateway.names import Principal
from gateway.pipeline.exchange import Exchange, Head
from gateway.stores.contract import Store, StoreError, TenantStatus

CHECK_EVERY_S: Final = 20.0
UNCHECKED_S: Final = 55.0
"""For how long nobody may know what became of a client."""


class Endable(Protocol):
    """A stream under way."""

    def fail(self, failure: Exception) -> None:
        """It ends with `failure`, once what has come is told."""


class Watch:
    """One instance per process."""

    def __init__(self, authentication: Authentication, store: Store) -> None:
        self._authentication = authentication
        self._store = store
        self._open: dict[Endable, Exchange] = {}
        self._looked_at = time.monotonic()

    def add(self, stream: Endable, exchange: Exchange) -> None:
        self._open[stream] = exchange

    def remove(self, stream: Endable) -> None:
        self._open.pop(stream, None)

    async def run_forever(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """One round. Where the store is away for too long, every stream ends."""
        streams: defaultdict[tuple[Principal, bytes], list[Endable]] = defaultdict(list)
        heads: dict[tuple[Principal, bytes], Head] = {}
        for stream, exchange in self._open.items():
            who = (exchange.known_principal, exchange.head.by_name.get(b"authorization", b""))
            streams[who].append(stream)
            heads[who] = exchange.head
        try:
            async with asyncio.timeout(CHECK_EVERY_S):
                for who, head in heads.items():
                    try:
                        await check(self._authentication, self._store, head, who[0], time.time())
                    except Problem as problem:
                        self._end(streams[who], problem)
            self._looked_at = time.monotonic()
        except (StoreError, TimeoutError):
            if time.monotonic() - self._looked_at > UNCHECKED_S:
                self._end(list(self._open), Problem(Reason.AUDIT_UNAVAILABLE))

    def _end(self, streams: list[Endable], problem: Problem) -> None:
        for stream in streams:
            if stream in self._open:
                stream.fail(problem)


async def check(authentication: Authentication, store: Store, head: Head, principal: Principal, now: float) -> None:
    """Whether the client may still do what it may do. `now`: UTC seconds. Raises Problem; StoreError where nobody knows."""
    if await authentication.authenticate(head.headers, int(now)) != principal:
        raise Problem(Reason.CREDENTIAL_REVOKED)
    state = await store.tenant_state(principal.tenant)
    if state is None or state.status is not TenantStatus.ACTIVE:
        raise Problem(Reason.TENANT_INACTIVE)
    if principal.credential:
        key = await store.api_key(principal.tenant, principal.credential)
        if key is None or key.revoked or (key.expires is not None and key.expires <= now):
            raise Problem(Reason.CREDENTIAL_REVOKED)
