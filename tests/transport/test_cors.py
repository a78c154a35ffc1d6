"""CORS: which page gets to call the gateway, and which gets to read its answers."""

from __future__ import annotations

import pytest

from gateway.errors import Problem, Reason
from gateway.names import RequestId
from gateway.transport.cors import Cors
from gateway.transport.guard import Head

APP, OTHER_APP = "https://app.example", "https://other.example:8443"
CORS = Cors.of({"https://login.one": [APP], "https://login.two": [OTHER_APP]})


def head(method: str = "POST", **headers: str) -> Head:
    by_name = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Head(RequestId("req_1"), method, b"/v1/responses", b"", tuple(by_name.items()), by_name, "127.0.0.1")


def preflight(origin: str, *names: str) -> Head:
    return head(
        "OPTIONS", origin=origin, access_control_request_method="POST", access_control_request_headers=",".join(names)
    )


@pytest.mark.parametrize("origin", [APP, OTHER_APP])
def test_a_preflight_is_answered_for_an_origin_of_any_issuer(origin: str) -> None:
    answer = dict(CORS.preflight(preflight(origin, "authorization", "content-type")) or ())
    assert answer[b"access-control-allow-origin"] == origin.encode()
    assert answer[b"access-control-allow-headers"] == b"authorization, content-type"
    assert b"POST" in answer[b"access-control-allow-methods"]
    assert b"Origin" in answer[b"vary"]


def test_a_preflight_allows_what_the_sdks_send_and_nothing_else() -> None:
    asked = preflight(
        APP,
        "X-Stainless-Lang",
        " x-stainless-new-thing",
        "x-evil",
        "cookie",
        "x-stainless-a\r\nb: c",
        "idempotency-key",
    )
    answer = dict(CORS.preflight(asked) or ())
    assert answer[b"access-control-allow-headers"] == b"x-stainless-lang, x-stainless-new-thing, idempotency-key"


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "", "*", APP.upper(), APP + "/", APP + ".evil.example", "http://app.example"],
)
def test_another_origin_gets_no_preflight_and_no_readable_answer(origin: str) -> None:
    assert CORS.preflight(preflight(origin)) is None
    assert b"access-control-allow-origin" not in dict(CORS.answer_headers(head(origin=origin)))


def test_an_options_request_that_is_no_preflight_goes_its_way() -> None:
    assert CORS.preflight(head("OPTIONS", origin=APP)) is None
    assert CORS.preflight(head("POST", origin=APP, access_control_request_method="POST")) is None


def test_answers_can_be_read_with_their_request_id_and_limits() -> None:
    answer = dict(CORS.answer_headers(head(origin=APP)))
    exposed = answer[b"access-control-expose-headers"].split(b", ")
    assert {b"x-request-id", b"retry-after", b"x-ratelimit-remaining-tokens"} <= set(exposed)


def test_a_request_is_held_against_its_own_issuers_list() -> None:
    CORS.check(head(origin=APP), "https://login.one")
    for issuer in ("https://login.two", "https://login.three", ""):
        with pytest.raises(Problem) as caught:
            CORS.check(head(origin=APP), issuer)
        assert caught.value.reason is Reason.ORIGIN_NOT_ALLOWED
    CORS.check(head(), "https://login.two")


def test_cors_is_off_until_an_issuer_has_origins() -> None:
    off = Cors.of({"https://login.one": []})
    assert off.preflight(preflight(APP)) is None
    assert off.answer_headers(head(origin=APP)) == ()
    off.check(head(origin=APP), "https://login.one")


@pytest.mark.parametrize(
    "mode", [CORS.preflight(preflight(APP, "authorization")), CORS.answer_headers(head(origin=APP))]
)
def test_credentials_mode_is_never_allowed(mode: tuple[tuple[bytes, bytes], ...]) -> None:
    assert b"access-control-allow-credentials" not in dict(mode)
    assert dict(mode)[b"access-control-allow-origin"] != b"*"


@pytest.mark.parametrize(
    "origin", ["*", "null", "", "app.example", "https://App.example", "https://a.example/", "https://*.example"]
)
def test_what_is_no_origin_is_refused_at_start(origin: str) -> None:
    with pytest.raises(ValueError, match="not an origin"):
        Cors.of({"https://login.one": [origin]})
