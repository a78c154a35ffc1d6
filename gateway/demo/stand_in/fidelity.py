"""JSON text that a careless proxy would change: exact number tokens, unusual escapes, a given key order.

Python's encoder cannot be told to write a token as it stands, so `verbatim` marks a string and `encode` puts the token in.
"""

from __future__ import annotations

import json
import re
from typing import Any

_MARK = "\ue000"
_MARKED = re.compile('"\ue000((?:[^"\\\\\ue000]|\\\\.)*)\ue000"')
_ESCAPABLE = re.compile(rb"\b([a-z]{2,5})_(?=[0-9A-Za-z]{20})")


def verbatim(token: str) -> str:
    """A placeholder that `encode` replaces by `token`, which must be JSON text."""
    return f"{_MARK}{token}{_MARK}"


def encode(value: Any, *, escape_ids: bool = False, pretty: bool = False) -> bytes:
    """JSON text in UTF-8, without added spaces unless `pretty`. With `escape_ids` the `_` of each ID is `\\u005f`."""
    text = json.dumps(
        value, ensure_ascii=False, separators=None if pretty else (",", ":"), indent=2 if pretty else None
    )
    if _MARK in text:
        text = _MARKED.sub(lambda match: str(json.loads(f'"{match.group(1)}"')), text)
    data = text.encode()
    return _ESCAPABLE.sub(rb"\1\\u005f", data) if escape_ids else data


def oddities(*, extreme: bool = False) -> dict[str, Any]:
    """Fields whose text must arrive unchanged: numbers past 64 bits, floats without fraction, exponents, escapes.

    `extreme` adds what the JSON grammar allows and many parsers refuse: `1e400` and a lone surrogate.
    """
    past = {"x_past_double": verbatim("1e400"), "x_lone_surrogate": verbatim('"\\ud83e"')} if extreme else {}
    return {
        **past,
        "x_numbers": {
            "above_int64": verbatim("9223372036854775809"),
            "above_2_53": verbatim("9007199254740993"),
            "float_without_fraction": verbatim("1.0"),
            "trailing_zeros": verbatim("0.10000"),
            "upper_exponent": verbatim("1E+2"),
            "negative_zero": verbatim("-0.0"),
        },
        "x_strings": {
            "escaped_slash": verbatim('"\\/"'),
            "escaped_e_acute": verbatim('"\\u00e9"'),
            "raw_e_acute": "é",
            "surrogates": verbatim('"\\ud83e\\udde5"'),
            "raw_coat": "🧥",
            "upper_hex_escape": verbatim('"\\u00E9"'),
        },
        "x_order": {"b": 1, "a": 2, "10": 3, "9": 4},
    }
