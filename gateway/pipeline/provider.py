"""The upstream side of a request: what is sent, with whose key, and what its failures mean for the client."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.errors import Problem, Reason, Relayed
from gateway.ids import tokens
from gateway.mapping import Mapper
from gateway.names import TenantId
from gateway.pipeline import forward
from gateway.pipeline.exchange import Exchange, Lease, Sending
from gateway.rewrite.error_text import rebuild
from gateway.rewrite.id_table import IdTable
from gateway.surfaces.spec import Blob
from gateway.telemetry import Metrics
from gateway.upstreams import (
    KEY_REFUSED,
    Headers,
    SocketRefused,
    Upstream,
    UpstreamAnswer,
    UpstreamBadAnswer,
    UpstreamCredential,
    UpstreamError,
    UpstreamRequest,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.upstreams.openai import answer_headers, request_headers

_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_MAX_ERROR_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Provider:
    """One upstream key and its project."""

    upstream: Upstream
    credential: UpstreamCredential
    max_answer_bytes: int
    metrics: Metrics
    lease: Callable[[TenantId], Lease]
    """A tenant's part of the calls that go on at once."""
    weight: int = 1
    """Its share of the tenants' new objects."""

    @property
    def name(self) -> str:
        return self.upstream.name

    @property
    def project(self) -> str:
        return self.upstream.project

    @property
    def is_down(self) -> bool:
        return self.upstream.is_down

    async def send(self, exchange: Exchange, sending: Sending | None = None) -> UpstreamAnswer:
        """`sending`: the body, where it is no JSON. Raises Problem for a blob that is not the caller's, for a call too many, or
        what `sending` raised, and UpstreamError."""
        request = self.request(exchange, sending)
        exchange.upstream_called = True
        clock = asyncio.get_running_loop().time
        started, status = clock(), 0
        try:
            answer = await self.call(exchange.known_mapper.tenant, request)
            status = answer.status
            return answer
        finally:
            self.metrics.upstream_call(status, clock() - started)

    async def call(self, tenant: TenantId, request: UpstreamRequest) -> UpstreamAnswer:
        """The answer, which counts as a call of the tenant's until its body has ended. Raises Problem, where these are too many,
        and UpstreamError."""
        lease = self.lease(tenant)
        lease.hold(1)
        try:
            answer = await self.upstream.send(request)
        except BaseException:
            lease.give_back()
            raise
        answer.on_end(lease.give_back)
        return answer

    def request(self, exchange: Exchange, sending: Sending | None = None) -> UpstreamRequest:
        """The request as it leaves: nothing in it but what the stages before have seen."""
        route, body, by_name = exchange.known_route, exchange.body, exchange.head.by_name
        replace_tokens(exchange)
        key = by_name.get(b"idempotency-key")
        trace = by_name.get(b"traceparent")
        content_type = b"application/json" if body is not None else None
        headers = request_headers(
            self.credential,
            content_type=sending.content_type if sending else content_type,
            accept=b"text/event-stream" if wants_stream(exchange) else b"*/*" if route.media else b"application/json",
            beta=(beta,) if (beta := by_name.get(b"openai-beta")) else (),
            idempotency_key=idempotency_token(exchange, key).encode() if key and route.idempotent else None,
            traceparent=trace if trace and _TRACEPARENT.fullmatch(trace) else None,
        )
        target = forward.target(route, exchange.segments, exchange.query, exchange.collected)
        if sending:
            return UpstreamRequest(route.method, target, headers, sending.body)
        return UpstreamRequest(route.method, target, headers, orjson.dumps(body) if body is not None else None)

    def fetch(self, method: str, target: bytes) -> UpstreamRequest:
        """A request of the gateway's own: to undo what could not be recorded, or to poll."""
        return UpstreamRequest(method, target, request_headers(self.credential))

    async def refusal(self, answer: UpstreamAnswer, table: IdTable) -> Problem:
        """What an answer that is no success becomes. Its text is rebuilt, and the upstream's own key is no client's."""
        status = answer.status
        if status in KEY_REFUSED or 300 <= status < 400:
            answer.abort()
            return Problem(Reason.UPSTREAM_ERROR)
        return said(_error_object(await answer.read(_MAX_ERROR_BYTES)), status, table.quote, answer.headers)

    @staticmethod
    def problem(error: UpstreamError) -> Problem:
        """A call that failed below HTTP."""
        match error:
            case SocketRefused() if error.status not in KEY_REFUSED and error.status >= 400:
                return said(_error_object(error.body), error.status, lambda _: "", error.headers)
            case SocketRefused():
                return Problem(Reason.UPSTREAM_ERROR)
            case UpstreamTimeout():
                return Problem(Reason.UPSTREAM_TIMEOUT)
            case UpstreamUnavailable():
                return Problem(Reason.UPSTREAM_UNAVAILABLE, retry_after_s=error.retry_after_s)
            case UpstreamBadAnswer():
                return Problem(Reason.UPSTREAM_BAD_ANSWER)
            case _:
                return Problem(Reason.UPSTREAM_UNAVAILABLE, retry_after_s=1)


def said(error: Mapping[str, Any], status: int, quote: Callable[[str], str], headers: Headers = ()) -> Problem:
    """The upstream's `error` object, said again. `quote`: what the client itself sent for a word of it."""
    rebuilt = rebuild(error, quote, status)
    if rebuilt.code == "conversation_locked":
        return Problem(Reason.CONVERSATION_LOCKED)
    relayed = Relayed(status, rebuilt.message, rebuilt.type, rebuilt.param, rebuilt.code)
    shown = tuple(header for header in answer_headers(headers) if header[0] != b"content-type")
    return Problem(Reason.UPSTREAM_ERROR, relayed=relayed, headers=shown)


def wants_stream(exchange: Exchange) -> bool:
    """Whether the request asks for events."""
    if not exchange.known_route.streams:
        return False
    if isinstance(exchange.body, dict):
        return exchange.body.get("stream") is True
    return ("stream", "true") in exchange.query


def idempotency_token(exchange: Exchange, key: bytes) -> str:
    """The client's `Idempotency-Key` in its per-principal form."""
    principal, mapper = exchange.known_principal, exchange.known_mapper
    secret = mapper.keys.identity.newest.token
    action = exchange.known_route.action
    return tokens.idempotency_key(secret, principal.tenant, principal.owner, action, key.decode("latin-1"))


def replace_tokens(exchange: Exchange) -> None:
    """Client-chosen tokens become the tenant's, replay blobs lose their suffix, and the end user is named."""
    principal, mapper, body = exchange.known_principal, exchange.known_mapper, exchange.body
    for slot in exchange.collected.slots:
        if isinstance(slot.spec, Blob):
            blob = mapper.open_blob(principal.owner, slot.text)
            if blob is None:
                raise Problem(Reason.BLOB_NOT_YOURS, param=slot.param)
            slot.container[slot.key] = blob  # type: ignore[index]
        else:
            token = hashed(mapper, exchange, slot.spec.token, slot.text)
            exchange.tokens[token] = slot.text
            slot.container[slot.key] = token  # type: ignore[index]
    if exchange.known_route.names_user and isinstance(body, dict) and body.get("safety_identifier") is None:
        said = next((slot.text for slot in exchange.collected.slots if slot.param == "user"), "")
        token = hashed(mapper, exchange, "safety_identifier", said) if said else mapper.end_user(principal.owner)
        body["safety_identifier"] = token
        exchange.added.append(token)
    elif (named := exchange.at("response_id") or exchange.at("completion_id")) is not None:
        # The owner's, as their request sent it where they named nobody: what it read as then, it reads as now.
        exchange.added.append(mapper.end_user(named.root.owner))


def hashed(mapper: Mapper, exchange: Exchange, token: str, text: str) -> str:
    """`text` as the token that the upstream sees."""
    secret, principal = mapper.keys.identity.newest.token, exchange.known_principal
    if token == "prompt_cache_key":  # noqa: S105
        return tokens.prompt_cache_key(secret, principal.tenant, text)
    return _BY_PRINCIPAL[token](secret, principal.tenant, principal.owner, text)


_BY_PRINCIPAL: Final = {
    "safety_identifier": tokens.safety_identifier,
    "user": tokens.user,
    "continuation_id": tokens.continuation_id,
    "group_id": tokens.group_id,
}


def _error_object(body: bytes) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, dict) else {}
