"""What is refused on purpose says why; what is merely unknown does not."""

from __future__ import annotations

import pytest

from gateway.surfaces.denied import reason_for
from gateway.surfaces.table import Matched, Unmatched, match


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("GET", "/v1/chat/completions", "everybody's completions"),
        ("POST", "/v1/images/edits", "forms with files"),
        ("POST", "/v1/images/variations", "forms with files"),
        ("DELETE", "/v1/models/some-model", "fine-tuned"),
        ("GET", "/v1/files", "no owners"),
        ("POST", "/v1/vector_stores/vs_1/search", "no owners"),
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
        ("POST", "/v1/chat/completions/x", "chat.completions.update"),
        ("GET", "/v1/chat/completions/x/messages", "chat.completions.messages.list"),
        ("POST", "/v1/completions", "completions.create"),
        ("POST", "/v1/images/generations", "images.generate"),
    ],
)
def test_what_stands_beside_a_refused_operation_is_served(method: str, path: str, action: str) -> None:
    matched = match(method, path)
    assert isinstance(matched, Matched)
    assert matched.route.action == action
