"""The official SDK, unmodified, on lists: everybody sees their own objects and nobody else's."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from gateway.admin.administration import AdminEvent
from gateway.admin.ids import Upstream, adopt
from gateway.mapping import Mapper
from gateway.names import Kind, Owner, Visibility
from gateway.stores.contract import Mode
from gateway.upstreams.fleet import FIRST
from tests.gateway_fixture import Deployment
from tests.stand_in_fixture import Running

MODEL = "gpt-5"
PROJECT = "default"


async def chat(client: AsyncOpenAI, number: int = 0, **more: Any) -> str:
    messages: Any = [{"role": "user", "content": f"{number}"}]
    body: Any = {"model": MODEL, "messages": messages, "store": True, **more}
    return str((await client.chat.completions.create(**body)).id)


async def chats(client: AsyncOpenAI, count: int, **more: Any) -> list[str]:
    return [await chat(client, n, **more) for n in range(count)]


async def listed(client: AsyncOpenAI, **more: Any) -> list[str]:
    """By auto-paging."""
    return [one.id async for one in client.chat.completions.list(**more)]


def calls_upstream(stand_in: Running) -> list[str]:
    return [f"{one.method} {one.path}" for one in stand_in.provider.received]


@pytest.fixture
async def carol(gateway: Deployment) -> AsyncOpenAI:
    """Somebody else of alice's tenant."""
    return gateway.client(await gateway.key("acme", "carol"))


# --- whose ----------------------------------------------------------------------------------------------------------


async def test_everybody_lists_their_own_and_nobody_elses(
    alice: AsyncOpenAI, bob: AsyncOpenAI, carol: AsyncOpenAI, stand_in: Running
) -> None:
    own = {client: await chats(client, 3) for client in (alice, bob, carol)}
    await chat(alice, store=False)
    for client, made in own.items():
        page = await client.chat.completions.list()
        assert [one.id for one in page.data] == made
        assert (page.to_dict()["first_id"], page.to_dict()["last_id"], page.has_more) == (made[0], made[-1], False)
    assert "GET /v1/chat/completions" not in calls_upstream(stand_in), "the service's own list is everybody's"


async def test_who_has_nothing_gets_an_empty_list_without_a_call_upstream(
    alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    await chats(alice, 2)
    before = len(stand_in.provider.received)
    page = await bob.chat.completions.list()
    assert page.to_dict() == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert len(stand_in.provider.received) == before


async def test_what_is_shared_is_listed_among_ones_own_by_everybody_in_the_tenant(
    alice: AsyncOpenAI, bob: AsyncOpenAI, carol: AsyncOpenAI, gateway: Deployment, stand_in: Running
) -> None:
    first = await chat(alice)
    body: Any = stand_in.provider.chats[next(iter(stand_in.provider.chats))]
    raw = stand_in.provider.ids.new("chatcmpl-", place="shared")
    stand_in.provider.chats[raw] = type(body)({**body.body, "id": raw}, [])
    tenant = await gateway.tenant("acme")
    keyring = gateway.gateway.shared.keyring
    mapper = Mapper(await keyring.deployment(), await keyring.tenant(tenant), FIRST, PROJECT)
    owner = Owner("local", "dora")
    root = mapper.root(
        Kind.CHAT_COMPLETION, raw, owner=owner, visibility=Visibility.TENANT, parent=b"", now=int(time.time())
    )
    async with gateway.admin.recorded(tenant, AdminEvent.ID_ADOPT) as recording:
        assert await recording.write(mapper.write_root(root, Mode.CREATE)) is None
    shared = mapper.to_opaque(Kind.CHAT_COMPLETION, raw).text
    last, carols = await chat(alice), await chat(carol)
    assert await listed(alice, limit=1) == [first, shared, last]
    assert await listed(alice, limit=2, order="desc") == [last, shared, first]
    assert await listed(carol, limit=1) == [shared, carols]
    assert await listed(bob) == []


async def test_what_was_adopted_is_listed_by_its_owner(
    alice: AsyncOpenAI, carol: AsyncOpenAI, gateway: Deployment, stand_in: Running
) -> None:
    await chat(alice)
    kept: Any = next(iter(stand_in.provider.chats.values()))
    raw = stand_in.provider.ids.new("chatcmpl-", place="made elsewhere")
    stand_in.provider.chats[raw] = type(kept)({**kept.body, "id": raw}, kept.messages)
    tenant, upstream = await gateway.tenant("acme"), Upstream(FIRST, PROJECT)
    adopted = await adopt(gateway.admin, tenant, raw, Owner("local", "carol"), upstream)
    assert await adopt(gateway.admin, tenant, raw, Owner("local", "carol"), upstream) == adopted, "again"
    assert await listed(carol) == [adopted.text]
    assert adopted.text not in await listed(alice)


# --- pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 100])
async def test_pages_hold_everything_once_in_both_orders(alice: AsyncOpenAI, limit: int) -> None:
    made = await chats(alice, 7)
    assert await listed(alice, limit=limit) == made
    assert await listed(alice, limit=limit, order="desc") == made[::-1]


async def test_there_is_more_exactly_where_there_is_more(alice: AsyncOpenAI) -> None:
    made = await chats(alice, 4)
    page = await alice.chat.completions.list(limit=2)
    assert page.has_more
    page = await alice.chat.completions.list(limit=2, after=made[1])
    assert ([one.id for one in page.data], page.has_more) == (made[2:], False)
    page = await alice.chat.completions.list(after=made[3])
    assert ([one.id for one in page.data], page.has_more) == ([], False)


async def test_what_is_made_while_one_pages_comes_up_at_the_end_and_nothing_twice(alice: AsyncOpenAI) -> None:
    made, shown = await chats(alice, 4), []
    async for one in alice.chat.completions.list(limit=2):
        if len(made) < 8:
            made.append(await chat(alice))
        shown.append(one.id)
    assert shown == made


async def test_one_deletes_everything_while_one_pages_through_it(alice: AsyncOpenAI, stand_in: Running) -> None:
    made, shown = await chats(alice, 9), []
    async for one in alice.chat.completions.list(limit=2):
        await alice.chat.completions.delete(one.id)
        shown.append(one.id)
    assert shown == made
    assert not stand_in.provider.chats
    assert await listed(alice) == []


async def test_a_list_is_in_the_order_in_which_things_were_made_however_often_they_are_seen(
    alice: AsyncOpenAI,
) -> None:
    made = await chats(alice, 3)
    for one in made[::-1]:
        await alice.chat.completions.retrieve(one)
        await alice.chat.completions.update(one, metadata={"seen": "again"})
    assert await listed(alice) == made


async def test_the_synchronous_client_pages_too(gateway: Deployment) -> None:
    key = await gateway.key("acme", "alice")

    def work() -> None:
        with OpenAI(api_key=key, base_url=gateway.url, max_retries=0) as client:
            messages: Any = [{"role": "user", "content": "hello"}]
            made = [client.chat.completions.create(model=MODEL, messages=messages, store=True).id for _ in range(5)]
            assert [one.id for one in client.chat.completions.list(limit=2)] == made

    await asyncio.to_thread(work)


# --- cursors and bounds ---------------------------------------------------------------------------------------------


async def test_a_cursor_that_is_not_ones_own_is_not_found(
    alice: AsyncOpenAI, bob: AsyncOpenAI, carol: AsyncOpenAI, stand_in: Running
) -> None:
    (own,) = await chats(alice, 1)
    others = [await chat(bob), await chat(carol), await chat(carol)]
    await carol.chat.completions.delete(others[2])
    raw = next(iter(stand_in.provider.chats))
    before = len(stand_in.provider.received)
    said = set()
    for cursor in (*others, raw, own[:-1], "chatcmpl-", "x", own.upper()):
        with pytest.raises(openai.NotFoundError) as missing:
            await alice.chat.completions.list(after=cursor)
        said.add(str(missing.value.body).replace(cursor, "…"))
    assert len(said) == 1
    assert len(stand_in.provider.received) == before


@pytest.mark.parametrize(
    ("query", "code", "param", "text"),
    [
        ({"limit": 0}, "integer_below_min_value", "limit", "Expected a value >= 1, but got 0 instead"),
        ({"limit": -1}, "integer_below_min_value", "limit", "Expected a value >= 1"),
        ({"limit": 101}, "integer_above_max_value", "limit", "Expected a value <= 100, but got 101 instead"),
        ({"limit": "many"}, "invalid_type", "limit", "expected an integer"),
        ({"limit": "٣"}, "invalid_type", "limit", "expected an integer"),
        ({"limit": ""}, "invalid_type", "limit", "expected an integer"),
        ({"order": "up"}, "invalid_value", "order", "Invalid value: 'up'. Supported values are: 'asc' and 'desc'."),
        ({"order": ["asc", "desc"]}, "invalid_value", "order", "more than one value"),
        ({"order": ["asc"]}, "invalid_value", "order", "more than one value"),
        ({"before": "x"}, "invalid_value", "before", "query parameter"),
        ({"user": "x"}, "invalid_value", "user", "query parameter"),
    ],
)
async def test_what_the_service_would_refuse_is_refused_in_its_words(
    alice: AsyncOpenAI, stand_in: Running, query: dict[str, Any], code: str, param: str, text: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await alice.chat.completions.list(extra_query=query)
    body: Any = refused.value.body
    assert (body["code"], body["type"], body["param"]) == (code, "invalid_request_error", param)
    assert text in body["message"]
    assert not stand_in.provider.received


async def test_a_parameter_that_is_given_twice_is_refused(gateway: Deployment, alice: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="more than one value"):
        await alice.get("/chat/completions?limit=1&limit=2", cast_to=object)


# --- filters --------------------------------------------------------------------------------------------------------


async def test_filters_look_at_models_and_metadata(alice: AsyncOpenAI, bob: AsyncOpenAI) -> None:
    a = await chat(alice, metadata={"coat": "red", "size": "7"})
    b = await chat(alice, metadata={"coat": "red", "size": "8"}, model="gpt-4.1")
    c = await chat(alice, metadata={"coat": "blue"})
    await chat(bob, metadata={"coat": "red"})
    assert await listed(alice, metadata={"coat": "red"}) == [a, b]
    assert await listed(alice, metadata={"coat": "red", "size": "8"}, limit=1) == [b]
    assert await listed(alice, model="gpt-4.1") == [b]
    assert await listed(alice, model=MODEL, order="desc") == [c, a]
    assert await listed(alice, model="gpt") == await listed(alice, metadata={"": "red"}) == []
    await alice.chat.completions.update(c, metadata={"coat": "red"})
    assert await listed(alice, metadata={"coat": "red"}, limit=1) == [a, b, c]


async def test_pages_and_their_ends_are_told_of_what_the_filter_leaves(alice: AsyncOpenAI) -> None:
    made = [await chat(alice, metadata={"odd": str(n % 2)}) for n in range(9)]
    page = await alice.chat.completions.list(metadata={"odd": "1"}, limit=3)
    assert [one.id for one in page.data] == made[1:7:2]
    assert (page.to_dict()["first_id"], page.to_dict()["last_id"], page.has_more) == (made[1], made[5], True)
    page = await page.get_next_page()
    assert ([one.id for one in page.data], page.has_more) == ([made[7]], False)


async def test_a_filter_may_say_what_looks_like_an_id(alice: AsyncOpenAI, stand_in: Running) -> None:
    raw = "resp_" + "0123456789abcdef" * 3 + "01"
    made = await chat(alice, metadata={raw: raw})
    assert await listed(alice, metadata={raw: raw}) == [made]


# --- rows -----------------------------------------------------------------------------------------------------------


async def test_a_row_is_what_retrieving_it_shows(alice: AsyncOpenAI, stand_in: Running) -> None:
    stand_in.provider.set_script("numbers, annotations, unicode")
    made = await chats(alice, 2, metadata={"k": "v"}, user="u", logprobs=True)
    page = await alice.chat.completions.with_raw_response.list()
    retrieved = [(await alice.chat.completions.with_raw_response.retrieve(one)).content for one in made]
    assert all(one in page.content for one in retrieved), "byte for byte"


async def test_a_row_shows_no_raw_id_and_no_end_user_that_nobody_named(alice: AsyncOpenAI, stand_in: Running) -> None:
    stand_in.provider.set_script("quote, unknown_events")
    made = await chats(alice, 3)
    raws = list(stand_in.provider.chats)
    await chat(alice, metadata={"others": " and ".join(raws)})
    orders: tuple[Any, ...] = ("asc", "desc")
    for order in orders:
        page = (await alice.chat.completions.with_raw_response.list(order=order)).http_response
        assert not [raw for raw in stand_in.provider.ids.secrets() if raw.encode() in page.content]
        rows = page.json()["data"]
        (last,) = [row for row in rows if row["metadata"]]
        assert last["metadata"]["others"] == " and ".join(made), "they stand in this very list"
        assert [row.get("safety_identifier") for row in rows] == [None] * 4


async def test_what_a_list_shows_first_is_its_rows_owners(
    alice: AsyncOpenAI, carol: AsyncOpenAI, gateway: Deployment, stand_in: Running
) -> None:
    spoken: Any = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
    await chat(alice, **spoken)
    kept = next(iter(stand_in.provider.chats.values()))
    elsewhere, audio = (stand_in.provider.ids.new(prefix, place="made elsewhere") for prefix in ("chatcmpl-", "audio_"))
    body: Any = json.loads(json.dumps({**kept.body, "id": elsewhere}))
    body["choices"][0]["message"]["audio"]["id"] = audio
    stand_in.provider.chats = {elsewhere: type(kept)(body, [])}
    upstream = Upstream(FIRST, PROJECT)
    await adopt(gateway.admin, await gateway.tenant("acme"), elsewhere, Owner("local", "carol"), upstream)
    (row,) = [one async for one in carol.chat.completions.list()]
    assert row.choices[0].message.audio
    history: Any = [{"role": "assistant", "audio": {"id": row.choices[0].message.audio.id}}]
    assert await chat(carol, messages=history)
    with pytest.raises(openai.NotFoundError):
        await chat(alice, messages=history)


async def test_what_is_gone_upstream_is_left_out_and_asked_for_no_more(alice: AsyncOpenAI, stand_in: Running) -> None:
    made = await chats(alice, 5)
    raws = list(stand_in.provider.chats)
    kept = {raw: stand_in.provider.chats.pop(raw) for raw in (raws[0], raws[3])}
    assert await listed(alice, limit=2) == [made[1], made[2], made[4]]
    before = len(stand_in.provider.received)
    page = await alice.chat.completions.list(limit=3)
    assert ([one.id for one in page.data], page.has_more) == ([made[1], made[2], made[4]], False)
    assert len(stand_in.provider.received) == before + 3
    stand_in.provider.chats |= kept
    assert (await alice.chat.completions.retrieve(made[0])).id == made[0], "absence is no deletion"
    assert await listed(alice, after=made[0], limit=1) == [made[1], made[2], made[4]]


@pytest.mark.parametrize(
    ("script", "status"), [("status=429", 429), ("status=500", 500), ("cut=40", 502), ("html", 502), ("malformed", 502)]
)
async def test_a_row_that_cannot_be_had_fails_the_list(
    alice: AsyncOpenAI, stand_in: Running, script: str, status: int
) -> None:
    await chats(alice, 12)
    stand_in.provider.set_script(script)
    with pytest.raises(openai.APIStatusError) as failed:
        await alice.chat.completions.list()
    assert failed.value.status_code == status
    stand_in.provider.set_script("")
    assert len(await listed(alice)) == 12


async def test_a_few_rows_are_fetched_at_once_and_no_more_than_the_page_needs(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    await chats(alice, 30)
    before = len(stand_in.provider.received)
    page = await alice.chat.completions.list(limit=5)
    assert len(page.data) == 5
    assert len(stand_in.provider.received) - before == 6, "one more tells that there is more"
