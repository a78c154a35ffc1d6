"""The app behind the guard: hands a request to the pipeline and its answer to the client.

While a request waits, the client's leaving is watched for, and cancels everything that was done for it; while a stream runs,
the end of the process ends it with an event that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from gateway.errors import Problem
from gateway.names import TenantId
from gateway.pipeline.exchange import Answer, Stream
from gateway.pipeline.request import Pipeline
from gateway.pipeline.streaming import has_error_type
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import UNKNOWN
from gateway.telemetry import Metrics
from gateway.transport import openapi
from gateway.transport.bodies import read_json
from gateway.transport.budget import Budget
from gateway.transport.client import CLIENT, Client
from gateway.transport.cors import Cors
from gateway.transport.drain import Drain, draining_event
from gateway.transport.forms import Form, is_form, read_form
from gateway.transport.guard import HEAD, HEALTH_PATHS, App, Head, Receive, Scope, Send, refuse
from gateway.transport.limits import Limits
from gateway.transport.spool import Spools
from gateway.upstreams import UpstreamError


@dataclass(frozen=True, slots=True)
class GatewayApp:
    """`/v1` for clients, its document, and the health paths. Everything else about HTTP was settled by the guard."""

    pipeline: Pipeline
    health: App
    limits: Limits
    drain: Drain
    cors: Cors
    metrics: Metrics
    budget: Budget
    spools: Spools
    websocket: App

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self.websocket(scope, receive, send)
            return
        head: Head = scope[HEAD]
        if head.raw_path in HEALTH_PATHS:
            await self.health(scope, receive, send)
            return
        if head.raw_path == openapi.PATH:
            await openapi.answer_with_document(scope, receive, send)
            return
        preflight = self.cors.preflight(head)
        if preflight is not None:
            await send({"type": "http.response.start", "status": 204, "headers": list(preflight)})
            await send({"type": "http.response.body"})
            return
        exchange = _Exchange(self, head, scope[CLIENT], receive)
        try:
            async with self.drain.work():
                await exchange.run()
        except Problem as problem:  # the process ends
            if exchange.streaming:
                scope[CLIENT].wire.piece(draining_event(0, typed=exchange.typed))
                scope[CLIENT].wire.end()
            elif exchange.started:
                scope[CLIENT].wire.cut()
            else:
                await refuse(problem, head.request_id, scope, send)


class _Exchange:
    """One request and its answer on the wire."""

    __slots__ = ("_answer", "_app", "_client", "_form", "_head", "_lease", "_receive", "started", "streaming", "typed")

    def __init__(self, app: GatewayApp, head: Head, client: Client, receive: Receive) -> None:
        self._app = app
        self._head = head
        self._client = client
        self._lease = app.budget.lease()
        self._answer = app.budget.lease()
        self._receive = receive
        self._form: Form | None = None
        self.started = False
        """The answer's head is on the wire."""
        self.streaming = False
        """So it is, and events follow."""
        self.typed = True
        """An error among them is an event of that type."""

    async def run(self) -> None:
        try:
            answer = await self._app.pipeline.respond(self._head, self._read_body, self._answer)
            self._app.metrics.request(answer.action, self._head.method, answer.status)
            await self._write(answer)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._client.left or task is None or task.uncancel():
                raise
        finally:
            self._client.on_leave(None)
            self._lease.give_back()
            self._answer.give_back()
            if self._form is not None:
                await self._form.aclose()

    async def _read_body(self, route: Route, tenant: TenantId) -> tuple[Any, Form | None]:
        """The body, whole, or a form as far as it decides; from then on the client's leaving is watched for."""
        self.typed = has_error_type(route.events)
        app, head = self._app, self._head
        self._lease.tenant = self._answer.tenant = tenant
        if route.body is Body.NONE:
            body = None
        elif route.body is Body.FORM or (route.body is Body.FORM_OR_JSON and is_form(head)):
            request = route.request or UNKNOWN
            self._form = await read_form(self._receive, head, app.limits, request, app.spools, self._lease)
            body = self._form.value
        else:
            allow_empty = route.body is Body.OPTIONAL_JSON
            arrived = self._client.wire.arrived()
            body = await read_json(
                self._receive, head, app.limits, allow_empty=allow_empty, arrived=arrived, lease=self._lease
            )
        task = asyncio.current_task()
        if task is not None:
            self._client.on_leave(task.cancel)
        return body, self._form

    async def _write(self, answer: Answer) -> None:
        headers = [*answer.headers, *self._app.cors.answer_headers(self._head)]
        wire = self._client.wire
        if isinstance(answer.body, bytes):
            self.started = True
            if (slow := wire.answer(answer.status, headers, answer.body)) is not None:
                await slow
            return
        if answer.media:
            await self._write_media(answer.status, headers, answer.body)
            return
        self._app.metrics.stream_opened("sse")
        try:
            async with contextlib.aclosing(answer.body) as events:
                self.started = True
                wire.answer(answer.status, headers, None)
                answer.body.lend(wire)
                self.streaming = True
                async for data in events:
                    if (slow := wire.piece(data)) is not None:
                        await slow
        finally:
            self._app.metrics.stream_closed("sse")
        wire.end()

    async def _write_media(self, status: int, headers: list[tuple[bytes, bytes]], body: Stream) -> None:
        """A file's bytes. What fails under way is in the log by then, and has no other way to be told than a broken end."""
        wire = self._client.wire
        async with contextlib.aclosing(body):
            self.started = True
            wire.answer(status, headers, None)
            try:
                async for data in body:
                    if (slow := wire.piece(data)) is not None:
                        await slow
            except (Problem, UpstreamError):
                wire.cut()
                return
            except Exception:
                wire.cut()
                raise
        wire.end()
