"""Images from a prompt and from other images (https://platform.openai.com/docs/api-reference/images). The addresses that some
models answer with name the organization; they are written without it, so only the base64 form is of use."""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import (
    FILE,
    LABEL,
    MEDIA,
    PLAIN,
    SPEECH,
    USER,
    Each,
    Either,
    Hashed,
    Id,
    Obj,
    Role,
    Spec,
    Typed,
)

_SAFETY: Final = Hashed("safety_identifier")
_PICTURE: Final = Obj({"type": PLAIN, "b64_json": MEDIA, "safety_identifier": _SAFETY})

EVENT: Final = Typed(
    {
        "image_generation.partial_image": _PICTURE,
        "image_generation.completed": _PICTURE,
        "image_edit.partial_image": _PICTURE,
        "image_edit.completed": _PICTURE,
    },
    other=Obj({"type": PLAIN}),
)

_IMAGES: Final = Obj(
    {"data": Each(Obj({"b64_json": MEDIA, "url": LABEL, "revised_prompt": SPEECH})), "safety_identifier": _SAFETY}
)
_ASKED: Final[dict[str, Spec]] = {
    "model": PLAIN,
    "prompt": USER,
    "safety_identifier": _SAFETY,
    "user": Hashed("user"),
}
_REFERENCE: Final = Obj({"file_id": Id(Kind.FILE, Role.REF), "image_url": MEDIA})
"""How JSON names an image."""

ROUTES: Final = (
    Route(
        "images.generate",
        "POST",
        "/images/generations",
        "draws images from a prompt",
        _IMAGES,
        Body.JSON,
        Obj(_ASKED),
        events=EVENT,
        keeps=False,
        names_user=True,
    ),
    Route(
        "images.edit",
        "POST",
        "/images/edits",
        "draws images from others and a prompt",
        _IMAGES,
        Body.FORM_OR_JSON,
        Obj(
            {
                **_ASKED,
                "image": Either(FILE, Each(FILE)),
                "images": Each(_REFERENCE),
                "mask": Either(FILE, _REFERENCE),
                "markup": FILE,
            }
        ),
        events=EVENT,
        keeps=False,
        names_user=True,
    ),
    Route(
        "images.create_variation",
        "POST",
        "/images/variations",
        "varies an image",
        _IMAGES,
        Body.FORM,
        Obj({"model": PLAIN, "user": Hashed("user"), "image": FILE}),
        keeps=False,
    ),
)
