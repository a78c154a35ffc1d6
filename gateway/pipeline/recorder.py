"""Redis ② and every other ending: an answer's mappings with its outcome, refusals, and requests that were left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gateway.audit.event import Event
from gateway.audit.log import AuditLog
from gateway.errors import Problem, Reason
from gateway.mapping import Claim, Mapper
from gateway.pipeline import evidence
from gateway.pipeline.exchange import Exchange
from gateway.pipeline.recording import Record
from gateway.pipeline.salvage import Salvage
from gateway.stores.contract import Finished, Mode, Store, StoreError, StoreUnavailable, Write
from gateway.stores.deadlines import Deadlines
from gateway.tasks import Tasks, let_go
from gateway.telemetry import Metrics

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recorder:
    log: AuditLog
    store: Store
    salvage: Salvage
    tasks: Tasks
    metrics: Metrics
    limit_s: float
    """What a request waits for the store beside the log, which has a limit of its own."""
    ending: Callable[[], bool] = lambda: False
    """Whether the process is ending what is open: then it is not the client that leaves."""
    claims: Deadlines = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "claims", Deadlines(self.limit_s))

    async def finish(
        self,
        exchange: Exchange,
        made: Sequence[Record],
        status: int,
        *,
        last: bool = True,
        failure: Problem | None = None,
    ) -> None:
        """Writes what the answer made, what it deleted, and its outcome (`failure`: the upstream's own, told in a stream);
        beside it the claims of new roots.

        Raises Problem where any of it failed: what then exists upstream without a record is undone, and what was just
        recorded though another tenant holds it is buried. All of that also where the client leaves meanwhile.
        """
        exchange.made += ((record.write.kind, record.opaque) for record in made if record.write.mode is Mode.CREATE)
        if failure is not None:
            event = evidence.failure(exchange, failure)
        else:
            event = evidence.outcome(exchange, status) if last else evidence.accepted(exchange, status)
        writes = [record.write for record in made]
        if last and (deleted := exchange.deleted) is not None:
            writes.append(exchange.known_mapper.write_tombstone(deleted))
        # `finish` is on the wire before the claims are asked for: both travel together.
        appended = self.log.finish(
            exchange.known_mapper.tenant, (event,), begun=exchange.begun, writes=tuple(writes), closes=last
        )
        let_go(appended)
        try:
            await self._complete(exchange, event, made, writes, appended, last=last)
        except asyncio.CancelledError:
            rest = self._complete_unheard(exchange, event, made, writes, appended, last=last)
            await asyncio.shield(self.tasks.spawn("record abandoned answer", rest))
            raise
        if last:
            self.metrics.decision("error" if failure else "allow", failure.reason.value if failure else "")

    async def _complete(
        self,
        exchange: Exchange,
        event: Event,
        made: Sequence[Record],
        writes: Sequence[Write],
        appended: asyncio.Future[Finished],
        *,
        last: bool,
    ) -> None:
        try:
            lost = await self._claim(exchange.known_mapper, made)
            # As a rule it was answered ahead of the claims, and needs no shield.
            finished = _taken(appended.result() if appended.done() else await asyncio.shield(appended), writes)
            if any(conflict is not None for conflict in finished.conflicts):
                await self._append(exchange, event, _seen_again(exchange, made, finished), closes=last)
        except Problem as problem:
            # What met another's record is another's object: it is not ours to delete.
            if problem.reason is not Reason.MAPPING_CONFLICT:
                await self.undo(exchange, made)
            raise
        exchange.closed = exchange.closed or last
        if lost:
            LOG.critical("mapping.claimed_by_another_tenant", extra={"fields": {"kind": lost[0].write.kind.value}})
            buried = [exchange.known_mapper.bury(record.write, record.raw) for record in lost]
            await self._append(exchange, evidence.failure(exchange, _conflict()), buried, closes=True)
            exchange.closed = True
            raise _conflict()

    async def _complete_unheard(
        self,
        exchange: Exchange,
        event: Event,
        made: Sequence[Record],
        writes: Sequence[Write],
        appended: asyncio.Future[Finished],
        *,
        last: bool,
    ) -> None:
        """`_complete`, once nobody waits for it."""
        try:
            await self._complete(exchange, event, made, writes, appended, last=last)
        except Problem as problem:
            LOG.warning("answer.not_recorded", extra={"fields": {"reason": problem.reason.value}})

    async def undo(self, exchange: Exchange, made: Sequence[Record]) -> None:
        """Deletes upstream what an answer made that is withheld and has no record."""
        for record in made:
            if record.write.mode is Mode.CREATE:
                await self.salvage.undo(exchange.known_mapper.tenant, record.write, record.raw, exchange.known_provider)

    async def refuse(self, exchange: Exchange, problem: Problem) -> Problem:
        """Records a refusal or failure: as the outcome of the intent, as an event of its own, or, where no tenant is
        known, in the operator's sums. Returns the problem that the client shall read."""
        if exchange.closed:
            return problem
        self.metrics.decision("error" if evidence.has_failed(problem) else "deny", problem.reason.value)
        if exchange.principal is None or exchange.mapper is None:
            self.log.count_stranger(problem.reason, exchange.head.client)
            return problem
        event, tenant = evidence.failure(exchange, problem), exchange.principal.tenant
        try:
            if exchange.begun is not None:
                await self.log.finish(tenant, (event,), begun=exchange.begun)
            elif problem.reason not in (Reason.AUDIT_UNAVAILABLE, Reason.TOO_MANY_REFUSALS):
                begun = await self.log.begin(tenant, event, credential=exchange.principal.credential)
                if not begun.tenant_active:
                    problem = Problem(Reason.TENANT_INACTIVE)
                elif not begun.credential_live:
                    problem = Problem(Reason.CREDENTIAL_REVOKED)
        except Problem as failed:
            # A refusal that can't be recorded is no answer, but its reader learns no less than that nothing was done.
            if failed.reason is Reason.MAPPING_UNAVAILABLE and not exchange.upstream_called:
                return Problem(Reason.AUDIT_UNAVAILABLE, retry_after_s=1)
            return failed if failed.reason is not Reason.MAPPING_UNAVAILABLE else problem
        exchange.closed = True
        return problem

    async def abandon(self, exchange: Exchange) -> bool:
        """The client left, or was left. What remains is recorded and, unless its job runs on upstream, closed in the log;
        also while everything around is being cancelled. True where a job runs on."""
        if exchange.closed or exchange.left or exchange.begun is None:
            return False
        exchange.left = True
        await asyncio.shield(self.tasks.spawn("close abandoned request", self._leave(exchange)))
        return bool(exchange.job)

    async def _leave(self, exchange: Exchange) -> None:
        exchange.closed = not exchange.job
        left = Problem(Reason.SERVER_DRAINING if self.ending() else Reason.CLIENT_CLOSED)
        event = evidence.detached(exchange) if exchange.job else evidence.failure(exchange, left)
        try:
            writes = [record.write for record in exchange.unrecorded]
            await self._append(exchange, event, writes, closes=exchange.closed)
        except Problem:
            LOG.warning("audit.outcome_not_written")

    async def _append(self, exchange: Exchange, event: Event, writes: Sequence[Write], *, closes: bool) -> Finished:
        tenant = exchange.known_principal.tenant
        return _taken(
            await self.log.finish(tenant, (event,), begun=exchange.begun, writes=tuple(writes), closes=closes), writes
        )

    async def _claim(self, mapper: Mapper, made: Sequence[Record]) -> list[Record]:
        """Claims new roots for the tenant; returns those that another tenant holds. Raises Problem."""
        asked = [(record, record.claim, self._ask(record.claim)) for record in made if record.claim is not None]
        lost: list[Record] = []
        try:
            for record, claim, winner in asked:
                if not mapper.holds(claim, await winner):
                    lost.append(record)
        except StoreError:
            raise Problem(Reason.MAPPING_UNAVAILABLE) from None
        return lost

    def _ask(self, claim: Claim) -> asyncio.Future[bytes]:
        winner = self.store.claim(claim.key, claim.value, claim.lifetime_s)
        let_go(winner)
        self.claims.watch(winner, _unanswered)
        return winner


def _unanswered() -> StoreError:
    return StoreUnavailable("a claim was not answered in time")


def _taken(finished: Finished, writes: Sequence[Write]) -> Finished:
    """Raises Problem where the writes were refused: the tenant is no longer what it was at `begin`."""
    if writes and not finished.tenant_active:
        raise Problem(Reason.MAPPING_UNAVAILABLE)
    return finished


def _conflict() -> Problem:
    return Problem(Reason.MAPPING_CONFLICT)


def _seen_again(exchange: Exchange, made: Sequence[Record], finished: Finished) -> list[Write]:
    """A CREATE met a record. The upstream gave the same object to the same owner again (a repeated idempotency key), and
    it is only refreshed; anything else is a conflict. Raises Problem."""
    for record, met in zip(made, finished.conflicts, strict=False):
        if met is not None and not exchange.known_mapper.same_owner(record.write, met, exchange.known_principal.owner):
            LOG.critical("mapping.conflict", extra={"fields": {"kind": record.write.kind.value}})
            raise _conflict()
    return [
        replace(record.write, mode=Mode.PUT) if record.write.mode is Mode.CREATE else record.write for record in made
    ]
