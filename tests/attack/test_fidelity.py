"""What a user or a model says passes as it was said, wherever the table has a place for it: what looks like a raw ID too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.rewrite.egress import scan
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.outbound import translate_json
from gateway.rewrite.sse import StreamTranslator
from gateway.surfaces.route import Route
from gateway.surfaces.spec import Spec, Speech, User
from tests.attack.matrix import SPEAKING, Town, body_of, path_of, town
from tests.attack.places import reach, spell, spoken
from tests.attack.resources import lines
from tests.forms import Form
from tests.pipeline.test_fidelity import PLAIN_WORDS, WORDS, Maker
from tests.rewrite.keys import ALICE
from tests.rewrite.test_egress import SPECS, VICTIM, leaves

__all__ = ["town"]

MARK = "here the user speaks"
SHAPED_WORDS = tuple(word for word in WORDS if word not in PLAIN_WORDS)
"""What looks like a raw ID, or holds one."""

EVENTS = ("streams", "tells")
"""How the names of those specs end that are of events."""


def value(text: str | bytes) -> Any:
    """A JSON text's value, in which numbers are their tokens."""
    return json.loads(text, parse_int=lambda token: ("n", token), parse_float=lambda token: ("n", token))


@pytest.mark.parametrize("route", SPEAKING, ids=lambda route: route.action)
def test_what_is_said_in_a_request_reaches_the_service_as_it_was_said(town: Town, route: Route) -> None:
    wrong = []
    for seed, (steps, more) in enumerate(spoken(route)):
        make, body = Maker(seed), body_of(route, town.alice, steps, MARK)
        if route.runs:
            body[route.runs] = lines(town.alice.caller)
        word = make.random.choice(SHAPED_WORDS)
        before = len(town.house.received)
        if isinstance(body, Form):
            form = Form(body.content.replace(MARK.encode(), word.encode()), body.content_type)
            reply = town.alice.caller.call(route.method, path_of(route, town.alice), form)
            heard = any(word.encode() in one.body for one in town.house.received[before:])
        else:
            said = f'{{"{word}": [{make.object()}, "{word}"]}}' if more else f'"{word}"'
            data = json.dumps(body).replace(json.dumps(MARK), said).encode()
            reply = town.alice.caller.call(route.method, path_of(route, town.alice), data=data)
            received = [value(one.body) for one in town.house.received[before:] if one.body]
            # As texts, which differ where the order of members does.
            heard = any(json.dumps(value(said)) in map(json.dumps, reach(one, steps)) for one in received)
        if not heard:
            wrong.append(f"{spell(steps)}: {reply.status} {reply.body!r}, heard {town.house.received[before:]}")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("name", SPECS)
def test_what_is_said_in_an_answer_reaches_the_client_as_it_was_said(name: str) -> None:
    for seed, (leaf, document) in enumerate(leaves(SPECS[name])):
        if not isinstance(leaf, User | Speech):
            continue
        # In replayed code and logs an ID of the service becomes what one's own is called.
        replayed = isinstance(leaf, Speech) and leaf.restore
        for words in (PLAIN_WORDS, PLAIN_WORDS if replayed else SHAPED_WORDS):
            said = Maker(seed, words).text()
            body = json.dumps(document).replace(json.dumps(VICTIM), said).encode()
            assert passed(body, SPECS[name], as_event=name.endswith(EVENTS)) == body


def passed(body: bytes, spec: Spec, *, as_event: bool) -> bytes:
    """`body` as the client reads it."""
    table = IdTable(ALICE)
    if as_event:
        stream = StreamTranslator(spec, table)
        content = b"".join(out.data for out in (*stream.feed(b"data: " + body + b"\n\n"), *stream.end()))
    else:
        content = translate_json(body, spec, table)
    assert scan(content, issued=table.issued, touched=table.raws, verify=ALICE.verify) is None, content
    return content.removeprefix(b"data: ").removesuffix(b"\n\n") if as_event else content
