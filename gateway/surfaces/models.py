"""Models (https://platform.openai.com/docs/api-reference/models).

The names of the service's own models are public. A fine-tuned one is somebody's: its name says base model, organization and
suffix, and whoever knows it can use it, so it is an ID like any other, which the job that made it shows first.
"""

from __future__ import annotations

from typing import Final

from gateway.ids.shape import TUNED
from gateway.names import Kind
from gateway.surfaces.route import Route
from gateway.surfaces.spec import PLAIN, Each, Id, Obj, Role, Secret

NAMED: Final = Id(Kind.FINE_TUNED_MODEL, Role.REF, only=TUNED)
"""A model that somebody names."""

MADE: Final = Id(Kind.FINE_TUNED_MODEL, Role.MADE)
"""A model that the service has made."""

_OWNER: Final = Secret(frozenset({"system", "openai", "openai-internal", "openai-dev"}), "organization-owner")
"""Of a fine-tuned model, the organization that everybody here shares."""

_MODEL: Final = Obj({"id": NAMED, "object": PLAIN, "owned_by": _OWNER})

ROUTES: Final = (
    Route(
        "models.list",
        "GET",
        "/models",
        "lists the service's models and one's own fine-tuned ones",
        Obj({"object": PLAIN, "data": Each(_MODEL)}),
        own=Kind.FINE_TUNED_MODEL,
    ),
    Route("models.retrieve", "GET", "/models/{model}", "describes a model", _MODEL, path_ids={"model": NAMED}),
    Route(
        "models.delete",
        "DELETE",
        "/models/{model}",
        "deletes a fine-tuned model",
        Obj({"id": NAMED, "object": PLAIN}),
        path_ids={"model": Id(Kind.FINE_TUNED_MODEL, Role.REF)},
        deletes="model",
    ),
)
