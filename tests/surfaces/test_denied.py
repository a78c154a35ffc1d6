"""What is refused on purpose says why; what is merely unknown does not."""

from __future__ import annotations

import pytest

from gateway.surfaces.denied import reason_for
from gateway.surfaces.table import Matched, Unmatched, match


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("POST", "/v1/videos", "2026-09-24"),
        ("POST", "/v1/assistants", "/v1/conversations"),
        ("GET", "/v1/threads/thread_1/runs/run_1", "/v1/conversations"),
        ("POST", "/v1/prompts", "send the text"),
        ("GET", "/v1/evals", "2026-11-30"),
        ("POST", "/v1/agents/sessions", "/v1/responses"),
        ("POST", "/v1/chatkit/sessions", "past every check"),
        ("POST", "/v1/live/sessions", "past every check"),
        ("POST", "/v1/realtime/client_secrets", "open a WebSocket to /v1/realtime"),
        ("POST", "/v1/realtime/calls", "past every check"),
        ("POST", "/v1/realtime/calls/rtc_1/accept", "?call_id="),
        ("GET", "/v1/safety/alerts/alert_1", "everybody"),
        ("POST", "/v1/audio/voices", "operator's"),
        ("GET", "/v1/vaults", "secrets"),
        ("GET", "/v1/organization/usage/completions", "operator's"),
        ("POST", "/v1/projects/proj_1/users", "operator's"),
        ("POST", "/v1/webhook_endpoints", "everybody"),
        ("POST", "/v1/fine_tuning/alpha/graders/run", "no policy sees"),
        ("GET", "/v1/fine_tuning/checkpoints/ft:x/permissions", "operator's"),
    ],
)
def test_a_refused_operation_says_why(method: str, path: str, said: str) -> None:
    assert said in reason_for(method, path)
    unmatched = match(method, path)
    assert isinstance(unmatched, Unmatched)
    assert unmatched.reason == reason_for(method, path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/chat/others"),
        ("POST", "/v1/images/others"),
        ("PUT", "/v1/models/some-model"),
        ("DELETE", "/v1/models/some-model/parts"),
        ("GET", "/v1/fine_tuning/others"),
        ("GET", "/v2/files"),
        ("GET", "/v1"),
    ],
)
def test_an_unknown_operation_has_no_reason(method: str, path: str) -> None:
    assert reason_for(method, path) == ""


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("POST", "/v1/chat/completions", "chat.completions.create"),
        ("GET", "/v1/chat/completions", "chat.completions.list"),
        ("POST", "/v1/chat/completions/x", "chat.completions.update"),
        ("GET", "/v1/chat/completions/x/messages", "chat.completions.messages.list"),
        ("POST", "/v1/completions", "completions.create"),
        ("POST", "/v1/images/generations", "images.generate"),
        ("GET", "/v1/fine_tuning/jobs/x/checkpoints", "fine_tuning.jobs.checkpoints"),
        ("DELETE", "/v1/models/x", "models.delete"),
    ],
)
def test_what_stands_beside_a_refused_operation_is_served(method: str, path: str, action: str) -> None:
    matched = match(method, path)
    assert isinstance(matched, Matched)
    assert matched.route.action == action
