"""The official SDK, unmodified, on every list: what one made comes up once, in order, and is nobody else's."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from gateway.surfaces.table import ROUTES
from tests.gateway_fixture import Deployment
from tests.stand_in_fixture import Running

HELLO: Any = [{"role": "user", "content": "hello"}]
LINE = {"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": {"model": "gpt-5", "input": "hello"}}


async def upload(client: AsyncOpenAI, data: bytes = b"{}\n", purpose: Any = "fine-tune") -> str:
    return (await client.files.create(file=("a.jsonl", data), purpose=purpose)).id


@dataclass(frozen=True, slots=True)
class List:
    """`make` makes one of them; `of` is the SDK's resource."""

    make: Callable[[AsyncOpenAI], Awaitable[Any]]
    of: Callable[[AsyncOpenAI], Any]
    ordered: bool = True
    """It takes `order`."""
    oldest_first: bool = False


async def _batch(client: AsyncOpenAI) -> Any:
    file = await upload(client, json.dumps(LINE).encode(), "batch")
    return await client.batches.create(input_file_id=file, endpoint="/v1/responses", completion_window="24h")


async def _job(client: AsyncOpenAI) -> Any:
    return await client.fine_tuning.jobs.create(model="gpt-4o-mini", training_file=await upload(client))


LISTS = {
    "chat.completions.list": List(
        lambda client: client.chat.completions.create(model="gpt-5", messages=HELLO, store=True),
        lambda client: client.chat.completions,
        oldest_first=True,
    ),
    "files.list": List(
        lambda client: client.files.create(file=("a.txt", b"a"), purpose="user_data"), lambda client: client.files
    ),
    "vector_stores.list": List(
        lambda client: client.vector_stores.create(name="coats"), lambda client: client.vector_stores
    ),
    "containers.list": List(lambda client: client.containers.create(name="coats"), lambda client: client.containers),
    "skills.list": List(
        lambda client: client.skills.create(files=[("fold/SKILL.md", b"# Fold")]), lambda client: client.skills
    ),
    "batches.list": List(_batch, lambda client: client.batches, ordered=False),
    "fine_tuning.jobs.list": List(_job, lambda client: client.fine_tuning.jobs, ordered=False),
}

EACH = pytest.mark.parametrize("one", LISTS.values(), ids=LISTS)
DELETING = pytest.mark.parametrize(
    "one",
    [pytest.param(one, id=name) for name, one in LISTS.items() if name.split(".")[0] not in ("batches", "fine_tuning")],
)


async def ids(of: Any, **query: Any) -> list[str]:
    """By auto-paging."""
    return [row.id async for row in of.list(**query)]


def test_every_list_of_the_table_is_among_them() -> None:
    assert LISTS.keys() == {route.action for route in ROUTES if route.lists}


@EACH
async def test_a_list_is_in_order_and_its_makers_alone(
    alice: AsyncOpenAI, bob: AsyncOpenAI, gateway: Deployment, stand_in: Running, one: List
) -> None:
    carol = gateway.client(await gateway.key("acme", "carol"))
    made = [(await one.make(alice)).id for _ in range(5)]
    theirs = {client: (await one.make(client)).id for client in (bob, carol)}
    if not one.oldest_first:
        made.reverse()
    for limit in (1, 2, 5, 100):
        assert await ids(one.of(alice), limit=limit) == made
    assert await ids(one.of(alice)) == made
    for client, other in theirs.items():
        assert await ids(one.of(client)) == [other]
        with pytest.raises(openai.NotFoundError, match=made[0]):
            await one.of(client).list(after=made[0])
    page = await one.of(alice).list(after=made[1], limit=2)
    assert ([row.id for row in page.data], page.has_more) == (made[2:4], True)
    said = page.to_dict()
    assert (said["object"], said["first_id"], said["last_id"]) == ("list", made[2], made[3])
    if one.ordered:
        assert await ids(one.of(alice), order="asc", limit=2) == (made if one.oldest_first else made[::-1])
    listed = {call.path for call in stand_in.provider.received if call.method == "GET" and call.path.count("/") == 2}
    assert not listed, "the service's own lists are everybody's"


@EACH
async def test_a_row_is_what_retrieving_it_shows(alice: AsyncOpenAI, one: List) -> None:
    made = await one.make(alice)
    page = await one.of(alice).with_raw_response.list()
    retrieved = await one.of(alice).with_raw_response.retrieve(made.id)
    row, alone = page.http_response.json()["data"][0], retrieved.http_response.json()
    changing = {"status", "last_active_at", "request_counts", "output_file_id", "completed_at"}
    told = [{name: value for name, value in seen.items() if name not in changing} for seen in (row, alone)]
    assert told[0] == told[1]
    assert row["id"] == made.id


@DELETING
async def test_one_deletes_everything_while_one_pages_through_it(alice: AsyncOpenAI, one: List) -> None:
    made, shown = {(await one.make(alice)).id for _ in range(5)}, []
    async for row in one.of(alice).list(limit=2):
        await one.of(alice).delete(row.id)
        shown.append(row.id)
    assert (len(shown), set(shown)) == (5, made)
    assert await ids(one.of(alice)) == []


async def test_vector_stores_page_backwards_too(alice: AsyncOpenAI) -> None:
    made = [(await alice.vector_stores.create(name="coats")).id for _ in range(6)][::-1]
    page = await alice.vector_stores.list(before=made[4], limit=2)
    assert ([row.id for row in page.data], page.has_more) == (made[2:4], True)
    page = await alice.vector_stores.list(before=made[2], limit=2)
    assert ([row.id for row in page.data], page.has_more) == (made[:2], False)
    page = await alice.vector_stores.list(before=made[3], limit=2, order="asc")
    assert ([row.id for row in page.data], page.has_more) == ([made[5], made[4]], False)
    with pytest.raises(openai.BadRequestError, match="not both"):
        await alice.vector_stores.list(before=made[4], after=made[0])


async def test_files_are_told_by_their_purpose_and_come_a_hundred_at_a_time(alice: AsyncOpenAI) -> None:
    kept = [await upload(alice, purpose="user_data") for _ in range(101)]
    other = await upload(alice)
    assert await ids(alice.files, purpose="fine-tune") == [other]
    page = await alice.files.list(limit=10_000, order="asc")
    assert ([row.id for row in page.data], page.has_more) == (kept[:100], True)
    assert await ids(alice.files, order="asc") == [*kept, other]
    with pytest.raises(openai.BadRequestError, match="<= 10000"):
        await alice.files.list(limit=10_001)


async def test_containers_are_told_by_their_name(alice: AsyncOpenAI) -> None:
    made = [(await alice.containers.create(name=name)).id for name in ("coats", "hats", "coats")]
    assert await ids(alice.containers, name="coats", limit=1) == [made[2], made[0]]


async def test_a_file_that_a_list_shows_first_belongs_to_the_rows_owner(
    alice: AsyncOpenAI, bob: AsyncOpenAI, gateway: Deployment
) -> None:
    carol = gateway.client(await gateway.key("acme", "carol"))
    await _batch(alice)
    seen = [(await alice.batches.list()).data[0].output_file_id for _ in range(4)]
    output = seen[-1]
    assert output
    assert (await alice.files.content(output)).text.count("\n") == 1
    assert output in await ids(alice.files)
    for other in (bob, carol):
        with pytest.raises(openai.NotFoundError):
            await other.files.retrieve(output)
        assert await ids(other.files) == []


async def test_jobs_are_told_by_their_metadata_and_by_having_none(alice: AsyncOpenAI) -> None:
    file, jobs = await upload(alice), alice.fine_tuning.jobs
    some = {"k": "", "l": "x"}
    with_some = (await jobs.create(model="gpt-4o-mini", training_file=file, metadata=some)).id
    without = (await jobs.create(model="gpt-4o-mini", training_file=file)).id
    assert await ids(jobs, metadata={"k": ""}) == [with_some]
    assert await ids(jobs, metadata={"k": "", "l": "y"}) == []
    assert await ids(jobs, extra_query={"metadata": "null"}) == [without]
