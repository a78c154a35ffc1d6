"""Completions of plain text (https://platform.openai.com/docs/api-reference/completions). Nothing of them is kept: their
`id` can't be named again, so it is made inert like everything that no table knows."""

from __future__ import annotations

from typing import Final

from gateway.surfaces import models
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import MEDIA, PLAIN, RUNNING, SPEECH, USER, Each, Hashed, Obj, Speech


def _completion(text: Speech) -> Obj:
    return Obj(
        {
            "object": PLAIN,
            "model": models.NAMED,
            "obfuscation": MEDIA,
            "choices": Each(Obj({"text": text, "logprobs": SPEECH})),
        }
    )


ROUTES: Final = (
    Route(
        "completions.create",
        "POST",
        "/completions",
        "completes a text",
        _completion(SPEECH),
        Body.JSON,
        Obj({"model": models.NAMED, "prompt": USER, "suffix": USER, "stop": USER, "user": Hashed("user")}),
        events=_completion(RUNNING),
        keeps=False,
    ),
)
