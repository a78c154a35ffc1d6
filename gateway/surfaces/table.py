"""The whole table: which route a method and a raw path are, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.surfaces import (
    audio,
    batches,
    chat,
    completions,
    containers,
    conversations,
    embeddings,
    files,
    fine_tuning,
    frames,
    images,
    models,
    moderations,
    realtime,
    responses,
    skills,
    uploads,
    vector_stores,
)
from gateway.surfaces.denied import reason_for
from gateway.surfaces.route import Route

PREFIX: Final = "/v1"

ROUTES: Final[tuple[Route, ...]] = (
    *responses.ROUTES,
    *conversations.ROUTES,
    *chat.ROUTES,
    *completions.ROUTES,
    *embeddings.ROUTES,
    *moderations.ROUTES,
    *images.ROUTES,
    *files.ROUTES,
    *uploads.ROUTES,
    *audio.ROUTES,
    *batches.ROUTES,
    *vector_stores.ROUTES,
    *containers.ROUTES,
    *skills.ROUTES,
    *fine_tuning.ROUTES,
    *models.ROUTES,
)

EVERY: Final[tuple[Route, ...]] = (*ROUTES, *frames.ROUTES, *realtime.ROUTES)
"""What can be asked for: over HTTP, and by a socket's frames, which no path matches."""

BY_ACTION: Final[Mapping[str, Route]] = MappingProxyType({route.action: route for route in ROUTES})


@dataclass(frozen=True, slots=True)
class Matched:
    route: Route
    segments: Mapping[str, str]
    """The `{name}` segments as the client wrote them."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """No route: `allow` names the methods that this path has, `reason` says why an operation is refused on purpose."""

    allow: tuple[str, ...] = ()
    reason: str = ""


class _Node:
    """One segment of the path. Literals win over `{name}`, so `/responses/compact` is no response's ID."""

    __slots__ = ("literal", "name", "routes", "wild")

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.wild: _Node | None = None
        self.name = ""
        self.routes: dict[str, Route] = {}


def _build() -> _Node:
    root = _Node()
    for route in ROUTES:
        node = root
        for segment in (PREFIX + route.path).strip("/").split("/"):
            if segment.startswith("{"):
                node.wild = node.wild or _Node()
                node = node.wild
                node.name = segment[1:-1]
            else:
                node = node.literal.setdefault(segment, _Node())
        node.routes[route.method] = route
    return root


_ROOT: Final = _build()
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_EXACT: Final = {
    (route.method, PREFIX + route.path): Matched(route, _NOTHING) for route in ROUTES if "{" not in route.path
}


def match(method: str, path: str) -> Matched | Unmatched:
    """`path` is the raw path, without a trailing slash. A segment is never empty and never decoded."""
    exact = _EXACT.get((method, path))
    if exact:
        return exact
    node, segments = _ROOT, {}
    for segment in path[1:].split("/"):
        literal = node.literal.get(segment)
        if literal:
            node = literal
        elif node.wild and segment:
            node = node.wild
            segments[node.name] = segment
        else:
            return Unmatched(reason=reason_for(method, path))
    route = node.routes.get(method)
    if route:
        return Matched(route, segments)
    return Unmatched(tuple(sorted(node.routes)), reason_for(method, path))
