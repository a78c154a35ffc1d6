"""One request and its answer on the wire, with all the ways in which an answer can go wrong there (`words.py`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from gateway.demo.stand_in import sse
from gateway.demo.stand_in.answers import Answer, BytesAnswer, JsonAnswer, StreamAnswer
from gateway.demo.stand_in.canary import Canary
from gateway.demo.stand_in.failures import Failure
from gateway.demo.stand_in.faults import Body, scripted_failure, spoil
from gateway.demo.stand_in.fidelity import encode
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider, Received
from gateway.demo.stand_in.scripts import Script, parse
from gateway.demo.stand_in.service_headers import service_headers

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_ESCAPED = parse("escape")
_FOR_EVER_S = 86_400.0
_ENDINGS = frozenset({"response.completed", "response.failed", "response.incomplete"})


class Gone(Exception):
    """The client has left, or the script has cut the connection; there is nobody to write to."""


class Exchange:
    """Writes one answer. What was written and when the client left is noted on `received`."""

    def __init__(self, provider: Provider, received: Received, script: Script, receive: Receive, send: Send) -> None:
        self.provider = provider
        self.received = received
        self.script = script
        self.request_id = provider.ids.new("req_", place="header x-request-id")
        self._receive = receive
        self._send = send
        self._left = asyncio.Event()
        self._canary = Canary(provider.ids) if provider.options.canary else None

    async def run(self, respond: Callable[[Script], Answer]) -> None:
        """Calls the endpoint and writes its answer, unless the script has the exchange fail before."""
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(self._watch())
            try:
                await self._run(respond)
            except Gone:
                pass
            finally:
                watcher.cancel()

    async def fail(self, failure: Failure) -> None:
        """Writes an error answer."""
        if self._canary:
            failure.message += self._canary.in_words()
        await self._write_json(JsonAnswer(failure.body(), failure.status, failure.headers))

    async def _run(self, respond: Callable[[Script], Answer]) -> None:
        failure = scripted_failure(self.script, self.provider, self.request_id)
        if "close" in self.script:
            await self._hang_up()
        if "hang" in self.script and not self.script.text("hang"):
            await self._pause(_FOR_EVER_S)
        try:
            if failure:
                raise failure
            answer = respond(self.script)
        except Failure as refused:
            await self._pause(self.script.number("slow"))
            await self.fail(refused)
            return
        try:
            await self._pause(self.script.number("slow"))
            if isinstance(answer, StreamAnswer):
                await self._write_stream(answer)
            elif isinstance(answer, BytesAnswer):
                answer.before_send()
                await self._write_bytes(answer)
            else:
                answer.before_send()
                await self._write_json(answer)
        except Gone:
            answer.abandoned()
            raise

    async def _write_json(self, answer: JsonAnswer) -> None:
        value = self._canary.plant(answer.value) if self._canary else answer.value
        data = encode(value, escape_ids="escape" in self.script, pretty="pretty" in self.script)
        body = spoil(Body(data, answer.status, dict(answer.headers)), self.script, self.provider)
        headers = {"content-type": "application/json", **body.headers}
        await self._write_whole(body, headers)

    async def _write_bytes(self, answer: BytesAnswer) -> None:
        body = spoil(Body(answer.data, 200, {"content-type": answer.media_type}), self.script, self.provider)
        headers = dict(body.headers)
        if answer.filename:
            name = answer.filename.replace('"', "%22")
            told = f'filename="{name}"' if name.isascii() else f"filename*=utf-8''{quote(answer.filename)}"
            headers["content-disposition"] = f"attachment; {told}"
        await self._write_whole(body, headers)

    async def _write_whole(self, body: Body, headers: dict[str, str]) -> None:
        """With a length, unless the script wants none or an end that comes too early."""
        if "no_length" not in self.script and "cut_clean" not in self.script:
            headers["content-length"] = str(len(body.data))
        await self._start(body.status, headers)
        if "cut" in self.script:
            await self._write(body.data[: self.script.count("cut", len(body.data) // 2)])
            await self._hang_up()
        if "cut_clean" in self.script:
            body.data = body.data[: self.script.count("cut_clean", len(body.data) // 2)]
        await self._write(body.data)
        await self._end()

    async def _write_stream(self, answer: StreamAnswer) -> None:
        await self._start(200, {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"})
        held = bytearray(b"\xef\xbb\xbf" if "bom" in self.script else b"")
        one_write = "one_write" in self.script
        for number, event in enumerate(answer.events):
            if event.get("type") in _ENDINGS:
                answer.before_last()
            held += self._render(number, event)
            if await self._breaks_at(number, held, typed=not answer.done):
                return
            if not one_write:
                await self._write(bytes(held))
                held.clear()
        if answer.done:
            answer.before_last()
            held += sse.done(self.script)
        await self._write(bytes(held))
        if "never_finish" in self.script:
            await self._pause(_FOR_EVER_S)
        await self._end()

    def _render(self, number: int, event: Json) -> bytes:
        before = b""
        if "comments" in self.script:
            before = sse.comment(f"event {number} follows", self.script)
        if "keepalive" in self.script:
            before += sse.comment("keep-alive", self.script)
            before += sse.comment("", self.script) + sse.blank_line(self.script)
        if self._canary is None:
            return before + sse.render(event, self.script)
        script = self.script + _ESCAPED if number % 2 else self.script
        return before + sse.render(self._canary.plant(event), script, self._canary.stream_lines())

    async def _breaks_at(self, number: int, held: bytearray, *, typed: bool) -> bool:
        """Does what the script has planned for event `number`; whether that was the end of the stream."""
        script = self.script
        if script.count("cut", -1) == number or script.count("cut_clean", -1) == number:
            await self._write(bytes(held[: len(held) // 2]))
            if "cut" in script:
                await self._hang_up()
            await self._end()
            return True
        if script.text("hang") and script.count("hang") == number:
            await self._write(bytes(held))
            await self._pause(_FOR_EVER_S)
        if script.count("error_event", -1) == number:
            text = f"The server had an error while processing {self.request_id} of {self.provider.organization}."
            await self._write(
                sse.error(text + (self._canary.in_words() if self._canary else ""), script, number, typed=typed)
            )
            await self._end()
            return True
        return False

    async def _start(self, status: int, headers: dict[str, str]) -> None:
        self.received.status = status
        if "goodbye" in self.script:
            headers["connection"] = "close"
        pairs = [*headers.items(), *service_headers(self.provider, self.request_id)]
        if self._canary:
            pairs += self._canary.headers()
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def _write(self, data: bytes) -> None:
        delay = self.script.number("delay")
        for chunk in sse.split(data, self.script):
            if self._left.is_set():
                raise Gone
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            self.received.bytes_sent += len(chunk)
            # uvloop writes at the end of a loop's turn: without this, no back-pressure and no news of the client
            await asyncio.sleep(0)
            await self._pause(delay)

    async def _end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        self.received.finished_at = time.monotonic()
        if "drop_after" in self.script:
            await self._hang_up()

    async def _pause(self, seconds: float) -> None:
        """Waits. Raises `Gone` as soon as the client leaves."""
        if seconds <= 0:
            return
        try:
            await asyncio.wait_for(self._left.wait(), seconds)
        except TimeoutError:
            return
        raise Gone

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self.received.finished_at is None:
            self.received.disconnected_at = time.monotonic()
        self._left.set()

    async def _hang_up(self) -> None:
        """Closes the connection where the answer stands, which ASGI has no message for: uvicorn's transport is asked.

        What was written before is flushed; the last chunk that would mark the end is not.
        """
        transport = getattr(getattr(self._send, "__self__", None), "transport", None)
        if transport is None:
            raise ConnectionAbortedError("the script closes the connection")
        transport.close()
        await self._left.wait()
        raise Gone
