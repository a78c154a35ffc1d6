"""A catalogue of the service's own things, in which some are somebody's: of those, only the caller's own remain (models)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from gateway.authz import owns
from gateway.errors import Problem, Reason
from gateway.ids.kinds import KINDS
from gateway.names import Kind
from gateway.pipeline.exchange import Exchange
from gateway.stores.contract import Found, Lookup, Stretch

MOST_OWN: Final = 1000
"""Of the caller's own that are shown, the newest."""


def stretch_of_own(exchange: Exchange) -> Stretch | None:
    """What a catalogue reads of the index with Redis ①; None where the route shows none."""
    kind = exchange.known_route.own
    if kind is None:
        return None
    scopes = exchange.known_mapper.scopes(exchange.known_principal.owner)
    return Stretch(kind, scopes, MOST_OWN, newest_first=True)


def without_others(exchange: Exchange, body: bytes) -> bytes:
    """`body`, a list with `data`, without what is somebody else's. Raises Problem for what is no such list."""
    kind = exchange.known_route.own
    if kind is None:
        return body
    own, prefix = set(_own(exchange, kind)), KINDS[kind].canonical
    try:
        document = orjson.loads(body)
        document["data"] = [one for one in document["data"] if _is_shown(one["id"], prefix, own)]
    except (ValueError, TypeError, KeyError):
        raise Problem(Reason.UPSTREAM_BAD_ANSWER) from None
    return orjson.dumps(document)


def _is_shown(raw: Any, prefix: str, own: set[str]) -> bool:
    return not str(raw).startswith(prefix) or raw in own


def _own(exchange: Exchange, kind: Kind) -> Iterator[str]:
    """Raw IDs of what the index has for the caller: whose it is says each record."""
    principal, mapper = exchange.known_principal, exchange.known_mapper
    for row in exchange.known_rows.rows:
        opened = mapper.to_raw(Lookup(kind, row.h), Found(row.record, None))
        if opened is not None and not opened.deleted and owns(principal, opened.root):
            yield opened.raw.text
