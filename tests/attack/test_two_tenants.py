"""The two-tenant matrix: every ID place of every route of the table, filled with IDs that must not open there.

The places come from walking the table, so a new field is attacked as soon as it stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from gateway.audit.event import decode
from gateway.mapping import is_child
from gateway.names import Kind
from gateway.surfaces.route import Route
from gateway.surfaces.spec import Id, User
from gateway.surfaces.table import ROUTES
from tests.attack.belongings import Belongings, conversation, examples, owned
from tests.attack.house import Caller
from tests.attack.matrix import (
    ATTACKS,
    NAMING,
    SPEAKING,
    Town,
    complete,
    droppable,
    fill_object,
    missing_of,
    names,
    not_found,
    opens,
    path_of,
    plain,
    request,
    send,
    town,
    without_id,
)
from tests.attack.places import UNHEARD, Tag, objects, places, reach, spell
from tests.attack.resources import another_root

__all__ = ["town"]


@pytest.mark.parametrize("route", NAMING, ids=lambda route: route.action)
def test_ones_own_id_is_taken_at_every_place_and_reaches_the_service_raw(town: Town, route: Route) -> None:
    wrong = []
    for place in places(route):
        own = owned(place, town.alice)
        if place.where == "body" and route.path_ids:
            town.alice.shelf = conversation(town.alice.caller)  # the service takes an item once in a conversation
        reply, received = send(town, town.alice.caller, request(place, town.alice, own))
        if not opens(place):
            if reply.status != missing_of(place).status or received:
                wrong.append(f"{place}: {reply.status} {reply.body!r} instead of not-found")
            continue
        raw = town.raw(own)
        if route.lists is not None:
            # The list is the gateway's own: the service is asked for rows alone.
            if reply.status != 200 or any(one.query for one in received) or raw in reply.everything.decode():
                wrong.append(f"{place}: {reply.status} {reply.body!r}")
            continue
        # Nobody has a stored prompt through the gateway, so the service finds nothing to put variables into.
        status = 404 if place.name.startswith("prompt.") else 200
        # Of a file that is read, the service is asked what it is for.
        if reply.status != status or len(received) != (2 if route.action == "files.content" else 1):
            wrong.append(f"{place}: {reply.status} {reply.body!r}")
        elif not names(place, received[0], raw):
            wrong.append(f"{place}: the service read {received[0].path} {received[0].query} {received[0].body!r}")
        elif raw in reply.everything.decode():
            wrong.append(f"{place}: the answer names {raw}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("route", NAMING, ids=lambda route: route.action)
def test_what_is_not_the_callers_own_reads_as_missing_and_reaches_nobody(town: Town, route: Route, attack: str) -> None:
    wrong = []
    for place in places(route):
        if droppable(place):
            continue
        expected = not_found(town, place)
        for sender, leaves in ATTACKS[attack](town, place):
            reply, received = send(town, sender.caller, request(place, sender, *leaves))
            foreign = leaves[0] if len(leaves) == 1 else owned(place, town.alice)
            quoted = foreign if re.fullmatch(r"(ft:)?[A-Za-z0-9_-]{1,64}", foreign) else ""
            if received:
                wrong.append(f"{place}: {leaves} reached the service: {received[0].path} {received[0].body!r}")
            elif reply.without(quoted) != expected:
                wrong.append(f"{place}: {leaves} reads {reply.status} {reply.headers} {reply.body!r}")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("route", SPEAKING, ids=lambda route: route.action)
def test_an_inline_items_id_that_does_not_open_is_left_out_and_changes_nothing_else(
    town: Town, route: Route, attack: str
) -> None:
    wrong = []
    for place in filter(droppable, places(route)):
        if place.spec.nowhere:
            continue  # below
        for sender, leaves in ATTACKS[attack](town, place):
            sent, answered = without_id(town, place, sender)
            reply, received = send(town, sender.caller, request(place, sender, *leaves))
            if reply.status != 200 or len(received) != 1:
                wrong.append(f"{place}: {leaves} reads {reply.status} {reply.body!r}")
            elif received[0].body != sent:
                wrong.append(f"{place}: {leaves} reached the service as {received[0].body!r}")
            elif plain(reply) != answered:
                wrong.append(f"{place}: {leaves} reads {plain(reply)} instead of {answered}")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_soft_reference_that_does_not_open_reaches_the_service_as_an_id_that_nothing_has(
    town: Town, attack: str
) -> None:
    soft = [place for route in SPEAKING for place in places(route) if place.spec.nowhere]
    assert soft
    for place in soft:
        for sender, leaves in ATTACKS[attack](town, place):
            reply, received = send(town, sender.caller, request(place, sender, *leaves))
            assert (reply.status, len(received)) == (200, 1), (place, leaves, reply.body)
            (told,) = reach(received[0].json(), place.steps)
            assert told not in leaves
            assert told not in town.house.stand_in.provider.issued
            if place.route.action == "responses.create":
                assert reply.json()["prompt_cache_diagnostics"] == {"type": "comparison_response_not_found"}


REASONS: dict[str, Callable[[Town], tuple[Belongings, str]]] = {
    "not_owned": lambda town: (town.carol, town.alice.response),
    "foreign_or_retired": lambda town: (town.bob, town.alice.response),
    "not_an_opaque_id": lambda town: (town.alice, town.raw(town.alice.response)),
    "wrong_kind": lambda town: (town.alice, town.alice.talk),
    "not_recorded": lambda town: (town.alice, town.alice.deleted[Kind.RESPONSE]),
}


@pytest.mark.parametrize("reason", REASONS)
def test_the_log_and_only_the_log_tells_why_an_id_did_not_open(town: Town, reason: str) -> None:
    sender, text = REASONS[reason](town)
    store, tenant = town.house.deployment.gateway.shared.store, town.house.tenant(sender.caller.tenant)
    place = places(next(route for route in ROUTES if route.action == "responses.retrieve"))[0]
    expected = not_found(town, place)
    reply, _ = send(town, sender.caller, request(place, sender, text))
    assert reply.without(text) == expected
    (newest,) = town.house.run(store.read_events_before(tenant, 1 << 40, 1))
    outcome = decode(newest.body).outcome
    assert outcome is not None
    assert (outcome.reason, outcome.status) == (reason, 404)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.query], ids=lambda route: route.action)
def test_a_raw_id_in_the_query_reads_as_missing_and_another_parameter_is_refused(town: Town, route: Route) -> None:
    raw = town.raw(town.alice.response)
    path = path_of(route, town.alice)
    for name in [*(name for name, spec in route.query.items() if not isinstance(spec, Id | User)), "x_new"]:
        for key in (name, f"{name}[]"):
            sent = route.method, f"{path}?{key}={raw}", complete(route, {}) if route.request else None
            reply, received = send(town, town.alice.caller, sent)
            assert (reply.status, received) == (400 if name == "x_new" else 404, []), (key, reply.body)


@pytest.mark.parametrize("route", SPEAKING, ids=lambda route: route.action)
def test_a_raw_id_in_a_field_that_no_table_knows_reads_as_missing(town: Town, route: Route) -> None:
    wrong, raw = [], town.raw(town.alice.response)
    fields = ({"x_new": raw}, {"x_new": [raw]}, {"x_new": {"deep": [{"deeper": raw}]}}, {"x_new": {raw: 1}}, {raw: 1})
    for turn, steps in enumerate(objects(route)):
        for field in fields if len(steps) < 2 else (fields[turn % len(fields)],):
            body = complete(route, fill_object(steps, town.alice, field))
            path = path_of(route, town.alice)
            reply, received = send(town, town.alice.caller, (route.method, path, body))
            if received or reply.status != 404:
                wrong.append(f"{route.action} {spell(steps)}: {field} reads {reply.status} {reply.body!r}")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("route", SPEAKING, ids=lambda route: route.action)
def test_a_raw_id_inside_a_list_or_an_object_where_an_id_belongs_reaches_nobody(town: Town, route: Route) -> None:
    wrong = []
    for turn, place in enumerate(places(route)):
        if place.where == "body":
            raw = town.raw(owned(place, town.alice))
            odd = ([raw], {"x": raw}, [[{"x": raw}]], {raw: raw})[turn % 4]
            reply, received = send(town, town.alice.caller, request(place, town.alice, odd))
            if received or reply.status not in (400, 404):
                wrong.append(f"{place}: {odd} reads {reply.status} {reply.body!r}")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if any(is_child(spec.kind) for spec in route.path_ids.values())],
    ids=lambda route: route.action,
)
def test_a_child_under_another_root_of_the_same_owner_reads_as_missing(town: Town, route: Route) -> None:
    root, place = places(route)[:2]
    if root.spec.kind is Kind.CONVERSATION:
        other, child = town.alice.conversation, town.alice.elsewhere
    else:
        other, child = another_root(root.spec.kind, town.alice.caller), owned(place, town.alice)
    path = route.path.replace(f"{{{root.name}}}", other).replace(f"{{{place.name}}}", child)
    reply, received = send(town, town.alice.caller, (route.method, path, None))
    assert not received
    assert reply.without(child) == not_found(town, place)


def test_every_type_of_the_table_has_an_example() -> None:
    known = {*examples(Belongings(Caller(None, "", "", "")))}  # type: ignore[arg-type]
    tags = {
        step.tag
        for route in SPEAKING
        for steps in (*objects(route), *(place.steps for place in places(route)))
        for step in steps
        if isinstance(step, Tag)
    }
    assert tags - known == set()
    assert {UNHEARD, None} < tags


def test_the_places_are_those_of_the_table() -> None:
    """Held here by name, so that a place that disappears from the table, and so from the matrix, is noticed."""
    names = {str(place) for route in ROUTES for place in places(route)}
    assert {
        "responses.create body previous_response_id",
        "responses.create body conversation",
        "responses.create body conversation.id",
        "responses.create body prompt.id",
        "responses.create body prompt_cache_options.comparison_response_id",
        "responses.create body input[]<item_reference alone>.id",
        "responses.create body input[]<None alone>.id",
        "responses.create body input[]<reasoning>.id",
        "responses.create body input[]<reasoning alone>.id",
        "responses.create body input[]<message>.content[]<input_image>.file_id",
        "responses.create body input[]<message>.content[]<output_text>.annotations[]<file_citation>.file_id",
        "responses.create body input[]<tool_search_output>.tools[]<namespace>.tools[]<file_search>.vector_store_ids[]",
        "responses.create body tools[]<code_interpreter>.container",
        "responses.create body tools[]<code_interpreter>.container.file_ids[]",
        "responses.create body tools[]<mcp>.tunnel_id",
        "responses.create body tools[]<shell>.environment<container_auto>.skills[]<skill_reference>.skill_id",
        "responses.input_items query after",
        "conversations.items.retrieve path item_id",
        "chat.completions.create body messages[].audio.id",
        "chat.completions.create body messages[].content[]<file>.file.file_id",
        "chat.completions.create body audio.voice.id",
        "chat.completions.create body prediction.content[]<file>.file.file_id",
        "chat.completions.retrieve path completion_id",
        "chat.completions.messages.list query after",
        "chat.completions.create body model",
        "vector_stores.create body file_ids[]",
        "vector_stores.list query before",
        "vector_stores.files.create path vector_store_id",
        "vector_stores.files.list query after",
        "vector_stores.file_batches.create body files[].file_id",
        "vector_stores.file_batches.list_files path batch_id",
        "containers.create body skills[]<skill_reference>.skill_id",
        "containers.files.create body file_id",
        "batches.create body input_file_id",
        "batches.list query after",
        "containers.files.content path file_id",
        "skills.versions.list query after",
        "fine_tuning.jobs.create body method.reinforcement.grader<multi>.graders<score_model>.model",
        "fine_tuning.jobs.create body validation_file",
        "fine_tuning.jobs.events query after",
        "models.delete path model",
    } <= names
    assert len(names) > 1400
