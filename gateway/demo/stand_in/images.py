"""The endpoints under /v1/images."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request, StreamAnswer
from gateway.demo.stand_in.inputs import check_attachments, check_model
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider
from gateway.demo.stand_in.raw_ids import BASE62

_USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 7},
    "output_tokens": 100,
    "total_tokens": 107,
}


def generate(provider: Provider, request: Request) -> Answer:
    """`POST /v1/images/generations`: as base64, as addresses that name the account, or as partial images."""
    body = request.json()
    check_model(provider, {"model": "gpt-image-1", **body})
    if not isinstance(body.get("prompt"), str):
        raise failures.missing("prompt")
    return _drawn(provider, body, "image_generation")


def edit(provider: Provider, request: Request) -> Answer:
    """`POST /v1/images/edits`: a form with images, or JSON that names them."""
    if request.content_type.startswith("multipart/"):
        form = request.form()
        form.file("image")
        return _drawn(provider, {**form.value(), "stream": form.texts.get("stream") == "true"}, "image_edit")
    body = request.json()
    check_attachments(provider, [body.get("images"), body.get("mask")])
    return _drawn(provider, body, "image_edit")


def vary(provider: Provider, request: Request) -> Answer:
    """`POST /v1/images/variations`."""
    form = request.form()
    form.file("image")
    return _drawn(provider, {"prompt": "a variation", **form.value()}, "image_edit")


def _drawn(provider: Provider, body: Json, what: str) -> Answer:
    told = {"background": "opaque", "output_format": "png", "quality": "high", "size": "1024x1024"}
    if body.get("safety_identifier") is not None:
        told["safety_identifier"] = body["safety_identifier"]
    if body.get("stream"):
        return StreamAnswer(_events(what, int(body.get("partial_images") or 0), told))
    data = [_image(provider, body, number) for number in range(int(body.get("n") or 1))]
    return JsonAnswer({"created": int(time.time()), "data": data, "usage": _USAGE, **told})


def _image(provider: Provider, body: Json, number: int) -> Json:
    if body.get("response_format") != "url":
        return {"b64_json": _picture(number)}
    user = provider.ids.note(f"user-{provider.ids.text(BASE62, 24)}", "image URL")
    image = provider.ids.note(f"img-{provider.ids.text(BASE62, 24)}", "image URL")
    return {
        "url": f"https://images.example.org/private/{provider.organization}/{user}/{image}.png?st=2026&sig=x%2B%3D",
        "revised_prompt": f"A drawing of {body['prompt']}",
    }


def _events(what: str, partial: int, told: Json) -> Iterator[Json]:
    told = {"created_at": int(time.time()), **told}
    for number in range(partial):
        yield {
            "type": f"{what}.partial_image",
            "partial_image_index": number,
            "b64_json": _picture(number),
            **told,
        }
    yield {"type": f"{what}.completed", "b64_json": _picture(partial), "usage": _USAGE, **told}


def _picture(number: int) -> str:
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes([number]) * 600).decode()
