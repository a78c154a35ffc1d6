"""`Idempotency-Key`: one request, one deed, for each principal and route."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from gateway.surfaces.route import Body
from gateway.surfaces.table import BY_ACTION, ROUTES
from tests.forms import uploaded
from tests.pipeline.creating import CREATES, creating
from tests.pipeline.desk import MODEL, Desk

KEY = "order-7"


async def post(
    at: Desk, who: str = "alice", key: str = KEY, path: str = "/responses", **body: object
) -> httpx2.Response:
    content = {"model": MODEL, "input": "hello", **body} if path == "/responses" else body
    return await at.call("POST", path, content, who, idempotency_key=key)


def creates(at: Desk) -> int:
    return sum(one.method == "POST" for one in at.upstream)


async def test_a_repeated_request_gets_the_same_object_and_the_upstream_creates_once(at: Desk) -> None:
    first, second = await post(at), await post(at)
    assert second.status_code == 200, second.text
    assert second.json() == first.json()
    assert creates(at) == 1
    assert await at.unanswered() == []


async def test_a_conversation_is_created_once_too(at: Desk) -> None:
    first, second = await post(at, path="/conversations"), await post(at, path="/conversations")
    assert first.json() == second.json()
    assert creates(at) == 1


async def test_a_key_in_use_is_a_conflict_that_is_not_to_be_retried(at: Desk) -> None:
    at.script("slow=0.5")
    running = asyncio.ensure_future(post(at))
    await asyncio.sleep(0.15)
    second = await post(at)
    assert second.status_code == 409
    assert second.headers["x-should-retry"] == "false"
    assert second.json()["error"]["code"] == "idempotency_in_flight"
    assert (await running).status_code == 200
    assert creates(at) == 1


async def test_of_ten_requests_at_once_under_one_key_one_is_carried_out(at: Desk) -> None:
    await at.created()  # the keys of the tenant are at hand, so that all ten arrive together
    before = creates(at)
    at.script("slow=0.3")
    statuses = [answer.status_code for answer in await asyncio.gather(*[post(at) for _ in range(10)])]
    assert sorted(statuses) == [200, *[409] * 9]
    assert creates(at) == before + 1


async def test_another_body_under_the_key_is_refused(at: Desk) -> None:
    await post(at)
    other = await post(at, input="something else")
    assert other.status_code == 422
    assert other.headers["x-should-retry"] == "false"
    assert creates(at) == 1


async def test_the_same_body_in_another_order_is_the_same_body(at: Desk) -> None:
    first = await at.call("POST", "/responses", {"model": MODEL, "input": "hello"}, idempotency_key=KEY)
    second = await at.call("POST", "/responses", {"input": "hello", "model": MODEL}, idempotency_key=KEY)
    assert first.json()["id"] == second.json()["id"]


async def test_what_was_not_stored_cannot_be_fetched_again(at: Desk) -> None:
    await post(at, store=False)
    second = await post(at, store=False)
    assert second.status_code == 409
    assert second.json()["error"]["code"] == "idempotency_result_unavailable"
    assert second.headers["x-should-retry"] == "false"
    assert creates(at) == 1


async def test_what_was_deleted_meanwhile_cannot_be_fetched_again(at: Desk) -> None:
    first = await post(at)
    assert (await at.call("DELETE", f"/responses/{first.json()['id']}")).status_code == 200
    second = await post(at)
    assert second.status_code == 409
    assert second.json()["error"]["code"] == "idempotency_result_unavailable"
    assert creates(at) == 1
    assert await at.unanswered() == []


async def test_what_the_upstream_has_lost_cannot_be_fetched_again(at: Desk) -> None:
    await post(at)
    at.stand_in.provider.responses.clear()
    second = await post(at)
    assert second.status_code == 409
    assert second.headers["x-should-retry"] == "false"


async def test_a_streamed_answer_is_not_given_twice(at: Desk) -> None:
    assert b"response.completed" in (await post(at, stream=True)).content
    second = await post(at, stream=True)
    assert second.status_code == 409
    assert creates(at) == 1


@pytest.mark.parametrize("words", ["status=500", "status=400", "malformed", "close"])
async def test_a_failure_frees_the_key(at: Desk, words: str) -> None:
    at.script(words)
    assert (await post(at)).status_code >= 400
    assert (await post(at)).status_code == 200
    assert creates(at) == 2


async def test_a_client_that_leaves_frees_the_key(at: Desk) -> None:
    at.script("hang")
    with pytest.raises(httpx2.ReadTimeout):
        await at.http.post(
            f"{at.gateway.url}/responses",
            json={"model": MODEL, "input": "hello"},
            headers=await at.headers(idempotency_key=KEY),
            timeout=0.2,
        )

    async def freed() -> bool:
        return (await post(at)).status_code == 200

    await at.until(freed)


async def test_the_same_key_of_others_is_another_key(at: Desk) -> None:
    made = {who: (await post(at, who)).json()["id"] for who in ("alice", "carol", "bob")}
    assert len(set(made.values())) == 3
    assert creates(at) == 3
    sent = [dict(one.headers)["idempotency-key"] for one in at.upstream]
    assert len(set(sent)) == 3
    assert all(KEY not in one and len(one) <= 64 for one in sent)


async def test_the_same_key_on_another_route_is_another_key(at: Desk) -> None:
    assert (await post(at)).status_code == 200
    assert (await post(at, path="/conversations")).status_code == 200
    assert creates(at) == 2


async def test_an_empty_key_is_no_key(at: Desk) -> None:
    assert (await post(at, key="")).status_code == 200
    assert (await post(at, key="", input="something else")).status_code == 200
    assert creates(at) == 2
    assert all("idempotency-key" not in dict(one.headers) for one in at.upstream)


async def test_the_key_itself_is_in_no_store(at: Desk) -> None:
    await post(at, key="a-very-special-key")
    assert all(b"a-very-special-key" not in key for key in at.redis.command("KEYS", "*"))


OF_JSON = [action for action in CREATES if BY_ACTION[action].body is not Body.FORM]


@pytest.mark.parametrize("action", OF_JSON)
async def test_whatever_is_made_of_json_is_made_once(at: Desk, action: str) -> None:
    path, body = await creating(at, action)
    before = creates(at)
    first, second = [await at.call("POST", path, body, idempotency_key=KEY) for _ in range(2)]
    assert creates(at) == before + 1
    if BY_ACTION[action].refetch and body.get("store") is not False:
        assert second.json()["id"] == first.json()["id"]
    else:
        assert second.status_code == 409
        assert second.json()["error"]["code"] == "idempotency_result_unavailable"


async def test_whatever_is_added_by_json_is_added_once(at: Desk) -> None:
    talk = (await at.call("POST", "/conversations")).json()["id"]
    store = (await at.call("POST", "/vector_stores", {})).json()["id"]
    file = (await at.call("POST", "/files", uploaded())).json()["id"]
    for path, body in (
        (f"/conversations/{talk}/items", {"items": [{"role": "user", "content": "a"}]}),
        (f"/vector_stores/{store}/files", {"file_id": file}),
        (f"/vector_stores/{store}/file_batches", {"file_ids": [file]}),
    ):
        before = creates(at)
        first, second = [await at.call("POST", path, body, idempotency_key=KEY) for _ in range(2)]
        assert (first.status_code, second.status_code, creates(at)) == (200, 409, before + 1), path


async def test_the_same_body_for_another_object_is_another_request(at: Desk) -> None:
    talks = [(await at.call("POST", "/conversations")).json()["id"] for _ in range(2)]
    body = {"items": [{"role": "user", "content": "a"}]}
    first, other = [await at.call("POST", f"/conversations/{talk}/items", body, idempotency_key=KEY) for talk in talks]
    assert (first.status_code, other.status_code) == (200, 422)


def test_what_makes_an_object_of_json_honours_the_key() -> None:
    assert all(route.idempotent for route in ROUTES if route.creates and route.body is not Body.FORM)
