"""The policies' actions: one for each route of the table, in the groups of its surface and of what it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.surfaces.route import Route


def actions_of(routes: Iterable[Route]) -> Mapping[str, tuple[str, ...]]:
    """`responses.retrieve` → ("responses", "read"). The groups: the surface's name, and read or write."""
    return {
        route.action: (route.action.partition(".")[0], "read" if route.method == "GET" else "write") for route in routes
    }
