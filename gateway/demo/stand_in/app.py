"""The stand-in as an ASGI app: the table of its routes, the key check, and the control door under /_stand_in.

Plain ASGI without a framework between, because the faults need the server's own connection.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gateway.demo.stand_in import (
    audio,
    batches,
    chat,
    completions,
    containers,
    control,
    conversations,
    embeddings,
    failures,
    files,
    fine_tuning,
    images,
    models,
    moderations,
    realtime,
    responses,
    skills,
    socket,
    uploads,
    vector_stores,
)
from gateway.demo.stand_in.answers import Answer, Request, query_of, script_in
from gateway.demo.stand_in.exchange import Exchange, Receive, Send
from gateway.demo.stand_in.provider import Options, Provider, Received
from gateway.demo.stand_in.scripts import Script, parse
from gateway.demo.stand_in.words import unknown_words

LOG = logging.getLogger(__name__)

Endpoint = Callable[[Provider, Request], Answer]

ROUTES: tuple[tuple[str, str, Endpoint], ...] = (
    ("POST", "/v1/responses", responses.create),
    ("POST", "/v1/responses/compact", responses.compact),
    ("POST", "/v1/responses/input_tokens", responses.input_tokens),
    ("GET", "/v1/responses/{}", responses.retrieve),
    ("DELETE", "/v1/responses/{}", responses.delete),
    ("POST", "/v1/responses/{}/cancel", responses.cancel),
    ("GET", "/v1/responses/{}/input_items", responses.input_items),
    ("POST", "/v1/conversations", conversations.create),
    ("GET", "/v1/conversations/{}", conversations.retrieve),
    ("POST", "/v1/conversations/{}", conversations.update),
    ("DELETE", "/v1/conversations/{}", conversations.delete),
    ("GET", "/v1/conversations/{}/items", conversations.list_items),
    ("POST", "/v1/conversations/{}/items", conversations.create_items),
    ("GET", "/v1/conversations/{}/items/{}", conversations.retrieve_item),
    ("DELETE", "/v1/conversations/{}/items/{}", conversations.delete_item),
    ("POST", "/v1/chat/completions", chat.create),
    ("GET", "/v1/chat/completions", chat.list_completions),
    ("GET", "/v1/chat/completions/{}", chat.retrieve),
    ("POST", "/v1/chat/completions/{}", chat.update),
    ("DELETE", "/v1/chat/completions/{}", chat.delete),
    ("GET", "/v1/chat/completions/{}/messages", chat.list_messages),
    ("POST", "/v1/completions", completions.create),
    ("POST", "/v1/embeddings", embeddings.create),
    ("POST", "/v1/moderations", moderations.create),
    ("POST", "/v1/images/generations", images.generate),
    ("POST", "/v1/files", files.create),
    ("GET", "/v1/files", files.list_files),
    ("GET", "/v1/files/{}", files.retrieve),
    ("DELETE", "/v1/files/{}", files.delete),
    ("GET", "/v1/files/{}/content", files.content),
    ("POST", "/v1/uploads", uploads.create),
    ("POST", "/v1/uploads/{}/parts", uploads.add_part),
    ("POST", "/v1/uploads/{}/complete", uploads.complete),
    ("POST", "/v1/uploads/{}/cancel", uploads.cancel),
    ("POST", "/v1/audio/speech", audio.speak),
    ("POST", "/v1/audio/transcriptions", audio.transcribe),
    ("POST", "/v1/audio/translations", audio.translate),
    ("POST", "/v1/images/edits", images.edit),
    ("POST", "/v1/images/variations", images.vary),
    ("POST", "/v1/batches", batches.create),
    ("GET", "/v1/batches", batches.list_batches),
    ("GET", "/v1/batches/{}", batches.retrieve),
    ("POST", "/v1/batches/{}/cancel", batches.cancel),
    ("POST", "/v1/vector_stores", vector_stores.create),
    ("GET", "/v1/vector_stores", vector_stores.list_stores),
    ("GET", "/v1/vector_stores/{}", vector_stores.retrieve),
    ("POST", "/v1/vector_stores/{}", vector_stores.update),
    ("DELETE", "/v1/vector_stores/{}", vector_stores.delete),
    ("POST", "/v1/vector_stores/{}/search", vector_stores.search),
    ("POST", "/v1/vector_stores/{}/files", vector_stores.attach),
    ("GET", "/v1/vector_stores/{}/files", vector_stores.list_files),
    ("GET", "/v1/vector_stores/{}/files/{}", vector_stores.retrieve_file),
    ("POST", "/v1/vector_stores/{}/files/{}", vector_stores.update_file),
    ("DELETE", "/v1/vector_stores/{}/files/{}", vector_stores.detach),
    ("GET", "/v1/vector_stores/{}/files/{}/content", vector_stores.file_content),
    ("POST", "/v1/vector_stores/{}/file_batches", vector_stores.create_batch),
    ("GET", "/v1/vector_stores/{}/file_batches/{}", vector_stores.retrieve_batch),
    ("POST", "/v1/vector_stores/{}/file_batches/{}/cancel", vector_stores.cancel_batch),
    ("GET", "/v1/vector_stores/{}/file_batches/{}/files", vector_stores.list_batch_files),
    ("POST", "/v1/containers", containers.create),
    ("GET", "/v1/containers", containers.list_containers),
    ("GET", "/v1/containers/{}", containers.retrieve),
    ("DELETE", "/v1/containers/{}", containers.delete),
    ("POST", "/v1/containers/{}/files", containers.create_file),
    ("GET", "/v1/containers/{}/files", containers.list_files),
    ("GET", "/v1/containers/{}/files/{}", containers.retrieve_file),
    ("DELETE", "/v1/containers/{}/files/{}", containers.delete_file),
    ("GET", "/v1/containers/{}/files/{}/content", containers.content),
    ("POST", "/v1/skills", skills.create),
    ("GET", "/v1/skills", skills.list_skills),
    ("GET", "/v1/skills/{}", skills.retrieve),
    ("POST", "/v1/skills/{}", skills.update),
    ("DELETE", "/v1/skills/{}", skills.delete),
    ("GET", "/v1/skills/{}/content", skills.content),
    ("POST", "/v1/skills/{}/versions", skills.create_version),
    ("GET", "/v1/skills/{}/versions", skills.list_versions),
    ("GET", "/v1/skills/{}/versions/{}", skills.retrieve_version),
    ("DELETE", "/v1/skills/{}/versions/{}", skills.delete_version),
    ("GET", "/v1/skills/{}/versions/{}/content", skills.version_content),
    ("POST", "/v1/fine_tuning/jobs", fine_tuning.create),
    ("GET", "/v1/fine_tuning/jobs", fine_tuning.list_jobs),
    ("GET", "/v1/fine_tuning/jobs/{}", fine_tuning.retrieve),
    ("POST", "/v1/fine_tuning/jobs/{}/cancel", fine_tuning.cancel),
    ("POST", "/v1/fine_tuning/jobs/{}/pause", fine_tuning.pause),
    ("POST", "/v1/fine_tuning/jobs/{}/resume", fine_tuning.resume),
    ("GET", "/v1/fine_tuning/jobs/{}/events", fine_tuning.events),
    ("GET", "/v1/fine_tuning/jobs/{}/checkpoints", fine_tuning.checkpoints),
    ("GET", "/v1/models", models.list_models),
    ("GET", "/v1/models/{}", models.retrieve),
    ("DELETE", "/v1/models/{}", models.delete),
)
"""Method, path with `{}` for an ID, endpoint. Literal paths stand before those that an ID could match."""

SOCKETS: dict[str, Callable[[Provider, Received, Receive, Send], socket.Socket | realtime.Realtime]] = {
    socket.PATH: socket.Socket,
    realtime.PATH: realtime.Realtime,
    realtime.TRANSLATIONS: realtime.Realtime,
}

_MATCHERS = tuple(
    (method, re.compile(path.replace("{}", "([^/]+)") + "/?"), endpoint) for method, path, endpoint in ROUTES
)


class StandIn:
    """The ASGI app. `state.provider` is the door for tests in the same process."""

    def __init__(self, options: Options) -> None:
        self.state = SimpleNamespace(provider=Provider(options))

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)

    async def _socket(self, scope: Any, receive: Receive, send: Send) -> None:
        await receive()
        provider: Provider = self.state.provider
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        received = Received("GET", scope["path"], scope["query_string"].decode("latin-1"), headers)
        if provider.options.record:
            provider.received.append(received)
        try:
            begin = SOCKETS.get(received.path)
            if begin is None:
                raise failures.unknown_url("GET", received.path)
            _check_key(provider, received)
        except failures.Failure as failure:
            told = json.dumps(failure.body()).encode()
            head = [(b"content-type", b"application/json"), (b"content-length", str(len(told)).encode())]
            await send({"type": "websocket.http.response.start", "status": failure.status, "headers": head})
            await send({"type": "websocket.http.response.body", "body": told})
            return
        await begin(provider, received, receive, send).run()

    async def _http(self, scope: Any, receive: Receive, send: Send) -> None:
        provider: Provider = self.state.provider
        received = Received(
            method=scope["method"],
            path=(scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0],
            query=scope["query_string"].decode("latin-1"),
            headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]],
        )
        complete, received.body = await _body(receive)
        if received.path.startswith(control.PREFIX):
            await control.answer(provider, received, send)
            return
        if provider.options.record:
            provider.received.append(received)
        if not complete:
            return
        script = _script(provider, received)
        exchange = Exchange(provider, received, script, receive, send)
        await exchange.run(lambda applied: _respond(provider, received, applied))


def build(options: Options | None = None) -> StandIn:
    """The app; `app.state.provider` gives access to its state."""
    return StandIn(options or Options())


def _script(provider: Provider, received: Received) -> Script:
    script = provider.script + parse(received.header("x-stand-in-script") or "")
    if provider.next_scripts:
        script += provider.next_scripts.popleft()
    return script + script_in(received.body)


def _respond(provider: Provider, received: Received, script: Script) -> Answer:
    """Checks the key, finds the endpoint, calls it. Raises `Failure`."""
    unknown = unknown_words(script)
    if unknown:
        raise failures.unknown_script_words(unknown)
    _check_key(provider, received)
    allowed = False
    for method, matcher, endpoint in _MATCHERS:
        match = matcher.fullmatch(received.path)
        if match is None:
            continue
        if method == received.method:
            _check_content_type(received)
            query = query_of(received.query.encode("latin-1"))
            content_type = received.header("content-type") or ""
            request = Request(match.groups(), query, received.body, script, content_type)
            try:
                return endpoint(provider, request)
            except (AttributeError, KeyError, TypeError) as error:
                # The endpoints take what they ask for to be there, and of its type; the service says what is not.
                LOG.warning("refused as malformed", exc_info=error)
                raise failures.malformed_json() from error
        allowed = True
    if allowed:
        raise failures.method_not_allowed(received.method, received.path)
    raise failures.unknown_url(received.method, received.path)


def _check_key(provider: Provider, received: Received) -> None:
    scheme, _, key = (received.header("authorization") or "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise failures.no_key()
    if provider.options.api_key is not None and key.strip() != provider.options.api_key:
        raise failures.wrong_key(key.strip())


def _check_content_type(received: Received) -> None:
    value = received.header("content-type") or ""
    if received.body and value.partition(";")[0].strip().lower() not in ("application/json", "multipart/form-data"):
        raise failures.unsupported_content_type(value)


async def _body(receive: Receive) -> tuple[bool, bytes]:
    """Whether the whole body came, and what came of it."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return False, b"".join(parts)
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return True, b"".join(parts)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
