"""The scan of outgoing bytes, against the translator's output and against what should never be in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.shape import find_raw
from gateway.names import Kind
from gateway.rewrite.egress import Finding, Found, scan
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.outbound import translate_json
from gateway.surfaces.batches import LINES
from gateway.surfaces.realtime import TALKS
from gateway.surfaces.responses import RESPONSE
from gateway.surfaces.spec import (
    Blob,
    Each,
    Either,
    Hashed,
    Id,
    Label,
    Media,
    Obj,
    Spec,
    Speech,
    Typed,
    Unknown,
    User,
)
from gateway.surfaces.table import ROUTES
from tests.attack.places import UNHEARD
from tests.ids.test_shape import pieces
from tests.rewrite.answers import Writer, raw, responses, writers
from tests.rewrite.keys import ALICE, BOB
from tests.rewrite.test_sse import fed, streams

RESP, VICTIM = raw("resp_", 1), raw("resp_", 99)


def scanned(data: bytes, table: IdTable | None = None) -> Finding | None:
    table = table or IdTable(ALICE)
    return scan(data, issued=table.issued, touched=table.raws, verify=ALICE.verify)


@given(responses(), writers)
def test_it_finds_nothing_in_translated_answers(response: Any, writer: Writer) -> None:
    table = IdTable(ALICE)
    assert scanned(translate_json(writer.write(response), RESPONSE, table), table) is None


@given(streams())
def test_it_finds_nothing_in_translated_streams(stream: bytes) -> None:
    table = IdTable(ALICE)
    for out in fed([stream], table):
        assert scan(out.data, issued=table.issued, touched=out.touched, verify=ALICE.verify) is None


@given(responses(), writers)
def test_it_finds_the_raw_id_of_an_answer_that_was_not_translated(response: Any, writer: Writer) -> None:
    finding = scanned(writer.write(response))
    assert finding is not None
    assert finding.what is Found.RAW_SHAPE


@given(responses(), writers, st.sampled_from(["metadata", "output_text", "instructions", "note", "model", "fresh_id"]))
def test_it_finds_a_touched_id_wherever_it_stands_and_however_it_is_spelled(
    response: Any, writer: Writer, place: str
) -> None:
    table = IdTable(ALICE, {VICTIM: ALICE.opaque(Kind.RESPONSE, VICTIM)})
    planted = {"id": BOB.opaque(Kind.RESPONSE, RESP), place: f"x{VICTIM}x"}
    assert scanned(writer.write(planted), table) == Finding(Found.TOUCHED, "resp_")
    event = b"event: x\rdata: " + writer.write(planted).replace(b"\n", b"\rdata:") + b"\r\r"
    assert scanned(b": hi\n\n" + event + b"\n\n", table) == Finding(Found.TOUCHED, "resp_")


SHAPES = [
    VICTIM,
    "file-abcdefghijklmnopqrstu1",
    "conv_123e4567-e89b-12d3-a456-426614174000",
    "org-0123456789abcdefghijABCD",
    "proj_0123456789abcdefghijABCD",
    "req_0123456789abcdef0123456789abcdef",
    "sk-proj-0123456789abcdefghijABCD",
    "vsfb_ibj_0123456789abcdefghijABCD",
    "resp_" + "x1" * 32,
    "ft:gpt-4o:acme::8k01tfYd",
    "FT:gpt-4o:acme::8k01tfYd",
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "around", ['{{"note":"{}"}}', '{{"a":[{{"b":"({})"}}]}}', '{{"{}":1}}', "data: {{\"x\":\"{}\"}}\n\n", ": {}\n\n",
               '{{"note":"\\n{}"}}', '{{"note":"\\u00e9{}"}}', "id: {}\n\n",
               "data: {}\n\n", "{}", '{{"usage":{{"id":"{}"'])  # fmt: skip
def test_it_finds_what_has_the_raw_shape(shape: str, around: str) -> None:
    finding = scanned(around.format(shape).encode())
    assert finding is not None
    assert finding.what is Found.RAW_SHAPE
    assert finding.prefix
    assert shape.lower().startswith(finding.prefix)


@given(pieces)
def test_it_and_the_definition_of_the_raw_shape_find_the_same(text: str) -> None:
    assert (scanned(json.dumps({"note": text}).encode()) is not None) == bool(find_raw(text))


@pytest.mark.parametrize(
    "other",
    [
        "resp_" + "a" * 30, "resp_" + "1" * 19, "resp_" + "1" * 65, "xresp_" + "1" * 30, "-" + VICTIM, VICTIM + "_", VICTIM + "-",
        "call_0123456789abcdef01234567", "0123456789abcdef0123456789abcdef", ALICE.opaque(Kind.RESPONSE, VICTIM),
        BOB.opaque(Kind.RESPONSE, VICTIM), ALICE.inert(None, VICTIM),
    ],
)  # fmt: skip
def test_other_texts_are_none_of_its_business(other: str) -> None:
    assert scanned(json.dumps({"note": other}).encode()) is None
    assert scanned(f": {other}\n\n".encode()) is None


def test_what_an_error_quotes_of_the_client_is_exempt() -> None:
    body = json.dumps({"error": {"message": f"No response found with id '{VICTIM}'."}}).encode()
    assert scanned(body) == Finding(Found.RAW_SHAPE, "resp_")
    assert scan(body, issued=set(), touched=[], verify=ALICE.verify, quoted={VICTIM}) is None


def test_a_suspect_in_what_cannot_be_parsed_is_a_finding() -> None:
    assert scanned(b'{"text":"\\u0072esp_' + VICTIM[5:].encode()) == Finding(Found.UNREADABLE)


# Its list of keys and the table are two descriptions of one thing; they may not drift apart.

SPECS: dict[str, Spec] = {
    **{route.action: route.answer for route in ROUTES},
    **{f"{route.action} streams": route.events for route in ROUTES if route.events is not None},
    **{f"{talk.connect.action} tells": talk.events for talk in TALKS},
    **{f"lines of a {purpose}": of for purpose, of in LINES.items()},
}


def leaves(spec: Spec) -> Iterator[tuple[Spec, Any]]:
    """Every place of a spec, with a document in which the victim's ID stands there and nothing else."""
    match spec:
        case Each():
            yield from ((leaf, [document]) for leaf, document in leaves(spec.of))
        case Either():
            yield from leaves(spec.text)
            yield from leaves(spec.structure)
        case Obj():
            for name, of in spec.fields.items():
                yield from ((leaf, {name: document}) for leaf, document in leaves(of))
            yield from ((leaf, {"never_heard_of": document}) for leaf, document in leaves(spec.rest))
        case Typed():
            known: list[tuple[str | None, Obj]] = [*spec.table.items()]
            variants = [*known, (UNHEARD, spec.other), (None, spec.absent or spec.other)]
            for tag, variant in variants:
                told = {} if tag is None else {spec.key: tag}
                yield from ((leaf, told | document) for leaf, document in leaves(variant))
        case _:
            yield spec, VICTIM


@pytest.mark.parametrize("action", SPECS)
def test_it_knows_the_same_places_of_users_and_models_as_the_table(action: str) -> None:
    for leaf, document in leaves(SPECS[action]):
        finding = scanned(json.dumps(document).encode())
        match leaf:
            case Speech(restore=True):
                pass  # every raw ID in it was given its opaque form
            case User() | Speech() | Media() | Blob() | Hashed():
                assert finding is None, document
            case Id() | Unknown() | Label():
                assert finding is not None, document
