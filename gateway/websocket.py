"""One end of a WebSocket (RFC 6455), the server's or the client's: messages in, messages out, and its close.

The `websockets` package parses and writes the frames. What it leaves to its user stands here once for both ends: how much is
read ahead, and parsed in one turn of the loop, who waits for whom, and when a silent peer is given up. Most sockets are idle
and there are many, so an end holds no task, no queue and no headers. Nothing of a frame is ever logged, at whatever level.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Hashable
from dataclasses import dataclass
from typing import Any, Final, cast

from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import SEND_EOF, State
from websockets.server import ServerProtocol
from websockets.streams import StreamReader

from gateway.turns import FRAME_BYTES, turns_of

QUIET: Final = logging.getLogger(__name__)
"""For the package's own protocols, whose failures it tells; `Endpoint` keeps it from telling frames."""

BEAT_S: Final = 15.0
"""How often a peer is pinged, and looked at."""
_SILENT_BEATS: Final = 3
"""After so many in a row without a byte, or without room for one of ours, the peer counts as gone."""
CLOSE_S: Final = 5.0
"""How long the peer may take for its half of a close."""
_LINGER_S: Final = 1.0
"""How long the rest of what a failed peer sends is read and dropped: a reset would take the close frame from it."""
_AHEAD_BYTES: Final = 64 * 1024
_AHEAD: Final = 16
"""Bytes and messages that may wait to be taken before no more is read."""
MAX_FRAGMENTS: Final = 4_096
"""Of one message."""
_ABNORMAL: Final = 1006


@dataclass(slots=True, eq=False)
class SocketEnded(Exception):
    """The peer closed. `code` and `reason` as it sent them (RFC 6455 section 7.4); 1005 where its close had no code, 1006
    where it sent none."""

    code: int
    reason: str


class _Reader(StreamReader):
    """The package's reader, which gives no more frames than a turn allows for."""

    def __init__(self) -> None:
        super().__init__()
        self.is_behind = False
        """The parser waits for a turn, not for bytes."""
        self._floor = 0
        """Where so much of the buffer is left, the turn is over: each frame raises it by what it costs beside its bytes."""

    def take_turn(self, parser: Generator[None], allowance: int) -> int:
        """Has `parser` go on; gives what that cost."""
        self._floor = len(self.buffer) - allowance
        next(parser)
        return allowance + self._floor - len(self.buffer)

    def at_eof(self) -> Generator[None, None, bool]:
        """Where the parser stands before each frame."""
        ended = yield from super().at_eof()
        while not ended and len(self.buffer) <= self._floor:
            self.is_behind = True
            yield
        self.is_behind = False
        self._floor += FRAME_BYTES
        return ended


class Endpoint(asyncio.Protocol):
    """One end. One task calls `receive`, any may call `send`; both may be cancelled."""

    __slots__ = (
        "_asks", "_closes", "_ended", "_ending", "_failure", "_fragments", "_frames", "_full", "_gone", "_heard", "_held",
        "_is_text", "_loop", "_messages", "_partial", "_paused", "_reader", "_silent", "_timer", "_turns", "_waiters",
        "_waiting_bytes", "party", "transport",
    )  # fmt: skip

    def __init__(self, frames: ClientProtocol | ServerProtocol) -> None:
        frames.debug = False
        frames.reader = self._reader = _Reader()
        frames.parser = frames.parse()  # the one that stands there waits for the reader that was
        next(frames.parser)
        self._frames = frames
        self._loop = asyncio.get_running_loop()
        self._turns = turns_of(self._loop)
        self.party: Hashable = None
        """Whose turns it takes; None: of all those of whom nothing is known yet."""
        self.transport: asyncio.Transport = cast(Any, None)
        self._messages: list[bytes | None] = []
        self._waiting_bytes = 0
        """Of `_messages`."""
        self._partial: bytearray | None = None
        """Of a message whose last fragment has not come: its bytes, however many fragments they came in."""
        self._fragments = 0
        """Of that message."""
        self._is_text = True
        self._waiters: list[asyncio.Future[None]] = []
        """Who waits: for a message, to send while the peer takes nothing, or for the connection's end."""
        self._ended: tuple[int, str] | None = None
        """Code and reason of the end, once no message comes any more."""
        self._failure: Exception | None = None
        """What `receive` raises from here on, though the peer may still be told something."""
        self._ending = False
        """The connection is cut in a while, whatever the peer does."""
        self._gone = False
        self._closes = False
        """Nobody takes messages any more."""
        self._full = False
        """The peer takes no more bytes at present."""
        self._held = False
        """Nothing of it is heard at present: neither parsed nor read."""
        self._asks = False
        """It waits for its turn to parse what was read."""
        self._paused = False
        """Nothing is read from it at present."""
        self._heard = False
        self._silent = 0
        self._timer: asyncio.TimerHandle | None = None

    async def receive(self) -> bytes | None:
        """The next message's text in UTF-8; None for a binary one. What is not taken holds the peer back. Raises SocketEnded."""
        while not self._messages:
            if self._failure is not None:
                raise self._failure
            if self._ended is not None:
                raise SocketEnded(*self._ended)
            await self._wait()
        message = self._messages.pop(0)
        self._waiting_bytes -= len(message or b"")
        if self._held and not self._is_ahead():
            self._hold(held=False)
        return message

    async def send(self, text: bytes) -> None:
        """Sends a text message; waits while the peer takes no more. Raises SocketEnded."""
        await self.drained()
        if self._ended is not None:
            raise SocketEnded(*self._ended)
        if self._frames.state is not State.OPEN:
            raise SocketEnded(_ABNORMAL, "")
        self._frames.send_text(text)
        self._flush()

    async def drained(self) -> None:
        """Until the peer has taken nearly all that was sent, or takes nothing more."""
        while self._full and self._ended is None:
            await self._wait()

    def begin_close(self, code: int, reason: str = "") -> None:
        """Says that this end closes; the connection ends with the peer's answer, or without it in a while. May be repeated."""
        if self._frames.state is State.OPEN and not self.transport.is_closing():
            self._frames.send_close(code, reason)
            self._flush()
            self._end_by(CLOSE_S if self._failure is None else _LINGER_S)
        self._closes = True
        self._messages.clear()
        self._waiting_bytes = 0
        self._hold(held=False)

    async def wait_ended(self) -> None:
        """Until the connection is gone."""
        while not self._gone:
            await self._wait()

    @property
    def buffered_bytes(self) -> int:
        """What was received and not taken yet."""
        return self._waiting_bytes + len(self._reader.buffer) + len(self._partial or b"")

    # --- what the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._failure is None:
            self._reader.feed_data(data)
            self._ask()
            self._regulate()

    def eof_received(self) -> None:
        self._frames.receive_eof()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone, self._full = True, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end()
        self._wake()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._silent = 0
        if self._held and not self._is_ahead():
            self._hold(held=False)
        self._wake()

    # --- what the turns tell

    def take_turn(self, allowance: int) -> int:
        self._asks = False
        if self._held or self._gone or self._failure is not None:
            return 0
        cost = self._reader.take_turn(self._frames.parser, allowance)
        self._flush()
        for event in self._frames.events_received():
            self._hear(event)
        if self._frames.parser_exc is not None:
            self._end()
        if self._reader.is_behind:
            self._ask()
        self._regulate()
        return cost

    # --- for subclasses

    def _opened(self) -> None:
        """From here on the peer is heard, and expected to be."""
        self._hold(held=False)
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _hear(self, event: Any) -> None:
        """An event of the parser, in order."""
        if self._ended is not None:
            return
        frame: Frame = event
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._take_fragment(frame)
        elif frame.opcode is Opcode.CLOSE:
            closed = self._frames.close_rcvd
            if closed is not None:
                self._end(closed.code, closed.reason)
        elif frame.opcode is Opcode.PING and self._full:
            # Its answer waits in memory: who asks and does not read is not heard until it does.
            self._hold(held=True)

    def _end(self, code: int = _ABNORMAL, reason: str = "") -> None:
        """No message comes any more; what came is still taken."""
        if self._ended is None:
            self._ended = code, reason
            self._partial = None
            self._wake()
            if not self._gone:
                self._end_by(CLOSE_S)

    def _drop(self, failure: Exception) -> None:
        """Lets go of everything that came. The subclass passes nothing on any more: within a frame there is no way back."""
        self._failure = failure
        self._messages.clear()
        self._waiting_bytes = 0
        self._partial = None
        self._reader.buffer.clear()
        self._reader.is_behind = False
        self._regulate()
        self._wake()

    def _fail(self, code: CloseCode, reason: str) -> None:
        self._frames.fail(code, reason)
        self._flush()
        self._end()

    def _flush(self) -> None:
        """Writes what the protocol wants written, and closes where it wants that."""
        writes = self._frames.data_to_send()
        if not writes or self.transport.is_closing():
            return
        ends = writes[-1] == SEND_EOF
        if len(writes) > 1 or not ends:
            self.transport.write(writes[0] if len(writes) == 1 else b"".join(writes))
        if not ends:
            return
        if self._frames.close_sent is not None and self._frames.close_rcvd is None:
            self._hold(held=False)
            self._end_by(_LINGER_S)
        else:
            self._end_by(CLOSE_S)
            self.transport.close()

    def _end_by(self, seconds: float) -> None:
        """Cuts the connection then, unless it has ended, or shall end earlier."""
        if not self._ending:
            self._ending = True
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(seconds, self.transport.abort)

    # --- inside

    def _take_fragment(self, frame: Frame) -> None:
        if frame.opcode is not Opcode.CONT:
            self._is_text, self._fragments = frame.opcode is Opcode.TEXT, 0
        self._fragments += 1
        if self._fragments > MAX_FRAGMENTS:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"more than {MAX_FRAGMENTS} fragments")
            return
        if frame.fin and self._partial is None:
            message = bytes(frame.data)
        else:
            self._partial = self._partial if self._partial is not None else bytearray()
            self._partial += frame.data
            if not frame.fin:
                return
            message, self._partial = bytes(self._partial), None
        if self._is_text:
            try:
                message.decode()
            except UnicodeDecodeError:
                self._fail(CloseCode.INVALID_DATA, "")
                return
        if self._closes:
            return
        self._messages.append(message if self._is_text else None)
        self._waiting_bytes += len(message) if self._is_text else 0
        if self._is_ahead():
            self._hold(held=True)
        self._wake()

    def _is_ahead(self) -> bool:
        return self._waiting_bytes >= _AHEAD_BYTES or len(self._messages) >= _AHEAD

    def _hold(self, *, held: bool) -> None:
        if held != self._held:
            self._held = held
            self._ask()
            self._regulate()

    def _ask(self) -> None:
        """For a turn, where there may be something to parse and somebody to hear it."""
        if self._reader.buffer and not self._asks and not self._held:
            self._asks = True
            self._turns.ask(self)

    def _regulate(self) -> None:
        """Reads where what was read is parsed as far as it goes, and the peer is heard."""
        paused = self._held or self._asks or self._reader.is_behind
        if paused == self._paused or self.transport.is_closing():
            return
        self._paused = paused
        if paused:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _beat(self) -> None:
        """Pings, for what stands between sees no other sign of life either, and gives up a peer that stays silent. One that
        takes nothing is as good as silent, whatever it sends; one that is not listened to says nothing by its silence."""
        self._timer = self._loop.call_later(BEAT_S, self._beat)
        self._silent = self._silent + 1 if self._full or not (self._heard or self._paused) else 0
        self._heard = False
        if self._silent >= _SILENT_BEATS:
            self.transport.abort()
        elif not self._full and self._frames.state is State.OPEN:
            self._frames.send_ping(b"")
            self._flush()

    async def _wait(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    def _wake(self) -> None:
        """Everybody who waits looks again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
