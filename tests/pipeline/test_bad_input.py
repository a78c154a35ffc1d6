"""Bad input: one clear error in OpenAI's shape each, nothing upstream, nothing half-written, and the gateway goes on."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from gateway.errors import Reason
from gateway.rewrite.walker import MAX_REFERENCES
from tests.pipeline.desk import MODEL, Desk
from tests.transport.raw import exchange, request

JSON = "application/json"
STRANGER = "resp_" + "a1" * 17
RAW = "resp_" + "0123456789abcdef" * 3


def ask(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": "hello", **more}


def nested(depth: int) -> bytes:
    return b'{"model":"gpt-5","input":' + b"[" * depth + b"]" * depth + b"}"


BODIES: dict[str, tuple[bytes, int]] = {
    "cut": (b'{"model": "gpt-5", "input": ', 400),
    "nothing": (b"", 400),
    "two values": (b"{} {}", 400),
    "not a number": (b'{"model":"gpt-5","input":"x","top_p":NaN}', 400),
    "infinite": (b'{"model":"gpt-5","input":"x","top_p":Infinity}', 400),
    "name twice": (b'{"model":"gpt-5","model":"gpt-4","input":"x"}', 400),
    "too deep": (nested(65), 400),
    "far too deep": (nested(100_000), 400),
    "half a surrogate pair": (b'{"model":"gpt-5","input":"\\ud800"}', 400),
    "half a surrogate pair as a name": (b'{"model":"gpt-5","input":"x","\\udc00":1}', 400),
    "no UTF-8": (b'{"model":"gpt-5","input":"\xff"}', 400),
    "byte order mark": (b"\xef\xbb\xbf{}", 400),
}

FIELDS: dict[str, tuple[dict[str, Any], int]] = {
    "a number for an ID": (ask(previous_response_id=7), 400),
    "true for an ID": (ask(previous_response_id=True), 400),
    "a list for an ID": (ask(previous_response_id=[STRANGER]), 400),
    "an object for an ID": (ask(previous_response_id={"id": STRANGER}), 400),
    "a number for a conversation": (ask(conversation=7), 400),
    "a number for a conversation's ID": (ask(conversation={"id": 7}), 400),
    "a list for a conversation": (ask(conversation=[RAW]), 404),
    "a raw ID in an unknown field": (ask(x_new={"deep": [RAW]}), 404),
    "a raw ID": (ask(previous_response_id=RAW), 400),
    "an empty ID": (ask(previous_response_id=""), 400),
    "a huge ID": (ask(previous_response_id="resp_" + "a" * 1_000_000), 400),
    "an ID with NUL": (ask(previous_response_id="resp_\0"), 400),
    "an ID with a line end": (ask(previous_response_id=f"{STRANGER}\r\nx: y"), 400),
    "an ID with a script": (ask(previous_response_id="<script>alert(1)</script>"), 400),
    "a reference without an ID": (ask(input=[{"type": "item_reference", "id": 5}]), 400),
    "a model that is no name": ({"model": "gpt\0 5", "input": "x"}, 404),
    "a huge model": ({"model": "g" * 100_000, "input": "x"}, 404),
}


async def refused(at: Desk, reply: Any, status: int, label: str) -> dict[str, Any]:
    assert reply.status_code == status, (label, reply.text[:300])
    error: dict[str, Any] = reply.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}, label
    assert error["message"], label
    assert len(reply.content) < 1000, label
    assert "Traceback" not in reply.text, label
    return error


@pytest.fixture(autouse=True)
def _nothing_unexpected_is_logged(caplog: pytest.LogCaptureFixture) -> Any:
    yield
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_body_that_is_no_strict_json_is_refused(at: Desk) -> None:
    for label, (content, status) in BODIES.items():
        reply = await at.call("POST", "/responses", content=content, content_type=JSON)
        error = await refused(at, reply, status, label)
        assert error["code"] == "invalid_json", label
    assert at.upstream == []
    assert (await at.create()).status_code == 200


async def test_wrong_values_at_id_places_are_refused(at: Desk) -> None:
    for label, (body, status) in FIELDS.items():
        await refused(at, await at.call("POST", "/responses", body), status, label)
    assert at.upstream == []
    assert await at.unanswered() == []
    assert (await at.create()).status_code == 200


async def test_a_body_that_is_no_object_is_refused_upstream_or_here(at: Desk) -> None:
    for content in (b"5", b"[]", b'"text"', b"null", b"true", b"[[1]]"):
        reply = await at.call("POST", "/responses", content=content, content_type=JSON)
        await refused(at, reply, 400, content.decode())


async def test_a_lone_surrogate_in_the_path_and_query_is_a_stranger(at: Desk) -> None:
    for path in ("/responses/resp_%ED%A0%80", f"/responses/{STRANGER}%C0%AF"):
        assert (await at.call("GET", path)).status_code == 404
    response = (await at.created())["id"]
    before = len(at.upstream)
    for query in ("after=%ED%A0%80", "after=", f"after={RAW}", f"after={STRANGER}"):
        assert (await at.call("GET", f"/responses/{response}/input_items?{query}")).status_code == 404, query
    for query in ("after=%00", f"after[]={STRANGER}"):
        assert (await at.call("GET", f"/responses/{response}/input_items?{query}")).status_code == 400, query
    assert len(at.upstream) == before


async def test_query_parameters_that_the_table_does_not_know_are_refused(at: Desk) -> None:
    response = (await at.created())["id"]
    before = len(at.upstream)
    for query in (
        "x=1",
        "previous_response_id=resp_1",
        "limit=1&api_key=1",
        "response_id=x",
        "&".join(["limit=1"] * 65),
    ):
        reply = await at.call("GET", f"/responses/{response}/input_items?{query}")
        await refused(at, reply, 400, query)
    assert len(at.upstream) == before


async def test_odd_values_of_known_parameters_go_upstream_as_values_or_not_at_all(at: Desk) -> None:
    response = (await at.created())["id"]
    for query in (
        "limit=%00",
        "order=%0d%0aX-Evil:%201",
        "limit=1%26after%3Draw",
        "include[]=a&include[]=b",
        "limit",
        "order=%E2%82%AC",
    ):
        reply = await at.call("GET", f"/responses/{response}/input_items?{query}")
        assert reply.status_code in (200, 400), (query, reply.text)
    assert all("x-evil" not in dict(one.headers) and one.query != "raw" for one in at.upstream)


async def test_a_cursor_works_in_both_spellings(at: Desk) -> None:
    conversation = (await at.call("POST", "/conversations")).json()["id"]
    items = {"items": [{"type": "message", "role": "user", "content": text} for text in "abc"]}
    made = (await at.call("POST", f"/conversations/{conversation}/items", items)).json()["data"]
    for spelling in ("after", "after[]"):
        reply = await at.call("GET", f"/conversations/{conversation}/items?order=asc&{spelling}={made[0]['id']}")
        assert reply.status_code in (200, 400), reply.text


async def test_more_references_than_allowed_are_refused_before_any_look_up(at: Desk) -> None:
    item = (await at.created())["output"][0]["id"]
    at.redis.reset_commandstats()
    body = ask(input=[{"type": "item_reference", "id": item}] * (MAX_REFERENCES + 904))
    error = await refused(at, await at.call("POST", "/responses", body), 400, "references")
    assert str(MAX_REFERENCES) in error["message"]
    assert at.redis.commandstats()["evalsha"] == 1
    assert len(at.upstream) == 1


async def test_as_many_references_as_allowed_are_answered_and_audited_whole(at: Desk) -> None:
    item = (await at.created())["output"][0]["id"]
    body = ask(input=[{"type": "item_reference", "id": item}] * MAX_REFERENCES)
    assert (await at.call("POST", "/responses", body)).status_code in (200, 400)
    intent = [one for one in await at.log() if one["phase"] == "intent"][-1]
    assert len(intent["targets"]) <= 32


async def test_huge_strings_pass_as_text(at: Desk) -> None:
    reply = await at.call("POST", "/responses", ask(input="a" * 1_000_000, instructions="\0" * 1000))
    assert reply.status_code == 200, reply.text[:300]
    assert len(at.upstream[-1].json()["input"]) == 1_000_000


async def test_a_content_type_that_is_no_json_is_refused(at: Desk) -> None:
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
    ):
        reply = await at.call("POST", "/responses", content=b"{}", content_type=kind)
        await refused(at, reply, 415, kind)
    await refused(at, await at.call("POST", "/responses", content=b"{}"), 415, "none")
    reply = await at.call("POST", "/responses", content=b"{}", content_type=JSON, content_encoding="br")
    await refused(at, reply, 415, "br")
    assert at.upstream == []


async def test_a_body_where_none_belongs_goes_nowhere(at: Desk) -> None:
    response = (await at.created())["id"]
    for method in ("GET", "DELETE"):
        reply = await at.call(method, f"/responses/{response}", {"previous_response_id": RAW})
        assert reply.status_code == 200
        assert at.upstream[-1].body == b""
        assert "content-type" not in dict(at.upstream[-1].headers)


async def test_methods_that_a_path_does_not_have_are_told_those_that_it_has(at: Desk) -> None:
    response = (await at.created())["id"]
    before = len(at.upstream)
    for method in ("HEAD", "OPTIONS", "PUT", "PATCH"):
        reply = await at.call(method, f"/responses/{response}")
        assert reply.status_code == 405, method
        assert reply.headers["allow"] == "DELETE, GET"
        assert (reply.content == b"") == (method == "HEAD")
        reply = await at.call(method, "/responses")
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert (await at.call("GET", "/responses")).status_code == 405
    assert len(at.upstream) == before


async def test_an_unknown_route_tells_a_stranger_nothing(at: Desk) -> None:
    for path in ("/v1/unknown", "/v1/evals", "/v1/organization/users", "/", "/v2/responses", "/v1", "/admin"):
        stranger = await exchange(at.port, request(path))
        assert stranger.status == 401, path
        headers = await at.headers()
        known = await exchange(at.port, request(path, f"Authorization: {headers['authorization']}"))
        assert known.status == 404, path
        assert known.error.keys() == {"message", "type", "param", "code"}
    assert at.upstream == []
    events = [one["outcome"]["reason"] for one in await at.log() if one["phase"] == "single"]
    assert Reason.ROUTE_UNKNOWN in events


async def test_an_unknown_path_is_quoted_only_where_it_is_harmless(at: Desk) -> None:
    reply = await at.call("GET", "/unknown/%3Cscript%3E/" + "a" * 300)
    assert reply.json()["error"]["message"] == "Invalid URL (GET /v1/unknown//)."


async def test_a_credential_that_is_none_is_refused(at: Desk) -> None:
    body = json.dumps(ask()).encode()
    for credential in (
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer sk-unknown",
        "Bearer cck_" + "a" * 5000,
        "Bearer \xff",
    ):
        lines = (f"Authorization: {credential}", f"Content-Length: {len(body)}", f"Content-Type: {JSON}")
        reply = await exchange(at.port, request("/v1/responses", *lines, method=b"POST", body=body))
        assert reply.status == 401, credential
        assert reply.error["code"] == "invalid_api_key"
    assert at.upstream == []
