"""One credential, one reading."""

from __future__ import annotations

import pytest

from gateway.authn.bearer import Headers, bearer_token
from gateway.authn.verdict import CredentialRefused
from gateway.errors import Problem, Reason

BEARER = (b"authorization", b"Bearer abc")


@pytest.mark.parametrize("value", [b"Bearer abc", b"bearer abc", b"BEARER abc", b"Bearer   abc", b"Bearer abc "])
def test_the_scheme_is_read_without_case(value: bytes) -> None:
    assert bearer_token(((b"host", b"x"), (b"authorization", value))) == b"abc"


def test_a_browser_names_its_key_among_the_sub_protocols_of_its_socket() -> None:
    assert bearer_token(((b"sec-websocket-protocol", b"realtime, openai-insecure-api-key.aBc"),)) == b"aBc"
    assert bearer_token((BEARER, (b"sec-websocket-protocol", b"realtime, openai-beta.realtime-v1"))) == b"abc"


@pytest.mark.parametrize("headers", [
    ((b"sec-websocket-protocol", b"openai-insecure-api-key.a, openai-insecure-api-key.a"),),
    ((b"sec-websocket-protocol", b"openai-insecure-api-key.a"), (b"api-key", b"a")),
    (BEARER, BEARER), (BEARER, (b"authorization", b"Basic eDp5")), (BEARER, (b"api-key", b"k")),
    (BEARER, (b"x-api-key", b"k")), (BEARER, (b"proxy-authorization", b"Basic eDp5")),
    (BEARER, (b"sec-websocket-protocol", b"realtime, OpenAI-Insecure-Api-Key.sk-x")),
    ((b"authorization", b"Bearer abc, Bearer def"),), ((b"api-key", b"a"), (b"x-api-key", b"b")),
])  # fmt: skip
def test_two_credentials_are_refused_whatever_they_are(headers: Headers) -> None:
    with pytest.raises(Problem) as caught:
        bearer_token(headers)
    assert caught.value.reason is Reason.AMBIGUOUS_CREDENTIALS
    assert caught.value.status == 400


@pytest.mark.parametrize("headers", [
    (), ((b"authorization", b""),), ((b"authorization", b"Bearer"),), ((b"authorization", b"Bearer "),),
    ((b"authorization", b"Basic eDp5"),), ((b"authorization", b"abc"),), ((b"authorization", b"Bearer a b"),),
    ((b"authorization", b"Bearerabc"),), ((b"api-key", b"k"),),
])  # fmt: skip
def test_no_bearer_token_is_no_credential(headers: Headers) -> None:
    with pytest.raises(CredentialRefused) as caught:
        bearer_token(headers)
    assert caught.value.status == 401
