"""Base URLs: what is accepted, and what it is taken apart into."""

from __future__ import annotations

import pytest

from gateway.upstreams import Origin, parse_base_url


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://api.openai.com/v1", Origin(True, "api.openai.com", 443, b"/v1", b"api.openai.com")),
        ("https://api.openai.com/v1/", Origin(True, "api.openai.com", 443, b"/v1", b"api.openai.com")),
        ("https://API.example.com:443", Origin(True, "api.example.com", 443, b"", b"api.example.com")),
        ("https://example.com:8443/a/b", Origin(True, "example.com", 8443, b"/a/b", b"example.com:8443")),
        ("http://127.0.0.1:8080/v1", Origin(False, "127.0.0.1", 8080, b"/v1", b"127.0.0.1:8080")),
        ("http://localhost/v1", Origin(False, "localhost", 80, b"/v1", b"localhost")),
        ("http://[::1]:8080/v1", Origin(False, "::1", 8080, b"/v1", b"[::1]:8080")),
    ],
)
def test_a_base_url_is_taken_apart(url: str, origin: Origin) -> None:
    assert parse_base_url(url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "", "api.openai.com/v1", "ftp://api.openai.com", "https://", "https:///v1", "https://user:pass@example.com/v1",
        "https://example.com/v1?x=1",
        "https://example.com/v1#x", "https://example.com/v1?", "https://example.com/a/../b",
        "https://example.com/a//b", "https://example.com/a b",
        "https://example.com/%2e%2e", "https://exa mple.com/", "https://example.com\\@evil.invalid/", "https://exam_ple.com", "https://example.com:x/",
        "https://example.com:99999/", "http://api.openai.com/v1", "http://10.0.0.1/v1", "http://localhost.evil.invalid/", "http://0.0.0.0/v1",
    ],
)  # fmt: skip
def test_a_base_url_that_is_not_plain_https_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_base_url(url)


def test_plain_http_beyond_loopback_needs_the_setting() -> None:
    assert parse_base_url("http://stand-in:8080/v1", allow_plain_http=True).host == "stand-in"
