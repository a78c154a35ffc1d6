"""The official SDK, unmodified, on containers and the files in them, also those that code interpreter makes by itself."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.stand_in_fixture import Running

MODEL = "gpt-5"
PNG = b"\x89PNG\r\n\x1a\n"


async def interpret(client: AsyncOpenAI, **more: Any) -> tuple[str, str]:
    """The container and the file that code interpreter has made by itself."""
    answer = await client.responses.create(model=MODEL, input="[[script: code_interpreter]] draw", **more)
    code, message = answer.output
    assert code.type == "code_interpreter_call"
    assert message.type == "message"
    part = message.content[0]
    assert part.type == "output_text"
    (cited,) = part.annotations
    assert cited.type == "container_file_citation"
    assert cited.container_id == code.container_id
    return code.container_id, cited.file_id


async def test_a_container_is_made_listed_used_and_deleted_under_one_id(alice: AsyncOpenAI, stand_in: Running) -> None:
    file = (await alice.files.create(file=("a.csv", b"1,2"), purpose="assistants")).id
    made = await alice.containers.create(
        name="box", file_ids=[file], expires_after={"anchor": "last_active_at", "minutes": 9}
    )
    (raw,) = stand_in.provider.containers
    assert made.id.startswith("cntr_")
    assert made.id != raw
    assert (await alice.containers.retrieve(made.id)).name == "box"
    other = await alice.containers.create(name="chest")
    assert [one.id async for one in alice.containers.list(order="asc")] == [made.id, other.id]
    assert [one.id async for one in alice.containers.list(name="chest")] == [other.id]
    tools: Any = [{"type": "code_interpreter", "container": made.id}]
    assert await interpret(alice, tools=tools) != ("", "")
    assert stand_in.provider.received[-1].json()["tools"][0]["container"] == raw
    await alice.containers.delete(made.id)
    with pytest.raises(openai.NotFoundError, match="Container with id"):
        await alice.containers.retrieve(made.id)


async def test_files_go_into_a_container_as_bytes_or_by_their_id_and_come_out_as_bytes(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    box = (await alice.containers.create(name="box")).id
    put = await alice.containers.files.create(box, file=("hat, grey.txt", b"\0grey\r\n--"))
    assert put.id.startswith("cfile_")
    assert (put.container_id, put.path, put.bytes) == (box, "/mnt/data/hat, grey.txt", 9)
    kept = (await alice.files.create(file=("a.csv", b"1,2"), purpose="assistants")).id
    copied = await alice.containers.files.create(box, file_id=kept)
    assert copied.path == f"/mnt/data/{kept}-a.csv"
    (raw,) = stand_in.provider.files
    assert raw not in copied.path
    assert [one.id async for one in alice.containers.files.list(box, order="asc", limit=1)] == [put.id, copied.id]
    again = await alice.containers.files.retrieve(copied.id, container_id=box)
    assert (again.id, again.path) == (copied.id, copied.path)
    assert (await alice.containers.files.content.retrieve(put.id, container_id=box)).content == b"\0grey\r\n--"
    await alice.containers.files.delete(put.id, container_id=box)
    with pytest.raises(openai.NotFoundError, match="Container file with id"):
        await alice.containers.files.content.retrieve(put.id, container_id=box)


async def test_a_container_that_code_interpreter_made_and_its_file_are_its_callers(
    alice: AsyncOpenAI, bob: AsyncOpenAI
) -> None:
    box, picture = await interpret(alice)
    theirs, _ = await interpret(bob)
    assert [one.id async for one in alice.containers.list()] == [box]
    found = await alice.containers.files.retrieve(picture, container_id=box)
    assert (found.id, found.container_id) == (picture, box)
    content = await alice.containers.files.content.retrieve(picture, container_id=box)
    assert content.content == PNG
    assert content.response.headers["content-disposition"].endswith(f'filename="{picture}.png"')
    for container, file in ((box, picture), (theirs, picture)):
        with pytest.raises(openai.NotFoundError):
            await bob.containers.files.content.retrieve(file, container_id=container)
    other = (await alice.containers.create(name="box")).id
    with pytest.raises(openai.NotFoundError, match="Container file with id"):
        await alice.containers.files.retrieve(picture, container_id=other)


async def test_a_container_that_has_expired_reads_like_one_that_was_deleted(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    box, picture = await interpret(alice)
    assert (await alice.containers.retrieve(box)).status == "running"
    deleted = (await alice.containers.create(name="box")).id
    await alice.containers.delete(deleted)
    living = (await alice.containers.create(name="box")).id
    for one in list(stand_in.provider.containers.values())[:1]:
        one.body["status"] = "expired"
    tools: dict[str, Any] = {
        container: [{"type": "code_interpreter", "container": container}] for container in (box, deleted)
    }
    told = {}
    for container in (box, deleted):
        errors = []
        for call in (
            alice.containers.retrieve(container),
            alice.containers.files.create(container, file=b"a"),
            alice.containers.files.retrieve(picture, container_id=container),
            alice.responses.create(model=MODEL, input="draw", tools=tools[container]),
            alice.responses.create(model=MODEL, input="draw", tools=tools[container], stream=True),
        ):
            with pytest.raises(openai.NotFoundError) as error:
                await call
            errors.append(str(error.value).replace(container, ""))
        told[container] = errors
    assert told[box] == told[deleted]
    assert [one.id async for one in alice.containers.list()] == [living]


async def test_secrets_of_a_containers_network_are_told_to_nobody(alice: AsyncOpenAI, stand_in: Running) -> None:
    policy: Any = {
        "type": "allowlist",
        "allowed_domains": ["example.org"],
        "domain_secrets": [{"domain": "example.org", "name": "key", "value": "hush-7"}],
    }
    made = await alice.containers.create(name="box", network_policy=policy)
    assert stand_in.provider.received[-1].json()["network_policy"] == policy
    for seen in (made, await alice.containers.retrieve(made.id), await anext(aiter(alice.containers.list()))):
        assert "hush-7" not in str(seen.to_dict())
        assert seen.network_policy is not None
        assert seen.network_policy.allowed_domains == ["example.org"]
