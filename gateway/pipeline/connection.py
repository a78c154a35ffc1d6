"""What every kind of socket has in common: its client is looked at again, and its end is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, Protocol

from gateway.errors import Problem, Reason
from gateway.mapping import Mapper
from gateway.names import Principal
from gateway.pipeline.exchange import Exchange, Head
from gateway.pipeline.request import Pipeline
from gateway.pipeline.standing import check
from gateway.stores.contract import StoreUnavailable
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.keyring import KeysMissing
from gateway.upstreams import SocketEnded, UpstreamSocket

_SWITCHED = 101
"""The status of a socket that opened (RFC 9110 section 15.2.2)."""
_ORDERLY = frozenset({1000, 1001, 1005})
_FIRST_OF_ITS_OWN = 3000
"""From here on a close code means what the service says that it means (RFC 6455 section 7.4.2)."""


class Side(StrEnum):
    """Who ended a socket; the value is the log's."""

    CLIENT = "client"
    GATEWAY = "gateway"
    SERVICE = "service"


class Session(Protocol):
    """One open socket. `take` is the client's side, `show` the upstream's; each is called by one task."""

    upstream: UpstreamSocket
    held_bytes: int
    """Of requests that are not answered yet."""

    async def take(self, head: Head, frame: Any, size: int) -> bytes | None:
        """Sends the client's frame on, once it may go; or gives the error frame that the client gets for it. `head`: the
        socket's, with a request ID of the frame's own; `size`: of the frame, in bytes. Raises Problem for what ends the
        socket."""

    def show(self, data: bytes) -> AsyncIterator[bytes]:
        """What the client gets of an upstream's message, each frame once what it shows is recorded. Raises Problem."""

    def refused(self, problem: Problem) -> bytes:
        """The error frame for what is no frame, or for what ends the socket."""

    async def check(self) -> None:
        """Whether the client may still do what it may do, with the IDs that it knows. Raises Problem; StoreError where nobody
        knows."""

    async def end(self, problem: Problem | None, code: int, *, by: Side, ended: int) -> None:
        """Closes the upstream's side with `code`, and what is open in the log: as ended by `problem`, or, without one, as left
        by the client. `ended`: the code with which `by` ended the socket."""


class Connection:
    """The half of a `Session` that does not depend on what goes over it."""

    def __init__(self, pipeline: Pipeline, opening: Exchange, principal: Principal, upstream: UpstreamSocket) -> None:
        self._pipeline = pipeline
        self._recorder = pipeline.answering.recorder
        self._opened = opening
        self._principal = principal
        self.upstream = upstream
        self.held_bytes = 0
        self._errors = 0
        """That the service told, or that an answer ended in."""

    async def _pass_on(self, frame: bytes) -> None:
        """Until the upstream has it: as long, the client's frame counts. Raises SocketEnded."""
        await self.upstream.send(frame)
        await self.upstream.drained()

    async def _forward(self, frame: bytes) -> None:
        """Raises Problem where the upstream's side has ended, which whoever reads from it finds too."""
        try:
            await self._pass_on(frame)
        except SocketEnded:
            raise Problem(Reason.UPSTREAM_UNAVAILABLE) from None

    @staticmethod
    def _check_ends(problem: Problem) -> None:
        """Raises what is not the frame's alone."""
        if problem.reason is Reason.IDS_RETIRED:
            raise problem

    async def check(self) -> None:
        await self._check_client()
        await self._renew_keys()

    async def _check_client(self) -> None:
        pipeline = self._pipeline
        await check(pipeline.authentication, self._recorder.store, self._opened.head, self._principal, pipeline.clock())

    async def _unlock(self, exchange: Exchange) -> None:
        """A frame has its tenant's keys as any request has them. Raises Problem."""
        await self._pipeline.unlock(exchange, self._principal)
        exchange.mapper = self._renew(exchange.known_mapper)

    async def _renew_keys(self) -> None:
        pipeline = self._pipeline
        try:
            unlocked = await pipeline.keyring.tenant(self._principal.tenant)
            deployment = await pipeline.keyring.deployment()
        except KeysMissing:
            raise Problem(Reason.TENANT_INACTIVE) from None
        except ErasuresUnreadable:
            raise StoreUnavailable("nobody knows whether the tenant was erased") from None
        self._renew(pipeline.mappers.of(deployment, unlocked))

    def _renew(self, newest: Mapper) -> Mapper:
        """What other gateways seal by now opens here too. IDs of a former epoch are in the client's hands and in the answers
        under way: they end with the socket. Raises Problem."""
        mapper = self._opened.known_mapper
        if newest.epoch != mapper.epoch:
            raise Problem(Reason.IDS_RETIRED)
        self._opened.mapper = newest = newest.at(mapper.upstream, mapper.project)
        return newest

    async def end(self, problem: Problem | None, code: int, *, by: Side, ended: int) -> None:
        self._opened.ending = {"closed_by": by.value, "close_code": ended, "errors": self._errors}
        left_in_order = by is Side.SERVICE and (ended in _ORDERLY or ended >= _FIRST_OF_ITS_OWN)
        try:
            await self.upstream.close(code)
        finally:
            for exchange in self._take_open():
                await self._close(exchange, problem)
            if problem is not None and not left_in_order:
                await self._close(self._opened, problem)
            else:
                done = self._recorder.finish(self._opened, (), _SWITCHED)
                await self._pipeline.guarded(self._opened, done)

    async def _close(self, exchange: Exchange, problem: Problem | None) -> None:
        if problem is None:
            await self._recorder.abandon(exchange)
        else:
            await self._recorder.refuse(exchange, problem)

    def _take_open(self) -> list[Exchange]:
        """The requests that wait for their end, with what they have shown."""
        return []
