"""The endpoint /v1/completions."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request, StreamAnswer
from gateway.demo.stand_in.inputs import check_model
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider
from gateway.demo.stand_in.raw_ids import HEX
from gateway.demo.stand_in.scripts import without_scripts


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/completions`: goes on with each prompt."""
    body = request.json()
    check_model(provider, body)
    prompts = body.get("prompt")
    if prompts is None:
        raise failures.missing("prompt")
    raw = provider.ids.new("cmpl-", place="completion.id")
    said = [f"{without_scripts(str(one))} and so on" for one in (prompts if isinstance(prompts, list) else [prompts])]
    if "quote" in request.script:
        said = [f"{text}, says {raw}" for text in said]
    completion: Json = {
        "id": raw,
        "object": "text_completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": [_choice(body, index, text, "stop") for index, text in enumerate(said)],
        "system_fingerprint": f"fp_{provider.ids.text(HEX, 10)}",
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
    if body.get("stream"):
        return StreamAnswer(_chunks(body, completion, max(1, request.script.count("delta", 8))), done=True)
    return JsonAnswer(completion)


def _choice(body: Json, index: int, text: str, finish: str | None) -> Json:
    likely = None
    if body.get("logprobs"):
        likely = {"tokens": [text], "token_logprobs": [-0.5], "top_logprobs": [{text: -0.5}], "text_offset": [0]}
    return {"text": text, "index": index, "logprobs": likely, "finish_reason": finish}


def _chunks(body: Json, completion: Json, size: int) -> Iterator[Json]:
    for choice in completion["choices"]:
        text = choice["text"]
        for at in range(0, len(text), size):
            yield {**completion, "usage": None, "choices": [_choice(body, choice["index"], text[at : at + size], None)]}
        yield {**completion, "usage": None, "choices": [_choice(body, choice["index"], "", "stop")]}
