from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import pytest

from gateway.names import TenantId
from gateway.stores.contract import Begin, Entry, StoreMisconfigured
from gateway.stores.embedded import EmbeddedStore, open_embedded
from tests.redis_fixture import server_binary, until

TENANT = TenantId("aaaabbbbccccdddd")
BINARY = str(server_binary())


def runs(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_data_survive_a_restart(tmp_path: Path) -> None:
    store = await open_embedded(tmp_path / "data", BINARY)
    await store.create_tenant(TENANT, b"record")
    await store.begin(TENANT, Begin(Entry("w", 1, b"e1")))
    await store.aclose()
    store = await open_embedded(tmp_path / "data", BINARY)
    assert [event.body for event in await store.read_events(TENANT, 0, 9)] == [b"e1"]
    await store.aclose()


async def test_the_server_listens_on_no_port_and_only_we_can_reach_its_socket(tmp_path: Path) -> None:
    store = await open_embedded(tmp_path / "data", BINARY)
    assert isinstance(store, EmbeddedStore)
    assert await store._link.call(0, ("CONFIG", "GET", "port")) == [b"port", b"0"]
    assert store._socket_folder.stat().st_mode & 0o077 == 0
    assert (tmp_path / "data" / "redis").stat().st_mode & 0o077 == 0
    pid = store._process.pid
    await store.aclose()
    assert not runs(pid)
    assert not store._socket_folder.exists()


async def test_a_second_process_is_refused_the_same_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.stores.embedded.STOP_TIMEOUT_S", 0.2)
    store = await open_embedded(tmp_path / "data", BINARY)
    with pytest.raises(StoreMisconfigured, match="another process"):
        await open_embedded(tmp_path / "data", BINARY)
    await store.aclose()


@pytest.mark.skipif(sys.platform != "linux", reason="a child is told of its parent's death on Linux only")
async def test_the_server_ends_with_its_parent_even_if_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import asyncio
from pathlib import Path
from gateway.stores.embedded import open_embedded
async def main():
    store = await open_embedded(Path({str(tmp_path / "data")!r}), {BINARY!r})
    print(store._process.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    server = int(await parent.stdout.readline())
    assert runs(server)
    os.kill(parent.pid, signal.SIGKILL)
    await parent.wait()
    await until(lambda: not runs(server))
    store = await open_embedded(tmp_path / "data", BINARY)
    await store.aclose()


async def test_without_a_server_everything_is_in_memory_and_one_warning_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        store = await open_embedded(tmp_path / "data", "")
    assert len(caplog.records) == 1
    assert "nothing survives" in caplog.text
    assert await store.create_tenant(TENANT, b"record")
    await store.aclose()


async def test_one_who_passes_by_joins_the_server_that_runs_and_leaves_it_running(tmp_path: Path) -> None:
    store = await open_embedded(tmp_path / "data", BINARY)
    guest = await open_embedded(tmp_path / "data", BINARY, joins=True)
    assert not isinstance(guest, EmbeddedStore)
    assert await guest.create_tenant(TENANT, b"record")
    await guest.aclose()
    assert await store.tenant_record(TENANT) == b"record"
    await store.aclose()


async def test_one_who_passes_by_where_none_runs_has_a_server_that_others_wait_for(tmp_path: Path) -> None:
    store = await open_embedded(tmp_path / "data", BINARY)
    await store.aclose()
    first = await open_embedded(tmp_path / "data", BINARY, joins=True)
    assert isinstance(first, EmbeddedStore)
    async with asyncio.TaskGroup() as group:
        second = group.create_task(open_embedded(tmp_path / "data", BINARY, joins=True))
        await asyncio.sleep(0.2)
        assert not second.done()
        await first.aclose()
    assert isinstance(second.result(), EmbeddedStore)
    await second.result().aclose()


async def test_one_who_passes_by_is_not_given_a_store_that_is_gone_with_it(tmp_path: Path) -> None:
    with pytest.raises(StoreMisconfigured, match="nothing would be kept"):
        await open_embedded(tmp_path / "data", "", joins=True)
