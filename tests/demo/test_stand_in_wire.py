"""How the stand-in writes and fails: headers, streams, cuts, faults, scripts and its control door."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from gateway.demo.stand_in.provider import Options
from gateway.demo.stand_in.server import Running, running
from tests.demo.conftest import MODEL, events_of, post, stream_bytes


def test_missing_and_wrong_keys_are_refused() -> None:
    with running(Options(api_key="sk-right")) as strict:
        with openai.OpenAI(base_url=strict.api_url, api_key="sk-wrong", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError) as refused:
                client.models.list()
            assert refused.value.code == "invalid_api_key"
        assert httpx2.get(f"{strict.api_url}/models").status_code == 401


def test_answers_carry_the_headers_of_the_real_service(http: httpx2.Client, server: Running) -> None:
    answer = post(http, input="hello")
    assert answer.headers["openai-organization"] == server.provider.organization
    assert answer.headers["openai-project"] == server.provider.project
    assert re.fullmatch(r"req_[0-9a-f]{32}", answer.headers["x-request-id"])
    assert len(answer.headers.get_list("set-cookie")) == 2


def test_rate_limit_names_the_organization_and_when_to_retry(http: httpx2.Client, server: Running) -> None:
    server.provider.next_answer("status=429")
    limited = post(http, input="hello")
    assert limited.status_code == 429
    assert limited.headers["retry-after"] == "20"
    message = limited.json()["error"]["message"]
    assert server.provider.organization in message
    assert "Please try again in 20s." in message
    assert post(http, input="hello").status_code == 200


@pytest.mark.parametrize("words", ["split=1", "split=7", "at=3:17:40", "one_write", "eol=crlf", "comments, bom"])
def test_stream_is_the_same_however_it_is_written(http: httpx2.Client, words: str) -> None:
    data = stream_bytes(http, f"[[script: {words}]] hello")
    end = b"\r\n" if "crlf" in words else b"\n"
    assert (end * 2) in data
    events = events_of(data.removeprefix(b"\xef\xbb\xbf"))
    assert events[-1]["type"] == "response.completed"
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == events[-1]["response"]["output"][0]["content"][0]["text"]


def test_connection_can_be_cut_before_and_inside_an_answer(http: httpx2.Client) -> None:
    for words in ("close", "cut=3", "cut=10"):
        with pytest.raises(httpx2.RemoteProtocolError):
            post(http, input=f"[[script: {words}]]", stream=words == "cut=3")


def test_number_tokens_and_escapes_stand_in_the_bytes(http: httpx2.Client) -> None:
    data = post(http, input="[[script: numbers=extreme]]").content
    for token in (b"9223372036854775809", b":1.0,", b"1e400", b'"\\/"', b'"\\u00e9"', b"1E+2", '"é"'.encode()):
        assert token in data


def test_connection_that_is_dropped_after_an_answer_leaves_the_answer_whole(http: httpx2.Client) -> None:
    for words in ("drop_after", "goodbye"):
        assert post(http, input=f"[[script: {words}]]").json()["status"] == "completed"
        time.sleep(0.1)
        assert post(http, input="next").status_code == 200


def test_unknown_paths_and_methods_read_as_the_real_ones(http: httpx2.Client) -> None:
    assert http.get("/v1/elsewhere").json()["error"]["message"] == "Invalid URL (GET /v1/elsewhere)"
    assert http.put("/v1/responses/resp_1").status_code == 405
    json_type = {"content-type": "application/json"}
    assert "could not parse" in http.post("/v1/responses", content=b"{", headers=json_type).text
    assert "Unsupported content type" in http.post("/v1/responses", content=b"{}").text


def test_control_door_shows_requests_and_takes_scripts(http: httpx2.Client, server: Running) -> None:
    http.post("/_stand_in/script", json={"next": ["status=500"]})
    assert post(http, input="hello").status_code == 500
    seen = http.get("/_stand_in/requests").json()
    assert [(one["method"], one["path"], one["status"]) for one in seen] == [("POST", "/v1/responses", 500)]
    assert {one["raw"] for one in http.get("/_stand_in/issued").json()} == set(server.provider.issued)
    http.post("/_stand_in/reset")
    assert http.get("/_stand_in/requests").json() == []


def test_script_in_a_header_or_a_prompt_of_long_ago_does_what_it_should(http: httpx2.Client) -> None:
    body = {"model": MODEL, "input": "hello"}
    assert http.post("/v1/responses", json=body, headers={"x-stand-in-script": "status=503"}).status_code == 503
    turns = [
        {"role": "user", "content": "[[script: status=500]]"},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": "and now?"},
    ]
    assert post(http, input=turns).status_code == 200


def test_unknown_word_of_a_script_is_refused(http: httpx2.Client) -> None:
    assert post(http, input="[[script: hangg]]").json()["error"]["code"] == "unknown_script_word"


@pytest.mark.parametrize(
    ("word", "sign"),
    [
        ("gzip", lambda answer: answer.headers["content-encoding"] == "gzip"),
        ("malformed", lambda answer: not _is_json(answer.content)),
        ("duplicate_keys", lambda answer: answer.content.count(b'"id":"resp_') == 2),
        ("object_keys", lambda answer: re.search(rb'\{"msg_[0-9a-f]{50}":', answer.content)),
        ("huge=2", lambda answer: len(answer.content) > 2 * 1024 * 1024),
        ("deep=100000", lambda answer: b"[" * 100_000 in answer.content),
        ("nan", lambda answer: b":NaN," in answer.content),
        ("bad_utf8", lambda answer: not _is_json(answer.content)),
        ("json_bom", lambda answer: answer.content.startswith(b"\xef\xbb\xbf{")),
        ("html", lambda answer: answer.status_code == 502 and answer.content.startswith(b"<html>")),
        ("empty", lambda answer: answer.content == b""),
        ("plain", lambda answer: answer.headers["content-type"].startswith("text/plain")),
        ("redirect", lambda answer: answer.status_code == 307 and "resp_" in answer.headers["location"]),
        ("cut_clean=20", lambda answer: len(answer.content) == 20),
        ("no_length", lambda answer: "content-length" not in answer.headers),
    ],
)
def test_every_fault_reaches_the_wire(http: httpx2.Client, word: str, sign: Callable[[httpx2.Response], Any]) -> None:
    assert sign(post(http, input=f"[[script: {word}]]"))


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def test_slow_reader_holds_the_stream_back(http: httpx2.Client, server: Running) -> None:
    body = {"model": MODEL, "input": "[[script: flood=6000]]", "stream": True}
    with http.stream("POST", "/v1/responses", json=body) as answer:
        next(answer.iter_bytes())
        time.sleep(0.3)
        assert server.provider.received[-1].bytes_sent < 20_000_000


def test_shared_fixture_gives_a_fresh_provider(stand_in: Running) -> None:
    assert httpx2.get(f"{stand_in.api_url}/models", headers={"authorization": "Bearer k"}).status_code == 200
    assert [one.path for one in stand_in.provider.received] == ["/v1/models"]
