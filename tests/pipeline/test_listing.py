"""Lists: what the index says is only where to look, and a page has bounds."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.administration import AdminEvent
from gateway.demo.stand_in.provider import StoredChat
from gateway.mapping import Mapper
from gateway.names import Kind, Owner, Visibility
from gateway.pipeline.listing import AT_ONCE, MOST_LOOKED_AT, PAGE_BYTES
from gateway.stores.contract import Mode, TenantStatus
from gateway.stores.keyspace import tenant_keys
from gateway.upstreams.fleet import FIRST
from tests.pipeline.desk import MODEL, Desk, desk
from tests.policy.folder import copied
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running
from tests.transport.raw import connected, request

KIND = Kind.CHAT_COMPLETION


async def chat(at: Desk, who: str = "alice", **more: Any) -> str:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "store": True, **more}
    return str((await at.call("POST", "/chat/completions", body, who)).json()["id"])


async def listed(at: Desk, query: str = "", who: str = "alice") -> list[str]:
    reply = await at.call("GET", f"/chat/completions{query}", who=who)
    assert reply.status_code == 200, reply.text
    return [row["id"] for row in reply.json()["data"]]


async def mapper_of(at: Desk, who: str = "alice") -> Mapper:
    keyring = at.gateway.gateway.shared.keyring
    return Mapper(await keyring.deployment(), await keyring.tenant(await at.tenant(who)), FIRST, "default")


async def recorded(
    at: Desk, count: int, visibility: Visibility = Visibility.PRIVATE, owner: str = "alice"
) -> tuple[list[str], list[str]]:
    """So many more stored chats like the first one: their opaque and raw IDs."""
    provider, mapper = at.stand_in.provider, await mapper_of(at)
    kept = next(iter(provider.chats.values()))
    raws = [provider.ids.new("chatcmpl-", place="made for a test") for _ in range(count)]
    for first in range(0, count, 100):
        async with at.admin.recorded(mapper.tenant, AdminEvent.ID_ADOPT) as recording:
            writes = []
            for raw in raws[first : first + 100]:
                provider.chats[raw] = StoredChat({**kept.body, "id": raw}, [])
                owned = Owner("local", owner)
                root = mapper.root(KIND, raw, owner=owned, visibility=visibility, parent=b"", now=int(time.time()))
                writes.append(mapper.write_root(root, Mode.CREATE))
            for write in writes:
                assert await recording.write(write) is None
    return [mapper.to_opaque(KIND, raw).text for raw in raws], raws


@pytest.fixture
def without_ownership(tmp_path: Path) -> Path:
    """The shipped policies without the one that says what is the gateway's to say in any case."""
    folder = copied(tmp_path)
    for file in folder.glob("ownership.*"):
        file.unlink()
    return folder


@pytest.mark.parametrize("who", ["carol", "bob"])
async def test_an_entry_that_somebody_put_into_anothers_list_opens_for_nobody(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path, without_ownership: Path, who: str
) -> None:
    """Whoever writes Redis can put there what they like, but whose a record is they can't say."""
    async with desk(redis_server, stand_in, tmp_path / "data", COATCHECK_POLICIES=str(without_ownership)) as at:
        await _put_into_alices_list(at, who)


async def _put_into_alices_list(at: Desk, who: str) -> None:
    hers, theirs = await chat(at), await chat(at, who)
    mine, other = await mapper_of(at), await mapper_of(at, who)
    parsed = other.verify(theirs)
    assert parsed is not None
    names, others = tenant_keys(mine.tenant), tenant_keys(other.tenant)
    record = at.redis.command("GET", others.record(KIND, parsed.h))
    at.redis.command("SET", names.record(KIND, parsed.h), record)
    for scope in mine.scopes(Owner("local", "alice")):
        at.redis.command("ZADD", names.listed(KIND, scope), 7, parsed.h.hex())
    assert await listed(at) == [hers]


async def test_a_tombstone_and_what_is_no_record_are_passed_over(at: Desk) -> None:
    first, second, third = [await chat(at) for _ in range(3)]
    mapper = await mapper_of(at)
    names, (own, _) = tenant_keys(mapper.tenant), mapper.scopes(Owner("local", "alice"))
    h = [parsed.h for one in (first, second) if (parsed := mapper.verify(one))]
    await at.call("DELETE", f"/chat/completions/{first}")
    at.redis.command("ZADD", names.listed(KIND, own), 7, h[0].hex())
    at.redis.command("SET", names.record(KIND, h[1]), b"\1\1\0 anything")
    before = len(at.upstream)
    assert await listed(at) == [third]
    assert len(at.upstream) == before + 1


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """The shipped ones, and one that lets nobody retrieve what is shared."""
    folder = copied(tmp_path)
    (folder / "shared.cedar").write_text(
        '@id("shared")\nforbid (principal, action == Action::"chat.completions.retrieve", resource)\n'
        'when { resource has visibility && resource.visibility == "tenant" };\n'
    )
    return folder


async def test_what_the_policies_do_not_let_one_retrieve_one_does_not_list(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path, policies: Path
) -> None:
    async with desk(redis_server, stand_in, tmp_path / "data", COATCHECK_POLICIES=str(policies)) as at:
        own = await chat(at)
        (shared,), _ = await recorded(at, 1, Visibility.TENANT, "carol")
        assert (await at.call("GET", f"/chat/completions/{shared}")).status_code == 403
        assert await listed(at) == [own]
        assert await listed(at, who="carol") == []


async def test_the_log_tells_what_was_listed(at: Desk) -> None:
    made = [await chat(at) for _ in range(3)]
    reply = await at.call("GET", f"/chat/completions?after={made[0]}&limit=1")
    intent, outcome = [
        one for one in await at.log() if (one["request"] or {}).get("id") == reply.headers["x-request-id"]
    ]
    assert intent["type"] == outcome["type"] == "chat.completions.list"
    assert [target["id"] for target in intent["targets"]] == [made[0]]
    assert [target["id"] for target in outcome["targets"]] == [made[1]]


async def test_a_page_has_at_most_so_many_bytes_and_the_next_one_the_rest(at: Desk) -> None:
    made = [await chat(at, metadata={"n": str(n)}) for n in range(5)]
    for kept in at.stand_in.provider.chats.values():
        kept.body["choices"][0]["message"]["content"] = "x" * (PAGE_BYTES // 3)
    pages, after = [], ""
    while True:
        reply = (await at.call("GET", f"/chat/completions{after}")).json()
        pages.append([row["id"] for row in reply["data"]])
        if not reply["has_more"]:
            break
        after = f"?after={reply['last_id']}"
    assert pages == [made[:2], made[2:4], made[4:]]


async def test_one_row_is_a_page_however_large_it_is(at: Desk) -> None:
    made = [await chat(at) for _ in range(2)]
    for kept in at.stand_in.provider.chats.values():
        kept.body["choices"][0]["message"]["content"] = "x" * (PAGE_BYTES + 1)
    assert await listed(at) == made[:1]


async def test_a_filter_that_passes_over_too_much_is_refused_rather_than_answered_with_an_empty_page(at: Desk) -> None:
    last = await chat(at, metadata={"k": "first"})
    ids, raws = await recorded(at, MOST_LOOKED_AT + 50)
    for raw in raws:
        at.stand_in.provider.chats[raw].body = {**at.stand_in.provider.chats[raw].body, "metadata": {"k": "v"}}
    refused = await at.call("GET", "/chat/completions?metadata[k]=first&order=desc")
    assert refused.status_code == 400
    assert "none of the first" in refused.json()["error"]["message"]
    assert await at.outcomes(refused.headers["x-request-id"]) == [("deny", "bad_parameter", 400)]
    assert await listed(at, "?metadata[k]=first&limit=1") == [last]
    for raw in raws[30:]:
        del at.stand_in.provider.chats[raw]
    assert (await at.call("GET", "/chat/completions?order=desc&limit=1")).status_code == 400
    assert await listed(at, "?order=desc&limit=1") == [ids[29]], "by then it is known which are gone"


async def test_an_answer_that_names_a_path_that_does_not_exist_says_nothing_of_a_row(at: Desk) -> None:
    """Only the service's own 404, which is JSON, says that it knows no such object."""
    made = [await chat(at) for _ in range(2)]
    at.script("html")
    reply = await at.call("GET", "/chat/completions")
    assert reply.status_code == 502
    assert await listed(at) == made


async def test_who_leaves_ends_the_calls_for_all_rows(at: Desk) -> None:
    for _ in range(12):
        await chat(at)
    before = len(at.upstream)
    at.stand_in.provider.set_script("hang")
    try:
        async with connected(at.port) as connection:
            head = (await at.headers())["authorization"]
            await connection.send(request("/v1/chat/completions", f"Authorization: {head}"))

            async def asked() -> bool:
                return len(at.upstream) == before + AT_ONCE

            await at.until(asked)

        async def left() -> bool:
            return all(one.disconnected_at is not None for one in at.upstream[before:])

        await at.until(left, 2)
    finally:
        at.stand_in.provider.set_script("")

    async def told() -> bool:
        return await at.last_outcome() == ("error", "client_closed")

    await at.until(told)
    assert await at.unanswered() == []
    assert len(at.upstream) == before + AT_ONCE


async def test_a_list_is_no_answer_where_its_outcome_cannot_be_written(at: Desk) -> None:
    made = [await chat(at) for _ in range(2)]
    store = at.gateway.gateway.shared.store
    at.stand_in.provider.set_script("slow=0.3")
    asked = asyncio.create_task(at.call("GET", "/chat/completions"))
    try:

        async def begun() -> bool:
            return at.upstream[-1].path.startswith("/v1/chat/completions/")

        await at.until(begun)
        await store.set_tenant_status(await at.tenant(), TenantStatus.SUSPENDED)
        reply = await asked
    finally:
        at.stand_in.provider.set_script("")
    assert reply.status_code == 503
    assert not [one for one in made if one in reply.text]


async def test_a_row_keeps_every_byte_but_its_ids(at: Desk) -> None:
    await chat(at)
    (raw,) = at.stand_in.provider.chats
    at.stand_in.provider.set_script("numbers=extreme, pretty, escape")
    try:
        row = await at.call("GET", f"/chat/completions/{await chat(at)}")
        page = await at.call("GET", "/chat/completions?order=desc&limit=1")
    finally:
        at.stand_in.provider.set_script("")
    assert row.content in page.content
    assert raw.encode() not in page.content
    assert page.content.endswith(b'"has_more":true}')
