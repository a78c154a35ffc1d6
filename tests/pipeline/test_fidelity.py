"""What is no ID passes unchanged, both ways: key order, number tokens, escapes, texts that look like IDs, unknown fields."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.pipeline.desk import MODEL, Desk

ROUNDS = 60

NUMBERS = (
    "0",
    "-0",
    "1.0",
    "0.1",
    "1e2",
    "1E-7",
    "9223372036854775809",
    "-9223372036854775809",
    "3.141592653589793238462643",
)
RAW = "resp_" + "0a" * 25
WORDS = (
    "",
    "é",
    "🧥",
    "a\u2028b",
    "\\",
    '"',
    "/",
    "\t\n",
    "\u0000",
    "null",
    RAW,
    "file-" + "a1" * 11,
    "the id is " + RAW,
    "ID=7",
)
PLAIN_WORDS = tuple(word for word in WORDS if "a1a1" not in word and RAW not in word)
"""Without what a field that the table does not know may not hold."""


class Maker:
    """JSON texts, written by hand so that each token is known."""

    def __init__(self, seed: int, words: tuple[str, ...] = WORDS, numbers: tuple[str, ...] = NUMBERS) -> None:
        self.random = random.Random(seed)
        self.words = words
        self.numbers = numbers

    def text(self) -> str:
        word = self.random.choice(self.words)
        return json.dumps(word, ensure_ascii=self.random.random() < 0.5)

    def value(self, depth: int = 3) -> str:
        kind = self.random.randrange(7 if depth else 4)
        if kind < 2:
            return self.text()
        if kind == 2:
            return self.random.choice(self.numbers)
        if kind == 3:
            return self.random.choice(("true", "false", "null"))
        if kind == 4:
            return "[" + self.gap().join(self.value(depth - 1) for _ in range(self.random.randrange(4))) + "]"
        return self.object(depth)

    def object(self, depth: int = 3) -> str:
        names = self.random.sample(
            ["b", "a", "é", "id", "item_id", "10", "9", "type", "conversation"], self.random.randrange(5)
        )
        members = [f'"{name}"{self.space()}:{self.space()}{self.value(depth - 1)}' for name in names]
        return "{" + self.gap().join(members) + "}"

    def space(self) -> str:
        return self.random.choice(("", " ", "\n\t"))

    def gap(self) -> str:
        return self.space() + "," + self.space()


def tokens(text: bytes | str) -> Any:
    """A JSON text's value in which numbers are their tokens and objects their members in order."""
    return json.loads(
        text, parse_int=lambda token: ("n", token), parse_float=lambda token: ("n", token), object_pairs_hook=list
    )


def test_the_comparison_sees_a_changed_token_and_a_changed_order() -> None:
    assert tokens('{"a":1.0}') != tokens('{"a":1}')
    assert tokens('{"a":1,"b":2}') != tokens('{"b":2,"a":1}')
    assert tokens('"\\u00e9"') == tokens('"é"')


async def test_a_request_that_names_nothing_reaches_the_service_as_it_was_written(at: Desk) -> None:
    for seed in range(ROUNDS):
        user, unknown = Maker(seed), Maker(seed, PLAIN_WORDS)
        content = (
            f'{{"model":"{MODEL}","metadata":{{"k":{user.text()}}},"input":[{{"role":"user","content":{user.text()}}},'
            f'{{"type":"function_call","call_id":"call_1","name":"f","arguments":{user.text()}}}],'
            f'"tools":[{{"type":"function","name":"f","strict":false,"parameters":{user.object()}}}],'
            f'"safety_identifier":"x","x_new":{unknown.value()},"temperature":{user.random.choice(NUMBERS)}}}'
        ).encode()
        at.stand_in.provider.reset()
        await at.call("POST", "/responses", content=content, content_type="application/json")
        expected, received = tokens(content), tokens(at.upstream[-1].body)
        at_place = [name for name, _ in expected].index("safety_identifier")
        assert received[at_place][0] == "safety_identifier"
        expected[at_place] = received[at_place]
        assert received == expected, f"seed {seed}"


async def test_what_a_user_wrote_comes_back_as_it_was_written(at: Desk) -> None:
    for seed in range(ROUNDS):
        make = Maker(seed, numbers=("0", "7", "1.5"))  # the stand-in writes others in its own way
        parameters, note = make.object(), make.text()
        content = (
            f'{{"model":"{MODEL}","input":"hello","metadata":{{"k":{note}}},'
            f'"tools":[{{"type":"function","name":"f","strict":false,"parameters":{parameters}}}]}}'
        ).encode()
        answer = await at.call("POST", "/responses", content=content, content_type="application/json")
        assert answer.status_code == 200, answer.text
        kept = await at.call("GET", f"/responses/{answer.json()['id']}")
        for shown in (answer.content, kept.content):
            fields = dict(tokens(shown))
            assert dict(fields["metadata"])["k"] == tokens(note), f"seed {seed}"
            assert dict(fields["tools"][0])["parameters"] == tokens(parameters), f"seed {seed}"
