"""A socket of the Realtime API: speech in, speech out.

Sound passes as it is. What says what a session is, or adds to it, takes the stages of a request: collect, begin, decide,
forward. Whatever the service makes here dies with the connection, so its IDs live here too: nothing of them is recorded, and
nobody else can name them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Any, Final

import orjson

from gateway.errors import Problem, Reason, error_fields
from gateway.ids.encoding import base62
from gateway.ids.shape import TUNED, find_raw
from gateway.names import Principal
from gateway.pipeline import forward
from gateway.pipeline.answering import let_go
from gateway.pipeline.connection import Connection
from gateway.pipeline.deciding import decide_on, gather
from gateway.pipeline.exchange import Exchange, Head
from gateway.pipeline.provider import replace_tokens, said
from gateway.pipeline.realtime_names import OWN_KINDS, TAIL_CHARS, Draft, Names, Naming
from gateway.pipeline.request import INLINE_BYTES, Pipeline
from gateway.pipeline.routing import check_together
from gateway.rewrite.events import EventTranslator
from gateway.rewrite.id_table import IdTable
from gateway.surfaces.realtime import REPLACED, ROOT, Frame, Talk, Weight
from gateway.upstreams import SocketEnded, UpstreamSocket

MAX_SOUGHT: Final = 1_024
"""IDs that are looked for in every event, wherever and in whichever pieces they stand. Then the oldest quarter leaves, so that an
hour of speech does not end for them, nor pay for each in each event. At an ID's place they read as before: what stands for one is
computed. One that stands whole somewhere else is looked for again (`_recall`)."""

MAX_CHOSEN: Final = 256
"""Items of one frame whose IDs the client chooses."""
_CHOSEN: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""An item's ID (https://platform.openai.com/docs/api-reference/realtime-client-events)."""
_EVENT_ID_CHARS: Final = 512

_EVENT: Final = "event_"
"""How the service's names of events begin, and those of no object."""
_DONE: Final = "response.done"
_ENVELOPE: Final = frozenset({"type", "event_id"})
_SOUND: Final = _ENVELOPE | {"audio"}


class RealtimeSession(Connection):
    """One open socket, and what goes over it."""

    def __init__(
        self, talk: Talk, pipeline: Pipeline, opening: Exchange, principal: Principal, upstream: UpstreamSocket
    ) -> None:
        super().__init__(pipeline, opening, principal, upstream)
        self._talk = talk
        mapper = opening.known_mapper
        self._tokens = opening.tokens
        self._names = Names(mapper, principal, opening.now)
        sent = {opened.raw.text: text for text, opened in opening.opened.items()}
        self._table = IdTable(Naming(self._names, mapper, principal, self._tokens), sent)
        self._events = EventTranslator(talk.events, self._table)
        self._cleared: set[bytes] = set()
        self._forgets = False
        """Whether there are IDs of this connection that are no longer sought."""
        self._model = _decided(opening)

    @classmethod
    def speaking(cls, talk: Talk) -> Callable[[Pipeline, Exchange, Principal, UpstreamSocket], RealtimeSession]:
        """What begins sessions of one kind."""
        return lambda pipeline, opening, principal, upstream: cls(talk, pipeline, opening, principal, upstream)

    # --- the client's side

    async def take(self, head: Head, frame: Any, size: int) -> bytes | None:
        kind = frame.get("type") if isinstance(frame, dict) else None
        row = self._talk.frames.get(kind) if isinstance(kind, str) else None
        if row is not None and row.weight is Weight.SOUND and _is_sound(frame):
            # Where the upstream has ended, whoever reads from it finds that too.
            with contextlib.suppress(SocketEnded):
                await self._pass_on(orjson.dumps(frame))
            return None
        exchange = Exchange(head, asyncio.get_running_loop().time(), int(self._pipeline.clock()))
        exchange.principal, exchange.mapper = self._principal, self._opened.mapper
        exchange.provider, exchange.streaming = self._opened.provider, True
        try:
            await self._pipeline.guarded(exchange, self._send_on(exchange, frame, row, size))
        except Problem as problem:
            self._check_ends(problem)
            return self.refused(problem, _event_id(frame))
        return None

    async def _send_on(self, exchange: Exchange, frame: Any, row: Frame | None, size: int) -> None:
        await self._unlock(exchange)
        if row is None:
            known = ", ".join(self._talk.frames)
            raise Problem(Reason.BAD_PARAMETER, f"this socket takes frames of type {known}", param="type")
        if row.weight is Weight.SOUND:
            raise Problem(Reason.BAD_PARAMETER, "it is base64, and stands alone", param="audio")
        draft = Draft(self._names)
        exchange.route, exchange.tokens, exchange.passing = row.route, self._tokens, draft
        exchange.body = body = _request(frame, row)
        if size > INLINE_BYTES:
            await asyncio.to_thread(self._gather, exchange, row, draft)
        else:
            self._gather(exchange, row, draft)
        exchange.model = exchange.model or _transcribing(body) or self._model
        if row.weight is Weight.REQUEST:
            await self._pipeline.begin(exchange, self._principal)
        _remember(exchange, draft)
        decide_on(exchange, self._principal, self._pipeline.policies)
        check_together(exchange, exchange.known_provider.project)
        replace_tokens(exchange)
        draft.keep()
        for text, opened in exchange.opened.items():
            self._table.restore(opened.raw.text, text)
        self._table.say(exchange.model)
        outer = {name: frame[name] for name in _ENVELOPE if name in frame}
        exchange.upstream_called = True
        whole = {**outer, row.within: body} if row.within in frame else {**outer, **body}
        await self._forward(orjson.dumps(whole))
        self._model = _decided(exchange)
        if row.weight is Weight.REQUEST:
            await self._recorder.finish(exchange, (), 200)

    def _gather(self, exchange: Exchange, row: Frame, draft: Draft) -> None:
        """Every ID that the frame names. Raises Problem."""
        _take_chosen(exchange.body, row, draft)
        foreign = self._opened.known_mapper.verify
        gather(exchange, lambda text: draft.verify(text) or foreign(text))

    # --- the upstream's side

    async def show(self, data: bytes) -> AsyncIterator[bytes]:
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = None
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str):
            raise Problem(Reason.UPSTREAM_BAD_ANSWER)
        if kind in REPLACED:
            event = {"type": kind, "event_id": event.get("event_id"), **REPLACED[kind]}
            data = orjson.dumps(event)
        if kind == "error":
            frames = [self._failed(event)]
        else:
            response = event.get("response")
            if kind == _DONE and isinstance(response, dict) and response.get("status") == "failed":
                self._errors += 1
            if self._forgets:
                self._recall(data)
            translated = self._events.translate(data, event)
            for minted in self._table.take_new():
                if minted.kind in OWN_KINDS:
                    self._names.keep(minted.kind, minted.raw, self._table.texts[minted.raw])
            frames = [*(json for _, json in translated.before), translated.data]
        own = event.get("event_id")
        own = own if isinstance(own, str) and own.startswith(_EVENT) else ""
        for frame in frames:
            shown = let_go(self._opened, frame, self._table, self._table.raws, self._cleared, event_id=own)
            self._opened.bytes_out += len(shown)
            yield shown
        if len(self._table.texts) > MAX_SOUGHT:
            oldest = set(islice(self._table.texts, len(self._table.texts) - MAX_SOUGHT * 3 // 4))
            self._forgets = True
            self._table.forget(oldest)
            self._events.forget(oldest)
            self._cleared.clear()

    def _recall(self, data: bytes) -> None:
        """Has IDs that are no longer sought, and stand in this event, sought again."""
        for start, end in find_raw(data):
            raw = data[start:end].decode()
            if raw not in self._table.texts and (text := self._names.spoken(raw)) is not None:
                self._table.restore(raw, text)

    def _failed(self, event: dict[str, Any]) -> bytes:
        """The service's error in our words. What it answers, the client knows by the ID that it gave that frame."""
        self._errors += 1
        error = event.get("error")
        error = error if isinstance(error, dict) else {}
        status = 500 if error.get("type") == "server_error" else 400
        named, own = error.get("event_id"), event.get("event_id")
        return _error(said(error, status, self._table.quote), named, own if isinstance(own, str) else "")

    def refused(self, problem: Problem, event_id: str | None = None) -> bytes:
        return _error(problem, event_id, "event_" + _fresh())


def _take_chosen(body: dict[str, Any], row: Frame, draft: Draft) -> None:
    """Items' IDs that the client chooses: the service gets one of ours for each, for the client's may be another's that it has
    heard of. Raises Problem."""
    held = body.get(row.items) if row.items else None
    for item in held if isinstance(held, list) else [held]:
        chosen = item.get("id") if isinstance(item, dict) and item.get("type") != "item_reference" else None
        if not isinstance(chosen, str) or chosen in draft:
            continue
        if not _CHOSEN.fullmatch(chosen) or chosen.startswith(ROOT):
            told = f"an item's ID is 1 to 32 of A-Z a-z 0-9 _ - and does not begin with '{ROOT}'"
            raise Problem(Reason.BAD_PARAMETER, told, param=f"{row.items}.id")
        if len(draft) >= MAX_CHOSEN:
            told = f"one frame chooses the IDs of {MAX_CHOSEN} items at most"
            raise Problem(Reason.BAD_PARAMETER, told, param=row.items)
        draft.choose("item_" + _fresh(), chosen)


def _remember(exchange: Exchange, draft: Draft) -> None:
    """What the connection knows of what the frame names. Of kinds that live in it, nothing else is anything here."""
    for one in exchange.collected.references:
        if one.parsed is not None and one.kind in OWN_KINDS:
            exchange.records[one.kind, one.parsed.h] = draft.get((one.kind, one.parsed.h))


def _is_sound(frame: dict[str, Any]) -> bool:
    return type(frame.get("audio")) is str and frame.keys() <= _SOUND and _has_event_id(frame)


def _has_event_id(frame: dict[str, Any]) -> bool:
    """Whether its ID, if it has one, is a text. It addresses nothing, and may be any."""
    event_id = frame.get("event_id")
    return event_id is None or (isinstance(event_id, str) and len(event_id) <= _EVENT_ID_CHARS)


def _event_id(frame: Any) -> str | None:
    named = frame.get("event_id") if isinstance(frame, dict) and _has_event_id(frame) else None
    return named if isinstance(named, str) else None


def _request(frame: dict[str, Any], row: Frame) -> dict[str, Any]:
    """What the frame asks for. Raises Problem."""
    if not _has_event_id(frame):
        told = f"it is a text of {_EVENT_ID_CHARS} characters at most"
        raise Problem(Reason.BAD_PARAMETER, told, param="event_id")
    if not row.within:
        return {name: value for name, value in frame.items() if name not in _ENVELOPE}
    inner = frame.get(row.within)
    if inner is not None and not isinstance(inner, dict):
        raise Problem(Reason.BAD_PARAMETER, "it is an object", param=row.within)
    if beside := frame.keys() - _ENVELOPE - {row.within}:
        raise Problem(Reason.BAD_PARAMETER, f"this frame says all in '{row.within}'", param=min(beside)[:64])
    return inner or {}


def _transcribing(body: dict[str, Any]) -> str:
    """The model of a session that only writes down what it hears."""
    if body.get("type") != "transcription":
        return ""
    within: Any = body
    for name in ("audio", "input", "transcription", "model"):
        within = within.get(name) if isinstance(within, dict) else None
    # A fine-tuned one was looked up where it stands, and is not written down.
    return within if isinstance(within, str) and not within.startswith(TUNED) else ""


def _decided(exchange: Exchange) -> str:
    """The model that the policies have seen."""
    tuned = exchange.at("model")
    return forward.base_of(exchange.model, tuned.raw.text if tuned else "")


def _fresh() -> str:
    """As the service writes them."""
    return base62(secrets.token_bytes(16), TAIL_CHARS)[1:] + secrets.choice("0123456789")


def _error(problem: Problem, answers: Any, own: str) -> bytes:
    """`answers`: what the client called the frame that failed."""
    message, kind, param, code = error_fields(problem)
    named = answers if isinstance(answers, str) else None
    error = {"type": kind, "code": code, "message": message, "param": param, "event_id": named}
    return orjson.dumps({"type": "error", "event_id": own, "error": error})
