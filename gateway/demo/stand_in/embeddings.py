"""The endpoint /v1/embeddings."""

from __future__ import annotations

import base64
import random
import struct
from typing import Any

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request
from gateway.demo.stand_in.inputs import check_model
from gateway.demo.stand_in.provider import Provider

_DIMENSIONS = 8


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/embeddings`: the same vector for the same text, as numbers or as base64 of 32-bit floats."""
    body = request.json()
    check_model(provider, body)
    given = body.get("input")
    if given is None:
        raise failures.missing("input")
    texts = given if isinstance(given, list) and not all(isinstance(one, int) for one in given) else [given]
    data = []
    for index, text in enumerate(texts):
        vector = _vector(str(text), int(body.get("dimensions") or _DIMENSIONS))
        shown: Any = vector
        if body.get("encoding_format") == "base64":
            shown = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": shown})
    counted = sum(len(str(text)) // 4 + 1 for text in texts)
    return JsonAnswer(
        {
            "object": "list",
            "data": data,
            "model": body["model"],
            "usage": {"prompt_tokens": counted, "total_tokens": counted},
        }
    )


def _vector(text: str, dimensions: int) -> list[float]:
    drawn = random.Random(text)
    return [round(drawn.uniform(-1, 1), 6) for _ in range(dimensions)]
