"""Moderations (https://platform.openai.com/docs/api-reference/moderations). Their `id` names nothing that can be asked for,
so it is made inert like everything that no table knows."""

from __future__ import annotations

from typing import Final

from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import MEDIA, PLAIN, USER, Each, Either, Obj, Typed

PART: Final = Typed(
    {"text": Obj({"text": USER}), "image_url": Obj({"image_url": Obj({"url": MEDIA})})}, other=Obj({"text": USER})
)

ROUTES: Final = (
    Route(
        "moderations.create",
        "POST",
        "/moderations",
        "classifies texts and images",
        Obj({"model": PLAIN}),
        Body.JSON,
        Obj({"model": PLAIN, "input": Either(USER, Each(Either(USER, PART)))}),
        keeps=False,
    ),
)
