"""Requests as bytes, and the programs that send them: wrk, and the client of this folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.bench.answers import MODEL
from tests.bench.processes import Unusable, environment

SCRIPT: Final = Path(__file__).with_name("request.lua")
_GRACE_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Aim:
    """A place that takes `POST /v1/responses`, and what a request to it shows: a key, and two IDs that it knows."""

    port: int
    key: str = "none"
    previous: str = "resp_" + "0" * 50
    item: str = "msg_" + "0" * 50
    headers: dict[str, str] = field(default_factory=dict)

    def body(self, *, interval_ms: int | None = None) -> bytes:
        """The request's JSON; a stream with `interval_ms` between its events where that is given."""
        document: dict[str, Any] = {
            "model": MODEL,
            "previous_response_id": self.previous,
            "input": [
                {"type": "item_reference", "id": self.item},
                {"role": "user", "content": "Whose coat is the grey one on the third hook, and since when?"},
            ],
        }
        if interval_ms is not None:
            document |= {"stream": True, "metadata": {"interval_ms": str(interval_ms)}}
        return json.dumps(document).encode()

    def request(self, body: bytes) -> bytes:
        head = (
            f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nauthorization: Bearer {self.key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def wrk(aim: Aim, seconds: float, connections: int, folder: Path) -> dict[str, float]:
    """`requests`, `seconds`, `p50_ms`, `p99_ms` of JSON requests as fast as they are answered. Raises Unusable on any error."""
    body = folder / "body.json"
    body.write_bytes(aim.body())
    command = [
        "wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "60s", "-s", str(SCRIPT),
        "-H", f"Authorization: Bearer {aim.key}", "-H", "Content-Type: application/json",
        f"http://127.0.0.1:{aim.port}/v1/responses", "--", str(body),
    ]  # fmt: skip
    output = _run(command, seconds)
    if output["errors"] or not output["requests"]:
        raise Unusable(f"wrk saw {output['errors']:.0f} errors in {output['requests']:.0f} requests")
    return output


def client(mode: str, aim: Aim, body: bytes, folder: Path, *, seconds: float, **more: Any) -> dict[str, float]:
    """What `tests.bench.client` prints for the mode. Raises Unusable on any error."""
    return _run([sys.executable, "-m", "tests.bench.client", _job(mode, aim, body, folder, seconds, more)], seconds)


def held_streams(aim: Aim, count: int, folder: Path) -> AbstractContextManager[None]:
    """That many open streams inside the block, each past its first event."""
    job = _job("hold", aim, aim.body(interval_ms=3_600_000), folder, 0, {"count": count})
    return _held("tests.bench.client", job, f"{count} streams")


def held_sockets(aim: Aim, mode: str, count: int, folder: Path) -> AbstractContextManager[None]:
    """That many open sockets inside the block: `idle` ones, or `slow` ones that ask for much and read nothing."""
    return _held("tests.bench.socket_client", _socket_job(mode, aim, count, folder), f"{count} sockets")


@contextmanager
def _held(program: str, job: str, what: str) -> Iterator[None]:
    """The program, which says by a line that all is open, inside the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", program, job],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise Unusable(f"{what} could not be opened")
        yield
    finally:
        process.communicate(timeout=_GRACE_S)


def busy_sockets(aim: Aim, count: int, folder: Path, *, seconds: float, interval_ms: int, pid: int) -> dict[str, float]:
    """`events`, `p50_ms`, `p99_ms` and `cpu_us` (of process `pid`) of that many sessions that hear an event every `interval_ms`.
    Raises Unusable."""
    job = _socket_job("busy", aim, count, folder, seconds=seconds, interval_ms=interval_ms, pid=pid)
    return _run([sys.executable, "-m", "tests.bench.socket_client", job], seconds)


def _socket_job(mode: str, aim: Aim, count: int, folder: Path, **more: float) -> str:
    path = folder / f"{mode}.json"
    path.write_text(json.dumps({"mode": mode, "port": aim.port, "key": aim.key, "count": count, **more}))
    return str(path)


def _job(mode: str, aim: Aim, body: bytes, folder: Path, seconds: float, more: dict[str, Any]) -> str:
    path = folder / "job.json"
    job = {"mode": mode, "port": aim.port, "request": aim.request(body).decode(), "seconds": seconds, **more}
    path.write_text(json.dumps(job))
    return str(path)


def _run(command: list[str], seconds: float) -> dict[str, float]:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + _GRACE_S, env=environment(), check=True
        )
        outcome: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        raise Unusable(error.stderr.strip().splitlines()[-1] if error.stderr.strip() else "the load failed") from None
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        raise Unusable("the load did not end") from None
    return outcome
