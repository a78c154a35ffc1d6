"""Header allow-lists towards OpenAI and towards the client."""

from __future__ import annotations

import pytest

from gateway.upstreams import UpstreamCredential
from gateway.upstreams.openai import answer_headers, media_type, request_headers

KEY = UpstreamCredential("sk-test", organization="org-1", project="proj_1")


def test_a_request_carries_our_credential_and_only_known_headers() -> None:
    headers = request_headers(
        KEY,
        content_type=b"application/json",
        accept=b"text/event-stream",
        beta=[b"assistants=v2, responses_multi_agent=v1", b"responses_multi_agent=v1", b"evil=1"],
        idempotency_key=b"cc-1",
        traceparent=b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    assert headers == (
        (b"authorization", b"Bearer sk-test"),
        (b"user-agent", b"coatcheck"),
        (b"accept", b"text/event-stream"),
        (b"content-type", b"application/json"),
        (b"openai-organization", b"org-1"),
        (b"openai-project", b"proj_1"),
        (b"openai-beta", b"responses_multi_agent=v1"),
        (b"idempotency-key", b"cc-1"),
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    )


def test_what_is_not_configured_or_known_is_not_sent() -> None:
    assert request_headers(UpstreamCredential("sk-test"), beta=[b"evil=1"]) == (
        (b"authorization", b"Bearer sk-test"),
        (b"user-agent", b"coatcheck"),
        (b"accept", b"application/json"),
    )


def test_a_client_sees_only_listed_headers_of_an_answer() -> None:
    seen = answer_headers(
        (
            (b"content-type", b"application/json; charset=utf-8; x=resp_1"),
            (b"content-length", b"5"),
            (b"transfer-encoding", b"chunked"),
            (b"retry-after", b"20"),
            (b"retry-after-ms", b"1500.5"),
            (b"x-should-retry", b"false"),
            (b"openai-poll-after-ms", b"1000"),
            (b"openai-version", b"2020-10-01"),
            (b"openai-organization", b"user-abc"),
            (b"openai-project", b"proj_abc"),
            (b"openai-model", b"ft:gpt:org::x"),
            (b"x-request-id", b"req_abc"),
            (b"x-ratelimit-limit-requests", b"1000"),
            (b"set-cookie", b"__cf_bm=x"),
            (b"cf-ray", b"x"),
            (b"location", b"/v1/realtime/calls/rtc_1"),
            (b"server", b"cloudflare"),
            (b"traceresponse", b"x"),
            (b"x-codex-turn-state", b"x"),
            (b"unheard-of", b"x"),
        )
    )
    assert seen == (
        (b"content-type", b"application/json"),
        (b"retry-after", b"20"),
        (b"retry-after-ms", b"1500.5"),
        (b"x-should-retry", b"false"),
        (b"openai-poll-after-ms", b"1000"),
        (b"openai-version", b"2020-10-01"),
    )


@pytest.mark.parametrize(
    "header",
    [
        (b"retry-after", b"resp_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b"), (b"retry-after", b"20\n"),
        (b"x-should-retry", b"maybe"), (b"openai-version", b"2020-10-01 proj_1"), (b"openai-poll-after-ms", b""),
        (b"retry-after", b"-1"), (b"retry-after-ms", b"1e9"),
    ],
)  # fmt: skip
def test_a_listed_header_with_an_unlisted_value_does_not_pass(header: tuple[bytes, bytes]) -> None:
    assert answer_headers((header,)) == ()


def test_a_header_that_comes_twice_does_not_pass() -> None:
    assert (
        answer_headers(
            (
                (b"retry-after", b"1"),
                (b"retry-after", b"2"),
                (b"content-type", b"text/plain"),
                (b"content-type", b"a/b"),
            )
        )
        == ()
    )


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (b"application/json", b"application/json"),
        (b"Application/JSON;charset=utf-8", b"application/json"),
        (b"text/event-stream; charset=utf-8", b"text/event-stream; charset=utf-8"),
        (b'text/plain; charset="UTF-8"', b"text/plain; charset=utf-8"),
        (b"text/plain; charset=latin1", b"text/plain"),
        (b"text/html", b"application/octet-stream"),
        (b"application/proj_abc", b"application/octet-stream"),
        (b"multipart/mixed; boundary=resp_1", b"application/octet-stream"),
        (b"", b"application/octet-stream"),
    ],
)
def test_media_types_are_of_a_closed_list(sent: bytes, shown: bytes) -> None:
    assert media_type(sent) == shown


def test_a_credential_shows_nothing_of_itself() -> None:
    assert repr(KEY) == "UpstreamCredential()"


@pytest.mark.parametrize(
    ("key", "organization"),
    [("", None), ("sk a", None), ("sk-a\r\nx: y", None), ("sk-é", None), ("sk-a", "org\r\n"), ("sk-a\n", None)],
)
def test_a_credential_that_is_not_sendable_is_refused(key: str, organization: str | None) -> None:
    with pytest.raises(ValueError, match="upstream"):
        UpstreamCredential(key, organization)
