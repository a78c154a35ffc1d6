"""THE REQUEST, one call per stage.

    match → authenticate → collect → begin → decide → forward → translate → finish

A stage refuses by raising a `Problem`; it is recorded and becomes the answer. Nothing goes upstream before `begin` has
recorded it, and nothing reaches the client before `finish` has recorded it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

from gateway.audit.log import AuditLog
from gateway.authn.authenticate import Authentication
from gateway.authn.verdict import CredentialRefused
from gateway.authz import Policies
from gateway.errors import Problem, Reason, render
from gateway.mapping import Mappers
from gateway.names import Principal, TenantId
from gateway.pipeline import evidence
from gateway.pipeline.answering import Answering
from gateway.pipeline.deciding import check_status, decide_on, gather, open_found, wanted
from gateway.pipeline.exchange import Answer, Exchange, Form, Head, Lease
from gateway.pipeline.idempotency import Idempotency, Slot
from gateway.pipeline.listing import Lister, stretch
from gateway.pipeline.provider import Provider
from gateway.pipeline.recorder import Recorder
from gateway.pipeline.routing import Routing
from gateway.stores.contract import StoreError
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.keyring import Deployment, Keyring, KeysMissing, Unlocked
from gateway.surfaces.route import Route
from gateway.surfaces.table import BY_ACTION, Unmatched, match
from gateway.upstreams import UpstreamError

LOG = logging.getLogger(__name__)

T = TypeVar("T")

INLINE_BYTES: Final = 64 * 1024
"""Of a body, in which every ID is sought on the event loop: some ten thousand values at most, and as many microseconds."""

ReadBody = Callable[[Route, TenantId], Awaitable[tuple[Any, Form | None]]]
"""Reads and parses a tenant's body as the route allows it: None where there is none; of a form, what its texts spell, and
the form. Raises Problem."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Carries requests out. One instance per process, for all tenants."""

    authentication: Authentication
    keyring: Keyring
    mappers: Mappers
    log: AuditLog
    policies: Policies
    routing: Routing
    answering: Answering
    lister: Lister
    recorder: Recorder
    idempotency: Idempotency
    admit: Callable[[Head, Principal], None]
    """A last look at head and principal together (which page may call for whom). Raises Problem."""
    open_intent_s: int
    """Seconds after which an intent without an outcome is closed as unknown: the longest that a request may take."""
    clock: Callable[[], float] = time.time

    async def respond(self, head: Head, read_body: ReadBody, lease: Lease) -> Answer:
        """The answer to one request, which `lease` counts from here on: whoever has it sent gives that back. Raises nothing but
        cancellation: a failure is an answer too."""
        exchange = Exchange(head, asyncio.get_running_loop().time(), int(self.clock()), lease=lease)
        return await self._recorded(exchange, self._carry_out(exchange, read_body))

    async def _recorded(self, exchange: Exchange, work: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer of `work`, or, where that failed, the failure's."""
        try:
            return await self.guarded(exchange, work)
        except Problem as problem:
            return Answer(*render(problem, exchange.head.request_id), action=exchange.action)

    async def guarded(self, exchange: Exchange, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives. Whatever ends it otherwise is recorded as the exchange's outcome, and raised as the Problem that
        the client reads."""
        try:
            return await work
        except asyncio.CancelledError:
            await self.recorder.abandon(exchange)
            raise
        except Exception as error:
            # By no name: a problem that its own way here names, and the request's body with it, would wait for the collector.
            raise await self._refuse(exchange, _problem(error)) from None

    async def _carry_out(self, exchange: Exchange, read_body: ReadBody) -> Answer:
        head = exchange.head
        matched = match(head.method, head.raw_path.decode())
        principal = await self.authenticate(exchange)
        if isinstance(matched, Unmatched):
            raise _no_route(matched, head)
        exchange.route, exchange.segments = matched.route, matched.segments
        exchange.body, exchange.form = await read_body(matched.route, principal.tenant)
        if _may_be_large(head):
            # A thread: what is asked of a million values must not hold up everybody else.
            await asyncio.to_thread(gather, exchange)
        else:
            gather(exchange)
        await self.begin(exchange, principal)
        decide_on(exchange, principal, self.policies)
        self.routing.choose(exchange)
        if matched.route.lists:
            return await self.lister.answer(exchange)
        slot = await self.idempotency.take(exchange)
        if isinstance(slot, str):
            return await self._repeat(exchange, slot)
        return await self.answering.answer(exchange) if slot is None else await self._answer_once(exchange, slot)

    # --- the stages

    async def authenticate(self, exchange: Exchange) -> Principal:
        """Who is calling, and the tenant's keys. From here on a refusal belongs to that tenant's log."""
        principal = await self.authentication.authenticate(exchange.head.headers, exchange.now)
        await self.unlock(exchange, principal)
        self.admit(exchange.head, principal)
        return principal

    async def unlock(self, exchange: Exchange, principal: Principal) -> None:
        """The tenant's keys, as old as `keyring` keeps them. Raises Problem."""
        deployment, unlocked = self.keyring.at_hand(principal.tenant) or await self._load_keys(principal)
        exchange.principal = principal
        exchange.mapper = self.mappers.of(deployment, unlocked)

    async def _load_keys(self, principal: Principal) -> tuple[Deployment, Unlocked]:
        try:
            async with asyncio.timeout(self.recorder.limit_s):
                unlocked = await self.keyring.tenant(principal.tenant)
                return await self.keyring.deployment(), unlocked
        except KeysMissing:
            raise Problem(Reason.TENANT_INACTIVE) from None
        except (StoreError, TimeoutError, ErasuresUnreadable):
            raise Problem(Reason.AUDIT_UNAVAILABLE, retry_after_s=1) from None

    async def begin(self, exchange: Exchange, principal: Principal) -> None:
        """Redis ①: the intent, the status of tenant and key, and the records that the request names."""
        named = wanted(exchange)
        begun = await self.log.begin(
            principal.tenant,
            evidence.intent(exchange),
            credential=principal.credential,
            lookups=tuple(named.values()),
            stretch=stretch(exchange),
            open_s=self.open_intent_s,
        )
        exchange.begun = begun
        check_status(tenant_active=begun.tenant_active, credential_live=begun.credential_live)
        exchange.records = open_found(exchange.known_mapper, named, begun.found)

    # --- idempotency

    async def _answer_once(self, exchange: Exchange, slot: Slot) -> Answer:
        """The answer, remembered under its key; a failure frees the key."""
        try:
            answer = await self.answering.answer(exchange)
        except BaseException:
            await asyncio.shield(self.idempotency.let_go(slot))
            raise
        try:
            made = exchange.made[0][1] if exchange.made and exchange.known_route.refetch else ""
            await self.idempotency.fill(slot, made)
        except BaseException:
            if not isinstance(answer.body, bytes):
                await answer.body.aclose()
            raise
        return answer

    async def _repeat(self, exchange: Exchange, made: str) -> Answer:
        """What the same request made before, fetched again in a request of its own."""
        await self.recorder.finish(exchange, (), 200)
        route = BY_ACTION[exchange.known_route.refetch]
        again = Exchange(exchange.head, exchange.started, exchange.now, route, dict.fromkeys(route.path_ids, made))
        again.principal, again.mapper, again.lease = exchange.principal, exchange.mapper, exchange.lease
        return await self._recorded(again, self._fetch(again, exchange.known_principal))

    async def _fetch(self, again: Exchange, principal: Principal) -> Answer:
        try:
            gather(again)
            await self.begin(again, principal)
            decide_on(again, principal, self.policies)
            self.routing.choose(again)
            return await self.answering.answer(again)
        except Problem as problem:
            if problem.missing or (problem.relayed and problem.status == HTTPStatus.NOT_FOUND):
                raise Problem(Reason.IDEMPOTENCY_RESULT_UNAVAILABLE) from None
            raise

    # --- the refusals

    async def _refuse(self, exchange: Exchange, problem: Problem) -> Problem:
        """Records the refusal. What can't be recorded is answered 503."""
        if isinstance(problem, CredentialRefused) and problem.principal is not None:
            try:
                await self.unlock(exchange, problem.principal)
            except Problem as worse:
                problem = worse
        return await self.recorder.refuse(exchange, problem)


def _problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, UpstreamError):
        return Provider.problem(error)
    LOG.error("request.failed", exc_info=error)
    return Problem(Reason.INTERNAL)


def _may_be_large(head: Head) -> bool:
    """Whether the body may hold more than is walked through in a moment."""
    length = head.by_name.get(b"content-length")
    if length is None or b"content-encoding" in head.by_name:
        return b"content-type" in head.by_name
    return int(length) > INLINE_BYTES


def _no_route(unmatched: Unmatched, head: Head) -> Problem:
    path = head.raw_path.decode()
    if unmatched.reason:
        return Problem(Reason.ROUTE_DENIED, unmatched.reason, method=head.method, path=path)
    if unmatched.allow:
        allow = ", ".join(unmatched.allow).encode()
        return Problem(Reason.METHOD_NOT_ALLOWED, method=head.method, path=path, headers=((b"allow", allow),))
    return Problem(Reason.ROUTE_UNKNOWN, method=head.method, path=path)
