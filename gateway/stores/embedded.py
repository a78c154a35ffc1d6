"""The store of a machine without a Redis: a private redis-server on a unix socket, its append-only file in the data folder.

The server belongs to this process: it listens on no port, its socket lies in a folder that only this user can enter, and on
Linux it ends with us even if we are killed. Where no redis-server is on PATH, fakeredis in this process takes its place.

A link in the data folder leads to the socket while the server runs, so that an operator's command reaches a gateway's store.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import logging
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from gateway.stores.address import Address, Target, Topology
from gateway.stores.contract import StoreMisconfigured
from gateway.stores.fake import FakeLink
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore

logger = logging.getLogger(__name__)

START_TIMEOUT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 5.0
JOIN_TIMEOUT_S: Final = 2.0
_LOOKS_EVERY_S: Final = 0.005
_SOCKET: Final = "socket"
"""The link's name. Only a gateway leaves one: the server of a command goes before others are done with it."""
_PR_SET_PDEATHSIG: Final = 1
# Loaded here: between fork and exec nothing may be loaded.
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


class EmbeddedStore(RedisStore):
    """`RedisStore` that owns its server."""

    def __init__(self, link: Link, process: asyncio.subprocess.Process, socket_folder: Path) -> None:
        super().__init__(link)
        self._process = process
        self._socket_folder = socket_folder

    async def aclose(self) -> None:
        await super().aclose()
        await _stop(self._process, self._socket_folder)


async def open_embedded(data_folder: Path, binary: str | None = None, *, joins: bool = False) -> RedisStore:
    """A store whose data lie in `data_folder` (made if absent), or in memory where there is no redis-server.

    `binary`: the server's path, else it is sought on PATH; empty for fakeredis. `joins`, for what only passes by: another
    process's server is used where one runs in the folder, and memory is refused, as nothing would be left of the work.
    Raises StoreError.
    """
    found = await asyncio.to_thread(_on_path) if binary is None else binary
    if not found and joins:
        raise StoreMisconfigured(
            "there is no redis-server on PATH, so nothing would be kept; install one, or give a REDIS_URL"
        )
    if not found:
        logger.warning(
            "No redis-server was found: all is kept in memory, and nothing survives the end of this process."
        )
        return RedisStore(await FakeLink.open(SCRIPTS))

    folder = data_folder / "redis"
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    held = await _lock(folder, joins)
    if isinstance(held, Path):
        return RedisStore(await Link.open(_settings(held), SCRIPTS, JOIN_TIMEOUT_S))
    lock = held
    # Not in the data folder: the path of a unix socket may be no longer than 107 bytes.
    socket_folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="coatcheck-"))
    path = socket_folder / "s"
    try:
        process = await asyncio.create_subprocess_exec(
            found, "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(folder),
            "--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            # The server holds the lock for as long as it runs, also where it outlives us for a moment.
            pass_fds=(lock,),
            # An interrupt at the terminal is for us; we stop the server when we are done with it.
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )  # fmt: skip
    finally:
        os.close(lock)
    try:
        await _appears(path, process)
        link = await Link.open(_settings(path), SCRIPTS, START_TIMEOUT_S)
        if not joins:
            await asyncio.to_thread((folder / _SOCKET).symlink_to, path)
        return EmbeddedStore(link, process, socket_folder)
    except BaseException:
        await _stop(process, socket_folder)
        raise


async def _appears(path: Path, process: asyncio.subprocess.Process) -> None:
    """Waits for the server's socket, so that its start is not told as a failure to reach it."""
    for _ in range(round(START_TIMEOUT_S / _LOOKS_EVERY_S)):
        if process.returncode is not None or await asyncio.to_thread(path.exists):
            return
        await asyncio.sleep(_LOOKS_EVERY_S)


def _on_path() -> str | None:
    return shutil.which("redis-server") or shutil.which("valkey-server")


def _settings(path: Path) -> LinkSettings:
    return LinkSettings(Target(Topology.SINGLE, (Address(str(path), 0),)))


async def _lock(folder: Path, joins: bool) -> int | Path:
    """A file descriptor that holds the folder or, with `joins`, the socket of the server that works in it already.

    Raises StoreMisconfigured if a server works in it that cannot be joined.
    """
    lock = await asyncio.to_thread(os.open, folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    await asyncio.to_thread((folder / _SOCKET).unlink, missing_ok=True)
                    return lock
                with contextlib.suppress(OSError):
                    if joins:
                        # The path itself: that of a unix socket is bounded, and the link's may be longer.
                        path = await asyncio.to_thread((folder / _SOCKET).readlink)
                        os.close(lock)
                        return path
                await asyncio.sleep(0.05)
    except TimeoutError:
        os.close(lock)
        raise StoreMisconfigured(
            f"another process keeps its data in {folder}; give this one a data folder of its own, or a REDIS_URL"
        ) from None


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _stop(process: asyncio.subprocess.Process, socket_folder: Path) -> None:
    """Ends the server, which syncs its file first."""
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
    await asyncio.to_thread(shutil.rmtree, socket_folder, ignore_errors=True)
