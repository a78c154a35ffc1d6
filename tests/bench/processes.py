"""Processes of the benchmark: started, waited for, accounted by the operating system, and ended by their own PID."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
STOP_TIMEOUT_S: Final = 10.0
ROOT: Final = Path(__file__).resolve().parents[2]
"""The repository: what a process needs on its path to find `gateway` and `tests`."""


class Unusable(Exception):
    """A target that cannot be measured, and why."""


def family(pid: int) -> list[int]:
    """The process and its descendants."""
    found = [pid]
    for one in found:  # grows while it is walked
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds of the process and its descendants, in user and system mode (proc(5), fields 14 and 15 of stat)."""
    ticks = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def rss_kb(pid: int) -> float:
    """Resident memory of the process and its descendants in KiB."""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{one}/status").read_text()
            total += next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return total


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would change how a target behaves, and with `more`."""
    foreign = ("COATCHECK_", "OPENAI_", "REDIS_", "LITELLM_", "PYTHON")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(foreign) and not name.lower().endswith("_proxy")
    }
    return kept | {"PYTHONPATH": str(ROOT)} | more


@dataclass(frozen=True, slots=True)
class Server:
    """A process that listens on `port` of 127.0.0.1."""

    name: str
    port: int
    process: subprocess.Popen[Any]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self, timeout_s: float) -> None:
        """Returns once a connection is taken. Raises Unusable with the end of the log."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
                return
            time.sleep(0.002)
        raise Unusable(f"{self.name} did not start: {self.log.read_text(errors='replace')[-600:].strip()}")


@contextlib.contextmanager
def started(
    name: str, command: Sequence[str], port: int, folder: Path, env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """The process inside the block, with `folder` as its working folder; it is not waited for."""
    log = folder / f"{name.replace(' ', '-')}-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=env or environment(), stdout=output, stderr=output)
    try:
        yield Server(name, port, process, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
