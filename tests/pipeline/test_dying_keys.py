"""One of several upstream keys dies while calls and streams are under way: nobody notices but who needs what it made."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.demo.stand_in.server import running
from tests.pipeline.desk import MODEL, TENANT_OF, Desk, desk, events_of
from tests.redis_fixture import RedisServer

PATIENCE_S = 20.0
DYING = "second"
NAMES = ("openai", DYING, "third")


class Service:
    """A stand-in that takes one key, and that may stop and start again with all that it knows."""

    def __init__(self, name: str) -> None:
        self.key = f"sk-{name}"
        self._stack = contextlib.ExitStack()
        self.running = self._stack.enter_context(running())
        self.accept(self.key)

    def accept(self, key: str) -> None:
        provider = self.running.provider
        provider.options = replace(provider.options, api_key=key)

    def stop(self) -> None:
        self._stack.close()

    def start(self) -> None:
        port = urlsplit(self.running.url).port or 0
        started = self._stack.enter_context(running(port=port))
        vars(started.provider).update(vars(self.running.provider))
        self.running = started


@dataclass(slots=True)
class Street:
    redis: RedisServer
    folder: Path
    services: dict[str, Service]
    keys: dict[str, str] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def gateway(self, **instead: str) -> AsyncIterator[Desk]:
        """`instead`: what stands in the table of the one that dies."""
        tables = []
        for name in NAMES[1:]:
            service = self.services[name]
            table = {"name": name, "scope": name, "base_url": service.running.api_url}
            secret = self.folder / f"{name}.key"
            secret.write_text(service.key)
            secret.chmod(0o600)
            table["api_key_file"] = str(secret)
            table |= instead if name == DYING else {}
            tables.append("[[openai.upstream]]\n" + "\n".join(f"{key} = {json.dumps(table[key])}" for key in table))
        config = self.folder / "settings.toml"
        config.write_text("\n".join(tables) + "\n")
        first = self.services[NAMES[0]]
        env = {
            "COATCHECK_CONFIG": str(config),
            "COATCHECK_UPSTREAM_BREAKER_OPEN_S": "0.5",
            "OPENAI_API_KEY": first.key,
        }
        async with desk(self.redis, first.running, self.folder / "data", **env) as at:
            at.keys = self.keys
            yield at

    def reached(self, mark: str) -> list[str]:
        text = mark.encode()
        return [
            name
            for name, service in self.services.items()
            if any(text in one.body for one in service.running.provider.received)
        ]

    def check_apart(self, *successors: str) -> None:
        """No service was shown the key or an ID of another."""
        for name, service in self.services.items():
            others = [one for other, one in self.services.items() if other != name]
            foreign = {
                raw for other in others for raw in other.running.provider.ids.issued if not raw.startswith("call_")
            }
            for one in service.running.provider.received:
                own = [service.key, *successors] if name == DYING else [service.key]
                assert (one.header("authorization") or "").removeprefix("Bearer ") in own
                sent = one.path + one.query + one.body.decode()
                assert not [raw for raw in foreign if raw in sent]


@pytest.fixture
def street(redis_server: RedisServer, tmp_path: Path) -> Iterator[Street]:
    services = {name: Service(name) for name in NAMES}
    yield Street(redis_server, tmp_path, services)
    for service in services.values():
        service.stop()


@dataclass(slots=True)
class Load:
    """Every tenant's calls, one after the other. `told`: the home of who asked, the status, and who made what was asked for."""

    street: Street
    at: Desk
    homes: dict[str, str]
    old: dict[str, str]
    told: list[tuple[str, int, list[str]]] = field(default_factory=list)
    count: int = 0

    async def call(self, who: str) -> None:
        self.count += 1
        mark = f"call {self.count} of {who};"
        reply = await self.at.call("POST", "/responses", {"model": MODEL, "input": mark}, who)
        made = self.street.reached(mark) if reply.status_code == 200 else []
        self.told.append((self.homes[who], reply.status_code, made))

    async def go_on(self, who: str) -> None:
        while True:
            await self.call(who)
            await asyncio.sleep(0.02)

    @contextlib.asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.go_on(who)) for who in self.homes]
            yield
            for task in tasks:
                task.cancel()

    def since(self, begin: int, home: str) -> list[tuple[int, list[str]]]:
        return [(status, made) for of, status, made in self.told[begin:] if of == home]


async def settle(street: Street, at: Desk, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Two tenants at home with each key, and an old response of each."""
    homes: dict[str, str] = {}
    old: dict[str, str] = {}
    while any([*homes.values()].count(name) < 2 for name in NAMES):
        who = f"tenant-{len(TENANT_OF)}"
        monkeypatch.setitem(TENANT_OF, who, who)
        reply = await at.call("POST", "/responses", {"model": MODEL, "input": f"old of {who};"}, who)
        assert reply.status_code == 200, reply.text
        (home,) = street.reached(f"old of {who};")
        if [*homes.values()].count(home) < 2:
            homes[who], old[who] = home, reply.json()["id"]
    return Load(street, at, homes, old)


async def read_stream(at: Desk, who: str, begun: asyncio.Event) -> list[dict[str, Any]]:
    data = b""
    async with at.stream(who=who, input="[[script: message, words=40, delay=0.03]] x") as reply:
        assert reply.status_code == 200
        async for piece in reply.aiter_bytes():
            data += piece
            if b"output_text.delta" in data:
                begun.set()
    return events_of(data)


@contextlib.asynccontextmanager
async def streams(load: Load) -> AsyncIterator[dict[str, asyncio.Task[list[dict[str, Any]]]]]:
    """One of every tenant, each begun and none at its end."""
    async with asyncio.TaskGroup() as group, asyncio.timeout(PATIENCE_S):
        begun = {who: asyncio.Event() for who in load.homes}
        tasks = {who: group.create_task(read_stream(load.at, who, begun[who])) for who in load.homes}
        for event in begun.values():
            await event.wait()
        assert not [who for who, task in tasks.items() if task.done()]
        yield tasks


async def statuses(load: Load, home: str) -> set[int]:
    """How the old objects of a key's tenants are answered."""
    whose = [who for who, one in load.homes.items() if one == home]
    told = set()
    for who in whose:
        reply = await load.at.call("GET", f"/responses/{load.old[who]}", who=who)
        told.add(reply.status_code)
        if reply.status_code == 200:
            assert reply.json()["id"] == load.old[who]
        else:
            assert set(reply.json()) == {"error"}
            assert "sk-" not in reply.text
        body = {"model": MODEL, "input": "goes on", "previous_response_id": load.old[who]}
        told.add((await load.at.call("POST", "/responses", body, who)).status_code)
    return told


async def moved(load: Load, begin: int) -> None:
    """Until what the dying key's tenants make is made elsewhere."""

    async def made_elsewhere() -> bool:
        made = [made for status, made in load.since(begin, DYING) if status == 200]
        return len([one for one in made if one != [DYING]]) >= 10

    await load.at.until(made_elsewhere, PATIENCE_S)


def check_others_unharmed(load: Load, begin: int) -> None:
    for home in set(NAMES) - {DYING}:
        told = load.since(begin, home)
        assert told
        assert {status for status, _ in told} == {200}
        assert {tuple(made) for _, made in told} == {(home,)}


async def test_a_server_that_stops_under_load_takes_only_what_is_its_own(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = street.services[DYING]
    async with street.gateway() as at:
        load = await settle(street, at, monkeypatch)
        async with load.under_way():
            async with streams(load) as under_way:
                begin = len(load.told)
                await asyncio.to_thread(service.stop)
                await moved(load, begin)
                assert await statuses(load, DYING) == {503}
                for home in set(NAMES) - {DYING}:
                    assert await statuses(load, home) == {200}
            for who, task in under_way.items():
                last = task.result()[-1]["type"]
                assert (last == "response.completed") == (load.homes[who] != DYING), (who, last)
            check_others_unharmed(load, begin)
            assert {status for status, _ in load.since(begin, DYING)} <= {200, 502, 503}
            await asyncio.to_thread(service.start)

            async def back() -> bool:
                return await statuses(load, DYING) == {200} and load.since(begin, DYING)[-1] == (200, [DYING])

            await at.until(back, PATIENCE_S)
            check_others_unharmed(load, begin)
        street.check_apart()


async def test_a_key_that_is_revoked_under_load_takes_only_what_is_its_own(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = street.services[DYING]
    async with street.gateway() as at:
        load = await settle(street, at, monkeypatch)
        async with load.under_way():
            async with streams(load) as under_way:
                begin = len(load.told)
                service.accept("sk-successor")
                await moved(load, begin)
                assert await statuses(load, DYING) <= {502, 503}
                for home in set(NAMES) - {DYING}:
                    assert await statuses(load, home) == {200}
            assert {task.result()[-1]["type"] for task in under_way.values()} == {"response.completed"}
            check_others_unharmed(load, begin)
            assert {status for status, _ in load.since(begin, DYING)} <= {200, 502, 503}
            service.accept(service.key)

            async def back() -> bool:
                return await statuses(load, DYING) == {200}

            await at.until(back, PATIENCE_S)
            service.accept("sk-successor")
    successor = street.folder / "successor.key"
    successor.write_text("sk-successor")
    successor.chmod(0o600)
    async with street.gateway(name="successor", api_key_file=str(successor)) as at:
        load.at = at
        assert await statuses(load, DYING) == {200}
    street.check_apart("sk-successor")
