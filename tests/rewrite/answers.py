"""Made-up answers of the upstream, and a JSON writer that spells them in every way that RFC 8259 allows."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import strategies as st

HEX = "0123456789abcdef"
MODELS = ("ft:gpt-4o:acme::8k01tfYd", "FT:GPT-4O:ACME::8K01TFYD", "ft:gpt-4o:acme")
ITEM_PREFIXES = ("msg_", "rs_", "fc_", "ci_", "fs_", "mcp_")


def raw(prefix: str, number: int) -> str:
    """A raw ID like the service's: 50 hex digits, the same for the same number."""
    return prefix + "".join(random.Random(f"{prefix}{number}").choices(HEX, k=50))


class Writer:
    """JSON with arbitrary spacing, escapes and spellings of numbers; the same for the same seed."""

    def __init__(self, seed: int, *, spaces: bool = True, escapes: float = 0.0) -> None:
        self._random = random.Random(seed)
        self._spaces = spaces
        self._escapes = escapes

    def write(self, value: Any) -> bytes:
        return self._value(value).encode()

    def _gap(self) -> str:
        return self._random.choice(["", " ", "\n  "]) if self._spaces else ""

    def _value(self, value: Any) -> str:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            members = [f"{self._text(k)}{self._gap()}:{self._gap()}{self._value(v)}" for k, v in value.items()]
            return "{" + self._gap() + ("," + self._gap()).join(members) + self._gap() + "}"
        if isinstance(value, list):
            return "[" + self._gap() + ("," + self._gap()).join(map(self._value, value)) + self._gap() + "]"
        if isinstance(value, float):
            return self._random.choice([repr(value), f"{value:.3e}", f"{value:.3E}"])
        return json.dumps(value)

    def _text(self, text: str) -> str:
        if not self._escapes:
            return json.dumps(text, ensure_ascii=self._random.random() < 0.3)
        spelled = []
        for character in text:
            code = ord(character)
            if code < 0x10000 and not 0xD800 <= code < 0xE000 and self._random.random() < self._escapes:
                spelled.append(f"\\u{code:04{self._random.choice('xX')}}")
            elif character == "/" and self._random.random() < 0.5:
                spelled.append("\\/")
            else:
                spelled.append(json.dumps(character, ensure_ascii=False)[1:-1])
        return '"' + "".join(spelled) + '"'


writers = st.builds(Writer, st.integers(0, 2**32), spaces=st.booleans(), escapes=st.sampled_from([0.0, 0.0, 0.02, 0.5]))
numbers = st.integers(0, 5)
free_text = st.text(max_size=12) | st.sampled_from(['a "quoted" word', "back\\slash", "né\u2019 😀", "x/y", ""])


@st.composite
def spoken(draw: st.DrawFn) -> str:
    """A text in which IDs may stand, also glued to other characters."""
    ids = st.builds(raw, st.sampled_from([*ITEM_PREFIXES, "resp_", "file-"]), numbers) | st.sampled_from(MODELS)
    return "".join(draw(st.lists(free_text | ids, max_size=5)))


@st.composite
def items(draw: st.DrawFn) -> dict[str, Any]:
    prefix = draw(st.sampled_from(ITEM_PREFIXES))
    item: dict[str, Any] = {"id": raw(prefix, draw(numbers))}
    text = draw(spoken())
    match prefix:
        case "msg_":
            annotation = {"type": "file_citation", "file_id": raw("file-", draw(numbers)), "index": len(text)}
            part = {"type": "output_text", "text": text, "annotations": draw(st.sampled_from([[], [annotation]]))}
            return item | {"type": "message", "role": "assistant", "content": [part | {"logprobs": []}]}
        case "rs_":
            blob = "gAAAA" + "".join(random.Random(text).choices(HEX, k=40))
            return item | {"type": "reasoning", "summary": [], "encrypted_content": blob}
        case "fc_":
            return item | {"type": "function_call", "call_id": raw("call_", 1), "name": "f", "arguments": text}
        case "ci_":
            logs = [{"type": "logs", "logs": text}]
            container = raw("cntr_", draw(numbers))
            return item | {"type": "code_interpreter_call", "container_id": container, "code": text, "outputs": logs}
        case "fs_":
            found = {"file_id": raw("file-", draw(numbers)), "filename": text, "text": text, "score": 1.0}
            return item | {"type": "file_search_call", "queries": [text], "results": [found]}
        case _:
            return item | {"type": "mcp_call", "arguments": text, "output": text, "name": "t", "server_label": "s"}


unknown_fields = st.dictionaries(
    st.sampled_from(["fresh_id", "fresh_ids", "note", "deep", "url"]),
    st.recursive(
        spoken() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none(),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "a", "b_id"]), inner, max_size=2)
        ),
        max_leaves=4,
    ),
    max_size=3,
)


@st.composite
def responses(draw: st.DrawFn) -> dict[str, Any]:
    response: dict[str, Any] = {
        "id": raw("resp_", draw(numbers)),
        "object": "response",
        "created_at": 1764000000.0,
        "big": 2**63 + 1,
        "temperature": 1.0,
        "model": "gpt-5-mini",
        "error": None,
        "previous_response_id": draw(st.none() | st.builds(raw, st.just("resp_"), numbers)),
        "conversation": draw(st.none() | st.builds(lambda n: {"id": raw("conv_", n)}, numbers)),
        "output": draw(st.lists(items(), max_size=3)),
        "tools": [{"type": "file_search", "vector_store_ids": [raw("vs_", draw(numbers))]}],
        "metadata": draw(st.dictionaries(st.sampled_from(["id", "k"]), spoken(), max_size=2)),
    }
    return response | draw(unknown_fields)
