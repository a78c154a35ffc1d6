"""Streams whose events have no type: texts that run through their chunks, their end, and how they fail."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.names import Kind
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.outbound import translate_json
from gateway.rewrite.sse import Out, StreamTranslator
from gateway.surfaces.spec import PLAIN, RUNNING, SPEECH, USER, Each, Id, Obj, Role, Typed
from tests.rewrite.answers import raw, spoken
from tests.rewrite.keys import ALICE

RESP, OTHER = raw("resp_", 1), raw("resp_", 2)
OPAQUE = ALICE.opaque(Kind.RESPONSE, RESP)

CALLS = Each(Obj({"id": PLAIN, "function": Obj({"name": USER, "arguments": RUNNING})}))
CHUNK = Obj(
    {
        "id": Id(Kind.RESPONSE, Role.OWN),
        "choices": Each(Obj({"delta": Obj({"content": RUNNING, "tool_calls": CALLS}), "logprobs": SPEECH})),
    }
)
CITED = Typed({"url_citation": Obj({"url_citation": Obj({"url": USER})})}, other=Obj({}))
ANSWER = Obj(
    {
        "id": Id(Kind.RESPONSE, Role.OWN),
        "choices": Each(Obj({"message": Obj({"content": SPEECH, "annotations": Each(CITED)}), "logprobs": SPEECH})),
    }
)


def chunk(delta: dict[str, Any], index: int = 0, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish, **more}
    return b"data: " + json.dumps({"id": RESP, "created": 7, "usage": None, "choices": [choice]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def fed(*events: bytes) -> list[Out]:
    stream = StreamTranslator(CHUNK, IdTable(ALICE))
    return [out for one in events for out in stream.feed(one)] + stream.end()


def values(outs: list[Out]) -> list[Any]:
    blocks = b"".join(out.data for out in outs).decode().split("\n\n")
    return [json.loads(one.removeprefix("data: ")) for one in blocks if one.startswith("data: {")]


def said(outs: list[Out], index: int = 0) -> str:
    choices = [choice for value in values(outs) for choice in value["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content", "") for choice in choices)


def test_an_id_that_falls_over_chunks_is_replaced() -> None:
    outs = fed(*(chunk({"content": text}) for text in ("I am ", RESP[:9], RESP[9:30], RESP[30:] + ".")), DONE)
    assert said(outs) == f"I am {OPAQUE}."
    assert RESP.encode() not in b"".join(out.data for out in outs)


@given(spoken(), st.lists(st.integers(0, 80), max_size=6))
def test_texts_arrive_whole_however_they_were_cut(text: str, cuts: list[int]) -> None:
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    outs = fed(*(chunk({"content": piece}) for piece in pieces), chunk({}, finish="stop"), DONE)
    assert said(outs) == text.replace(RESP, OPAQUE)


def test_what_is_held_back_leaves_before_its_choice_ends_and_alone() -> None:
    held = RESP[:20]
    call = {"index": 0, "id": "call_1", "function": {"name": "f", "arguments": RESP[:12]}}
    outs = fed(chunk({"content": held, "role": "assistant"}), chunk({"tool_calls": [call]}), chunk({}, finish="stop"))
    *_, text, arguments, last = values(outs)
    assert text == {
        "id": OPAQUE,
        "created": 7,
        "usage": None,
        "choices": [{"index": 0, "delta": {"content": held[5:]}, "logprobs": None, "finish_reason": None}],
    }
    assert arguments["choices"][0]["delta"] == {"tool_calls": [{"index": 0, "function": {"arguments": RESP[5:12]}}]}
    assert last["choices"][0]["finish_reason"] == "stop"
    assert said(outs) == held


def test_a_chunk_that_ends_its_choice_says_all_that_it_has() -> None:
    outs = fed(chunk({"content": "see "}), chunk({"content": RESP[:20]}, finish="length"), DONE)
    assert [value["choices"][0]["delta"]["content"] for value in values(outs)] == ["see ", RESP[:20]]


def test_choices_are_told_apart() -> None:
    outs = fed(
        chunk({"content": RESP[:20]}),
        chunk({"content": RESP[:30]}, index=1),
        chunk({"content": RESP[20:]}),
        chunk({}, finish="stop"),
        chunk({"content": RESP[30:]}, index=1),
        DONE,
    )
    assert (said(outs), said(outs, 1)) == (OPAQUE, OPAQUE)


def test_what_is_held_back_leaves_before_the_stream_is_done() -> None:
    outs = fed(chunk({"content": RESP[:20]}), DONE)
    assert said(outs) == RESP[:20]
    assert (outs[-1].terminal, outs[-1].failed) == (True, False)
    assert outs[-1].data.endswith(DONE)


def test_log_probabilities_of_a_changed_piece_are_cleared() -> None:
    probable = {"content": [{"token": RESP[:9], "logprob": -1.0}]}
    first, second, third = values(
        fed(
            chunk({"content": "I am "}, logprobs=probable),
            chunk({"content": RESP[:30]}, logprobs=probable),
            chunk({"content": RESP[30:]}, logprobs=probable),
        )
    )
    assert first["choices"][0]["logprobs"] == probable
    assert second["choices"][0]["logprobs"] is None
    assert third["choices"][0]["logprobs"] is None


def test_an_error_ends_the_stream_and_is_said_again() -> None:
    error = {"error": {"message": f"Project {raw('proj_', 1)} failed.", "type": "server_error", "code": None}}
    outs = fed(chunk({"content": "I "}), b"data: " + json.dumps(error).encode() + b"\n\n")
    assert (outs[-1].terminal, outs[-1].failed) == (True, True)
    assert values(outs)[-1]["error"]["type"] == "server_error"
    assert b"proj_" not in outs[-1].data


@pytest.mark.parametrize("odd", [{"choices": "x"}, {"choices": [7]}, {"choices": [{"delta": 7, "index": [1]}]}, {}])
def test_a_chunk_of_another_form_passes(odd: dict[str, Any]) -> None:
    assert values(fed(b"data: " + json.dumps(odd).encode() + b"\n\n")) == [odd]


def test_an_answer_that_speaks_of_ids_loses_its_log_probabilities_and_its_citations_move() -> None:
    citation = {"type": "url_citation", "url_citation": {"start_index": 60, "end_index": 70, "url": "https://e.org/"}}
    message = {"content": f"{RESP} and more and more", "annotations": [citation]}
    body = {"id": RESP, "choices": [{"message": message, "logprobs": {"content": [{"token": RESP[:9]}]}}]}
    choice = json.loads(translate_json(json.dumps(body).encode(), ANSWER, IdTable(ALICE)))["choices"][0]
    assert choice["message"]["content"] == f"{OPAQUE} and more and more"
    assert choice["logprobs"] is None
    moved = choice["message"]["annotations"][0]["url_citation"]
    assert moved["start_index"] == 60 + len(OPAQUE) - len(RESP)
