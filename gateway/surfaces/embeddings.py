"""Embeddings (https://platform.openai.com/docs/api-reference/embeddings). They have no IDs."""

from __future__ import annotations

from typing import Final

from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import MEDIA, PLAIN, USER, Each, Hashed, Obj

ROUTES: Final = (
    Route(
        "embeddings.create",
        "POST",
        "/embeddings",
        "embeds texts",
        Obj({"object": PLAIN, "model": PLAIN, "data": Each(Obj({"object": PLAIN, "embedding": MEDIA}))}),
        Body.JSON,
        Obj({"model": PLAIN, "input": USER, "user": Hashed("user")}),
        keeps=False,
    ),
)
