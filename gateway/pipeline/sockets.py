"""Opens sockets: who comes to which path, and with what right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.errors import Problem, Reason
from gateway.names import Principal, TenantId
from gateway.pipeline import forward
from gateway.pipeline.connection import Session
from gateway.pipeline.deciding import decide_on, gather
from gateway.pipeline.exchange import Exchange, Head
from gateway.pipeline.realtime_socket import RealtimeSession
from gateway.pipeline.request import Pipeline
from gateway.pipeline.responses_socket import ResponsesSession
from gateway.surfaces.denied import reason_for
from gateway.surfaces.frames import CONNECT
from gateway.surfaces.realtime import TALKS
from gateway.surfaces.route import Route
from gateway.surfaces.table import PREFIX
from gateway.upstreams import UpstreamSocket
from gateway.upstreams.openai import request_headers

Start = Callable[[Pipeline, Exchange, Principal, UpstreamSocket], Session]


@dataclass(frozen=True, slots=True)
class Door:
    """One path: the route of its opening, and what begins behind it."""

    connect: Route
    start: Start
    names_user: bool = False
    """The upstream reads in a header who the end user is: no frame has a place to say so."""


DOORS: Final[Mapping[str, Door]] = MappingProxyType(
    {
        PREFIX + CONNECT.path: Door(CONNECT, ResponsesSession),
        **{
            PREFIX + talk.connect.path: Door(talk.connect, RealtimeSession.speaking(talk), names_user=True)
            for talk in TALKS
        },
    }
)


@dataclass(frozen=True, slots=True)
class Sockets:
    """One instance per process, for all tenants."""

    pipeline: Pipeline
    max_frame_bytes: int

    async def open(self, head: Head, seat: Callable[[TenantId], None]) -> Session:
        """A session with its upstream's socket open. `seat` raises Problem where the tenant has no more sockets, and its caller
        sees to their end. Raises Problem, recorded, where the client is refused."""
        pipeline = self.pipeline
        exchange = Exchange(head, asyncio.get_running_loop().time(), int(pipeline.clock()))
        return await pipeline.guarded(exchange, self._open(exchange, seat))

    async def _open(self, exchange: Exchange, seat: Callable[[TenantId], None]) -> Session:
        pipeline, head = self.pipeline, exchange.head
        path = head.raw_path.decode()
        principal = await pipeline.authenticate(exchange)
        door = DOORS.get(path)
        if door is None:
            if why := reason_for(head.method, path):
                raise Problem(Reason.ROUTE_DENIED, why, method=head.method, path=path)
            raise Problem(Reason.ROUTE_UNKNOWN, method=head.method, path=path)
        exchange.route = door.connect
        seat(principal.tenant)
        gather(exchange)
        exchange.model = forward.check_model({}, dict(exchange.query), exchange.collected)
        await pipeline.begin(exchange, principal)
        decide_on(exchange, principal, pipeline.policies)
        pipeline.routing.choose(exchange)
        provider = exchange.known_provider
        beta = head.by_name.get(b"openai-beta")
        user = exchange.known_mapper.end_user(principal.owner).encode() if door.names_user else None
        headers = request_headers(provider.credential, beta=(beta,) if beta else (), safety_identifier=user)
        target = forward.target(door.connect, {}, exchange.query, exchange.collected)
        exchange.upstream_called = True
        upstream = await provider.upstream.open_socket(target, headers, self.max_frame_bytes)
        exchange.streaming = True
        return door.start(pipeline, exchange, principal, upstream)
