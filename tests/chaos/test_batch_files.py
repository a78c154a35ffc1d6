"""Files of a batch with many lines, through the program itself: it holds some hundred of them at a time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

from tests.chaos.test_shutdown import program
from tests.pipeline.batches import line, run, stored
from tests.pipeline.desk import Desk
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running

LINES = 100_000
ANSWERS = 50_000
MOST_GROWTH_BYTES = 40 * 1024 * 1024
"""Less than half of either file."""
MOST_BYTES = 200 * 1024 * 1024
BOUNDARY = "a-boundary"


def peak_bytes(pid: int) -> int:
    """The most memory that the process has had (`VmHWM`, proc_pid_status(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


async def form(lines: int, previous: str) -> AsyncIterator[bytes]:
    """A form with a file of requests, each of which names a response."""
    yield (
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{BOUNDARY}\r\n'
        'content-disposition: form-data; name="file"; filename="lines.jsonl"\r\n\r\n'
    ).encode()
    for start in range(0, lines, 100):
        many = [
            line(f"n{n}", previous_response_id=previous, metadata={"x": "y" * 900}) for n in range(start, start + 100)
        ]
        yield b"".join(json.dumps(one).encode() + b"\n" for one in many)
    yield f"\r\n--{BOUNDARY}--\r\n".encode()


async def upload(at: Desk, lines: int, previous: str) -> str:
    headers = await at.headers(content_type=f"multipart/form-data; boundary={BOUNDARY}")
    reply = await at.http.post(f"{at.gateway.url}/files", headers=headers, content=form(lines, previous), timeout=300)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["id"])


async def test_a_file_of_very_many_requests_passes_without_being_held(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with program(redis_server, stand_in, tmp_path) as (process, at):
        previous = (await at.created())["id"]
        await upload(at, 1_000, previous)
        before = peak_bytes(process.pid)
        await upload(at, LINES, previous)
        peak = peak_bytes(process.pid)
        assert stored(at)[-1].count(b"\n") == LINES
        assert peak - before < MOST_GROWTH_BYTES
        assert peak < MOST_BYTES


def answer(number: int) -> bytes:
    """A line of an output file, with IDs that no other line has."""
    body = {
        "id": f"resp_{number:050x}",
        "object": "response",
        "metadata": {"x": "y" * 900},
        "output": [{"id": f"msg_{number:050x}", "type": "message", "role": "assistant", "content": []}],
    }
    response = {"status_code": 200, "request_id": f"req_{number:032x}", "body": body}
    written = {"id": f"batch_req_{number:032x}", "custom_id": f"n{number}", "response": response, "error": None}
    return json.dumps(written).encode() + b"\n"


async def test_a_file_of_very_many_answers_passes_without_being_held(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    async with program(redis_server, stand_in, tmp_path) as (process, at):
        ended = await run(at, line())
        (output,) = [one for one in stand_in.provider.files.values() if one.body["purpose"] == "batch_output"]
        output.data = b"".join(answer(number) for number in range(1, ANSWERS + 1))
        before, seen, last = peak_bytes(process.pid), 0, ""
        url = f"{at.gateway.url}/files/{ended['output_file_id']}/content"
        async with at.http.stream("GET", url, headers=await at.headers(), timeout=300) as reply:
            assert reply.status_code == 200
            async for text in reply.aiter_lines():
                seen += 1
                last = text
        peak = peak_bytes(process.pid)
        assert seen == ANSWERS
        assert f"resp_{ANSWERS:050x}" not in last
        assert peak - before < MOST_GROWTH_BYTES
        assert peak < MOST_BYTES
