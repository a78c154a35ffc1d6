"""Sockets behind the guard (RFC 6455): the client's messages to the session, the session's to the client.

Who is refused is refused before the socket opens, as an HTTP answer: a client that learns it later tries again at once. Each
side's slowness holds the other back; each side's close is the other's. While a socket is open its client's credential is
looked at again.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from traceback import clear_frames
from typing import Final, TypeVar

from gateway.errors import Problem, Reason
from gateway.names import TenantId
from gateway.pipeline.connection import Session, Side
from gateway.pipeline.request import INLINE_BYTES
from gateway.pipeline.sockets import Sockets
from gateway.pipeline.standing import CHECK_EVERY_S, UNCHECKED_S
from gateway.stores.contract import StoreError
from gateway.surfaces.frames import METHOD
from gateway.telemetry import REQUEST_ID, Metrics
from gateway.transport.bodies import parse_json
from gateway.transport.budget import Budget
from gateway.transport.client_socket import SOCKET, ClientSocket
from gateway.transport.drain import Drain
from gateway.transport.guard import HEAD, Head, Receive, Scope, Send, new_request_id
from gateway.transport.limits import Limits
from gateway.websocket import CLOSE_S, SocketEnded

E = TypeVar("E", bound=BaseException)


_ASKS: Final = "response.create"
"""The frame by which every kind of socket asks for something new."""
_PROTOCOL: Final = "realtime"
"""What a browser's offer is answered with: beside it stands its key, which is never repeated."""

_GOING_AWAY: Final = 1001
_UNSUPPORTED: Final = 1003
_POLICY: Final = 1008
_INTERNAL: Final = 1011
_RESTARTING: Final = 1012
_TRY_AGAIN: Final = 1013
# RFC 6455 section 7.4.2: what may not be sent, or means something between two peers alone.
_UNSENDABLE: Final = frozenset({1004, 1005, 1006, 1015})

_CLOSED_BY: Final = {
    Reason.SERVER_DRAINING: _RESTARTING,
    Reason.IDS_RETIRED: _RESTARTING,
    Reason.CREDENTIAL_EXPIRED: _POLICY,
    Reason.CREDENTIAL_REVOKED: _POLICY,
    Reason.TENANT_INACTIVE: _POLICY,
    Reason.UNAUTHENTICATED: _POLICY,
    Reason.SERVER_BUSY: _TRY_AGAIN,
    Reason.SHARE_EXHAUSTED: _TRY_AGAIN,
}
"""Close codes of what ends a socket from here; every other reason is an internal one."""


@dataclass(slots=True)
class _Over(Exception):
    """The socket ends. `code` and `reason` are what the other side reads of it."""

    code: int
    reason: str = ""
    by: Side = Side.GATEWAY
    """Who closed, or is gone."""
    problem: Problem | None = None
    """What ended the requests that are still open; None: their client left them."""
    told: bool = False
    """The client reads the problem ahead of the close."""


@dataclass(frozen=True, slots=True)
class WebSocketApp:
    """Every path that is a socket; every other is refused before it opens."""

    sockets: Sockets
    limits: Limits
    drain: Drain
    metrics: Metrics
    bodies: Budget
    """What frames count against."""
    seats: Budget
    """Of the sockets that are open."""
    check_every_s: float = CHECK_EVERY_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head: Head = scope[HEAD]
        socket: ClientSocket = scope[SOCKET]
        offered = scope["subprotocols"]
        scope.clear()  # for as long as the socket stands nobody looks at it again, and idle ones are many
        session: Session | None = None
        over = _Over(_RESTARTING, by=Side.CLIENT)
        seat = self.seats.lease()

        def take(tenant: TenantId) -> None:
            seat.tenant = tenant
            seat.hold(1)

        try:
            async with self.drain.work():
                session = await self.sockets.open(head, take)
                socket.lease = self.bodies.lease(seat.tenant)
                socket.party = session.upstream.party = seat.tenant
                socket.accept(head.request_id, _PROTOCOL if _PROTOCOL in offered else None)
                self.metrics.stream_opened("websocket")
                over = await self._relay(session, head, socket)
        except Problem as problem:  # before it opened, or the process ends
            if session is None:
                raise
            over = _failed(_bare(problem))
        finally:
            try:
                if session is not None:
                    await asyncio.shield(self._end(session, over, socket))
            finally:
                seat.give_back()

    async def _relay(self, session: Session, head: Head, socket: ClientSocket) -> _Over:
        """Until the first side, or who looks at the client again, has found an end."""
        over = _Over(_INTERNAL)
        try:
            async with asyncio.TaskGroup() as group:
                with contextlib.closing(_Watch(self.check_every_s, session, group)):
                    group.create_task(self._from_upstream(session, socket))
                    await self._from_client(session, head, socket)
        except* _Over as ended:
            over = _first(ended)
        except* Problem as failed:
            over = _failed(_first(failed))
        return over

    async def _from_client(self, session: Session, head: Head, socket: ClientSocket) -> None:
        own = replace(head, method=METHOD, query=b"")
        while True:
            await self._take_one(session, own, socket)

    async def _take_one(self, session: Session, own: Head, socket: ClientSocket) -> None:
        """In a call of its own: what it held of a message is gone while the next is waited for."""
        try:
            data = await socket.receive()
        except SocketEnded as ended:
            raise _Over(ended.code, by=Side.CLIENT) from None
        if data is None:
            raise _Over(_UNSUPPORTED, "this socket takes text messages")
        request_id = new_request_id()
        REQUEST_ID.set(request_id)
        try:
            if len(data) > INLINE_BYTES:
                frame = await asyncio.to_thread(parse_json, data, self.limits)
            else:
                frame = parse_json(data, self.limits)
        except Problem as problem:
            answer: bytes | None = session.refused(problem)
        else:
            if self.drain.draining and isinstance(frame, dict) and frame.get("type") == _ASKS:
                answer = session.refused(Problem(Reason.SERVER_DRAINING))
            else:
                answer = await session.take(replace(own, request_id=request_id), frame, len(data))
            socket.count_beside(session.held_bytes)
        if answer is not None:
            await _tell(socket, answer)

    async def _from_upstream(self, session: Session, socket: ClientSocket) -> None:
        while True:
            await self._show_one(session, socket)

    async def _show_one(self, session: Session, socket: ClientSocket) -> None:
        try:
            data = await session.upstream.receive()
        except SocketEnded as ended:
            broke = Problem(Reason.UPSTREAM_BAD_ANSWER)
            # Its reason is a text of the service's, and such texts pass nowhere as they are.
            raise _Over(ended.code, by=Side.SERVICE, problem=broke) from None
        if data is None:
            raise Problem(Reason.UPSTREAM_BAD_ANSWER)
        async for frame in session.show(data):
            await _tell(socket, frame)
        socket.count_beside(session.held_bytes)

    async def _end(self, session: Session, over: _Over, socket: ClientSocket) -> None:
        """Tells the upstream, the log and the client, in this order: what is still under way is for nobody."""
        self.metrics.stream_closed("websocket")
        left = over.by is Side.CLIENT
        code = _sendable(over.code, _GOING_AWAY) if left else _GOING_AWAY
        await session.end(over.problem, code, by=over.by, ended=over.code)
        if left:
            return
        if over.told and over.problem is not None:
            with contextlib.suppress(SocketEnded, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await socket.send(session.refused(over.problem))
        socket.begin_close(_sendable(over.code, _INTERNAL), over.reason)


class _Watch:
    """Looks at a session's client again and again, in a task of the group each time: the group ends with it as soon as the
    client may not go on, or nobody can tell for too long."""

    __slots__ = ("_checked", "_every_s", "_group", "_loop", "_session", "_timer")

    def __init__(self, every_s: float, session: Session, group: asyncio.TaskGroup) -> None:
        self._every_s = every_s
        self._session = session
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._checked = self._loop.time()
        self._timer = self._loop.call_later(every_s, self._begin)

    def close(self) -> None:
        self._timer.cancel()

    def _begin(self) -> None:
        self._group.create_task(self._look())

    async def _look(self) -> None:
        """Raises Problem."""
        try:
            async with asyncio.timeout(self._every_s):
                await self._session.check()
            self._checked = self._loop.time()
        except (StoreError, TimeoutError):
            if self._loop.time() - self._checked > UNCHECKED_S:
                raise Problem(Reason.AUDIT_UNAVAILABLE) from None
        self._timer = self._loop.call_later(self._every_s, self._begin)


async def _tell(socket: ClientSocket, frame: bytes) -> None:
    """Raises _Over where the client is gone."""
    try:
        await socket.send(frame)
    except SocketEnded as ended:
        raise _Over(ended.code, by=Side.CLIENT) from None


def _first(group: BaseExceptionGroup[E]) -> E:
    _bare(group)
    return _bare(next(one for one in group.exceptions if not isinstance(one, BaseExceptionGroup)))


def _bare(error: E) -> E:
    """`error` without its way here: that leads back to itself, and all that stood on it, the session too, would wait for the
    collector."""
    at: BaseException | None = error
    while at is not None:
        clear_frames(at.__traceback__)
        at = at.__context__
    error.__context__ = None
    return error.with_traceback(None)


def _failed(problem: Problem) -> _Over:
    return _Over(_CLOSED_BY.get(problem.reason, _INTERNAL), problem=problem, told=True)


def _sendable(code: int, otherwise: int) -> int:
    return otherwise if code in _UNSENDABLE else code
