"""Small requests that would cost much: each in processor seconds, of which the process has as many as it has cores.

Every limit leaves room for a slow machine. What is tested cost minutes, or grew with the square of what was sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.names import Kind
from gateway.rewrite.inbound import collect, put
from gateway.surfaces.table import BY_ACTION
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
    raws = {ALICE.opaque(Kind.ITEM, raw): raw for raw in (f"msg_{number:050d}" for number in range(2_000))}
    body = {"input": [{"type": "code_interpreter_call", "code": " ".join(raws) + " x" * 1_000_000}]}
    collected = collect(CREATE, {}, [], body, ALICE.form.verify)
    for quotation in collected.quotations:
        quotation.raw = raws[quotation.text]

    with spends_at_most(1):
        put(collected)

    code: str = body["input"][0]["code"]
    assert code.split()[:2_000] == list(raws.values())
