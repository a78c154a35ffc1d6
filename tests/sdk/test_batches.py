"""The official SDK, unmodified, on batches."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types import Batch

from tests.stand_in_fixture import Running

MODEL = "gpt-5"


def line(custom_id: str, **body: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/responses", "body": {"model": MODEL, **body}}


async def upload(client: AsyncOpenAI, *lines: dict[str, Any]) -> str:
    data = b"\n".join(json.dumps(one).encode() for one in lines)
    return (await client.files.create(file=("requests.jsonl", data), purpose="batch")).id


async def run(client: AsyncOpenAI, file: str) -> Batch:
    batch = await client.batches.create(input_file_id=file, endpoint="/v1/responses", completion_window="24h")
    while batch.status not in ("completed", "failed", "cancelled", "expired"):
        batch = await client.batches.retrieve(batch.id)
    return batch


async def test_a_batch_is_made_polled_listed_and_read_under_one_id(
    alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    first = await alice.responses.create(model=MODEL, input="hello")
    file = await upload(
        alice,
        line("goes on", input="and?", previous_response_id=first.id),
        line("fails", input="hello", prompt_cache_key="x" * 65),
        line("new", input="hello", store=False),
    )
    batch = await run(alice, file)
    (raw,) = stand_in.provider.batches
    assert batch.id != raw
    assert batch.id.startswith("batch_")
    assert (batch.status, batch.input_file_id) == ("completed", file)
    assert batch.request_counts is not None
    assert batch.output_file_id is not None
    assert [one.id async for one in alice.batches.list(limit=1)] == [batch.id]
    assert [one.id async for one in bob.batches.list()] == []

    content = await alice.files.content(batch.output_file_id)
    assert content.response.headers["content-type"] == "application/octet-stream"
    made = {one["custom_id"]: one["response"]["body"] for one in map(json.loads, content.text.splitlines())}
    goes_on = await alice.responses.retrieve(made["goes on"]["id"])
    assert goes_on.previous_response_id == first.id
    assert goes_on.output[0].id == made["goes on"]["output"][0]["id"]
    assert (await alice.responses.create(model=MODEL, input="more", previous_response_id=goes_on.id)).id
    with pytest.raises(openai.NotFoundError):
        await alice.responses.retrieve(made["new"]["id"])
    with pytest.raises(openai.NotFoundError, match="No such File object"):
        await bob.files.content(batch.output_file_id)
    told = await alice.files.retrieve(batch.output_file_id)
    assert (told.id, told.purpose) == (batch.output_file_id, "batch_output")
    for name in (told.filename, content.response.headers["content-disposition"]):
        assert raw not in name
        assert "_output.jsonl" in name


async def test_what_is_wrong_with_a_file_is_told_without_the_services_ids(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    batch = await run(alice, await upload(alice, line("same", input="a"), line("same", input="b")))
    assert batch.status == "failed"
    assert batch.errors is not None
    assert batch.errors.data is not None
    (error,) = batch.errors.data
    assert (error.code, error.line, error.param) == ("duplicate_custom_id", 2, "custom_id")
    assert error.message == "An earlier line has the same custom_id."
    assert not any(raw in error.message for raw in stand_in.provider.issued)


async def test_a_batch_is_cancelled(alice: AsyncOpenAI, bob: AsyncOpenAI) -> None:
    file = await upload(alice, line("a", input="hello"))
    batch = await alice.batches.create(input_file_id=file, endpoint="/v1/responses", completion_window="24h")
    with pytest.raises(openai.NotFoundError):
        await bob.batches.cancel(batch.id)
    cancelled = await alice.batches.cancel(batch.id)
    assert (cancelled.id, cancelled.status) == (batch.id, "cancelling")
    assert (await alice.batches.retrieve(batch.id)).status == "cancelled"


async def test_a_line_that_names_what_is_not_ones_own_is_told_to_the_sdk(alice: AsyncOpenAI, bob: AsyncOpenAI) -> None:
    theirs = await bob.responses.create(model=MODEL, input="hello")
    with pytest.raises(openai.BadRequestError, match="Line 2: Previous response with id") as refused:
        await upload(alice, line("a", input="hello"), line("b", input="hello", previous_response_id=theirs.id))
    assert refused.value.code == "previous_response_not_found"
