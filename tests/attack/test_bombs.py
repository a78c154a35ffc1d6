"""Small requests that would cost much: each in processor seconds, of which the process has as many as it has cores.

Every limit leaves room for a slow machine. What is tested cost minutes, or grew with the square of what was sent.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.errors import Problem, Reason
from gateway.names import Kind
from gateway.pipeline.evidence import brief
from gateway.rewrite import egress
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.inbound import collect
from gateway.rewrite.named import put
from gateway.rewrite.outbound import translate_json
from gateway.settings.sections import TransportLimits
from gateway.surfaces.items import ITEM_LIST
from gateway.surfaces.responses import RESPONSE
from gateway.surfaces.table import BY_ACTION
from gateway.transport.bodies import DECODERS, parse_json
from tests.attack.house import house
from tests.rewrite.keys import ALICE

CREATE = BY_ACTION["responses.create"]


@contextmanager
def spends_at_most(seconds: float) -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < seconds


def test_a_long_name_above_many_members_costs_no_more_than_both_together() -> None:
    below = {f"a{number}": 0 for number in range(20_000)}
    body = {"prompt": {"variables": {"k" * 4_000_000: below}}}

    with spends_at_most(0.5):
        collect(CREATE, {}, [], body, ALICE.form.verify)


def test_a_refusal_tells_a_place_without_repeating_a_long_name() -> None:
    body = {"prompt": {"variables": {"k" * 100_000: {"type": "input_file", "file_id": "file-none"}}}}

    (reference,) = collect(CREATE, {}, [], body, ALICE.form.verify).references

    assert len(reference.param) < 200
    assert reference.param.endswith(".file_id")


def test_many_ids_in_one_replayed_text_are_put_in_place_in_one_pass() -> None:
    raws = {ALICE.opaque(Kind.ITEM, raw): raw for raw in _raws(2_000)}
    body = {"input": [{"type": "code_interpreter_call", "code": " ".join(raws) + " x" * 1_000_000}]}
    collected = collect(CREATE, {}, [], body, ALICE.form.verify)
    for quotation in collected.quotations:
        quotation.raw = raws[quotation.text]

    with spends_at_most(1):
        put(collected)

    code: str = body["input"][0]["code"]
    assert code.split()[:2_000] == list(raws.values())


def test_a_name_full_of_made_up_ids_is_not_searched_for_each_of_them() -> None:
    """Bob adds a message whose cited file has a long name; the service stores it, and every list of the items shows it."""
    annotation = {"type": "file_citation", "file_id": "file-" + "1" * 24, "filename": " ".join(_raws(40_000))}
    part = {"type": "output_text", "text": "", "annotations": [annotation]}
    page = {"object": "list", "data": [{"type": "message", "id": "msg_" + "1" * 50, "content": [part]}]}

    with spends_at_most(10), pytest.raises(Problem):
        translate_json(json.dumps(page).encode(), ITEM_LIST, IdTable(ALICE))


def test_an_answer_is_read_once_for_all_ids_of_its_request() -> None:
    """The service repeats instructions of ten megabytes, and the request named as many items as it may."""
    raws = list(_raws(4_096))
    sent = {raw: ALICE.opaque(Kind.ITEM, raw) for raw in raws}
    answer = {"id": "resp_" + "1" * 50, "instructions": "lorem ipsum " * 800_000 + f"xmsg_{raws[7]}"}
    table = IdTable(ALICE, sent)

    with spends_at_most(4):
        out = translate_json(json.dumps(answer).encode(), RESPONSE, table)
        found = egress.scan(out, issued=table.issued, touched=table.raws, verify=ALICE.verify)
        missed = egress.scan(out + raws[9].encode(), issued=table.issued, touched=table.raws, verify=ALICE.verify)

    assert json.loads(out)["instructions"].endswith(f"xmsg_{sent[raws[7]]}")
    assert found is None
    assert missed is not None


def test_of_many_ids_each_is_replaced_also_where_one_begins_inside_what_is_none() -> None:
    raws = [f"{number:04d}{'0123456789abcdef' * 2}" for number in range(1000, 2000)]
    table = IdTable(ALICE, {raw: ALICE.opaque(Kind.CONVERSATION, raw) for raw in raws})
    text = " ".join(f"1{raw} {raw[:3]}{raw}" for raw in raws)

    assert table.replace(text.encode()).decode() == " ".join(
        f"1{table.texts[raw]} {raw[:3]}{table.texts[raw]}" for raw in raws
    )


def test_members_of_a_compressed_body_do_not_each_cost_the_whole() -> None:
    sent = gzip.compress(b"") * 990 + gzip.compress(os.urandom(30_000_000), 1)

    with spends_at_most(3):
        body = DECODERS[b"gzip"](sent, TransportLimits())

    assert len(body) == 30_000_000


def test_a_clients_name_of_any_length_is_remembered_in_few_bytes() -> None:
    names = [bytes([letter]) * 30_000 for letter in b"ab"] + [b"OpenAI/Python 2.1.0"]

    kept = [brief(name) for name in names]

    assert max(map(len, kept)) <= 512
    assert len(set(kept)) == 3


def test_a_body_of_more_values_than_anybody_needs_is_refused() -> None:
    with pytest.raises(Problem) as refused:
        parse_json(b'{"input":[' + b'"",' * 1_000_001 + b"1]}", TransportLimits())

    assert refused.value.reason is Reason.BODY_TOO_LARGE


def test_commas_in_a_text_are_no_values() -> None:
    value = parse_json(b'{"input":"' + b"a," * 1_100_000 + b'"}', TransportLimits())

    assert len(value["input"]) == 2_200_000


def test_whoever_sends_a_body_of_many_values_holds_up_nobody_else(tmp_path: Path) -> None:
    with house(tmp_path) as run:
        gaps: list[float] = []

        async def beat() -> None:
            last = time.monotonic()
            while True:
                await asyncio.sleep(0.01)
                now = time.monotonic()
                gaps.append(now - last)
                last = now

        beating = asyncio.run_coroutine_threadsafe(beat(), run.loop)
        try:
            many = b'{"model":"gpt-5","input":[' + b'"",' * 900_000 + b'{"id":"msg_0"}]}'
            reply = run.caller("bravo", "bob").call("POST", "/responses", data=many)
        finally:
            beating.cancel()

    assert reply.status == 404
    assert max(gaps) < 0.7


def _raws(count: int) -> Iterator[str]:
    return (f"msg_{number:050d}" for number in range(count))
