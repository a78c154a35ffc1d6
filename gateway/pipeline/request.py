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
from typing import Any, Final
from urllib.parse import parse_qsl

from gateway.audit.log import AuditLog
from gateway.authn.authenticate import Authentication
from gateway.authn.verdict import CredentialRefused
from gateway.authz import Deny, Policies, decide, owns
from gateway.errors import Problem, Reason, render
from gateway.ids.kinds import KINDS
from gateway.mapping import Mapper, Mappers, Opened
from gateway.names import Principal
from gateway.pipeline import evidence, forward
from gateway.pipeline.answering import Answering
from gateway.pipeline.exchange import Answer, Exchange, Head
from gateway.pipeline.idempotency import Idempotency, Slot
from gateway.pipeline.provider import Provider
from gateway.pipeline.recorder import STORE_LIMIT_S, Recorder
from gateway.rewrite.inbound import Collected, Quotation, Reference, collect, put, refusal
from gateway.stores.contract import Lookup, StoreError
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.keyring import Deployment, Keyring, KeysMissing, Unlocked
from gateway.surfaces.route import Route
from gateway.surfaces.spec import Role
from gateway.surfaces.table import BY_ACTION, Unmatched, match
from gateway.upstreams import UpstreamError

LOG = logging.getLogger(__name__)

INLINE_BYTES: Final = 64 * 1024
"""Of a body, in which every ID is sought on the event loop: some ten thousand values at most, and as many microseconds."""

ReadBody = Callable[[Route], Awaitable[Any]]
"""Reads and parses the body as the route allows it; None where there is none. Raises Problem."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Carries requests out. One instance per process, for all tenants."""

    authentication: Authentication
    keyring: Keyring
    mappers: Mappers
    log: AuditLog
    policies: Policies
    answering: Answering
    recorder: Recorder
    idempotency: Idempotency
    admit: Callable[[Head, Principal], None]
    """A last look at head and principal together (which page may call for whom). Raises Problem."""
    open_intent_s: int
    """Seconds after which an intent without an outcome is closed as unknown: the longest that a request may take."""
    clock: Callable[[], float] = time.time

    async def respond(self, head: Head, read_body: ReadBody) -> Answer:
        """The answer to one request. Raises nothing but cancellation: a failure is an answer too."""
        exchange = Exchange(head, asyncio.get_running_loop().time(), int(self.clock()))
        return await self._recorded(exchange, self._carry_out(exchange, read_body))

    async def _recorded(self, exchange: Exchange, work: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer of `work`; whatever ends it otherwise is the exchange's outcome, and the client's answer."""
        try:
            return await work
        except Problem as problem:
            return await self._refuse(exchange, problem)
        except UpstreamError as error:
            return await self._refuse(exchange, Provider.problem(error))
        except asyncio.CancelledError:
            await self.recorder.abandon(exchange)
            raise
        except Exception:
            LOG.exception("request.failed")
            return await self._refuse(exchange, Problem(Reason.INTERNAL))

    async def _carry_out(self, exchange: Exchange, read_body: ReadBody) -> Answer:
        head = exchange.head
        matched = match(head.method, head.raw_path.decode())
        principal = await self._authenticate(exchange)
        if isinstance(matched, Unmatched):
            raise _no_route(matched, head)
        exchange.route, exchange.segments = matched.route, matched.segments
        exchange.body = await read_body(matched.route)
        if _may_be_large(head):
            # A thread: what is asked of a million values must not hold up everybody else.
            await asyncio.to_thread(self._collect, exchange)
        else:
            self._collect(exchange)
        await self._begin(exchange, principal)
        self._decide(exchange, principal)
        slot = await self.idempotency.take(exchange)
        if isinstance(slot, str):
            return await self._repeat(exchange, slot)
        return await self.answering.answer(exchange) if slot is None else await self._answer_once(exchange, slot)

    # --- the stages

    async def _authenticate(self, exchange: Exchange) -> Principal:
        """Who is calling, and the tenant's keys. From here on a refusal belongs to that tenant's log."""
        principal = await self.authentication.authenticate(exchange.head.headers, exchange.now)
        await self._unlock(exchange, principal)
        self.admit(exchange.head, principal)
        return principal

    async def _unlock(self, exchange: Exchange, principal: Principal) -> None:
        deployment, unlocked = self.keyring.at_hand(principal.tenant) or await self._load_keys(principal)
        exchange.principal = principal
        exchange.mapper = self.mappers.of(deployment, unlocked)

    async def _load_keys(self, principal: Principal) -> tuple[Deployment, Unlocked]:
        try:
            async with asyncio.timeout(STORE_LIMIT_S):
                unlocked = await self.keyring.tenant(principal.tenant)
                return await self.keyring.deployment(), unlocked
        except KeysMissing:
            raise Problem(Reason.TENANT_INACTIVE) from None
        except (StoreError, TimeoutError, ErasuresUnreadable):
            raise Problem(Reason.AUDIT_UNAVAILABLE, retry_after_s=1) from None

    def _collect(self, exchange: Exchange) -> None:
        """Every ID that the request names. What can't be an ID of ours ends here, without a look-up."""
        route, body = exchange.known_route, exchange.body
        if exchange.head.query:
            exchange.query = _query(exchange.head.query)
        exchange.collected = collect(route, exchange.segments, exchange.query, body, exchange.known_mapper.verify)
        exchange.model = forward.check_model(route, exchange.segments, body)
        for reference in exchange.collected.references:
            reason = refusal(reference)
            if reason is None:
                continue
            if reference.required:
                raise reference.problem(reason)
            reference.parsed = None

    async def _begin(self, exchange: Exchange, principal: Principal) -> None:
        """Redis ①: the intent, the status of tenant and key, and the records that the request names."""
        mapper = exchange.known_mapper
        named: list[Reference | Quotation] = [*exchange.collected.references, *exchange.collected.quotations]
        wanted = {(one.kind, one.parsed.h): Lookup(one.kind, one.parsed.h) for one in named if one.parsed is not None}
        begun = await self.log.begin(
            principal.tenant,
            evidence.intent(exchange),
            credential=principal.credential,
            lookups=tuple(wanted.values()),
            open_s=self.open_intent_s,
        )
        exchange.begun = begun
        _check_status(begun.tenant_active, begun.credential_live)
        for (key, lookup), found in zip(wanted.items(), begun.found, strict=True):
            exchange.records[key] = mapper.to_raw(lookup, found)

    def _decide(self, exchange: Exchange, principal: Principal) -> None:
        """Ownership of everything named, then the policies. Raw IDs are in place afterwards."""
        mapper, collected = exchange.known_mapper, exchange.collected
        inline: set[str] | None = None
        for reference in collected.references:
            opened = exchange.record(reference)
            reason = _closed(reference, opened, principal, mapper)
            if reason is None and opened:
                reference.raw = opened.raw.text
                exchange.opened[reference.text] = opened
                continue
            if reference.spec.correlates and reference.parsed:
                inline = _inline(collected) if inline is None else inline
                if reference.text in inline:
                    exchange.correlated.add(reference.text)
                    continue
            if reference.required:
                raise reference.problem(reason or Reason.NOT_RECORDED)
            collected.dropped += 1
        for reference in collected.references:
            if reference.raw:
                continue
            # An approval and the request that it answers, both in this very input: they only have to name each other.
            if reference.text in exchange.correlated:
                reference.raw = reference.text
            elif reference.spec.nowhere:
                reference.raw = exchange.stand_in_for(reference)
        for quotation in collected.quotations:
            opened = exchange.record(quotation)
            if opened and mapper.form.is_current(quotation.parsed) and owns(principal, opened.root):
                quotation.raw = opened.raw.text
                exchange.opened.setdefault(quotation.text, opened)
        _check_family(exchange)
        put(collected)
        route = exchange.known_route
        circumstances = forward.circumstances(route, exchange.model, exchange.body, exchange.head.client)
        decision = decide(self.policies, principal, route.action, exchange.resources, circumstances)
        exchange.policy = decision.policy
        if isinstance(decision, Deny):
            raise Problem(decision.reason)

    # --- idempotency

    async def _answer_once(self, exchange: Exchange, slot: Slot) -> Answer:
        """The answer, remembered under its key; a failure frees the key."""
        try:
            answer = await self.answering.answer(exchange)
        except BaseException:
            await asyncio.shield(self.idempotency.let_go(slot))
            raise
        try:
            await self.idempotency.fill(slot, exchange.made[0][1] if exchange.made else "")
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
        again.principal, again.mapper = exchange.principal, exchange.mapper
        return await self._recorded(again, self._fetch(again, exchange.known_principal))

    async def _fetch(self, again: Exchange, principal: Principal) -> Answer:
        try:
            self._collect(again)
            await self._begin(again, principal)
            self._decide(again, principal)
            return await self.answering.answer(again)
        except Problem as problem:
            if problem.missing or (problem.relayed and problem.status == HTTPStatus.NOT_FOUND):
                raise Problem(Reason.IDEMPOTENCY_RESULT_UNAVAILABLE) from None
            raise

    # --- the refusals

    async def _refuse(self, exchange: Exchange, problem: Problem) -> Answer:
        """Records the refusal, then renders it. What can't be recorded is answered 503."""
        if isinstance(problem, CredentialRefused) and problem.principal is not None:
            try:
                await self._unlock(exchange, problem.principal)
            except Problem as worse:
                problem = worse
        problem = await self.recorder.refuse(exchange, problem)
        return Answer(*render(problem, exchange.head.request_id), action=exchange.action)


def _may_be_large(head: Head) -> bool:
    """Whether the body may hold more than is walked through in a moment."""
    length = head.by_name.get(b"content-length")
    if length is None or b"content-encoding" in head.by_name:
        return b"content-type" in head.by_name
    return int(length) > INLINE_BYTES


def _closed(reference: Reference, opened: Opened | None, principal: Principal, mapper: Mapper) -> Reason | None:
    """Why a reference whose tag verified does not open for the principal; None where it does."""
    if reference.parsed is None:
        return Reason.NOT_AN_OPAQUE_ID
    if opened is None or not mapper.form.is_current(reference.parsed):
        return Reason.NOT_RECORDED if mapper.form.is_inert(reference.parsed) else Reason.FOREIGN_OR_RETIRED
    if not owns(principal, opened.root):
        return Reason.NOT_OWNED
    if reference.spec.role is not Role.MADE and (opened.deleted or not KINDS[reference.kind].served):
        return Reason.NOT_RECORDED
    return None


def _query(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=64)
    except ValueError:
        raise Problem(Reason.BAD_PARAMETER, "the query has more than 64 parameters") from None


def _inline(collected: Collected) -> set[str]:
    """The IDs of items that carry their payload."""
    return {one.text for one in collected.references if one.spec.role is Role.OWN and not one.required}


def _check_family(exchange: Exchange) -> None:
    """A path that names a root and a child of another root names nothing."""
    if len(exchange.known_route.path_ids) < 2:
        return
    found = [exchange.at(name) for name in exchange.known_route.path_ids]
    for root, child, spec_name in zip(found, found[1:], list(exchange.known_route.path_ids)[1:], strict=False):
        if root and child and child.root_h != root.h:
            raise next(one for one in exchange.collected.references if one.param == spec_name).problem(
                Reason.NOT_RECORDED
            )


def _check_status(tenant_active: bool, credential_live: bool) -> None:
    if not tenant_active:
        raise Problem(Reason.TENANT_INACTIVE)
    if not credential_live:
        raise Problem(Reason.CREDENTIAL_REVOKED)


def _no_route(unmatched: Unmatched, head: Head) -> Problem:
    path = head.raw_path.decode()
    if unmatched.reason:
        return Problem(Reason.ROUTE_DENIED, unmatched.reason, method=head.method, path=path)
    if unmatched.allow:
        allow = ", ".join(unmatched.allow).encode()
        return Problem(Reason.METHOD_NOT_ALLOWED, method=head.method, path=path, headers=((b"allow", allow),))
    return Problem(Reason.ROUTE_UNKNOWN, method=head.method, path=path)
