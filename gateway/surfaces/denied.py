"""What is refused on purpose: every family of operations without a surface, each with its reason.

A test compares the table and this list with the installed `openai` package: an operation in neither fails there.
"""

from __future__ import annotations

from typing import Final

_UNSERVED = "its objects have no owners in this gateway, so a shared key would show them to everybody"
_STATELESS = "this surface is not served; use /v1/responses"
_FORM = "forms with files are not served; /v1/images/generations makes images from a prompt"
_DIRECT = "it connects the end device straight to the service, past every check"
_OPERATOR = "it belongs to the operator of the shared key"
_GONE = "the service has shut it down"

FAMILIES: Final[dict[str, str]] = {
    "agents": _UNSERVED,
    "assistants": _GONE,
    "audio": _STATELESS,
    "batches": _UNSERVED,
    "chatkit": _DIRECT,
    "containers": _UNSERVED,
    "content_provenance_checks": _STATELESS,
    "decisions": _STATELESS,
    "evals": _GONE,
    "files": _UNSERVED,
    "fine_tuning": _UNSERVED,
    "live": _DIRECT,
    "organization": _OPERATOR,
    "projects": _OPERATOR,
    "prompts": _GONE,
    "realtime": _DIRECT,
    "safety": _OPERATOR,
    "skills": _UNSERVED,
    "threads": _GONE,
    "uploads": _UNSERVED,
    "vaults": _UNSERVED,
    "vector_stores": _UNSERVED,
    "videos": _GONE,
    "webhook_endpoints": _OPERATOR,
    "webhook_event_types": _OPERATOR,
}
"""By the first segment below `/v1`."""

OPERATIONS: Final[dict[tuple[str, str], str]] = {
    ("GET", "/chat/completions"): "the service's list shows everybody's completions; retrieve one by its ID",
    ("POST", "/images/edits"): _FORM,
    ("POST", "/images/variations"): _FORM,
    ("DELETE", "/models/{model}"): "fine-tuned models have no owners in this gateway",
}
"""Single operations of families that are served otherwise."""


def reason_for(method: str, path: str) -> str:
    """Why `method` on the raw path is refused on purpose, or nothing where the path is simply unknown."""
    segments = path.split("/")
    if len(segments) < 3 or segments[1] != "v1":
        return ""
    if segments[2] in FAMILIES:
        return FAMILIES[segments[2]]
    for (denied_method, template), reason in OPERATIONS.items():
        parts, said = template.split("/")[1:], segments[2:]
        if method == denied_method and len(parts) == len(said) and all(map(_stands_for, parts, said)):
            return reason
    return ""


def _stands_for(part: str, segment: str) -> bool:
    return part.startswith("{") or part == segment
