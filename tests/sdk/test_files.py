"""The official SDK, unmodified, on files."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Literal

import openai
import pytest
from openai import AsyncOpenAI

from gateway.demo.stand_in.forms import read
from tests.gateway_fixture import Deployment
from tests.stand_in_fixture import Running

MODEL = "gpt-5"


async def test_a_file_is_uploaded_told_of_downloaded_and_deleted_under_one_id(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    data = os.urandom(300_000)
    made = await alice.files.create(file=("coats, 'hats' & ümlaut.bin", data), purpose="user_data")
    (raw,) = stand_in.provider.files
    assert made.id.startswith("file-")
    assert made.id != raw
    assert (made.filename, made.bytes, made.purpose) == ("coats, 'hats' & ümlaut.bin", len(data), "user_data")
    assert await alice.files.retrieve(made.id) == made
    content = await alice.files.content(made.id)
    assert content.content == data
    assert content.response.headers["content-type"] == "application/octet-stream"
    assert content.response.headers["x-content-type-options"] == "nosniff"
    assert (await alice.files.wait_for_processing(made.id)).id == made.id
    deleted = await alice.files.delete(made.id)
    assert (deleted.id, deleted.deleted) == (made.id, True)
    with pytest.raises(openai.NotFoundError, match="No such File object"):
        await alice.files.content(made.id)


async def test_what_the_service_reads_is_what_the_sdk_sent(alice: AsyncOpenAI, stand_in: Running) -> None:
    data = b'\r\n--\r\n--coatcheck-{"a":1}\n\0' * 100
    await alice.files.create(
        file=("a.jsonl", io.BytesIO(data), "application/jsonl"),
        purpose="user_data",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    received = stand_in.provider.received[-1]
    form = read(received.header("content-type") or "", received.body)
    assert form.texts == {
        "purpose": "user_data",
        "expires_after[anchor]": "created_at",
        "expires_after[seconds]": "3600",
    }
    (upload,) = form.files["file"]
    assert (upload.filename, upload.media_type, upload.data) == ("a.jsonl", "application/jsonl", data)


async def test_a_file_from_disk_and_an_empty_one(alice: AsyncOpenAI, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"notes")
    made = await alice.files.create(file=tmp_path / "notes.txt", purpose="assistants")
    assert made.filename == "notes.txt"
    empty = await alice.files.create(file=("empty.txt", b""), purpose="user_data")
    assert (await alice.files.content(empty.id)).content == b""


async def test_ones_own_files_are_listed_by_purpose_and_deleted_while_they_are_paged_through(
    alice: AsyncOpenAI, bob: AsyncOpenAI
) -> None:
    theirs = await bob.files.create(file=b"notes", purpose="user_data")
    purposes: list[Literal["user_data", "vision"]] = ["user_data", "vision", "user_data", "vision", "user_data"]
    made = [await alice.files.create(file=b"notes", purpose=purpose) for purpose in purposes]
    listed = [one.id async for one in alice.files.list(order="asc")]
    assert listed == [one.id for one in made]
    assert theirs.id not in listed
    assert {one.purpose async for one in alice.files.list(purpose="vision")} == {"vision"}
    async for one in alice.files.list(limit=2):
        await alice.files.delete(one.id)
    assert (await alice.files.list()).data == []
    assert [one.id async for one in bob.files.list()] == [theirs.id]


async def test_somebody_elses_file_reads_as_missing_and_nobody_is_asked(
    alice: AsyncOpenAI, bob: AsyncOpenAI, gateway: Deployment, stand_in: Running
) -> None:
    carol = gateway.client(await gateway.key("acme", "carol"))
    made = await alice.files.create(file=b"notes", purpose="user_data")
    before = len(stand_in.provider.received)
    for stranger in (bob, carol):
        for call in (stranger.files.retrieve, stranger.files.content, stranger.files.delete):
            with pytest.raises(openai.NotFoundError, match="No such File object"):
                await call(made.id)
    assert len(stand_in.provider.received) == before


async def test_ones_own_file_can_be_given_to_a_model(alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running) -> None:
    made = await alice.files.create(file=b"notes", purpose="user_data")
    (raw,) = stand_in.provider.files
    content = [{"type": "input_file", "file_id": made.id}, {"type": "input_text", "text": "read it"}]
    await alice.responses.create(model=MODEL, input=[{"role": "user", "content": content}])  # type: ignore[list-item,misc]
    assert raw.encode() in stand_in.provider.received[-1].body
    with pytest.raises(openai.NotFoundError):
        await bob.responses.create(model=MODEL, input=[{"role": "user", "content": content}])  # type: ignore[list-item,misc]
