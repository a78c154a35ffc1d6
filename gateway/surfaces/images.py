"""Images from a prompt (https://platform.openai.com/docs/api-reference/images). The addresses that some models answer with
name the organization; they are written without it, so only the base64 form is of use."""

from __future__ import annotations

from typing import Final

from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import LABEL, MEDIA, PLAIN, SPEECH, USER, Each, Hashed, Obj, Typed

_SAFETY: Final = Hashed("safety_identifier")
_PICTURE: Final = Obj({"type": PLAIN, "b64_json": MEDIA, "safety_identifier": _SAFETY})

EVENT: Final = Typed(
    {"image_generation.partial_image": _PICTURE, "image_generation.completed": _PICTURE}, other=Obj({"type": PLAIN})
)

ROUTES: Final = (
    Route(
        "images.generate",
        "POST",
        "/images/generations",
        "draws images from a prompt",
        Obj(
            {
                "data": Each(Obj({"b64_json": MEDIA, "url": LABEL, "revised_prompt": SPEECH})),
                "safety_identifier": _SAFETY,
            }
        ),
        Body.JSON,
        Obj({"model": PLAIN, "prompt": USER, "safety_identifier": _SAFETY, "user": Hashed("user")}),
        events=EVENT,
        keeps=False,
        names_user=True,
    ),
)
