"""The endpoints under /v1/models: the organization's fine-tuned ones are among them."""

from __future__ import annotations

from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request
from gateway.demo.stand_in.failures import Failure
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider


def list_models(provider: Provider, request: Request) -> Answer:
    """`GET /v1/models`."""
    return JsonAnswer({"object": "list", "data": [_model(provider, name) for name in provider.models]})


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/models/{model}`."""
    return JsonAnswer(_model(provider, _found(provider, request)))


def delete(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/models/{model}`."""
    name = _found(provider, request)
    if not name.startswith("ft:"):
        raise Failure(403, "You have insufficient permissions for this operation.", param="model")
    provider.models.remove(name)
    return JsonAnswer({"id": name, "object": "model", "deleted": True})


def _found(provider: Provider, request: Request) -> str:
    name = request.path_ids[0].replace("%3A", ":")
    if name not in provider.models:
        raise Failure(404, f"The model '{name}' does not exist", param="model", code="model_not_found")
    return name


def _model(provider: Provider, name: str) -> Json:
    owner = provider.organization if name.startswith("ft:") else "system"
    return {"id": name, "object": "model", "created": 1700000000, "owned_by": owner}
