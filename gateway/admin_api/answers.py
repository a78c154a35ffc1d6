"""What a row gives, or refuses, as the bytes of an answer: the one place that turns a refusal into a status."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import orjson

from gateway.admin.administration import AdminBusy, AdminInvalid, AdminMissing, AdminRefused, AdminUnavailable
from gateway.admin_api.route import Call, Row
from gateway.errors import Problem, body, render
from gateway.ids.keys import KeyRefused
from gateway.stores.contract import StoreError
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.keyring import KeysMissing
from gateway.transport.guard import Head, Send

_INVALID: Final = "invalid_request_error"
_TYPES: Final = {429: "requests", 503: "server_error"}
"""Of what may work in a second."""
UNAVAILABLE: Final = (StoreError, KeysMissing, KeyRefused, ErasuresUnreadable)
"""What is raised where the store, or a key in it, cannot be used."""


@dataclass(frozen=True, slots=True)
class Wire:
    """An answer, ready to be sent."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Beside those that every answer has."""

    async def send(self, head: Head, send: Send) -> None:
        headers = dict(self.headers) | {
            b"content-type": b"application/json",
            b"content-length": str(len(self.body)).encode(),
            b"x-request-id": head.request_id.encode(),
            # It may hold a secret.
            b"cache-control": b"no-store",
            b"x-content-type-options": b"nosniff",
        }
        await send({"type": "http.response.start", "status": self.status, "headers": list(headers.items())})
        await send({"type": "http.response.body", "body": b"" if head.method == "HEAD" else self.body})


async def done(row: Row, call: Call) -> Wire:
    """Does what the row says, and tells what came of it. Raises Problem where the caller is no longer one."""
    try:
        return Wire(row.status, orjson.dumps(await row.run(call)))
    except AdminRefused as refused:
        return refusal(refused)
    except UNAVAILABLE:
        return unavailable()


def refusal(refused: AdminRefused) -> Wire:
    match refused:
        case AdminMissing():
            return failed(404, str(refused), "not_found")
        case AdminBusy():
            return failed(429, str(refused), "rate_limit_exceeded")
        case AdminInvalid():
            return failed(400, str(refused), "invalid_value")
        case AdminUnavailable():
            return failed(503, str(refused), "unavailable")
    return failed(409, str(refused), "refused")


def failed(status: int, message: str, code: str) -> Wire:
    made = Wire(status, body(message, _TYPES.get(status, _INVALID), None, code))
    return replace(made, headers=((b"retry-after", b"1"),)) if status in _TYPES else made


def unavailable() -> Wire:
    """For what is among `UNAVAILABLE`."""
    return failed(503, "the store or a key in it cannot be used right now", "unavailable")


def problem_of(problem: Problem, head: Head) -> Wire:
    status, headers, content = render(problem, head.request_id)
    return Wire(status, content, tuple(headers))
