"""`/v1/realtime` and `/v1/realtime/translations`: a session that hears, speaks, and names everything it makes."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from gateway.demo.stand_in.canary import Canary
from gateway.demo.stand_in.exchange import Receive, Send
from gateway.demo.stand_in.failures import Failure
from gateway.demo.stand_in.fidelity import encode
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider, Received
from gateway.demo.stand_in.raw_ids import BASE62, Exposure
from gateway.demo.stand_in.scripts import Script, in_prompt
from gateway.demo.stand_in.service_headers import service_headers

PATH = "/v1/realtime"
TRANSLATIONS = "/v1/realtime/translations"

_LONGEST_ID = 32
_SOUND = base64.b64encode(bytes(range(256))).decode()


class Realtime:
    """One connection. `run` ends when the client leaves or a script closes it."""

    def __init__(self, provider: Provider, received: Received, receive: Receive, send: Send) -> None:
        self._provider = provider
        self._opened = received
        self._receive = receive
        self._send = send
        self._items: dict[str, Json] = {}
        self._before: dict[str, str | None] = {}
        self._responses: set[str] = set()
        self._heard = 0
        self._canary = Canary(provider.ids) if provider.options.canary else None
        model = parse_qs(received.query).get("model", ["gpt-realtime"])[0]
        self._conversation = self._new("conv_")
        self._session: Json = {
            "id": self._new("sess_"),
            "object": "realtime.session",
            "type": "realtime",
            "model": model,
            "expires_at": int(time.time()) + 3600,
            "output_modalities": ["audio"],
            "instructions": "Speak briefly.",
            "tools": [],
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 24000},
                    "transcription": None,
                    "noise_reduction": None,
                },
                "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "marin", "speed": 1.0},
            },
        }
        self._frames: dict[str, Callable[[Json], Awaitable[None]]] = {
            "session.update": self._update,
            "session.close": self._close,
            "conversation.item.create": self._add,
            "conversation.item.retrieve": self._retrieve,
            "conversation.item.truncate": self._truncate,
            "conversation.item.delete": self._delete,
            "response.create": self._respond,
            "response.cancel": self._cancel,
            "input_audio_buffer.append": self._hear,
            "session.input_audio_buffer.append": self._translate,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "output_audio_buffer.clear": self._silence,
        }

    async def run(self) -> None:
        headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in service_headers(self._provider, "req_socket")]
        await self._send({"type": "websocket.accept", "headers": headers})
        await self._say("session.created", session=self._session)
        if self._opened.path == PATH:
            await self._say(
                "conversation.created", conversation={"id": self._conversation, "object": "realtime.conversation"}
            )
        while (message := await self._receive())["type"] == "websocket.receive":
            await self._take(message)
        self._opened.disconnected_at, self._opened.close_code = time.monotonic(), message.get("code")

    async def _take(self, message: Any) -> None:
        text = message.get("text") or ""
        if self._provider.options.record:
            self._provider.received.append(Received("WS", self._opened.path, "", self._opened.headers, text.encode()))
        frame: Any = None
        with contextlib.suppress(ValueError):
            frame = json.loads(text)
        event_id = frame.get("event_id") if isinstance(frame, dict) else None
        try:
            if not isinstance(frame, dict):
                raise Failure(400, "The frame is not a JSON object.")
            handle = self._frames.get(str(frame.get("type")))
            if handle is None:
                raise Failure(400, f"Invalid value: '{frame.get('type')}'.", param="type", code="invalid_value")
            await handle(frame)
        except Failure as failure:
            await self._say("error", error={**failure.body()["error"], "event_id": event_id})

    # --- the session

    async def _update(self, frame: Json) -> None:
        said = frame["session"]
        audio = {side: {**self._session["audio"].get(side, {}), **v} for side, v in said.get("audio", {}).items()}
        self._session = {**self._session, **said, "audio": {**self._session["audio"], **audio}}
        await self._say("session.updated", session=self._session)

    async def _close(self, frame: Json) -> None:
        await self._say("session.closed")
        await self._send({"type": "websocket.close", "code": 1000, "reason": ""})

    # --- the conversation

    async def _add(self, frame: Json) -> None:
        item = {"object": "realtime.item", "status": "completed", **frame["item"]}
        if len(str(item.get("id", ""))) > _LONGEST_ID:
            raise Failure(400, "Invalid 'item.id': string too long.", param="item.id", code="string_above_max_length")
        if item.get("id") in self._items:
            raise Failure(400, f"Item with item_id {item['id']} already exists.", code="item_create_duplicate_item_id")
        before = frame.get("previous_item_id")
        if before not in (None, "root"):
            self._item(str(before))
        item.setdefault("id", self._new("item_"))
        await self._show(item, "root" if before == "root" else before or self._last())

    async def _show(self, item: Json, before: str | None) -> None:
        self._items[item["id"]] = item
        for state in ("added", "done"):
            await self._say(f"conversation.item.{state}", item=item, previous_item_id=before)

    async def _retrieve(self, frame: Json) -> None:
        await self._say("conversation.item.retrieved", item=self._item(frame["item_id"]))

    async def _truncate(self, frame: Json) -> None:
        self._item(frame["item_id"])
        told = {name: frame[name] for name in ("item_id", "content_index", "audio_end_ms") if name in frame}
        await self._say("conversation.item.truncated", **told)

    async def _delete(self, frame: Json) -> None:
        self._item(frame["item_id"])
        del self._items[frame["item_id"]]
        await self._say("conversation.item.deleted", item_id=frame["item_id"])

    def _item(self, raw: str) -> Json:
        if raw not in self._items:
            raise Failure(400, f"Item with item_id not found: {raw}", code="item_not_found")
        return self._items[raw]

    def _last(self) -> str | None:
        return next(reversed(self._items), None)

    # --- sound

    async def _hear(self, frame: Json) -> None:
        self._heard += len(base64.b64decode(frame["audio"]))

    async def _translate(self, frame: Json) -> None:
        await self._say("session.input_transcript.delta", delta="guten Tag", elapsed_ms=20)
        await self._say("session.output_transcript.delta", delta="good day", elapsed_ms=20)
        await self._say("session.output_audio.delta", delta=frame["audio"], elapsed_ms=20)

    async def _clear(self, frame: Json) -> None:
        self._heard = 0
        await self._say("input_audio_buffer.cleared")

    async def _silence(self, frame: Json) -> None:
        spoken = next(iter(self._responses), self._new("resp_"))
        await self._say("output_audio_buffer.cleared", response_id=spoken)

    async def _commit(self, frame: Json) -> None:
        if not self._heard:
            raise Failure(
                400, "Error committing input audio buffer: buffer too small.", code="input_audio_buffer_commit_empty"
            )
        raw, before = self._new("item_"), self._last()
        await self._say("input_audio_buffer.speech_started", item_id=raw, audio_start_ms=0)
        await self._say("input_audio_buffer.speech_stopped", item_id=raw, audio_end_ms=self._heard)
        await self._say("input_audio_buffer.committed", item_id=raw, previous_item_id=before)
        content = [{"type": "input_audio", "audio": None, "transcript": "hello"}]
        await self._show(self._made(raw, "message", role="user", content=content), before)
        heard = "conversation.item.input_audio_transcription."
        await self._say(heard + "delta", item_id=raw, content_index=0, delta="hel")
        segment = {"id": self._new("item_"), "speaker": "A", "start": 0.0, "end": 1.0, "text": "hello"}
        await self._say(heard + "segment", item_id=raw, content_index=0, **segment)
        usage = {"type": "duration", "seconds": 1.0}
        await self._say(heard + "completed", item_id=raw, content_index=0, transcript="hello", usage=usage)
        if "garbled" in self._provider.script:
            error = {"type": "server_error", "code": None, "message": f"{raw} could not be heard", "param": None}
            await self._say(heard + "failed", item_id=raw, content_index=0, error=error)
        self._heard = 0

    # --- answers

    async def _respond(self, frame: Json) -> None:
        asked = frame.get("response") or {}
        for item in asked.get("input") or ():
            if item.get("type") == "item_reference":
                self._item(item["id"])
        script = self._provider.script + in_prompt(json.dumps([asked, *list(self._items.values())[-1:]]))
        if "status" in script:
            raise Failure(script.count("status", 500), f"It failed in {self._session['id']}.", type="server_error")
        raw = self._new("resp_")
        self._responses.add(raw)
        response: Json = {
            "id": raw,
            "object": "realtime.response",
            "status": "in_progress",
            "status_details": None,
            "conversation_id": None if asked.get("conversation") == "none" else self._conversation,
            "metadata": asked.get("metadata"),
            "output": [],
            "audio": {"output": self._session["audio"]["output"]},
        }
        await self._say("response.created", response=response)
        for index, kind in enumerate(_kinds(script)):
            response["output"].append(await _BUILDERS[kind](self, raw, index, script))
        if self._provider.options.canary or "unknown_events" in script:
            await self._say(
                "response.unheard_of", response_id=raw, thing={"id": self._new("item_")}, x=self._new("resp_")
            )
        response = {**response, "status": "completed", "usage": {"total_tokens": 9}}
        await self._say("response.done", response=response)
        limits = [{"name": "tokens", "limit": 250_000, "remaining": 249_000, "reset_seconds": 1.5}]
        await self._say("rate_limits.updated", rate_limits=limits)
        if "close_socket" in script:
            code, reason = script.count("close_socket", 1013), script.text("close_reason", f"{raw} is done")
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _message(self, raw: str, index: int, script: Script) -> Json:
        words = ["0123456789" * 1000] * script.count("flood")
        words += ["You ", "have ", "sent ", f"{len(self._items)} ", "items."]
        if "quote" in script or self._provider.options.canary:
            words += [f" {one}" for one in (*list(self._items)[-1:], raw)]
        text, spoken = "".join(words), asked_for_text(self._session) is False
        item = self._made(self._new("item_"), "message", role="assistant", status="in_progress", content=[])
        where = {"response_id": raw, "output_index": index, "item_id": item["id"], "content_index": 0}
        await self._begin(raw, index, item)
        said = "transcript" if spoken else "text"
        part: Json = {"type": "audio" if spoken else "text", said: ""}
        await self._say("response.content_part.added", **where, part=part)
        kind = "response.output_audio_transcript" if spoken else "response.output_text"
        for word in words:
            await self._say(f"{kind}.delta", **where, delta=word)
            if spoken:
                await self._say("response.output_audio.delta", **where, delta=_SOUND)
        if spoken:
            await self._say("response.output_audio.done", **where)
        await self._say(f"{kind}.done", **where, **{said: text})
        await self._say("response.content_part.done", **where, part={**part, said: text})
        return await self._finish(
            raw, index, {**item, "status": "completed", "content": [{"type": f"output_{part['type']}", said: text}]}
        )

    async def _function_call(self, raw: str, index: int, script: Script) -> Json:
        call, arguments = self._new("call_"), json.dumps({"city": "Oslo"})
        item = self._made(self._new("item_"), "function_call", name="get_weather", call_id=call, arguments="")
        await self._begin(raw, index, item)
        where = {"response_id": raw, "output_index": index, "item_id": item["id"], "call_id": call}
        await self._say("response.function_call_arguments.delta", **where, delta=arguments)
        await self._say("response.function_call_arguments.done", **where, arguments=arguments, name="get_weather")
        return await self._finish(raw, index, {**item, "arguments": arguments})

    async def _mcp(self, raw: str, index: int, script: Script) -> Json:
        listed = self._made(
            self._new("mcpl_"), "mcp_list_tools", server_label="maps", tools=[{"name": "find", "input_schema": {}}]
        )
        for state in ("in_progress", "completed", "failed"):
            await self._say(f"mcp_list_tools.{state}", item_id=listed["id"])
        await self._show(listed, self._last())
        approval = self._made(
            self._new("mcpr_"), "mcp_approval_request", server_label="maps", name="find", arguments="{}"
        )
        await self._show(approval, self._last())
        item = self._made(
            self._new("mcp_"), "mcp_call", server_label="maps", name="find", arguments="{}",
            approval_request_id=approval["id"], output=None,
        )  # fmt: skip
        await self._begin(raw, index, item)
        where = {"output_index": index, "item_id": item["id"]}
        await self._say("response.mcp_call_arguments.delta", response_id=raw, **where, delta="{}")
        await self._say("response.mcp_call_arguments.done", response_id=raw, **where, arguments="{}")
        for state in ("in_progress", "completed", "failed"):
            await self._say(f"response.mcp_call.{state}", **where)
        return await self._finish(raw, index, {**item, "output": f"found {listed['id']}"})

    async def _begin(self, raw: str, index: int, item: Json) -> None:
        item = {**item, "status": "in_progress"}
        await self._say("response.output_item.added", response_id=raw, output_index=index, item=item)
        before = self._before[item["id"]] = self._last()
        self._items[item["id"]] = item
        await self._say("conversation.item.added", item=item, previous_item_id=before)

    async def _finish(self, raw: str, index: int, item: Json) -> Json:
        self._items[item["id"]] = item
        await self._say("response.output_item.done", response_id=raw, output_index=index, item=item)
        await self._say("conversation.item.done", item=item, previous_item_id=self._before[item["id"]])
        return item

    async def _cancel(self, frame: Json) -> None:
        named = frame.get("response_id")
        if named is not None and named not in self._responses:
            raise Failure(
                400, f"Cancellation failed: no response found with ID '{named}'", code="response_cancel_not_active"
            )
        raise Failure(400, "Cancellation failed: no active response found", code="response_cancel_not_active")

    # --- what it names

    def _made(self, raw: str, kind: str, **fields: Any) -> Json:
        return {"id": raw, "object": "realtime.item", "type": kind, "status": "completed", **fields}

    def _new(self, prefix: str) -> str:
        made = prefix + self._provider.ids.text(BASE62, 21)
        tokens = ("event_", "call_")
        exposure = Exposure.CORRELATION if prefix in tokens else Exposure.NEVER
        return self._provider.ids.note(made, f"realtime {prefix}", exposure)

    async def _say(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, "event_id": self._new("event_"), **fields}
        if self._canary:
            event = self._canary.plant(event)
            if kind == "error":
                event["error"]["message"] += self._canary.in_words()
        await self._send({"type": "websocket.send", "text": encode(event).decode()})


def asked_for_text(session: Json) -> bool:
    return bool(session.get("output_modalities") == ["text"])


def _kinds(script: Script) -> list[str]:
    return [word for word, _ in script.words if word in _BUILDERS] or ["message"]


_BUILDERS: dict[str, Callable[[Realtime, str, int, Script], Awaitable[Json]]] = {
    "message": Realtime._message,
    "function_call": Realtime._function_call,
    "mcp_call": Realtime._mcp,
}
"""Script word → the item that it puts into an answer."""
