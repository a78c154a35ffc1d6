"""A socket of the Responses API: each frame of the client is a request, each event of the service part of an answer.

What HTTP is asked of a request is asked of every frame, by the same stages: collect, begin, decide, forward; and of every
event what it is asked of a stream's: translate, record, then let go. A lane (`stream_id`) answers one request after the other.
What the service does not keep (`store: false`) lives in its connection, so its IDs live here, and die with the socket.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gateway.errors import Problem, Reason, error_fields
from gateway.ids.shape import find_raw, is_only_raw
from gateway.mapping import Mapper, Opened, is_child
from gateway.names import Kind, Principal, RawId
from gateway.pipeline.answering import Unrecorded, heritage_of, let_go, table_of
from gateway.pipeline.connection import Connection
from gateway.pipeline.deciding import decide_on, gather
from gateway.pipeline.exchange import Exchange, Head
from gateway.pipeline.provider import replace_tokens, said
from gateway.pipeline.recording import Heritage
from gateway.pipeline.request import INLINE_BYTES, Pipeline
from gateway.pipeline.routing import check_together
from gateway.rewrite.events import EventTranslator
from gateway.rewrite.id_table import IdTable, Minted
from gateway.surfaces.frames import CREATES, FRAMES, SOCKET_EVENT, STEERS
from gateway.upstreams import UpstreamSocket

LOG = logging.getLogger(__name__)

MAX_OPEN: Final = 256
"""Requests of one socket that wait for their end."""
MAX_LANES: Final = 1_024
_TURN_BYTES: Final = 8 * 1024
_ID_BYTES: Final = 1024
_LANE_BYTES: Final = 1024
"""What a request that waits for its end holds, each ID that it named, and a lane."""
MAX_REMEMBERED: Final = 8_192
"""IDs that a socket remembers of what the service does not keep; the oldest leave first."""

_STREAM_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_EVENT_ID_CHARS: Final = 512
_ENVELOPE: Final = frozenset({"type", "stream_id", "event_id", "response"})
"""What stands beside a nested request."""
_KEPT_BY_STORE: Final = frozenset({Kind.RESPONSE, Kind.ITEM})

_STEERED: Final = "response.steer."
_FAILED: Final = "response.failed"
_CREATED: Final = "response.created"


@dataclass(slots=True, eq=False)
class _Turn:
    """One request of the socket, until its answer has ended."""

    exchange: Exchange
    heritage: Heritage
    table: IdTable
    events: EventTranslator
    unrecorded: Unrecorded
    steers: str = field(default="", repr=False)
    """The raw ID of the response that it steers."""
    made: str = field(default="", repr=False)
    """The raw ID of the response that it has become."""
    kept: Opened | None = None
    """That response, where the service does not keep it."""
    held_bytes: int = 0
    cleared: set[bytes] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Past:
    """What a lane keeps of a request whose answer has ended: it may then be silent for an hour."""

    heritage: Heritage
    made: str = field(repr=False)
    kept: Opened | None


@dataclass(slots=True, eq=False)
class _Lane:
    """Answers come one after the other: `waiting` have no event yet."""

    waiting: deque[_Turn] = field(default_factory=deque)
    current: _Turn | None = None
    last: _Past | None = None


class _Memory:
    """Records of what the service does not keep, as they would have stood in the store."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Kind, bytes], Opened] = OrderedDict()

    def get(self, key: tuple[Kind, bytes]) -> Opened | None:
        return self._known.get(key)

    def keep(
        self, mapper: Mapper, heritage: Heritage, minted: Iterable[Minted], now: int, parent: Opened | None
    ) -> Opened | None:
        """Takes in what an answer minted; the response among it, or `parent`, on which its items hang."""
        for one in minted:
            if one.kind not in _KEPT_BY_STORE:
                continue
            h = mapper.h(one.kind, one.raw)
            raw = RawId(one.kind, one.raw)
            if is_child(one.kind):
                if parent is None:
                    continue
                opened = Opened(raw, h, parent.root, parent.h, deleted=False)
            else:
                root = mapper.root(
                    one.kind,
                    one.raw,
                    owner=heritage.owner,
                    visibility=heritage.visibility,
                    parent=b"",
                    now=now,
                    stored=False,
                )
                parent = opened = Opened(raw, h, root, h, deleted=False)
            self._known[one.kind, h] = opened
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
        return parent


class ResponsesSession(Connection):
    """One open socket, and what goes over it."""

    def __init__(self, pipeline: Pipeline, opening: Exchange, principal: Principal, upstream: UpstreamSocket) -> None:
        super().__init__(pipeline, opening, principal, upstream)
        self._opening = self._turn(opening)
        self._lanes: dict[str, _Lane] = {}
        self._open: dict[_Turn, None] = {}
        """Those that wait for their end, in order."""
        self._steering: list[_Turn] = []
        self._memory = _Memory()

    # --- the client's side

    async def take(self, head: Head, frame: Any, size: int) -> bytes | None:
        stream_id = frame.get("stream_id") if isinstance(frame, dict) else None
        stream_id = stream_id if isinstance(stream_id, str) and _may_name_a_lane(stream_id) else None
        exchange = Exchange(head, asyncio.get_running_loop().time(), int(self._pipeline.clock()))
        exchange.principal, exchange.mapper, exchange.streaming = self._principal, self._opened.mapper, True
        try:
            await self._pipeline.guarded(exchange, self._send_on(exchange, frame, size))
        except Problem as problem:
            self._check_ends(problem)
            return self.refused(problem, stream_id)
        return None

    async def _send_on(self, exchange: Exchange, frame: Any, size: int) -> None:
        await self._unlock(exchange)
        kind, lane, inner = _read(frame)
        exchange.route, exchange.body = FRAMES[kind], inner
        if len(self._open) >= MAX_OPEN or (lane not in self._lanes and len(self._lanes) >= MAX_LANES):
            raise Problem(Reason.SERVER_BUSY, retry_after_s=1)
        if kind == STEERS and not isinstance(inner.get("previous_response_id"), str):
            raise Problem(Reason.BAD_PARAMETER, "it names the response to steer", param="previous_response_id")
        if size > INLINE_BYTES:
            await asyncio.to_thread(gather, exchange)
        else:
            gather(exchange)
        await self._pipeline.begin(exchange, self._principal)
        for key, opened in exchange.records.items():
            exchange.records[key] = opened or self._memory.get(key)
        decide_on(exchange, self._principal, self._pipeline.policies)
        check_together(exchange, self._opened.known_provider.project)
        exchange.provider = self._opened.provider
        replace_tokens(exchange)
        turn = self._turn(exchange)
        body = exchange.body
        sent = {**frame, "response": body} if "response" in frame else {**_envelope(frame), **body}
        if kind == CREATES:
            self._lane(lane).waiting.append(turn)
            self._begin(turn)
        elif kind == STEERS:
            named = exchange.at("previous_response_id")
            turn.steers = named.raw.text if named else ""
            self._steering.append(turn)
            self._begin(turn)
        exchange.forget_request()
        exchange.upstream_called = True
        await self._forward(orjson.dumps(sent))
        if kind not in (CREATES, STEERS):
            await self._recorder.finish(exchange, (), 200)

    def _turn(self, exchange: Exchange) -> _Turn:
        heritage = heritage_of(exchange)
        return self._turn_with(exchange, heritage, table_of(exchange, heritage))

    @staticmethod
    def _turn_with(exchange: Exchange, heritage: Heritage, table: IdTable) -> _Turn:
        return _Turn(exchange, heritage, table, EventTranslator(SOCKET_EVENT, table), Unrecorded(exchange, heritage))

    def _lane(self, name: str) -> _Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane()
            self.held_bytes += _LANE_BYTES
        return lane

    def _begin(self, turn: _Turn) -> None:
        exchange = turn.exchange
        said = len(exchange.model) + sum(map(len, exchange.tokens.values()))
        turn.held_bytes = _TURN_BYTES + _ID_BYTES * len(exchange.opened) + said
        self.held_bytes += turn.held_bytes
        self._open[turn] = None

    def _leave(self, turn: _Turn) -> None:
        del self._open[turn]
        self.held_bytes -= turn.held_bytes

    # --- the upstream's side

    async def show(self, data: bytes) -> AsyncIterator[bytes]:
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise Problem(Reason.UPSTREAM_BAD_ANSWER)
        if event["type"] == "error":
            yield await self._failed(event)
            return
        turn = self._turn_of(event)
        for frame in await self._translated(turn, data, event):
            yield frame

    async def _translated(self, turn: _Turn, data: bytes, event: dict[str, Any]) -> list[bytes]:
        exchange, kind = turn.exchange, event["type"]
        translated = turn.events.translate(data, event)
        minted = turn.table.take_new()
        turn.unrecorded.add(minted)
        if not turn.heritage.stored:
            turn.kept = self._memory.keep(exchange.known_mapper, turn.heritage, minted, exchange.now, turn.kept)
        frames = [json for _, json in translated.before]
        frames.append(translated.data)
        try:
            frames = [let_go(exchange, frame, turn.table, turn.table.raws, turn.cleared) for frame in frames]
        except Problem:
            await self._recorder.undo(exchange, turn.unrecorded.take_roots())
            raise
        exchange.bytes_out += sum(map(len, frames))
        if turn.unrecorded.roots:
            await self._recorder.finish(exchange, turn.unrecorded.take_roots(), 200, last=False)
        if kind.startswith(_STEERED):
            await self._end_steering(turn, kind)
        elif translated.terminal:
            self._errors += translated.failed or kind == _FAILED
            said = Problem(Reason.UPSTREAM_ERROR) if translated.failed else None
            await self._end(turn, said)
        return frames

    async def _end(self, turn: _Turn, failure: Problem | None = None) -> None:
        if turn in self._open:
            if not turn.exchange.closed:
                await self._recorder.finish(turn.exchange, turn.unrecorded.take_children(), 200, failure=failure)
            self._leave(turn)
        # What is heard after an end begins anew; the texts of the answer, and what was sought in them, are let go.
        turn.events, turn.cleared = EventTranslator(SOCKET_EVENT, turn.table), set()
        for lane in self._lanes.values():
            if lane.current is turn:
                lane.current, lane.last = None, _Past(turn.heritage, turn.made, turn.kept)

    async def _end_steering(self, turn: _Turn, kind: str) -> None:
        """Accepted: its answer begins with an event of its own. Pending: the client's next request takes it along."""
        if kind == "response.steer.accepted" or turn not in self._steering:
            return
        self._steering.remove(turn)
        failed = Problem(Reason.UPSTREAM_ERROR) if kind == "response.steer.failed" else None
        await self._recorder.finish(turn.exchange, (), 200, failure=failed)
        self._leave(turn)

    def _turn_of(self, event: dict[str, Any]) -> _Turn:
        """The request that an event answers. Raises Problem for an answer that nobody asked for."""
        lane_id = event.get("stream_id")
        lane = self._lane(lane_id if isinstance(lane_id, str) else "")
        kind = event["type"]
        if kind.startswith(_STEERED):
            steer = event.get("steer")
            named = steer.get("previous_response_id") if isinstance(steer, dict) else None
            steering = next((turn for turn in self._steering if turn.steers == named), None)
            return steering or self._after(lane)
        if kind == _CREATED and lane.current is None:
            lane.current = self._beginning(lane)
            if lane.current is None:
                raise Problem(Reason.UPSTREAM_BAD_ANSWER)
            response = event.get("response")
            made = response.get("id") if isinstance(response, dict) else None
            lane.current.made = made if isinstance(made, str) else ""
        return lane.current or (lane.waiting[0] if lane.waiting else self._after(lane))

    def _after(self, lane: _Lane) -> _Turn:
        """For what is heard after an end: under the socket's own request, and with the ended one's heritage."""
        past = lane.last
        if past is None:
            return self._opening
        turn = self._turn_with(self._opened, past.heritage, table_of(self._opened, past.heritage))
        turn.kept = past.kept
        return turn

    def _beginning(self, lane: _Lane) -> _Turn | None:
        """Who gets the response that begins: what steered the one before, else who waits."""
        return self._steered(lane) or (lane.waiting.popleft() if lane.waiting else None)

    def _steered(self, lane: _Lane) -> _Turn | None:
        """Takes the first request that steers what the lane answered last."""
        if lane.last is None or not lane.last.made:
            return None
        turn = next((turn for turn in self._steering if turn.steers == lane.last.made), None)
        if turn is not None:
            self._steering.remove(turn)
        return turn

    async def _failed(self, event: dict[str, Any]) -> bytes:
        """The service's error: of the lane that it names, or, where no request is open, of the socket."""
        self._errors += 1
        lane_id = event.get("stream_id")
        lane = self._lanes.get(lane_id if isinstance(lane_id, str) else "", _Lane())
        # An answer under way ends in an event of its own, so an error is rather about what has none yet.
        turn = lane.waiting.popleft() if lane.waiting else self._steered(lane) or lane.current
        error, status = event.get("error"), event.get("status")
        problem = said(
            error if isinstance(error, dict) else {},
            status if isinstance(status, int) and 400 <= status < 600 else 500,
            (turn or self._opening).table.quote,
        )
        if turn is not None:
            problem = await self._recorder.refuse(turn.exchange, problem)
            await self._end(turn)
        return self.refused(problem, lane_id if isinstance(lane_id, str) and _may_name_a_lane(lane_id) else None)

    def refused(self, problem: Problem, stream_id: str | None = None) -> bytes:
        message, kind, param, code = error_fields(problem)
        frame: dict[str, Any] = {
            "type": "error",
            "status": problem.status,
            "error": {"type": kind, "code": code, "message": message, "param": param},
        }
        return orjson.dumps(frame if stream_id is None else frame | {"stream_id": stream_id})

    # --- its end

    def _take_open(self) -> list[Exchange]:
        turns = [*self._open]
        for turn in turns:
            turn.exchange.unrecorded = turn.unrecorded.take_children()
        return [turn.exchange for turn in turns]


def _read(frame: Any) -> tuple[str, str, dict[str, Any]]:
    """Type, lane and request of a client's frame, flat or nested. Raises Problem."""
    kind = frame.get("type") if isinstance(frame, dict) else None
    if not isinstance(kind, str) or kind not in FRAMES:
        raise Problem(Reason.BAD_PARAMETER, "this socket takes frames of type " + ", ".join(FRAMES), param="type")
    lane = frame.get("stream_id")
    if lane is not None and not (isinstance(lane, str) and _may_name_a_lane(lane)):
        raise Problem(Reason.BAD_PARAMETER, "a lane is named by 1 to 256 of A-Z a-z 0-9 _ . -", param="stream_id")
    event_id = frame.get("event_id")
    if event_id is not None and not (
        isinstance(event_id, str) and len(event_id) <= _EVENT_ID_CHARS and not is_only_raw(event_id)
    ):
        raise Problem(Reason.BAD_PARAMETER, "it is a text of 512 characters at most", param="event_id")
    if "response" not in frame:
        return kind, lane or "", {name: value for name, value in frame.items() if name not in _ENVELOPE}
    inner = frame["response"]
    if not isinstance(inner, dict) or not frame.keys() <= _ENVELOPE:
        raise Problem(
            Reason.BAD_PARAMETER, "a nested request is an object with nothing of it beside it", param="response"
        )
    return kind, lane or "", inner


def _envelope(frame: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in frame.items() if name in _ENVELOPE}


def _may_name_a_lane(text: str) -> bool:
    return _STREAM_ID.fullmatch(text) is not None and not find_raw(text)
