"""Reading back what went in: a replayed text in which the gateway put raw IDs for opaque ones is stored by the service, and
every later list shows it, in requests that know nothing of those IDs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attack.belongings import MODEL, answer
from tests.attack.house import Caller, House, house


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("echo")) as running:
        yield running


def _replayed(own: str) -> list[dict[str, Any]]:
    """Items in all whose texts `own` becomes raw."""
    ended = {"type": "exit", "exit_code": 0}
    return [
        {"type": "code_interpreter_call", "code": f"print('{own}')", "outputs": [{"type": "logs", "logs": own}]},
        {"type": "shell_call", "call_id": "call_1", "action": {"commands": [f"cat {own}"]}},
        {
            "type": "shell_call_output",
            "call_id": "call_1",
            "output": [{"stdout": own, "stderr": own, "outcome": ended}],
        },
        {"type": "program", "call_id": "call_2", "code": own},
        {"type": "program_output", "call_id": "call_2", "result": own},
    ]


def _places(run: House, caller: Caller, items: list[dict[str, Any]]) -> Iterator[tuple[str, bytes]]:
    """Every way to read back what went in."""
    conversation = caller.ok("POST", "/conversations", {"items": items})["id"]
    path = f"/conversations/{conversation}/items"
    listed = caller.call("GET", path)
    yield "list of a conversation's items", listed.body
    for item in listed.json()["data"]:
        yield item["type"], caller.call("GET", f"{path}/{item['id']}").body
    said = [{"role": "user", "content": "hi"}, *items[:1], {"role": "user", "content": "again"}]
    response = caller.ok("POST", "/responses", {"model": MODEL, "input": said})["id"]
    yield "list of a response's input items", caller.call("GET", f"/responses/{response}/input_items").body


def test_an_id_that_went_in_with_a_replayed_text_is_read_back_as_it_was_sent(run: House) -> None:
    alice = run.caller("acme", "alice")
    own = answer(alice)["id"]
    raw = run.raw_of("acme", own)

    for place, body in _places(run, alice, _replayed(own)):
        assert raw.encode() not in body, place
        assert own.encode() in body, place
    assert any(raw.encode() in one.body for one in run.received)


def test_anothers_raw_id_in_a_replayed_text_is_read_back_as_one_that_opens_nothing(run: House) -> None:
    own = answer(run.caller("acme", "alice"))["id"]
    raw = run.raw_of("acme", own)

    for who in (run.caller("bravo", "bob"), run.caller("acme", "carol")):
        for place, body in _places(run, who, _replayed(raw)):
            assert raw.encode() not in body, place
        conversation = who.ok("POST", "/conversations", {"items": _replayed(raw)[:1]})["id"]
        (item,) = who.ok("GET", f"/conversations/{conversation}/items")["data"]
        got = item["code"].split("'")[1]
        assert who.call("GET", f"/responses/{got}").status == 404
        reply = who.call("POST", "/responses", {"model": MODEL, "input": "go on", "previous_response_id": got})
        assert json.loads(reply.body)["error"]["code"] == "previous_response_not_found"
