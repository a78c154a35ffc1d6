"""The endpoint /v1/moderations."""

from __future__ import annotations

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request
from gateway.demo.stand_in.inputs import check_model
from gateway.demo.stand_in.provider import Provider

_CATEGORIES = (
    "harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm",
    "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/moderations`: one result for each text; texts that speak of violence are flagged."""
    body = request.json()
    check_model(provider, {"model": "omni-moderation-latest", **body})
    given = body.get("input")
    if given is None:
        raise failures.missing("input")
    results = []
    for text in given if isinstance(given, list) else [given]:
        found = "violence" if "violence" in str(text) else ""
        results.append(
            {
                "flagged": bool(found),
                "categories": {name: name == found for name in _CATEGORIES},
                "category_scores": {name: 0.9 if name == found else 1.0e-05 for name in _CATEGORIES},
                "category_applied_input_types": {name: ["text"] for name in _CATEGORIES},
            }
        )
    raw = provider.ids.new("modr-", place="moderation.id")
    return JsonAnswer({"id": raw, "model": "omni-moderation-latest", "results": results})
