"""The official SDK, unmodified, on uploads in parts."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import openai
import pytest
from openai import AsyncOpenAI

from tests.gateway_fixture import Deployment
from tests.stand_in_fixture import Running


async def test_a_file_is_uploaded_in_parts_and_is_a_file_like_all_others(alice: AsyncOpenAI, stand_in: Running) -> None:
    data = os.urandom(300_000)
    upload = await alice.uploads.create(
        bytes=len(data), filename="coats.bin", mime_type="application/octet-stream", purpose="user_data"
    )
    parts = [
        await alice.uploads.parts.create(upload.id, data=data[at : at + 100_000]) for at in range(0, len(data), 100_000)
    ]
    assert {part.upload_id for part in parts} == {upload.id}
    (stored,) = stand_in.provider.uploads.values()
    assert not {upload.id, *(part.id for part in parts)} & {str(stored.body["id"]), *stored.parts}
    done = await alice.uploads.complete(
        upload.id, part_ids=[part.id for part in parts], md5=hashlib.md5(data, usedforsecurity=False).hexdigest()
    )
    assert (done.id, done.status) == (upload.id, "completed")
    assert done.file
    assert (await alice.files.retrieve(done.file.id)).filename == "coats.bin"
    assert (await alice.files.content(done.file.id)).content == data
    assert [one.id async for one in alice.files.list()] == [done.file.id]


async def test_the_sdks_chunked_upload_works(alice: AsyncOpenAI, tmp_path: Path) -> None:
    data = os.urandom(100_000)
    (tmp_path / "notes.bin").write_bytes(data)
    mime_type = "application/octet-stream"
    from_disk = await alice.uploads.upload_file_chunked(
        file=tmp_path / "notes.bin", mime_type=mime_type, purpose="user_data", part_size=30_000
    )
    from_memory = await alice.uploads.upload_file_chunked(
        file=data, filename="n", bytes=len(data), mime_type=mime_type, purpose="user_data", part_size=30_000
    )
    for made in (from_disk, from_memory):
        assert made.file
        assert (await alice.files.content(made.file.id)).content == data


async def test_an_upload_is_given_up(alice: AsyncOpenAI) -> None:
    upload = await alice.uploads.create(bytes=3, filename="a", mime_type="text/plain", purpose="user_data")
    assert (await alice.uploads.cancel(upload.id)).status == "cancelled"
    with pytest.raises(openai.BadRequestError):
        await alice.uploads.parts.create(upload.id, data=io.BytesIO(b"abc"))


async def test_nobody_adds_to_completes_or_cancels_somebody_elses_upload(
    alice: AsyncOpenAI, bob: AsyncOpenAI, gateway: Deployment, stand_in: Running
) -> None:
    carol = gateway.client(await gateway.key("acme", "carol"))
    upload = await alice.uploads.create(bytes=3, filename="a", mime_type="text/plain", purpose="user_data")
    part = await alice.uploads.parts.create(upload.id, data=b"abc")
    for stranger in (bob, carol):
        own = await stranger.uploads.create(bytes=3, filename="a", mime_type="text/plain", purpose="user_data")
        before = len(stand_in.provider.received)
        with pytest.raises(openai.NotFoundError):
            await stranger.uploads.parts.create(upload.id, data=b"abc")
        with pytest.raises(openai.NotFoundError):
            await stranger.uploads.complete(upload.id, part_ids=[part.id])
        with pytest.raises(openai.NotFoundError):
            await stranger.uploads.complete(own.id, part_ids=[part.id])
        with pytest.raises(openai.NotFoundError):
            await stranger.uploads.cancel(upload.id)
        assert len(stand_in.provider.received) == before


async def test_what_is_checked_line_by_line_is_not_uploaded_in_parts(alice: AsyncOpenAI, stand_in: Running) -> None:
    for purpose in ("batch", " Batch ", "fine-tune"):
        with pytest.raises(openai.BadRequestError, match="/v1/files"):
            await alice.uploads.create(bytes=3, filename="a", mime_type="text/plain", purpose=purpose)  # type: ignore[arg-type]
    assert not stand_in.provider.uploads
