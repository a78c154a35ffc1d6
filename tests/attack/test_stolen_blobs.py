"""Stolen replay blobs: the service decrypts one for its whole organization, wherever it finds one that it knows how to read.

Bob holds what Alice of another tenant was given. He takes her suffix off and sends the bare blob in places of which no table
says that a blob stands there: the service has more item types, and more names for them, than the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attack.belongings import MODEL
from tests.attack.house import House, house


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder: Path = tmp_path_factory.mktemp("blobs")
    with house(folder) as running:
        yield running


@pytest.fixture(scope="module")
def stolen(run: House) -> str:
    """Alice's blob, as the service wrote it."""
    asked = {"model": MODEL, "input": "[[script: reasoning]] think", "include": ["reasoning.encrypted_content"]}
    sealed = run.caller("acme", "alice").ok("POST", "/responses", asked)["output"][0]["encrypted_content"]
    bare, suffix, _ = str(sealed).partition(".cc1.")
    assert suffix
    return bare


_PLACES = {
    "another name of a known type": {"type": "compaction_summary", "encrypted_content": "BLOB"},
    "no type that is known": {"type": "x_unheard_of", "encrypted_content": "BLOB"},
    "no type": {"role": "user", "content": "hi", "encrypted_content": "BLOB"},
    "a known type without one": {"type": "function_call_output", "call_id": "c", "output": "", "encrypted_content": "BLOB"},
    "an item reference": {"type": "item_reference", "id": "msg_0", "encrypted_content": "BLOB"},
    "a part of a message": {"role": "user", "content": [{"type": "x_sealed", "encrypted_content": "BLOB"}]},
    "a part of a known type": {"role": "user", "content": [{"type": "input_text", "text": "", "encrypted_content": "BLOB"}]},
    "an object in an unknown field": {"role": "user", "content": "hi", "x_state": {"encrypted_content": "BLOB"}},
    "a list in an unknown field": {"role": "user", "content": "hi", "x_state": [[{"encrypted_content": "BLOB"}]]},
    "a list of blobs": {"type": "reasoning", "summary": [], "encrypted_content": ["BLOB"]},
    "an object of blobs": {"type": "x_unheard_of", "encrypted_content": {"data": ["BLOB"]}},
}  # fmt: skip


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("route", ["responses", "conversations"])
def test_a_stolen_blob_reaches_nobody_wherever_it_stands(run: House, stolen: str, place: str, route: str) -> None:
    bob = run.caller("bravo", "bob")
    item = _filled(_PLACES[place], stolen)
    before = len(run.received)

    if route == "responses":
        reply = bob.call("POST", "/responses", {"model": MODEL, "input": [item]})
    else:
        reply = bob.call("POST", "/conversations", {"items": [item]})

    assert reply.status in (400, 404), reply.body
    assert len(run.received) == before


def test_a_stolen_blob_beside_the_input_reaches_nobody(run: House, stolen: str) -> None:
    before = len(run.received)
    sent = {"model": MODEL, "input": "hi", "x_context": {"encrypted_content": stolen}}

    reply = run.caller("bravo", "bob").call("POST", "/responses", sent)

    assert reply.json()["error"]["code"] == "invalid_encrypted_content"
    assert len(run.received) == before


def test_ones_own_blob_is_opened_in_an_item_that_no_table_knows(run: House) -> None:
    alice = run.caller("acme", "alice")
    asked = {"model": MODEL, "input": "[[script: reasoning]] think", "include": ["reasoning.encrypted_content"]}
    sealed = alice.ok("POST", "/responses", asked)["output"][0]["encrypted_content"]

    item = {"type": "x_unheard_of", "encrypted_content": sealed}
    alice.call("POST", "/responses", {"model": MODEL, "input": [{"role": "user", "content": "hi"}, item]})

    sent = json.loads(run.received[-1].body)
    assert sent["input"][1]["encrypted_content"] == sealed.partition(".cc1.")[0]


def _filled(value: Any, blob: str) -> Any:
    if isinstance(value, dict):
        return {name: _filled(member, blob) for name, member in value.items()}
    if isinstance(value, list):
        return [_filled(element, blob) for element in value]
    return blob if value == "BLOB" else value
