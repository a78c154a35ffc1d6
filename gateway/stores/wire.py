"""One connection to one Redis server: many callers, one write for all that is called in a turn of the loop, replies in order.

RESP2 (https://redis.io/docs/latest/develop/reference/protocol-spec/). A call that was written when the connection broke may
or may not have been carried out; the owner decides whether to send it again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import hiredis

from gateway.stores.address import Address
from gateway.stores.contract import EventsLost, Sink, StoreError, StoreUnavailable, WriterRefused

Reply = Any
"""What a command answers in RESP2: bytes, int, None, or a list of these."""
Argument = bytes | str | int

INTERNAL: Final = -1
"""Slot of calls that belong to a connection; they die with it."""


_SCRIPT_ERRORS: Final[dict[str, type[StoreError]]] = {"WRITER": WriterRefused, "LOST": EventsLost}


def refusal(code: str) -> StoreError:
    """What an error reply with this code means to the caller."""
    return _SCRIPT_ERRORS.get(code, StoreUnavailable)(f"Redis refused a call: {code}")


def pack(arguments: tuple[Argument, ...]) -> bytes:
    """The command as it goes over the wire."""
    packed: bytes = hiredis.pack_command(arguments)  # type: ignore[arg-type]
    return packed


class Refused(Exception):
    """An error reply to a connection's own call."""


class Call:
    """One command on its way. `sink` gets `parse(reply)`."""

    __slots__ = ("attempt", "durable", "expires", "lane", "packed", "parse", "sink", "slot", "tag")

    def __init__(
        self,
        slot: int,
        packed: bytes,
        sink: Sink[Any],
        parse: Callable[[Reply], Any] | None = None,
        expires: float = 0.0,
        tag: bytes = b"",
        durable: bool = False,
    ) -> None:
        self.slot = slot
        self.packed = packed
        self.sink = sink
        self.parse = parse
        self.expires = expires
        """Loop time after which it is not sent again."""
        self.attempt = 0
        """Rises when the call is taken back from a connection: a reply to an earlier attempt is not looked at."""
        self.lane: object | None = None
        """Set while this call goes ahead of others that wait for it."""
        self.durable = durable
        """Confirmed only once the configured durability covers it."""
        self.tag = tag
        """Hash tag of a key in the call's slot."""

    def resolve(self, reply: Reply) -> None:
        if self.sink.done():
            return
        try:
            answer = reply if self.parse is None else self.parse(reply)
        except Exception as error:  # a reply of another form must fail its call, not the connection
            self.sink.set_exception(error)
        else:
            self.sink.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.sink.done():
            self.sink.set_exception(error)


class Owner(Protocol):
    """Who is told what comes of the calls."""

    def on_reply(self, wire: Wire, call: Call, reply: Reply) -> None: ...

    def on_error(self, wire: Wire, call: Call, text: str) -> None: ...

    def on_lost(self, wire: Wire, unanswered: list[Call]) -> None: ...


class Wire(asyncio.Protocol):
    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._loop = loop
        self._reader = hiredis.Reader()
        self._outbox: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self.pending: deque[tuple[Call, int, float]] = deque()
        """Calls without a reply: the call, which attempt it was, and when it was handed over (loop time)."""
        self.run_id = b""
        """Which start of which server this is, from INFO."""
        self.closed: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are no asyncio.Transport

    def send(self, call: Call) -> None:
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(call.packed)
        self.pending.append((call, call.attempt, self._loop.time()))

    def ask(self, *arguments: Argument) -> asyncio.Future[Reply]:
        """A call of the connection's own. Raises Refused for an error reply, StoreUnavailable if the connection breaks."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        self.send(Call(INTERNAL, pack(arguments), future))
        return future

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def overdue(self, before: float) -> bool:
        """Whether the oldest call without a reply was handed over before that loop time."""
        return bool(self.pending) and self.pending[0][2] < before

    def _flush(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._outbox))
        self._outbox.clear()

    def data_received(self, data: bytes) -> None:
        reader, pending, owner = self._reader, self.pending, self._owner
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:
                call, attempt, _ = pending.popleft()
                if call.attempt != attempt:
                    continue
                if isinstance(reply, hiredis.ReplyError):
                    if call.slot == INTERNAL:
                        call.fail(Refused(str(reply)))
                    else:
                        owner.on_error(self, call, str(reply))
                elif call.slot == INTERNAL:
                    call.resolve(reply)
                else:
                    owner.on_reply(self, call, reply)
        except (hiredis.ProtocolError, IndexError):  # not Redis, or replies that nobody asked for
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._outbox.clear()
        unanswered = []
        for call, attempt, _ in self.pending:
            if call.slot == INTERNAL:
                call.fail(StoreUnavailable("the connection to Redis broke"))
            elif call.attempt == attempt:
                unanswered.append(call)
        self.pending.clear()
        if not self.closed.done():
            self.closed.set_result(None)
        self._owner.on_lost(self, unanswered)


async def open_wire(owner: Owner, address: Address, tls: ssl.SSLContext | None) -> Wire:
    """A connection, not yet authenticated. Raises OSError. The caller sets the time limit."""
    loop = asyncio.get_running_loop()
    if address.port == 0:
        _, wire = await loop.create_unix_connection(lambda: Wire(owner, loop), address.host)
    else:
        name = address.host if tls else None
        _, wire = await loop.create_connection(
            lambda: Wire(owner, loop), address.host, address.port, ssl=tls, server_hostname=name
        )
    return wire
