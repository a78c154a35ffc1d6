"""Upstream answers, good and bad, and the headers of both directions."""

from __future__ import annotations

from pathlib import Path

from gateway.upstreams.openai import USER_AGENT
from tests.pipeline.desk import Desk, desk
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running

SECRET = "sk-upstream-secret"
ALLOWED_TO_CLIENT = {
    "cache-control", "content-length", "content-type", "openai-version", "retry-after", "retry-after-ms",
    "transfer-encoding", "x-accel-buffering", "x-request-id", "x-should-retry",
}  # fmt: skip
ALLOWED_TO_UPSTREAM = {
    "accept", "accept-encoding", "authorization", "content-length", "content-type", "host", "user-agent",
}  # fmt: skip


UNUSABLE = (
    ("redirect", 502, "upstream_error"),
    ("redirect=302", 502, "upstream_error"),
    ("status=401", 502, "upstream_error"),
    ("status=400", 400, "upstream_error"),
    ("status=403", 403, "upstream_error"),
    ("status=429", 429, "upstream_error"),
    ("status=500", 500, "upstream_error"),
    ("status=503", 503, "upstream_error"),
    ("html", 502, "upstream_error"),
    ("gzip", 502, "upstream_bad_answer"),
    ("malformed", 502, "upstream_bad_answer"),
    ("duplicate_keys", 502, "upstream_bad_answer"),
    ("deep", 502, "upstream_bad_answer"),
    ("nan", 502, "upstream_bad_answer"),
    ("bad_utf8", 502, "upstream_bad_answer"),
    ("json_bom", 502, "upstream_bad_answer"),
    ("plain", 502, "upstream_bad_answer"),
    ("empty", 502, "upstream_bad_answer"),
    ("cut", 502, "upstream_bad_answer"),
    ("cut_clean", 502, "upstream_bad_answer"),
    ("close", 503, "upstream_unavailable"),
)
"""Script words, the status that the client reads, and the audit reason."""


async def test_an_answer_that_cannot_be_used_is_a_clear_error_that_tells_nothing(at: Desk) -> None:
    for words, status, reason in UNUSABLE:
        reply = await at.create(words)
        assert reply.status_code == status, (words, reply.text)
        error = reply.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["message"]
        assert "location" not in reply.headers
        for secret in (*at.stand_in.provider.ids.secrets(), SECRET):
            assert secret not in reply.text + str(reply.headers), words
        assert (await at.outcomes(reply.headers["x-request-id"]))[-1] == ("error", reason, status), words
    assert await at.unanswered() == []
    assert (await at.create()).status_code == 200


async def test_a_success_that_cannot_be_read_is_not_to_be_asked_for_again(at: Desk) -> None:
    for words in ("malformed", "empty", "plain", "cut_clean"):
        reply = await at.create(words)
        assert reply.headers["x-should-retry"] == "false", words


async def test_the_shared_keys_refusal_gives_no_hint_to_the_client(at: Desk) -> None:
    reply = await at.create("status=401")
    text = reply.text.lower()
    assert not any(word in text for word in ("api key", "api_key", "incorrect", "401", "authentication"))


async def test_a_rate_limit_is_rebuilt_with_the_time_to_wait(at: Desk) -> None:
    reply = await at.create("status=429")
    assert "Please try again in 20s" in reply.json()["error"]["message"]
    assert at.stand_in.provider.organization not in reply.text
    assert reply.json()["error"]["code"] == "rate_limit_exceeded"
    assert "retry-after" in (await at.create("status=503")).headers


async def test_an_answer_larger_than_the_limit_is_withheld(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with desk(redis_server, stand_in, tmp_path, COATCHECK_REQUESTS_MAX_ANSWER_BYTES="1048576") as at:
        reply = await at.create("huge=3")
        assert reply.status_code == 502
        assert len(reply.content) < 1000
        assert (await at.create("huge=0")).status_code == 200


async def test_headers_pass_only_if_they_are_on_the_list(at: Desk) -> None:
    reply = await at.create()
    assert reply.headers.keys() <= ALLOWED_TO_CLIENT
    assert reply.headers["x-request-id"] not in at.stand_in.provider.ids.secrets()
    async with at.stream() as stream:
        assert stream.headers.keys() <= ALLOWED_TO_CLIENT
        assert stream.headers["x-accel-buffering"] == "no"
        await stream.aread()
    for words in ("status=429", "status=503", "malformed"):
        assert (await at.create(words)).headers.keys() <= ALLOWED_TO_CLIENT


async def test_the_upstream_hears_nothing_of_the_clients_headers(at: Desk) -> None:
    await at.call(
        "POST",
        "/responses",
        {"model": "gpt-5", "input": "hello"},
        openai_organization="org-abcdefabcdefabcdefabcdef",
        openai_project="proj_abcdefabcdefabcdefabcdef",
        cookie="session=1",
        x_forwarded_for="192.0.2.1",
        x_stainless_lang="python",
        accept_language="de",
        user_agent="curl/8",
        openai_beta="realtime=v1",
        traceparent="not a traceparent",
    )
    headers = dict(at.upstream[-1].headers)
    assert headers.keys() <= ALLOWED_TO_UPSTREAM
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert headers["user-agent"] == USER_AGENT.decode()
    assert headers["accept-encoding"] == "identity"


async def test_listed_headers_do_reach_the_upstream(at: Desk) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await at.call(
        "POST",
        "/responses",
        {"model": "gpt-5", "input": "hello"},
        openai_beta="realtime=v1, responses_multi_agent=v1",
        traceparent=trace,
        idempotency_key="k",
    )
    headers = dict(at.upstream[-1].headers)
    assert headers["traceparent"] == trace
    assert headers["openai-beta"] == "responses_multi_agent=v1"
    assert headers["idempotency-key"] not in ("k", "")


async def test_a_cookie_of_the_service_goes_nowhere(at: Desk) -> None:
    for _ in range(3):
        reply = await at.create()
        assert "set-cookie" not in reply.headers
    assert all("cookie" not in dict(one.headers) for one in at.upstream)


async def test_a_fine_tuned_model_is_in_no_list_and_opens_nowhere(at: Desk) -> None:
    tuned = at.stand_in.provider.models[-2]
    listed = (await at.call("GET", "/models")).json()["data"]
    assert listed
    assert all(not model["id"].startswith("ft:") for model in listed)
    before = len(at.upstream)
    assert (await at.call("GET", f"/models/{tuned}")).status_code == 404
    assert (await at.create(model=tuned)).status_code == 404
    assert len(at.upstream) == before


async def test_what_a_conversation_holds_is_kept_whatever_its_maker_said_of_storing(at: Desk) -> None:
    talk = (await at.call("POST", "/conversations", {"store": False})).json()["id"]
    made = await at.created(conversation=talk)
    item = {"type": "item_reference", "id": made["output"][0]["id"]}
    assert (await at.call("GET", f"/responses/{made['id']}")).status_code == 200
    assert (await at.create(input=[item])).status_code == 200
