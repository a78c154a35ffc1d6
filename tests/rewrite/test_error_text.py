"""Error messages said again: every shape that was seen, and what must not get through."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.names import Kind
from gateway.rewrite.error_text import rebuild
from gateway.rewrite.id_table import IdTable
from tests.rewrite.answers import raw
from tests.rewrite.keys import ALICE

RESP, ITEM, FILE, STORE = raw("resp_", 1), raw("rs_", 1), raw("file-", 1), raw("vs_", 1)
SENT = {
    RESP: ALICE.opaque(Kind.RESPONSE, RESP),
    ITEM: ALICE.opaque(Kind.ITEM, ITEM),
    FILE: ALICE.opaque(Kind.FILE, FILE),
    STORE: ALICE.opaque(Kind.VECTOR_STORE, STORE),
}
ORG, PROJECT = "org-0123456789abcdefghijABCD", "proj_0123456789abcdefghijABCD"


def table(*said: str) -> IdTable:
    known = IdTable(ALICE, SENT)
    known.say(*said)
    return known


def told(message: str, status: int = 400, known: IdTable | None = None, **fields: Any) -> str:
    return rebuild({"message": message, **fields}, (known or table()).quote, status).message


@pytest.mark.parametrize(
    ("upstream", "own"),
    [
        (f"Previous response with id '{RESP}' not found.", f"Previous response with id '{SENT[RESP]}' not found."),
        (f"Item with id '{ITEM}' not found.", f"Item with id '{SENT[ITEM]}' not found."),
        (
            f"Item with id '{ITEM}' not found. Items are not persisted when `store` is set to false. Try again…",
            f"Item with id '{SENT[ITEM]}' not found. Items are not persisted when `store` is set to false. Try again "
            "with `store` set to true, or remove this item from your input.",
        ),
        (
            f"Item '{ITEM}' of type 'reasoning' was provided without its required following item.",
            f"Item '{SENT[ITEM]}' of type 'reasoning' was provided without its required following item.",
        ),
        (
            f"The encrypted content for item {ITEM} could not be verified. Reason: organization_id did not match. gAAA...DQ==",
            f"The encrypted content for item '{SENT[ITEM]}' could not be verified.",
        ),
        (
            f"No file found with id '{FILE}' in vector store '{STORE}'.",
            f"No file found with id '{SENT[FILE]}' in vector store '{SENT[STORE]}'.",
        ),
        ("Conversation with id 'conv_5' not found.", "Conversation not found."),
        (
            "Invalid 'input[66].id': 'zzz'. Expected an ID that begins with 'rs'.",
            "Invalid 'input[66].id'. Expected an ID that begins with 'rs'.",
        ),
        (f"Project `{PROJECT}` does not have access to model `x`",
         "The model does not exist or you do not have access to it."),
        (
            f"Rate limit reached for gpt-4o in organization {ORG} on tokens per min (TPM): Limit 30000, Used 29870, "
            "Requested 1200. Please try again in 20s. Visit https://platform.openai.com/account/rate-limits",
            "Rate limit reached. Please try again in 20s.",
        ),
        ("Rate limit reached. Please try again in 1m30.5s.", "Rate limit reached. Please try again in 1m30.5s."),
        ("Rate limit reached. Please try again in 250ms.", "Rate limit reached. Please try again in 250ms."),
        (f"Something new about {RESP}, {ORG}.", "The upstream refused the request as invalid."),
        ("", "The upstream refused the request as invalid."),
    ],
)  # fmt: skip
def test_a_message_is_said_again_with_what_the_client_sent(upstream: str, own: str) -> None:
    assert told(upstream) == own


SAID = [
    *(f"Previous response with id '{id_}' not found." for id_ in (raw("resp_", 99), "x" * 65, "<script>")),
    f"No file found with id '{FILE}' in vector store '{raw('vs_', 7)}'.",
]


@pytest.mark.parametrize("upstream", SAID)
def test_what_the_client_did_not_send_is_not_quoted(upstream: str) -> None:
    assert told(upstream) in ("Previous response not found.", "No such file in this vector store.")


def test_what_the_client_sent_is_quoted_only_where_it_is_plain() -> None:
    message = "No tool output found for function call {}."
    assert told(message.format("call_1"), known=table("call_1")) == message.format("call_1")
    assert told(message.format("a.b"), known=table("a.b")) == "No tool output found for a function call."


def test_type_code_and_param_stay_where_they_are_plain_words() -> None:
    error = {
        "message": "x",
        "type": "invalid_request_error",
        "code": "invalid_value",
        "param": "input[3].content[0].id",
    }
    rebuilt = rebuild(error, table().quote, 400)
    assert (rebuilt.type, rebuilt.code, rebuilt.param) == (error["type"], error["code"], error["param"])


@pytest.mark.parametrize("bad", [RESP, ORG, "a b", "x" * 200, "<b>", "", 5, None, ["x"], {"id": RESP}])
def test_type_code_and_param_go_where_they_are_not(bad: Any) -> None:
    rebuilt = rebuild({"message": bad, "type": bad, "code": bad, "param": bad}, table().quote, 502)
    assert (rebuilt.type, rebuilt.code, rebuilt.param) == ("server_error", None, None)
    assert rebuilt.message == "The upstream reported an error."


def test_a_message_without_a_shape_is_chosen_by_code_type_and_status() -> None:
    assert told("?", 429, code="insufficient_quota") == "The quota is exhausted."
    assert told("?", 429, type="tokens") == "Rate limit reached."
    assert told("?", 404) == "The object was not found."
    assert told("?", 0) == "The upstream reported an error."


words = st.sampled_from([
    RESP, ITEM, raw("resp_", 99), ORG, PROJECT, "Previous response with id '", "' not found.", "Item '", "Response",
    " with id ", "No file found with id ", " in vector store ", "Please try again in ", "20s", "Rate limit reached",
    "Invalid 'input[1].id': ", "Expected an ID that begins with '", "' of type '", " ", ".", "secret", "'",
])  # fmt: skip


@given(st.lists(words, max_size=10).map("".join), st.sampled_from([0, 400, 404, 429, 500]))
def test_no_message_carries_a_raw_id_or_an_account_and_none_changes_when_said_again(message: str, status: int) -> None:
    once = rebuild({"message": message}, table().quote, status)
    for hidden in (RESP, ITEM, raw("resp_", 99), ORG, PROJECT, "secret"):
        assert hidden not in once.message
    again = {"message": once.message, "type": once.type, "code": once.code, "param": once.param}
    assert rebuild(again, IdTable(ALICE).quote, status) == once
