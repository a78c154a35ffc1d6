"""`GET /openapi.json`: the table as an OpenAPI document. It says no more than the published source does, and the same to
everybody, so no credential is asked for."""

from __future__ import annotations

from functools import cache
from typing import Final

import orjson

import gateway
from gateway.errors import Problem, Reason
from gateway.surfaces.document import document
from gateway.transport.guard import HEAD, Head, Receive, Scope, Send, refuse

PATH: Final = b"/openapi.json"


async def answer_with_document(scope: Scope, receive: Receive, send: Send) -> None:
    head: Head = scope[HEAD]
    if head.method not in ("GET", "HEAD"):
        allow = ((b"allow", b"GET, HEAD"),)
        problem = Problem(Reason.METHOD_NOT_ALLOWED, method=head.method, headers=allow)
        await refuse(problem, head.request_id, scope, send)
        return
    body = _body()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"max-age=300"),
        (b"x-request-id", head.request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head.method == "HEAD" else body})


@cache
def _body() -> bytes:
    return orjson.dumps(document(gateway.__version__))
