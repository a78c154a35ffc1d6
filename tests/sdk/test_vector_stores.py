"""The official SDK, unmodified, on vector stores, their files and batches of them."""

from __future__ import annotations

import io

import openai
import pytest
from openai import AsyncOpenAI

from tests.stand_in_fixture import Running

POLL_MS = 10


async def upload(client: AsyncOpenAI, name: str = "notes.txt") -> str:
    return (await client.files.create(file=(name, b"about coats"), purpose="assistants")).id


async def test_a_store_is_made_changed_listed_searched_and_deleted_under_one_id(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    file = await upload(alice)
    made = await alice.vector_stores.create(
        name="coats", description="of coats", file_ids=[file], metadata={"k": "vs_0123456789abcdef0123456789abcdef"}
    )
    (raw,) = stand_in.provider.vector_stores
    assert made.id.startswith("vs_")
    assert made.id != raw
    assert made.metadata == {"k": "vs_0123456789abcdef0123456789abcdef"}
    assert list(stand_in.provider.vector_stores[raw].files) == list(stand_in.provider.files)
    assert (await alice.vector_stores.retrieve(made.id)).name == "coats"
    changed = await alice.vector_stores.update(
        made.id, name="hats", expires_after={"anchor": "last_active_at", "days": 7}
    )
    assert (changed.id, changed.name) == (made.id, "hats")
    assert [one.id async for one in alice.vector_stores.list()] == [made.id]
    (found,) = [one async for one in alice.vector_stores.search(made.id, query=["coats", "hats"])]
    assert (found.file_id, found.filename) == (file, "notes.txt")
    assert found.to_dict()["vector_store_id"] == made.id
    deleted = await alice.vector_stores.delete(made.id)
    assert (deleted.id, deleted.deleted) == (made.id, True)
    with pytest.raises(openai.NotFoundError, match="Vector store with id"):
        await alice.vector_stores.retrieve(made.id)
    assert (await alice.files.retrieve(file)).id == file


async def test_a_file_of_a_store_is_polled_described_read_and_detached_by_the_files_own_id(alice: AsyncOpenAI) -> None:
    store, file = await alice.vector_stores.create(), await upload(alice)
    attached = await alice.vector_stores.files.create_and_poll(
        file, vector_store_id=store.id, attributes={"shelf": "3", "weight": 1.5}, poll_interval_ms=POLL_MS
    )
    assert (attached.id, attached.vector_store_id, attached.status) == (file, store.id, "completed")
    assert attached.attributes == {"shelf": "3", "weight": 1.5}
    changed = await alice.vector_stores.files.update(file, vector_store_id=store.id, attributes={"shelf": "4"})
    assert (changed.id, changed.attributes) == (file, {"shelf": "4"})
    assert [one.id async for one in alice.vector_stores.files.list(store.id, filter="completed")] == [file]
    assert [one.text async for one in alice.vector_stores.files.content(file, vector_store_id=store.id)]
    gone = await alice.vector_stores.files.delete(file, vector_store_id=store.id)
    assert (gone.id, gone.deleted) == (file, True)
    assert (await alice.files.retrieve(file)).id == file


async def test_the_helpers_that_upload_and_poll_work(alice: AsyncOpenAI) -> None:
    store = await alice.vector_stores.create()
    one = await alice.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("a.txt", b"a"), poll_interval_ms=POLL_MS
    )
    assert one.status == "completed"
    batch = await alice.vector_stores.file_batches.upload_and_poll(
        store.id, files=[("b.txt", io.BytesIO(b"b")), ("c.txt", b"c")], file_ids=[one.id], poll_interval_ms=POLL_MS
    )
    assert (batch.vector_store_id, batch.status, batch.file_counts.completed) == (store.id, "completed", 3)
    listed = alice.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, limit=2, order="asc")
    files = [file.id async for file in listed]
    assert len(files) == 3
    assert one.id in files
    assert {(await alice.files.retrieve(file)).id for file in files} == set(files)


async def test_a_batch_is_cancelled_and_belongs_to_its_store(alice: AsyncOpenAI) -> None:
    store, other, file = await alice.vector_stores.create(), await alice.vector_stores.create(), await upload(alice)
    batch = await alice.vector_stores.file_batches.create(
        store.id, files=[{"file_id": file, "attributes": {"shelf": "3"}}]
    )
    assert batch.id.startswith("vsfb_")
    cancelled = await alice.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    assert (cancelled.id, cancelled.status) == (batch.id, "cancelled")
    with pytest.raises(openai.NotFoundError, match="File batch with id"):
        await alice.vector_stores.file_batches.retrieve(batch.id, vector_store_id=other.id)


async def test_two_thousand_files_go_into_one_batch(alice: AsyncOpenAI, stand_in: Running) -> None:
    store, file = await alice.vector_stores.create(), await upload(alice)
    batch = await alice.vector_stores.file_batches.create(store.id, file_ids=[file] * 2000)
    assert batch.vector_store_id == store.id
    (raw,) = stand_in.provider.files
    assert stand_in.provider.received[-1].json()["file_ids"] == [raw] * 2000


async def test_a_strangers_file_attaches_to_nothing(alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running) -> None:
    own, theirs, store = await upload(alice), await upload(bob), await alice.vector_stores.create()
    before = len(stand_in.provider.received)
    for file_ids in ([theirs], [own, theirs]):
        with pytest.raises(openai.NotFoundError, match="No such File object"):
            await alice.vector_stores.create(file_ids=file_ids)
        with pytest.raises(openai.NotFoundError, match="No such File object"):
            await alice.vector_stores.file_batches.create(store.id, file_ids=file_ids)
    with pytest.raises(openai.NotFoundError):
        await bob.vector_stores.search(store.id, query="coats")
    assert len(stand_in.provider.received) == before
    assert [one.id async for one in bob.vector_stores.list()] == []


async def test_a_store_that_only_a_search_spoke_of_can_be_used_by_its_owner(
    alice: AsyncOpenAI, bob: AsyncOpenAI
) -> None:
    answer = await alice.responses.create(
        model="gpt-5", input="[[script: file_search]] look", include=["file_search_call.results"]
    )
    (result,) = answer.output[0].results or [] if answer.output[0].type == "file_search_call" else []
    store = result.to_dict()["vector_store_id"]
    assert isinstance(store, str)
    assert (await alice.vector_stores.retrieve(store)).id == store
    with pytest.raises(openai.NotFoundError):
        await bob.vector_stores.retrieve(store)
