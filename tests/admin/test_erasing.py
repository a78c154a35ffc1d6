"""A tenant is erased: upstream, in the store, and its keys; what is left can be verified by anybody and opened by nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.administration import AdminMissing, AdminRefused
from gateway.admin.erasing import Erasure, Place, erase_tenant
from gateway.admin.tenants import resume_tenant, suspend_tenant
from gateway.audit.checkpoint import VerifierKey, unseal_note
from gateway.audit.offline import read_keys, verify_folder
from gateway.mapping import Mapper
from gateway.names import Kind
from gateway.stores.contract import TenantStatus
from gateway.stores.keyring import KeysMissing
from gateway.stores.records import Root
from tests.forms import uploaded
from tests.pipeline.desk import Desk, _session_stand_in, desk, stand_in
from tests.redis_fixture import RedisServer, own_redis_server
from tests.stand_in_fixture import Running

__all__ = ["_session_stand_in", "own_redis_server", "stand_in"]


class Erasing:
    def __init__(self, at: Desk, folder: Path) -> None:
        self.at = at
        self.place = Place(folder / "erased", 30)
        self.told: list[str] = []

    @property
    def salvage(self) -> Any:
        app: Any = self.at.gateway.app
        return app.pipeline.recorder.salvage

    async def run(self, upstream: Any = None, *, leave: bool = False) -> Erasure:
        admin, tenant = self.at.admin, await self.at.tenant()
        deployment = await admin.keyring.deployment()
        name, project = self.salvage.routing.first.name, self.salvage.routing.first.project
        return await erase_tenant(
            admin,
            tenant,
            upstream or self.salvage,
            lambda unlocked: Mapper(deployment, unlocked, name, project),
            self.place,
            leave=leave,
            progress=self.told.append,
        )

    async def report(self, done: Erasure) -> str:
        """What the report says, if it is signed by the tenant's key."""
        assert done.report is not None
        note = await asyncio.to_thread(done.report.read_text)
        opened = unseal_note(note, await asyncio.to_thread(self.public_keys))
        assert opened is not None
        return opened[0]

    def public_keys(self) -> tuple[VerifierKey, ...]:
        (folder,) = self.place.folder.iterdir()
        return read_keys(folder / "public-keys")


class Stubborn:
    """An upstream that deletes nothing."""

    def ends(self, kind: Kind) -> bool:
        return kind is not Kind.CONVERSATION

    def deletes(self, kind: Kind) -> bool:
        return True

    async def end(self, root: Root) -> bool:
        return False

    async def sweep(self) -> int:
        return 0


@pytest.fixture
async def erasing(own_redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Erasing]:
    async with desk(own_redis_server, stand_in, tmp_path) as at:
        yield Erasing(at, tmp_path)


async def filled(at: Desk) -> list[str]:
    made = [(await at.created())["id"] for _ in range(3)]
    made.append((await at.call("POST", "/conversations")).json()["id"])
    await at.created(who="bob")
    return made


async def test_all_of_a_tenant_goes_but_its_log_which_anybody_can_verify(
    erasing: Erasing, own_redis_server: RedisServer
) -> None:
    at = erasing.at
    await filled(at)
    tenant = await at.tenant()
    before = [event async for event in _events(at)]
    done = await erasing.run()
    assert (done.deleted, done.left) == (4, [])
    assert len(at.stand_in.provider.responses) == 1, "bob's alone"
    assert at.stand_in.provider.conversations == {}
    left = {name.decode().rpartition("}:")[2] for name in own_redis_server.command("KEYS", f"{{t:{tenant}}}*")}
    assert left <= {"meta", "aud", "ckpt", "rules"}
    state = await at.admin.store.tenant_state(tenant)
    assert state is not None
    assert state.status is TenantStatus.ERASED
    with pytest.raises(KeysMissing):
        await at.admin.keyring.tenant(tenant)
    assert (await at.create()).status_code == 401
    assert (await at.create(who="bob")).status_code == 200
    # The bytes are there, and the export of them is whole by the public key that stays.
    after = [event async for event in _events(at)]
    assert after[: len(before)] == before
    folder = erasing.place.of(tenant)
    verdict = await asyncio.to_thread(lambda: verify_folder(folder / "log", read_keys(folder / "public-keys")))
    assert verdict.findings == ()
    assert verdict.manifest.last == len(after)
    report = await erasing.report(done)
    assert f"tenant: {tenant}\n" in report
    assert "objects deleted upstream: 4\n" in report
    assert "objects left upstream: 0\n" in report
    assert "backups of the store" in report
    for secret in at.stand_in.provider.ids.secrets():
        assert secret not in report


async def test_what_the_service_only_cancels_is_cancelled_and_told(erasing: Erasing) -> None:
    at = erasing.at
    line = {"custom_id": "1", "method": "POST", "url": "/v1/embeddings", "body": {"model": "gpt-5", "input": "a"}}
    file = (await at.call("POST", "/files", uploaded(json.dumps(line).encode(), "batch"))).json()["id"]
    run = {"input_file_id": file, "endpoint": "/v1/embeddings", "completion_window": "24h"}
    batch = (await at.call("POST", "/batches", run)).json()["id"]
    done = await erasing.run()
    assert at.stand_in.provider.files == {}
    assert [one.path.rpartition("/")[2] for one in at.upstream if one.method == "POST"][-1] == "cancel"
    assert done.failed == 0
    assert f"left: batch {batch}: cancelled; the service has no deletion of its kind\n" in await erasing.report(done)


async def _events(at: Desk) -> AsyncIterator[tuple[int, bytes]]:
    for event in await at.admin.store.read_events(await at.tenant(), 0, 1000):
        yield event.seq, event.body


async def test_what_the_service_did_not_delete_stops_the_erasure_until_it_is_accepted(erasing: Erasing) -> None:
    at = erasing.at
    made = await filled(at)
    with pytest.raises(AdminRefused, match="3 objects were not deleted"):
        await erasing.run(Stubborn())
    state = await at.admin.store.tenant_state(await at.tenant())
    assert state is not None
    assert state.status is TenantStatus.SUSPENDED
    assert (await at.create()).status_code == 401
    done = await erasing.run(Stubborn(), leave=True)
    assert (done.deleted, len(done.left)) == (0, 4)
    report = await erasing.report(done)
    for opaque in made:
        assert opaque in report
    assert f"left: conversation {made[3]}: the service has no deletion of its kind\n" in report
    assert len(at.stand_in.provider.responses) == 4


async def test_an_erasure_that_broke_off_goes_on_and_counts_all_of_it(
    erasing: Erasing, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = erasing.at
    await filled(at)
    calls = 0
    end = type(erasing.salvage).end

    class Flaky:
        def ends(self, kind: Kind) -> bool:
            return True

        def deletes(self, kind: Kind) -> bool:
            return True

        async def end(self, root: Root) -> bool:
            nonlocal calls
            calls += 1
            return calls > 2 and await end(erasing.salvage, root)

        async def sweep(self) -> int:
            return 0

    with pytest.raises(AdminRefused, match="2 objects"):
        await erasing.run(Flaky())
    for step in ("_keep_log", "_report"):
        with monkeypatch.context() as patched:
            patched.setattr(f"gateway.admin.erasing.{step}", _broken)
            with pytest.raises(OSError, match="went down"):
                await erasing.run()
    done = await erasing.run()
    assert done.deleted == 4
    assert "objects deleted upstream: 4\n" in await erasing.report(done)
    again = await erasing.run()
    assert again.report == done.report


class Meanwhile:
    """An upstream that does something else after its first deletion."""

    def __init__(self, upstream: Any, then: Callable[[], Awaitable[None]]) -> None:
        self.upstream, self.then = upstream, then
        self.first = True

    def ends(self, kind: Kind) -> bool:
        return bool(self.upstream.ends(kind))

    def deletes(self, kind: Kind) -> bool:
        return bool(self.upstream.deletes(kind))

    async def end(self, root: Root) -> bool:
        deleted: bool = await self.upstream.end(root)
        if self.first:
            self.first = False
            await self.then()
        return deleted

    async def sweep(self) -> int:
        return int(await self.upstream.sweep())


@pytest.mark.parametrize("suspended_again", [False, True])
async def test_a_tenant_that_is_resumed_while_it_is_erased_leaves_nothing_upstream(
    erasing: Erasing, suspended_again: bool
) -> None:
    at = erasing.at
    await filled(at)
    tenant = await at.tenant()

    async def resumed() -> None:
        await resume_tenant(at.admin, tenant)
        assert (await at.create()).status_code == 200
        if suspended_again:
            await suspend_tenant(at.admin, tenant)

    with pytest.raises(AdminRefused, match="was resumed"):
        await erasing.run(Meanwhile(erasing.salvage, resumed))
    done = await erasing.run()
    assert done.deleted == 5
    assert len(at.stand_in.provider.responses) == 1, "bob's alone"


async def test_of_two_erasures_at_once_one_ends_it(erasing: Erasing) -> None:
    at = erasing.at
    await filled(at)
    runs = await asyncio.gather(erasing.run(), erasing.run(), return_exceptions=True)
    assert {type(one) for one in runs} <= {Erasure, AdminRefused, AdminMissing}
    done = await erasing.run()
    assert done.report is not None
    assert len(at.stand_in.provider.responses) == 1, "bob's alone"


async def _broken(*_: object) -> None:
    raise OSError("the machine went down")


async def test_under_a_legal_hold_or_a_halt_nothing_is_erased(erasing: Erasing) -> None:
    at = erasing.at
    await filled(at)
    tenant, log = await at.tenant(), at.admin.store.log
    await log.set_rules(tenant, hold=1)
    with pytest.raises(AdminRefused, match="legal hold"):
        await erasing.run()
    await log.set_rules(tenant, hold=0)
    await log.halt(tenant, "why")
    with pytest.raises(AdminRefused, match="halted"):
        await erasing.run()
    assert len(at.stand_in.provider.responses) == 4
