"""Several upstreams behind one gateway: each object is served by who made it, whatever became of the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.demo.stand_in.provider import Received
from gateway.demo.stand_in.server import Running, running
from gateway.upstreams import UpstreamCredential
from gateway.upstreams.openai import request_headers
from tests.forms import uploaded
from tests.pipeline.desk import MODEL, Desk, desk
from tests.redis_fixture import RedisServer
from tests.sockets.wire import opened


@dataclass(slots=True)
class Street:
    """Two services, `first` set by `[openai]` and `second` by a table, and the gateways that stand before them in turn."""

    redis: RedisServer
    folder: Path
    first: Running
    second: Running
    third: Running
    close_third: Callable[[], None]
    keys: dict[str, str] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def gateway(self, **table: Any) -> AsyncIterator[Desk]:
        """`first`: the weight of `[openai]`; everything else stands in the table."""
        weight = table.pop("first", 1)
        secret = self.folder / "second.key"
        secret.write_text("sk-second")
        secret.chmod(0o600)
        entries = {"name": "second", "base_url": self.second.api_url, "api_key_file": str(secret), **table}
        lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in entries.items())
        config = self.folder / "settings.toml"
        config.write_text(f"[openai]\nweight = {weight}\n[[openai.upstream]]\n{lines}\n")
        data = self.folder / "data"
        async with desk(self.redis, self.first, data, COATCHECK_CONFIG=str(config)) as at:
            at.keys = self.keys
            yield at

    def reached(self, mark: str) -> list[str]:
        """Which services received a request that holds the text."""
        found = {"first": self.first.provider.received, "second": self.second.provider.received}
        return [name for name, received in found.items() if any(mark.encode() in one.body for one in received)]


@pytest.fixture
def street(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> Iterator[Street]:
    with running() as second, contextlib.ExitStack() as stack:
        third = stack.enter_context(running())
        yield Street(redis_server, tmp_path, stand_in, second, third, stack.close)


async def say(at: Desk, text: str, **more: Any) -> Any:
    reply = await at.call("POST", "/responses", {"model": MODEL, "input": text, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


def last(service: Running) -> Received:
    return service.provider.received[-1]


async def test_a_drained_key_serves_what_it_made_and_gets_nothing_new(street: Street) -> None:
    async with street.gateway(weight=0) as at:
        old = await say(at, "old one")
        thought = await say(
            at, "[[script: reasoning]] old thought", store=False, include=["reasoning.encrypted_content"]
        )
        old_file = (await at.call("POST", "/files", uploaded())).json()["id"]
        assert street.reached("old") == ["first"]
    async with street.gateway(first=0) as at:
        new = await say(at, "new one")
        assert street.reached("new one") == ["second"]
        assert (await at.call("GET", f"/responses/{old['id']}")).json()["id"] == old["id"]
        assert (await at.call("GET", f"/responses/{new['id']}")).json()["id"] == new["id"]
        followed = await say(at, "goes on with the old", previous_response_id=old["id"])
        assert "You have sent 2 user messages" in followed["output"][-1]["content"][0]["text"]
        assert street.reached("goes on with the old") == ["first"]
        # What only the old one can read goes back to it, though it names nothing.
        await say(at, [*thought["output"], {"role": "user", "content": "think of the old"}], store=False)  # type: ignore[arg-type]
        assert street.reached("think of the old") == ["first"]
        new_file = (await at.call("POST", "/files", uploaded())).json()["id"]
        listed = [one["id"] for one in (await at.call("GET", "/files")).json()["data"]]
        assert listed == [new_file, old_file]
        input_file = [{"role": "user", "content": [{"type": "input_file", "file_id": new_file}]}]
        body = {"model": MODEL, "input": input_file, "previous_response_id": old["id"]}
        mixed = await at.call("POST", "/responses", body)
        assert (mixed.status_code, mixed.json()["error"]["code"]) == (400, "invalid_value")
        assert (await at.call("DELETE", f"/responses/{old['id']}")).status_code == 200
        assert last(street.first).method == "DELETE"
        assert (await at.call("GET", f"/responses/{old['id']}", who="bob")).status_code == 404


async def test_a_socket_goes_to_one_service_and_names_what_lives_there(street: Street) -> None:
    async with street.gateway(weight=0) as at:
        old = await say(at, "old")
    async with street.gateway(first=0) as at, opened(at) as wire:
        new = await wire.responded("over the socket")
        assert street.reached("over the socket") == ["second"]
        error = await wire.create("x", previous_response_id=old["id"])
        assert (error["status"], error["error"]["code"]) == (400, "invalid_value")
        await wire.responded("and on", previous_response_id=new["id"])


async def test_a_new_key_of_the_same_scope_takes_over_all_that_the_old_one_made(street: Street) -> None:
    async with street.gateway(weight=0) as at:
        old = await say(at, "old")
    # The first key is gone; the new one, of the same project, is set by the table.
    async with street.gateway(name="rotated", base_url=street.first.api_url, scope="default", first=0) as at:
        await say(at, "goes on", previous_response_id=old["id"])
        new = await say(at, "new")
        assert last(street.first).header("authorization") == "Bearer sk-second"
        assert (await at.call("GET", f"/responses/{new['id']}")).status_code == 200
        listed = (await at.call("GET", f"/responses/{old['id']}")).json()
        assert listed["id"] == old["id"]


async def test_what_lived_at_a_service_that_is_no_more_is_out_of_reach_and_in_no_list(street: Street) -> None:
    async with street.gateway(first=0) as at:
        there = await say(at, "there")
        lost = (await at.call("POST", "/files", uploaded())).json()["id"]
    async with street.gateway(name="another", scope="another", weight=0) as at:
        here = (await at.call("POST", "/files", uploaded())).json()["id"]
        assert [one["id"] for one in (await at.call("GET", "/files")).json()["data"]] == [here]
        for path in (f"/responses/{there['id']}", f"/files/{lost}"):
            assert (await at.call("GET", path)).status_code == 503


async def test_a_key_that_is_left_alone_is_asked_for_nothing_that_another_made(street: Street) -> None:
    """The raw ID of one service is none of another's business, and may be somebody else's object there."""
    async with street.gateway(first=0) as at:
        there = await say(at, "there")
    async with desk(street.redis, street.first, street.folder / "data") as at:
        at.keys = street.keys
        before = len(at.upstream)
        assert (await at.call("GET", f"/responses/{there['id']}")).status_code == 503
        assert (await at.call("DELETE", f"/responses/{there['id']}")).status_code == 503
        assert (await at.create(previous_response_id=there["id"])).status_code == 503
        assert at.upstream[before:] == []
        await say(at, "here")


async def test_while_one_key_is_down_new_objects_are_made_at_the_other(street: Street) -> None:
    async with street.gateway(first=0, base_url=street.third.api_url) as at:
        old = await say(at, "old")
    await asyncio.to_thread(street.close_third)
    # Nobody listens there any more; both take new objects, and the one that is up is not every tenant's home.
    async with street.gateway(base_url=street.third.api_url, weight=1000) as at:
        statuses = [
            (await at.call("POST", "/responses", {"model": MODEL, "input": "x"})).status_code for _ in range(12)
        ]
        assert statuses[-1] == 200
        assert set(statuses) <= {200, 503}
        assert (await at.call("GET", f"/responses/{old['id']}")).status_code == 503


def test_a_key_is_shown_as_its_service_takes_it() -> None:
    azure = dict(request_headers(UpstreamCredential("k", api_key_header=True)))
    assert azure[b"api-key"] == b"k"
    assert b"authorization" not in azure
