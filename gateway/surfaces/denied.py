"""What is refused on purpose: every family of operations without a surface, each with its reason.

A test compares the table and this list with the installed `openai` package: an operation in neither fails there.
"""

from __future__ import annotations

from typing import Final

_AGENTS: Final = (
    "agents act with rights of their own, which the gateway cannot tell apart; use /v1/responses with tools"
)
_ASSISTANTS: Final = "the service removed assistants on 2026-08-26; use /v1/responses with /v1/conversations"
_DIRECT: Final = "it connects the end device straight to the service, past every check; use /v1/responses"
_CALLS: Final = (
    "it connects the end device straight to the service, past every check; open a WebSocket to /v1/realtime of the gateway, "
    "with the gateway's own key"
)
_TRUNK: Final = "telephone calls come to the operator; once one is yours, open a WebSocket to /v1/realtime?call_id=…"
_VOICES: Final = (
    "a person's voice, and that they consent, is the operator's to answer for; name one of the service's voices"
)
_ALIEN: Final = "it keeps nothing of one's own and is no part of the gateway's table; use /v1/responses"
_OPERATOR: Final = "it administers the shared organization and is its operator's"
_GRADERS: Final = "a grader runs models and code that no policy sees; give it to a fine-tuning job as its method"
_PERMISSIONS: Final = "it opens a model to other projects of the organization, which is its operator's to do"

FAMILIES: Final[dict[str, str]] = {
    "agents": _AGENTS,
    "assistants": _ASSISTANTS,
    "chatkit": _DIRECT,
    "content_provenance_checks": _ALIEN,
    "decisions": _ALIEN,
    "evals": "the service shut evals down on 2026-11-30",
    "live": _DIRECT,
    "organization": _OPERATOR,
    "projects": _OPERATOR,
    "prompts": "the service shut stored prompts down on 2026-11-30, which all users of a project shared; send the text",
    "realtime": _CALLS,
    "safety": "what it tells concerns everybody who shares the key, so it is for the operator",
    "threads": _ASSISTANTS,
    "vaults": "vaults hold the secrets of agents, which are not served",
    "videos": "the service shut videos down on 2026-09-24",
    "webhook_endpoints": "one endpoint gets the events of everybody on the key; POST /tenant/webhooks registers one of yours",
    "webhook_event_types": "the endpoint is the operator's; POST /tenant/webhooks registers one for your own events",
}
"""By the first segment below `/v1`."""

OPERATIONS: Final[dict[tuple[str, str], str]] = {
    ("POST", "/audio/voices"): _VOICES,
    ("DELETE", "/audio/voices/{voice_id}"): _VOICES,
    ("POST", "/audio/voice_consents"): _VOICES,
    ("GET", "/audio/voice_consents"): _VOICES,
    ("GET", "/audio/voice_consents/{consent_id}"): _VOICES,
    ("POST", "/audio/voice_consents/{consent_id}"): _VOICES,
    ("DELETE", "/audio/voice_consents/{consent_id}"): _VOICES,
    **{("POST", f"/realtime/calls/{{call_id}}/{verb}"): _TRUNK for verb in ("accept", "hangup", "refer", "reject")},
    ("POST", "/fine_tuning/alpha/graders/run"): _GRADERS,
    ("POST", "/fine_tuning/alpha/graders/validate"): _GRADERS,
    ("GET", "/fine_tuning/checkpoints/{model}/permissions"): _PERMISSIONS,
    ("POST", "/fine_tuning/checkpoints/{model}/permissions"): _PERMISSIONS,
    ("DELETE", "/fine_tuning/checkpoints/{model}/permissions/{permission_id}"): _PERMISSIONS,
}
"""Single operations, of families that are served or refused for another reason."""


def reason_for(method: str, path: str) -> str:
    """Why `method` on the raw path is refused on purpose, or nothing where the path is simply unknown."""
    segments = path.split("/")
    if len(segments) < 3 or segments[1] != "v1":
        return ""
    for (denied_method, template), reason in OPERATIONS.items():
        parts, said = template.split("/")[1:], segments[2:]
        if method == denied_method and len(parts) == len(said) and all(map(_stands_for, parts, said)):
            return reason
    return FAMILIES.get(segments[2], "")


def _stands_for(part: str, segment: str) -> bool:
    return part.startswith("{") or part == segment
