"""What is asked in the matrix of two tenants: every place of the table, every ID that must not open there, what is compared."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from gateway.ids.encoding import ALPHABET
from gateway.ids.kinds import KINDS
from gateway.names import Kind
from gateway.surfaces.missing import missing_for
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import Role
from gateway.surfaces.table import ROUTES
from tests.attack.belongings import MODEL, Belongings, around, examples, gather, owned
from tests.attack.house import Caller, House, Reply, house
from tests.attack.places import Key, Place, Step, Tag, fill, places, reach
from tests.attack.resources import demanded
from tests.forms import spelt

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


def path_of(route: Route, own: Belongings) -> str:
    """The route's path with IDs of `own`, and 1 for what is no ID."""

    def segment(name: re.Match[str]) -> str:
        spec = route.path_ids.get(name[1])
        return owned(Place(route, "path", name[1], spec), own) if spec else "1"

    return re.sub(r"\{(\w+)\}", segment, route.path)


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
    path = re.sub(r"\{\w+\}", "1", path)
    if place.where == "query":
        path += f"?{place.name}={leaves[0]}"
    if route.request is None:
        return route.method, path, None
    steps = place.steps if place.where == "body" else None
    return route.method, path, _without_absent(body_of(route, own, steps, *leaves))


def body_of(route: Route, own: Belongings, steps: tuple[Step, ...] | None, *leaves: Any) -> Any:
    """A body that says `leaves` where the steps lead, and all that the route demands."""
    body = {} if steps is None else fill(steps, list(leaves), examples(own))
    match steps:
        case [Key("input"), *_]:
            tag = next((step.tag for step in steps if isinstance(step, Tag) and step.tag), None)
            before, after = around(tag, own) if tag else ([], [])
            if before or after:
                body["input"] = [*before, *body["input"], *after]
    return complete(route, {**demanded(route, own.kinds), **body})


_DEMANDED: dict[str, dict[str, Any]] = {
    "completions.create": {"model": MODEL, "prompt": "hello"},
    "embeddings.create": {"model": MODEL, "input": "hello"},
    "moderations.create": {"input": "hello"},
    "images.generate": {"prompt": "hello"},
    "images.edit": {"prompt": "hello"},
    "images.create_variation": {"image": b"a"},
    "files.create": {"purpose": "user_data", "file": b"notes"},
    "uploads.create": {"bytes": 0, "filename": "a", "mime_type": "text/plain", "purpose": "user_data"},
    "uploads.parts.create": {"data": b""},
    "uploads.complete": {"part_ids": []},
    "audio.speech.create": {"model": MODEL, "voice": "alloy", "input": "hello"},
    "audio.transcriptions.create": {"model": MODEL, "file": b"hello"},
    "audio.translations.create": {"model": MODEL, "file": b"hello"},
}


def complete(route: Route, body: Any) -> Any:
    """The body with what the route demands; a form, where it takes nothing else."""
    whole = _completed(route, body)
    if route.body is not Body.FORM:
        return whole
    # The files last: what refuses the request is then known before anything goes on.
    return spelt(dict(sorted(_without_absent(whole).items(), key=lambda member: isinstance(member[1], bytes))))


def _completed(route: Route, body: Any) -> Any:
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
        own[:-1], own + "0", own[:-1] + last, own[:-TAIL] + own[-TAIL:].swapcase(), "Z", own[:-TAIL], own[-TAIL:],
        own[:5] + own[6:] + own[5], f"x{own}", own.replace("_", "-"), own.replace("_", "__"), "a" * 64, "A" * 100,
        f"{own},{own}", f"{own}~", own.upper(),
    ]  # fmt: skip
    if place.where == "path":
        texts.append(own.replace("_", "%5F", 1))
    if place.where == "body":
        texts += ["", " ", f"{own} ", f"{own}\n", f" {own}", f"{own}\0", own.replace("o", "о"), own + "é", "../" + own]
    # Where only some values are IDs, the others are names that everybody may use.
    return [text for text in texts if text != own and text.startswith(place.spec.only)]


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
        (town.alice, (town.alice.deleted[place.spec.kind],))
        for _ in [0]
        if place.spec.kind in town.alice.deleted and place.spec.role not in (Role.CURSOR, Role.MADE)
    ],
    "mixed list": _mixed,
}


def opens(place: Place) -> bool:
    """Whether one's own ID is taken here: of every kind inside a replayed item, elsewhere of the served ones."""
    return place.spec.role is Role.MADE or KINDS[place.spec.kind].served


def droppable(place: Place) -> bool:
    """Whether an ID that does not open is left out instead of refused."""
    return place.inline or place.spec.role is Role.SOFT


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
