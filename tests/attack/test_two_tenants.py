"""The two-tenant matrix: every ID place of every route of the table, filled with IDs that must not open there.

The places come from walking the table, so a new field is attacked as soon as it stands in it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from gateway.audit.event import decode
from gateway.ids.encoding import ALPHABET
from gateway.ids.kinds import KINDS
from gateway.names import Kind
from gateway.surfaces.missing import missing_for
from gateway.surfaces.route import Route
from gateway.surfaces.spec import Id, Role
from gateway.surfaces.table import ROUTES
from tests.attack.belongings import MODEL, Belongings, around, conversation, examples, gather, owned
from tests.attack.house import Caller, House, Reply, house
from tests.attack.places import UNHEARD, Place, Step, Tag, fill, objects, places, reach, spell

NAMING = [route for route in ROUTES if places(route)]
"""Routes by which something can be named."""

SPEAKING = [route for route in ROUTES if route.request is not None]


class Town:
    """Alice and Carol of one tenant, Bob of another, and what each owns."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.alice = gather(house.caller("acme", "alice"))
        self.carol = gather(house.caller("acme", "carol"))
        self.bob = gather(house.caller("bravo", "bob"))
        self.random = random.Random(7)
        self.baselines: dict[object, tuple[bytes, object]] = {}
        self.missing: dict[object, tuple[int, tuple[tuple[str, str], ...], bytes]] = {}

    def raw(self, opaque: str) -> str:
        return self.house.raw_of("acme", opaque)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with house(tmp_path_factory.mktemp("data")) as running:
        yield Town(running)


# --- requests


ABSENT = object()
"""A leaf that leaves its member out."""


def request(place: Place, own: Belongings, *leaves: Any) -> tuple[str, str, Any]:
    """Method, path with query, and body of a request of `own.caller` that names `leaves` at the place."""
    path, route = place.route.path, place.route
    for name, spec in route.path_ids.items():
        if place.where == "path" and name == place.name:
            path = path.replace(f"{{{name}}}", leaves[0])
        else:
            path = path.replace(f"{{{name}}}", owned(Place(route, "path", name, spec), own))
    if place.where == "query":
        path += f"?{place.name}={leaves[0]}"
    if route.request is None:
        return route.method, path, None
    body = fill(place.steps, list(leaves), examples(own)) if place.where == "body" else {}
    match place.steps[:1], place.tags[:1]:
        case [first], [tag] if spell((first,)) == "input":
            before, after = around(tag, own)
            body["input"] = [*before, *body["input"], *after]
    return route.method, path, _without_absent(complete(route, body))


_DEMANDED: dict[str, dict[str, Any]] = {
    "completions.create": {"model": MODEL, "prompt": "hello"},
    "embeddings.create": {"model": MODEL, "input": "hello"},
    "moderations.create": {"input": "hello"},
    "images.generate": {"prompt": "hello"},
}


def complete(route: Route, body: Any) -> Any:
    """The body with what the route demands."""
    if route.action.startswith("responses.") and route.path == "/responses/{response_id}/cancel":
        return body
    if route.action.startswith("responses."):
        return {"model": MODEL, "input": "hello", **body}
    if route.action in ("conversations.update", "chat.completions.update"):
        return {"metadata": {}, **body}
    if route.action == "chat.completions.create":
        messages = body.get("messages") or [{}]
        return {"model": MODEL, **body, "messages": [{"role": "user", "content": "hello", **one} for one in messages]}
    if route.action in _DEMANDED:
        return {**_DEMANDED[route.action], **body}
    if route.action == "conversations.items.create":
        return {"items": [{"role": "user", "content": "hello"}], **body}
    return body


def _without_absent(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_absent(one) for key, one in value.items() if one is not ABSENT}
    return [_without_absent(one) for one in value] if isinstance(value, list) else value


def send(town: Town, caller: Caller, sent: tuple[str, str, Any]) -> tuple[Reply, list[Any]]:
    """The answer, and what reached the service meanwhile."""
    before = len(town.house.received)
    reply = caller.call(*sent)
    return reply, town.house.received[before:]


# --- IDs that must not open


def made_up(town: Town, like: str) -> str:
    """The prefix and 34 characters; the tag is wrong."""
    return like[:-TAIL] + "".join(town.random.choices(ALPHABET, k=34))


def genuine(town: Town, like: str) -> str:
    """An ID that this deployment signed and that nobody has: what lost its record looks like this."""
    form = town.house.run(town.house.deployment.gateway.shared.keyring.deployment()).form
    parsed = form.verify(like)
    assert parsed is not None
    return form.mint(parsed.prefix, parsed.epoch, town.random.randbytes(16)).text


def inert(town: Town, place: Place, like: str) -> str:
    """What the tenant is shown for an ID that it may read and never use."""
    return town.house.mapper("acme").form.inert(place.spec.kind, like[:-TAIL] + "0123456789abcdef0123456789abcdef").text


def malformed(place: Place, own: str) -> list[str]:
    last = "A" if own[-1] != "A" else "B"
    texts = [
        own[:-1], own + "0", own[:-1] + last, own[:-TAIL] + own[-TAIL:].swapcase(), "x", own[:-TAIL], own[-TAIL:],
        own[:5] + own[6:] + own[5], f"x{own}", own.replace("_", "-"), own.replace("_", "__"), "a" * 64, "A" * 100,
        f"{own},{own}", f"{own}~", own.upper(),
    ]  # fmt: skip
    if place.where == "path":
        texts.append(own.replace("_", "%5F", 1))
    if place.where == "body":
        texts += ["", " ", f"{own} ", f"{own}\n", f" {own}", f"{own}\0", own.replace("o", "о"), own + "é", "../" + own]
    return [text for text in texts if text != own]


def other_kinds(town: Town, place: Place) -> list[str]:
    """Alice's own, of a kind that has no business here."""
    alice, kind = town.alice, place.spec.kind
    mine = {
        Kind.RESPONSE: alice.response,
        Kind.CONVERSATION: alice.talk,
        Kind.ITEM: alice.items["message"],
        Kind.FILE: alice.kinds[Kind.FILE],
        Kind.CHAT_COMPLETION: alice.chat,
        Kind.CHAT_MESSAGE: alice.said,
    }
    return [text for other, text in mine.items() if other is not kind]


TAIL = 34
"""Characters of an opaque ID after its prefix."""

Attack = Callable[[Town, Place], list[tuple[Belongings, tuple[str, ...]]]]


def _texts(make: Callable[[Town, Place, str], list[str]], most: int = 1) -> Attack:
    """Alice tries the texts, each by itself: at most so many at one place, and the next ones at the next."""
    turn = count()

    def attack(town: Town, place: Place) -> list[tuple[Belongings, tuple[str, ...]]]:
        texts = make(town, place, owned(place, town.alice))
        if len(place.steps) > 2:
            start = next(turn) * most
            texts = [texts[(start + at) % len(texts)] for at in range(min(most, len(texts)))]
        return [(town.alice, (text,)) for text in texts]

    return attack


def _mixed(town: Town, place: Place) -> list[tuple[Belongings, tuple[str, ...]]]:
    """One of the sender's own and one of Alice's, in both orders; not where one's own does not open either."""
    if not place.many or not opens(place) or droppable(place):
        return []
    foreign = owned(place, town.alice)
    tries = [(sender, (owned(place, sender), foreign)) for sender in (town.bob, town.carol)]
    return tries + [(sender, leaves[::-1]) for sender, leaves in tries]


ATTACKS: dict[str, Attack] = {
    "another user of the tenant": lambda town, place: [(town.carol, (owned(place, town.alice),))],
    "another tenant": lambda town, place: [(town.bob, (owned(place, town.alice),))],
    "raw": _texts(lambda town, place, own: [town.raw(own)]),
    "unknown": _texts(lambda town, place, own: [made_up(town, own), genuine(town, own), inert(town, place, own)]),
    "wrong kind": _texts(lambda town, place, own: other_kinds(town, place)),
    "malformed": _texts(lambda town, place, own: malformed(place, own), most=2),
    "deleted": lambda town, place: [
        (town.alice, (town.alice.deleted[place.spec.kind],)) for _ in [0] if place.spec.kind in town.alice.deleted
    ],
    "mixed list": _mixed,
}


def opens(place: Place) -> bool:
    """Whether one's own ID is taken here: of every kind inside a replayed item, elsewhere of the served ones."""
    return place.spec.role is Role.MADE or KINDS[place.spec.kind].served


def droppable(place: Place) -> bool:
    """Whether an ID that does not open is left out instead of refused."""
    return place.inline or place.spec.role is Role.SOFT


# --- the matrix


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
        # Nobody has a stored prompt through the gateway, so the service finds nothing to put variables into.
        status = 404 if place.name.startswith("prompt.") else 200
        if reply.status != status or len(received) != 1:
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
            quoted = foreign if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", foreign) else ""
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
    path = re.sub(
        r"\{(\w+)\}", lambda name: owned(Place(route, "path", name[1], route.path_ids[name[1]]), town.alice), route.path
    )
    for name in [*(name for name, spec in route.query.items() if not isinstance(spec, Id)), "x_new"]:
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
            path = route.path.replace("{conversation_id}", town.alice.conversation)
            path = path.replace("{response_id}", town.alice.response)
            path = path.replace("{completion_id}", town.alice.chat)
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
    "route", [route for route in ROUTES if len(route.path_ids) > 1], ids=lambda route: route.action
)
def test_a_child_under_another_root_of_the_same_owner_reads_as_missing(town: Town, route: Route) -> None:
    place = places(route)[1]
    path = route.path.replace("{conversation_id}", town.alice.conversation).replace("{item_id}", town.alice.elsewhere)
    reply, received = send(town, town.alice.caller, (route.method, path, None))
    assert not received
    assert reply.without(town.alice.elsewhere) == not_found(town, place)


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
    } <= names
    assert len(names) > 1400


# --- what is compared


def missing_of(place: Place) -> Any:
    return missing_for(place.spec.kind, place.spec.missing)


def not_found(town: Town, place: Place) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
    """The answer to an ID that was never anybody's, in OpenAI's shape, without what it quotes."""
    key = (place.route.action, place.name)
    if key in town.missing:
        return town.missing[key]
    text = made_up(town, owned(place, town.alice))
    reply, _ = send(town, town.alice.caller, request(place, town.alice, text))
    error, shape = reply.json()["error"], missing_of(place)
    assert (reply.status, error["param"], error["code"]) == (shape.status, shape.param, shape.code), (place, error)
    assert error["message"] == shape.message.format(quoted=text)
    town.missing[key] = reply.without(text)
    return town.missing[key]


def without_id(town: Town, place: Place, sender: Belongings) -> tuple[bytes, object]:
    """What the service reads and the sender is told where the place is left empty."""
    key = (place.route.action, place.name, sender.caller.subject)
    if key not in town.baselines:
        reply, received = send(town, sender.caller, request(place, sender, ABSENT))
        assert (reply.status, len(received)) == (200, 1), (place, reply.body)
        town.baselines[key] = received[0].body, plain(reply)
    return town.baselines[key]


def names(place: Place, received: Any, raw: str) -> bool:
    """Whether the service read `raw` where the client wrote its own ID."""
    match place.where:
        case "path":
            return raw in received.path.split("/")
        case "query":
            return f"{place.name}={raw}" in received.query.split("&")
        case _:
            steps: tuple[Step, ...] = place.steps
            return raw in [value for value in reach(received.json(), steps) if isinstance(value, str)]


def plain(reply: Reply) -> object:
    """The answer with what is different each time numbered in its order of appearance."""
    seen: dict[str, str] = {}
    text = re.sub(
        r"[a-z]+[_-][0-9A-Za-z]{20,}(?![0-9A-Za-z])",
        lambda m: seen.setdefault(m[0], f"#{len(seen)}"),
        reply.body.decode(),
    )
    text = re.sub(r'"(created_at|completed_at)":\d+', r'"\1":0', text)
    text = re.sub(r'"encrypted_content":"[^"]+"', '"encrypted_content":""', text)
    return reply.status, json.loads(text)


def fill_object(steps: tuple[Step, ...], own: Belongings, members: dict[str, Any]) -> Any:
    """A body in which the object at the steps has these members too."""
    known = examples(own)
    if steps and isinstance(steps[-1], Tag):
        tag = steps[-1].tag
        example = dict(known[tag])
        typed = {"type": tag} if tag is not None else {}
        payload = example.pop("payload", {})
        leaf = {**typed, **example, **payload, **members}
        return fill(steps[:-1], [leaf], known)
    return fill(steps, [members], known) if steps else members
