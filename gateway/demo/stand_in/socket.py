"""`/v1/responses` as a socket: frames in, events out, lanes side by side, and what `store: false` keeps while it is open."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from typing import Any

from gateway.demo.stand_in import failures, responses
from gateway.demo.stand_in.answers import Request, script_in
from gateway.demo.stand_in.canary import Canary
from gateway.demo.stand_in.exchange import Receive, Send
from gateway.demo.stand_in.failures import Failure
from gateway.demo.stand_in.faults import scripted_failure
from gateway.demo.stand_in.fidelity import encode
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider, Received, StoredResponse
from gateway.demo.stand_in.scripts import Script
from gateway.demo.stand_in.service_headers import service_headers
from gateway.demo.stand_in.streaming import events

PATH = "/v1/responses"
_ENVELOPE = frozenset({"type", "stream_id", "event_id"})


class Socket:
    """One connection. `run` ends when the client leaves or a script closes it."""

    def __init__(self, provider: Provider, received: Received, receive: Receive, send: Send) -> None:
        self._provider = provider
        self._opened = received
        self._receive = receive
        self._send = send
        self._canary = Canary(provider.ids) if provider.options.canary else None
        self._lanes: defaultdict[str | None, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._kept: dict[str, StoredResponse] = {}
        self._lane_of: dict[str, str | None] = {}

    async def run(self) -> None:
        headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in service_headers(self._provider, "req_socket")]
        await self._send({"type": "websocket.accept", "headers": headers})
        async with asyncio.TaskGroup() as group:
            under_way = []
            while (message := await self._receive())["type"] == "websocket.receive":
                self._note(message)
                under_way.append(group.create_task(self._take(message)))
            self._opened.disconnected_at, self._opened.close_code = time.monotonic(), message.get("code")
            for task in under_way:
                task.cancel()

    def _note(self, message: Any) -> None:
        """Keeps the frame beside the requests that came over HTTP."""
        text = message.get("text")
        body = text.encode() if text is not None else bytes(message.get("bytes") or b"")
        if self._provider.options.record:
            self._provider.received.append(Received("WS", PATH, "", self._opened.headers, body))

    async def _take(self, message: Any) -> None:
        frame: Any = None
        with contextlib.suppress(ValueError):
            frame = json.loads(message.get("text") or "")
        if not isinstance(frame, dict):
            await self._fail(Failure(400, "The frame is not a JSON object."), None)
            return
        kind, lane = frame.get("type"), frame.get("stream_id")
        body = frame["response"] if "response" in frame else {k: v for k, v in frame.items() if k not in _ENVELOPE}
        try:
            if kind == "response.create":
                await self._create(body, lane)
            elif kind == "response.steer":
                await self._steer(body)
            elif kind == "response.inject":
                await self._say({"type": "response.inject.created", "sequence_number": 0, **body}, lane)
            elif kind != "response.processed":
                raise Failure(400, f"Unknown frame type {kind}.", param="type")
        except Failure as failure:
            await self._fail(failure, lane)

    async def _create(self, body: Json, lane: str | None) -> None:
        data = json.dumps(body).encode()
        script = self._provider.script + script_in(data)
        if self._provider.next_scripts:
            script = self._provider.next_scripts.popleft() + script
        if "socket_limit" in script:
            await self._fail(failures.socket_limit_reached(), lane)
            await self._send({"type": "websocket.close", "code": 1000, "reason": ""})
            return
        failure = scripted_failure(script, self._provider, "req_" + "0" * 32)
        if failure:
            raise failure
        async with self._lanes[lane]:
            stored = responses.respond(self._provider, Request((), {}, data, script, kept=self._kept), body)
            self._kept[stored.id], self._lane_of[stored.id] = stored, lane
            if stored.stored:
                self._provider.responses[stored.id] = stored
            await self._play(stored, lane, script)

    async def _play(self, stored: StoredResponse, lane: str | None, script: Script) -> None:
        *begun, last = events(stored, self._provider.ids)
        for event in begun:
            await self._say(event, lane)
            await asyncio.sleep(script.number("delay"))
        if "hang" in script:
            await asyncio.sleep(3600)
        self._provider.finish(stored)
        await self._say(last, lane)
        if "close_socket" in script:
            reason = script.text("close_reason", f"{stored.id} of {self._provider.organization}")
            await self._send({"type": "websocket.close", "code": script.count("close_socket", 1013), "reason": reason})

    async def _steer(self, body: Json) -> None:
        named = body.get("previous_response_id")
        steered = self._kept.get(str(named))
        told: Json = {"previous_response_id": named, "id": self._provider.ids.new("steer_", place="steer.id")}
        if steered is None:
            error = {"code": "response_not_found", "message": f"Response {named} is not on this connection."}
            told["input"] = body.get("input")
            await self._say(
                {"type": "response.steer.failed", "sequence_number": 0, "error": error, "steer": told}, None
            )
            return
        lane = self._lane_of[steered.id]
        await self._say({"type": "response.steer.accepted", "sequence_number": 0, "steer": told}, lane)
        async with self._lanes[lane]:
            successor = {**steered.body, **body, "store": steered.stored}
            data = json.dumps(body).encode()
            made = responses.respond(self._provider, Request((), {}, data, script_in(data), kept=self._kept), successor)
            self._kept[made.id], self._lane_of[made.id] = made, lane
            if made.stored:
                self._provider.responses[made.id] = made
            await self._play(made, lane, Script())

    async def _fail(self, failure: Failure, lane: str | None) -> None:
        if self._canary:
            failure.message += self._canary.in_words()
        error = dict(failure.body()["error"])
        error["headers"] = dict(service_headers(self._provider, "req_" + "0" * 32))
        await self._say({"type": "error", "status": failure.status, "error": error}, lane)

    async def _say(self, event: Json, lane: str | None) -> None:
        if self._canary:
            event = self._canary.plant(event)
        told = event if lane is None else {**event, "stream_id": lane}
        await self._send({"type": "websocket.send", "text": encode(told).decode()})
