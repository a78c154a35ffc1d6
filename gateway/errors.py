"""Every failure that a client can meet: one closed table of HTTP status, OpenAI's error fields and audit reason.

The body has OpenAI's shape `{"error": {"message", "type", "param", "code"}}`
(https://platform.openai.com/docs/guides/error-codes). A message is a template; `{quoted}` takes what the client itself
sent, and only where that is 1 to 64 of `[A-Za-z0-9_-]`, behind `ft:` perhaps. Nothing of an upstream's text passes through
here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.names import RequestId

_QUOTABLE: Final = re.compile(r"(?:ft:)?[A-Za-z0-9_-]{1,64}")


class Reason(StrEnum):
    """Audit reasons of everything that is not plainly allowed. Closed and alphabetised; the value is the log's."""

    AMBIGUOUS_CREDENTIALS = "ambiguous_credentials"
    AUDIT_UNAVAILABLE = "audit_unavailable"
    BAD_FORM = "bad_form"
    BAD_FRAMING = "bad_framing"
    BAD_JSON = "bad_json"
    BAD_PARAMETER = "bad_parameter"
    BAD_TARGET = "bad_target"
    BLOB_NOT_YOURS = "blob_not_yours"
    BODY_TOO_LARGE = "body_too_large"
    CLIENT_CLOSED = "client_closed"
    CONVERSATION_LOCKED = "conversation_locked"
    CREDENTIAL_EXPIRED = "credential_expired"
    CREDENTIAL_REVOKED = "credential_revoked"
    EGRESS_BLOCKED = "egress_blocked"
    EXPECTATION_FAILED = "expectation_failed"
    FOREIGN_OR_RETIRED = "foreign_or_retired"
    HEADERS_TOO_LARGE = "headers_too_large"
    IDEMPOTENCY_IN_FLIGHT = "idempotency_in_flight"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    IDEMPOTENCY_RESULT_UNAVAILABLE = "idempotency_result_unavailable"
    IDS_RETIRED = "ids_retired"
    INTERNAL = "internal"
    MAPPING_CONFLICT = "mapping_conflict"
    MAPPING_UNAVAILABLE = "mapping_unavailable"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_AN_OPAQUE_ID = "not_an_opaque_id"
    NOT_OWNED = "not_owned"
    NOT_RECORDED = "not_recorded"
    ORIGIN_NOT_ALLOWED = "origin_not_allowed"
    POLICY_DENIED = "policy_denied"
    RAW_ID_OUT_OF_PLACE = "raw_id_out_of_place"
    REQUEST_TIMEOUT = "request_timeout"
    ROUTE_DENIED = "route_denied"
    ROUTE_UNKNOWN = "route_unknown"
    SCOPE_MISSING = "scope_missing"
    SERVER_BUSY = "server_busy"
    SERVER_DRAINING = "server_draining"
    SHARE_EXHAUSTED = "share_exhausted"
    TENANT_INACTIVE = "tenant_inactive"
    TOO_MANY_REFUSALS = "too_many_refusals"
    UNAUTHENTICATED = "unauthenticated"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    UPSTREAM_BAD_ANSWER = "upstream_bad_answer"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_UNAVAILABLE = "upstream_unavailable"
    WEBHOOK_TOO_EARLY = "webhook_too_early"
    WEBHOOK_UNSIGNED = "webhook_unsigned"
    WRONG_KIND = "wrong_kind"


_INVALID = "invalid_request_error"
_SERVER = "server_error"


@dataclass(frozen=True, slots=True)
class Row:
    """What a client reads. `retry` False sends `x-should-retry: false`; `close` ends the connection."""

    status: int
    message: str
    type: str = _INVALID
    code: str | None = None
    retry: bool | None = None
    close: bool = False


_NO_KEY = Row(
    401,
    "Incorrect API key provided. Send a gateway API key or your identity provider's access token as the bearer token.",
    code="invalid_api_key",
)

TABLE: Final[dict[Reason, Row]] = {
    Reason.AMBIGUOUS_CREDENTIALS: Row(400, "Send one credential: the Authorization header with one bearer token."),
    Reason.AUDIT_UNAVAILABLE: Row(
        503,
        "The audit log cannot be written right now. Nothing was done. Try again shortly.",
        _SERVER,
        "audit_unavailable",
    ),
    Reason.BAD_FORM: Row(400, "We could not parse the form of your request: {detail}.", code="invalid_form"),
    Reason.BAD_FRAMING: Row(400, "The request is not well-formed HTTP/1.1: {detail}.", code="bad_request", close=True),
    Reason.BAD_JSON: Row(400, "We could not parse the JSON body of your request: {detail}.", code="invalid_json"),
    Reason.BAD_PARAMETER: Row(400, "Invalid request: {detail}.", code="invalid_value"),
    Reason.BAD_TARGET: Row(400, "The request target is not acceptable: {detail}.", code="bad_request", close=True),
    Reason.BLOB_NOT_YOURS: Row(400, "The encrypted content could not be verified.", code="invalid_encrypted_content"),
    Reason.BODY_TOO_LARGE: Row(413, "The request body is larger than {detail}.", code="request_too_large", close=True),
    Reason.CLIENT_CLOSED: Row(499, "The client closed the request.", code="client_closed"),
    Reason.CONVERSATION_LOCKED: Row(
        400,
        "Another process is currently operating on this conversation. Please retry in a few seconds.",
        code="conversation_locked",
    ),
    Reason.CREDENTIAL_EXPIRED: _NO_KEY,
    Reason.CREDENTIAL_REVOKED: _NO_KEY,
    Reason.EGRESS_BLOCKED: Row(
        502,
        "The upstream answer was withheld because it did not pass the gateway's checks.",
        _SERVER,
        "answer_withheld",
        retry=False,
    ),
    Reason.EXPECTATION_FAILED: Row(417, "Only 'Expect: 100-continue' is understood.", close=True),
    Reason.HEADERS_TOO_LARGE: Row(
        431, "The request headers are larger than {detail}.", code="headers_too_large", close=True
    ),
    Reason.IDEMPOTENCY_IN_FLIGHT: Row(
        409, "A request with this Idempotency-Key is still being processed.", code="idempotency_in_flight", retry=False
    ),
    Reason.IDEMPOTENCY_MISMATCH: Row(
        422, "This Idempotency-Key was used with another request body.", code="idempotency_mismatch", retry=False
    ),
    Reason.IDEMPOTENCY_RESULT_UNAVAILABLE: Row(
        409,
        "The request with this Idempotency-Key was done, and its result cannot be fetched again.",
        code="idempotency_result_unavailable",
        retry=False,
    ),
    Reason.IDS_RETIRED: Row(
        503, "Your organization's IDs were retired. Connect again; older IDs are unknown.", _SERVER, "ids_retired"
    ),
    Reason.INTERNAL: Row(500, "The gateway failed. Quote the request ID to its operator.", _SERVER, "internal_error"),
    Reason.MAPPING_CONFLICT: Row(
        502,
        "The upstream answered with an object that is recorded already. It was withheld.",
        _SERVER,
        "mapping_conflict",
        retry=False,
    ),
    Reason.MAPPING_UNAVAILABLE: Row(
        503,
        "The request was carried out, but its result could not be recorded, so it was withheld and undone.",
        _SERVER,
        "mapping_unavailable",
        retry=False,
    ),
    Reason.METHOD_NOT_ALLOWED: Row(405, "Not allowed to {method} on this path.", code="method_not_allowed"),
    Reason.ORIGIN_NOT_ALLOWED: Row(403, "This origin is not allowed to use the gateway.", code="origin_not_allowed"),
    Reason.POLICY_DENIED: Row(
        403, "Your organization's policy does not allow this request.", code="policy_denied", retry=False
    ),
    Reason.RAW_ID_OUT_OF_PLACE: Row(404, "No object with id '{quoted}' found.", code="not_found"),
    Reason.REQUEST_TIMEOUT: Row(408, "The request was not received in time.", code="request_timeout", close=True),
    Reason.ROUTE_DENIED: Row(
        404, "This operation is not available through the gateway: {detail}.", code="not_available"
    ),
    Reason.ROUTE_UNKNOWN: Row(404, "Invalid URL ({method} {path}).", code=None),
    Reason.SCOPE_MISSING: Row(
        403, "This credential may not do this: it lacks the scope '{detail}'.", code="insufficient_scope"
    ),
    Reason.SERVER_BUSY: Row(
        503,
        "The gateway holds as many large requests and answers as it can. Try again shortly.",
        _SERVER,
        "server_busy",
        close=True,
    ),
    Reason.SERVER_DRAINING: Row(
        503, "The gateway is restarting. Try again shortly.", _SERVER, "server_draining", close=True
    ),
    Reason.SHARE_EXHAUSTED: Row(
        429,
        "Your organization has as many calls or sockets open, or holds as many bytes of large requests and answers, as it may at "
        "once. Try again in 1s.",
        "requests",
        "rate_limit_exceeded",
    ),
    Reason.TENANT_INACTIVE: _NO_KEY,
    Reason.TOO_MANY_REFUSALS: Row(
        429, "Too many requests named objects that do not exist. Try again in 1s.", "requests", "rate_limit_exceeded"
    ),
    Reason.UNAUTHENTICATED: _NO_KEY,
    Reason.UNSUPPORTED_ENCODING: Row(
        415, "Unsupported Content-Encoding. Use identity, gzip or zstd.", code="unsupported_encoding"
    ),
    Reason.UNSUPPORTED_MEDIA_TYPE: Row(
        415, "Unsupported Content-Type for this path. Use {detail}.", code="unsupported_media_type"
    ),
    # It may have been carried out, and nobody can name what it made.
    Reason.UPSTREAM_BAD_ANSWER: Row(
        502, "The upstream answer could not be used.", _SERVER, "upstream_bad_answer", retry=False
    ),
    Reason.UPSTREAM_ERROR: Row(502, "The upstream reported an error.", _SERVER, None),
    Reason.UPSTREAM_TIMEOUT: Row(504, "The upstream did not answer in time.", _SERVER, "upstream_timeout"),
    Reason.UPSTREAM_UNAVAILABLE: Row(503, "The upstream cannot be reached right now.", _SERVER, "upstream_unavailable"),
    Reason.WEBHOOK_TOO_EARLY: Row(503, "This cannot be handed on yet. Send it again.", _SERVER, "webhook_too_early"),
    Reason.WEBHOOK_UNSIGNED: Row(400, "The webhook's signature does not verify.", code="webhook_unsigned"),
}
"""Rows of the reasons that stand alone. The five reasons of `NOT_FOUND` take the shape of the place they occurred at."""

NOT_FOUND: Final = frozenset(
    {Reason.NOT_AN_OPAQUE_ID, Reason.NOT_OWNED, Reason.NOT_RECORDED, Reason.FOREIGN_OR_RETIRED, Reason.WRONG_KIND}
)
"""Five reasons, one answer: a client cannot tell them apart, the audit log can."""


@dataclass(frozen=True, slots=True)
class Missing:
    """OpenAI's own answer for an object that does not exist, at one kind of place."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Relayed:
    """An upstream's error, said again in our own words (`gateway/rewrite/error_text.py`)."""

    status: int
    message: str
    type: str
    param: str | None
    code: str | None


@dataclass(slots=True, eq=False)
class Problem(Exception):
    """A failure on its way to the client. Raise it anywhere below the transport; `render` is the only way out."""

    reason: Reason
    detail: str = ""
    """Our own words for `{detail}`; never client or upstream text."""
    quoted: str = ""
    """What the client sent, for `{quoted}`."""
    missing: Missing | None = None
    """The place's own not-found shape; required for the reasons in `NOT_FOUND`."""
    relayed: Relayed | None = None
    """Set for `UPSTREAM_ERROR` where the upstream said what was wrong."""
    param: str | None = None
    line: int = 0
    """Of a file of requests, from 1; 0: there are no lines."""
    method: str = ""
    path: str = ""
    retry_after_s: float | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def status(self) -> int:
        shape = self.missing or self.relayed or TABLE[self.reason]
        return shape.status


def quotable(text: str) -> str:
    """`text` where an error message may quote it, else nothing."""
    return text if _QUOTABLE.fullmatch(text) else ""


def body(message: str, type_: str, param: str | None, code: str | None) -> bytes:
    """OpenAI's error body as bytes of JSON."""
    error = {"message": message, "type": type_, "param": param, "code": code}
    return json.dumps({"error": error}, ensure_ascii=False).encode()


def error_fields(problem: Problem) -> tuple[str, str, str | None, str | None]:
    """Message, type, param and code: for a JSON body, an SSE `error` event and a WebSocket frame alike."""
    message, type_, param, code = _error_fields(problem)
    return f"Line {problem.line}: {message}" if problem.line else message, type_, param, code


def _error_fields(problem: Problem) -> tuple[str, str, str | None, str | None]:
    quoted = quotable(problem.quoted)
    if problem.missing:
        missing = problem.missing
        return missing.message.format(quoted=quoted), _INVALID, missing.param, missing.code
    if relayed := problem.relayed:
        return relayed.message, relayed.type, relayed.param, relayed.code
    row = TABLE[problem.reason]
    message = row.message.format(
        detail=problem.detail, quoted=quoted, method=quotable(problem.method), path=_shown_path(problem.path)
    )
    return message, row.type, problem.param, row.code


def render(problem: Problem, request_id: RequestId) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of the answer to the client."""
    content = body(*error_fields(problem))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"x-request-id", request_id.encode()),
        *problem.headers,
    ]
    row = None if problem.missing or problem.relayed else TABLE[problem.reason]
    if row and row.retry is not None:
        headers.append((b"x-should-retry", b"true" if row.retry else b"false"))
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", str(max(1, round(problem.retry_after_s))).encode()))
    if row and row.close:
        headers.append((b"connection", b"close"))
    return problem.status, headers, content


def _shown_path(path: str) -> str:
    """The path for OpenAI's `Invalid URL` message, each segment only where it may be quoted."""
    return "/".join(quotable(segment) for segment in path.split("/"))
