"""The OpenAPI document says of every route what the table says, and nothing of anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.ids.form import TAIL_CHARS
from gateway.ids.kinds import KINDS
from gateway.surfaces.document import document
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import Id, Role
from gateway.surfaces.table import PREFIX, ROUTES, Unmatched, match

DOCUMENT: Any = json.loads(json.dumps(document("7.1")))
OPERATIONS = {
    operation["operationId"]: (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def refs(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (str(one) for name, one in value.items() if name == "$ref")
        for one in value.values():
            yield from refs(one)
    elif isinstance(value, list):
        for one in value:
            yield from refs(one)


def resolved(schema: Any) -> Any:
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def test_every_route_and_nothing_else_stands_in_it() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert DOCUMENT["info"]["version"] == "7.1"
    assert DOCUMENT["servers"] == [{"url": PREFIX}]
    assert {(path, method.upper(), action) for action, (path, method, _) in OPERATIONS.items()} == {
        (route.path, route.method, route.action) for route in ROUTES
    }
    assert isinstance(match("GET", f"{PREFIX}/openapi.json"), Unmatched)


def test_every_reference_leads_somewhere_and_every_part_is_used() -> None:
    used = set(refs(DOCUMENT))
    known = {
        f"#/components/{group}/{name}" for group in ("schemas", "responses") for name in DOCUMENT["components"][group]
    }
    assert used == known


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.action)
def test_an_operation_says_what_may_be_sent(route: Route) -> None:
    _, _, operation = OPERATIONS[route.action]
    parameters = {(one["in"], one["name"]): one for one in operation.get("parameters", ())}
    names = re.findall(r"\{(\w+)\}", route.path)
    assert parameters.keys() == {("path", name) for name in names} | {("query", name) for name in route.query}
    assert all(parameters["path", name]["required"] for name in names)
    assert ("requestBody" in operation) is (route.body is not Body.NONE)
    assert ("text/event-stream" in operation["responses"]["200"]["content"]) is route.streams
    assert "default" in operation["responses"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.action)
def test_an_id_says_its_kind_by_its_form(route: Route) -> None:
    _, _, operation = OPERATIONS[route.action]
    for parameter in operation.get("parameters", ()):
        spec = route.path_ids.get(parameter["name"]) or route.query.get(parameter["name"])
        if not isinstance(spec, Id) or spec.only:
            continue
        pattern = resolved(parameter["schema"])["pattern"]
        for prefix in KINDS[spec.kind].prefixes:
            own = prefix + "a1B2" * 8 + "Zz"
            assert len(own) == len(prefix) + TAIL_CHARS
            assert re.search(pattern, own)
            assert not re.search(pattern, own[:-1])
            assert not re.search(pattern, f"x{own}")


def test_what_makes_an_object_leads_to_what_takes_it() -> None:
    made = OPERATIONS["responses.create"][2]["responses"]["200"]["links"]
    assert made["responses.retrieve"] == {
        "operationId": "responses.retrieve",
        "parameters": {"path.response_id": "$response.body#/id"},
    }
    assert {"responses.delete", "responses.cancel", "responses.input_items"} < made.keys()
    assert not {"conversations.retrieve", "responses.create"} & made.keys()


def test_a_lists_bounds_and_filters_are_told() -> None:
    parameters = {one["name"]: one for one in OPERATIONS["chat.completions.list"][2]["parameters"]}
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    assert parameters["order"]["schema"]["default"] == "asc"
    assert parameters["metadata"]["style"] == "deepObject"


@pytest.mark.parametrize("route", [route for route in ROUTES if route.lists], ids=lambda route: route.action)
def test_a_list_is_whole(route: Route) -> None:
    """What the table's other rows must say so that a list can be made of them."""
    assert route.lists
    row = next(one for one in ROUTES if one.action == route.lists.row)
    assert (row.method, list(row.path_ids.values())) == ("GET", [Id(route.lists.kind, Role.REF)])
    assert KINDS[route.lists.kind].listed
    assert {"after", "limit", *route.lists.filters} <= route.query.keys()
    assert all(spec.role is Role.CURSOR for spec in map(route.query.get, ("after", "before")) if isinstance(spec, Id))
    assert 1 <= route.lists.limit <= route.lists.most


def test_every_kind_of_which_a_list_is_kept_is_shown_by_one() -> None:
    shown = {route.lists.kind for route in ROUTES if route.lists} | {route.own for route in ROUTES if route.own}
    assert shown == {kind for kind, row in KINDS.items() if row.listed}
