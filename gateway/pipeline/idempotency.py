"""`Idempotency-Key`, per tenant, principal and route.

A key is held while its request is under way, then remembers what it made. Paths and bodies are compared by a keyed hash, and no
answer is kept: what was made is fetched again, where it can be by its ID alone. The same key goes upstream in its
per-principal form, so that a request whose end nobody saw is not carried out twice there either.
"""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass
from typing import Final

import orjson

from gateway.errors import Problem, Reason
from gateway.ids.encoding import lp
from gateway.names import TenantId
from gateway.pipeline.exchange import Exchange
from gateway.pipeline.provider import idempotency_token, wants_stream
from gateway.stores.contract import Store, StoreError
from gateway.tasks import Tasks

_HELD: Final = b"held"
_DONE: Final = b"done"


@dataclass(frozen=True, slots=True)
class Slot:
    """One key of one principal on one route, held by one request."""

    tenant: TenantId
    token: str
    body: bytes
    held: bytes


@dataclass(frozen=True, slots=True)
class Idempotency:
    store: Store
    tasks: Tasks
    limit_s: float
    """What a request waits for the store."""
    held_s: int
    """How long a key may be held: as long as a request may take."""
    lifetime_s: int
    """How long a key remembers what it made."""

    async def take(self, exchange: Exchange) -> Slot | str | None:
        """None where no key was sent; the slot that this request now holds; or the opaque ID of what the same request made
        before. Raises Problem: under way, another body, or nothing left to fetch."""
        sent = exchange.head.by_name.get(b"idempotency-key")
        if not sent or not exchange.known_route.idempotent:
            return None
        secret = exchange.known_mapper.keys.identity.newest.token
        content = orjson.dumps([{**exchange.segments}, exchange.body], option=orjson.OPT_SORT_KEYS)
        body = hmac.digest(secret, lp("idempotent body", content), "sha256").hex().encode()
        held = b"|".join((_HELD, body, exchange.head.request_id.encode()))
        slot = Slot(exchange.known_principal.tenant, idempotency_token(exchange, sent), body, held)
        try:
            async with asyncio.timeout(self.limit_s):
                met = await self.store.reserve_slot(slot.tenant, slot.token, held, self.held_s)
        except (StoreError, TimeoutError):
            # It may be held all the same, and the client was told to try again.
            self.let_go(slot)
            raise Problem(Reason.AUDIT_UNAVAILABLE, retry_after_s=1) from None
        except asyncio.CancelledError:
            self.let_go(slot)
            raise
        if met is None:
            return slot
        state, met_body, made = met.split(b"|", 2)
        if not hmac.compare_digest(met_body, body):
            raise Problem(Reason.IDEMPOTENCY_MISMATCH)
        if state == _HELD:
            raise Problem(Reason.IDEMPOTENCY_IN_FLIGHT)
        if not made or wants_stream(exchange):
            raise Problem(Reason.IDEMPOTENCY_RESULT_UNAVAILABLE)
        return made.decode()

    async def fill(self, slot: Slot, made: str) -> None:
        """The request succeeded. `made`: the opaque ID of its object; empty where it can't be fetched again."""
        value = b"|".join((_DONE, slot.body, made.encode()))
        try:
            async with asyncio.timeout(self.limit_s):
                await self.store.fill_slot(slot.tenant, slot.token, slot.held, value, self.lifetime_s)
        except (StoreError, TimeoutError):
            # It stays held until it expires: a repetition is refused, and nothing is done twice.
            return

    def let_go(self, slot: Slot) -> asyncio.Task[None]:
        """The request failed, and may be sent again. Goes on also where nobody waits."""
        return self.tasks.spawn("free idempotency key", self._release(slot))

    async def _release(self, slot: Slot) -> None:
        try:
            await self.store.release_slot(slot.tenant, slot.token, slot.held)
        except StoreError:
            return
