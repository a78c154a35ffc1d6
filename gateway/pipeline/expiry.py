"""What has expired reads as if it had never been: a container that nobody used for some minutes, whose files are gone.

The service still tells about such a container when it is asked for it, and says so where it is to be used.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import orjson

from gateway.errors import Problem, Reason, Relayed
from gateway.names import Kind
from gateway.pipeline.exchange import Exchange
from gateway.rewrite.error_text import EXPIRED
from gateway.surfaces.route import Route

_STATUS: Final = "expired"


def has_expired(route: Route, document: Any) -> bool:
    """Whether the answer of `route` tells of an object that is no more."""
    return bool(route.expires) and isinstance(document, dict) and document.get("status") == _STATUS


def check_alive(exchange: Exchange, body: bytes) -> None:
    """Raises Problem, the uniform not-found, where the answer tells of an object that is no more."""
    route = exchange.known_route
    if not route.expires:
        return
    try:
        expired = has_expired(route, orjson.loads(body))
    except orjson.JSONDecodeError:
        raise Problem(Reason.UPSTREAM_BAD_ANSWER) from None
    if expired:
        raise _missing(exchange) or Problem(Reason.UPSTREAM_BAD_ANSWER)


def as_missing(exchange: Exchange, refused: Problem) -> Problem:
    """`refused`, or the uniform not-found where the upstream refused because a container has expired."""
    if refused.relayed is None or refused.relayed.message != EXPIRED:
        return refused
    gone = Relayed(HTTPStatus.NOT_FOUND, EXPIRED, "invalid_request_error", None, None)
    return _missing(exchange) or Problem(Reason.UPSTREAM_ERROR, relayed=gone)


def _missing(exchange: Exchange) -> Problem | None:
    """What the request would read if the container that it names had never been."""
    named = [one for one in exchange.collected.references if one.kind is Kind.CONTAINER]
    return named[0].problem(Reason.NOT_RECORDED) if named else None
