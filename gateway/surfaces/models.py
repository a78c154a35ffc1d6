"""Models (https://platform.openai.com/docs/api-reference/models). Names are public; fine-tuned ones are hidden."""

from __future__ import annotations

from typing import Final

from gateway.surfaces.route import Route
from gateway.surfaces.spec import PLAIN, Each, Obj

_MODEL: Final = Obj({"id": PLAIN, "object": PLAIN})

FINE_TUNED: Final = "ft:"
"""The prefix of fine-tuned models' names. They have no owners here, so nobody sees or uses them."""

ROUTES: Final = (
    Route("models.list", "GET", "/models", "lists the base models", Obj({"data": Each(_MODEL)}), local=True),
    Route("models.retrieve", "GET", "/models/{model}", "describes a base model", _MODEL, path_names=("model",)),
)
