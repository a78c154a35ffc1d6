"""The end of a process: what is open finishes or is told, what is new is refused, and nothing is cut within a frame."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.errors import Problem, Reason
from gateway.transport.drain import Drain, draining_event
from tests.transport.draining_server import LIMITS, PATIENT
from tests.transport.raw import connected, exchange, request


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[tuple[Process, int]]:
    command = (sys.executable, "-m", "tests.transport.draining_server", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    assert process.stdout
    try:
        port = int(await process.stdout.readline())
        while True:
            try:
                await exchange(port, request("/healthz"))
                break
            except OSError:
                await asyncio.sleep(0.05)
        yield process, port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ending(process: Process) -> str:
    assert process.stdout
    async with asyncio.timeout(PATIENT.drain_s):
        text = await process.stdout.read()
        assert await process.wait() == 0
    return text.decode()


async def test_sigterm_lets_streams_go_on_refuses_new_requests_and_ends_what_lasts_too_long() -> None:
    async with program() as (process, port), connected(port) as stream, connected(port) as idle:
        await idle.send(request("/healthz"))
        assert (await idle.answer()).status == 200
        await stream.send(request("/stream"))
        await stream.reader.readuntil(b"data: {}\n\n")
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert await idle.rest() == b""
        assert (await exchange(port, request("/readyz"))).status == 503
        assert (await exchange(port, request("/healthz"))).status == 200
        refused = await exchange(port, request("/stream"))
        assert (refused.status, refused.closed, refused.error["code"]) == (503, True, "server_draining")
        rest = await stream.rest()
        assert rest.count(b"data: {}\n\n") > 5
        assert rest.endswith(b"\r\n" + draining_event() + b"\r\n0\r\n\r\n")
        assert time.monotonic() - started > LIMITS.drain_s - 0.1
        assert "application ended\nreturned\n" in await ending(process)
        assert time.monotonic() - started < LIMITS.exit_s + 0.5


async def test_a_stream_that_ends_in_time_ends_as_always_and_the_process_with_it() -> None:
    async with program("patient") as (process, port), connected(port) as stream:
        await stream.send(request("/short"))
        await stream.reader.readuntil(b"data: {}\n\n")
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        rest = await stream.rest()
        assert b"error" not in rest
        assert rest.endswith(b"0\r\n\r\n")
        await ending(process)
        assert time.monotonic() - started < PATIENT.drain_s / 2


async def test_a_request_that_waits_for_its_upstream_is_answered_at_the_end() -> None:
    async with program() as (process, port), connected(port) as waiting:
        await waiting.send(request("/silent"))
        await asyncio.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        answer = await waiting.answer()
        assert (answer.status, answer.error["code"]) == (503, "server_draining")
        await ending(process)


async def test_a_reader_that_does_not_read_cannot_keep_the_process() -> None:
    async with program() as (process, port), connected(port) as stuck:
        await stuck.send(request("/flood"))
        await stuck.reader.readuntil(b"data: ")
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        await ending(process)
        assert time.monotonic() - started < LIMITS.exit_s + 0.5


async def test_without_open_requests_the_process_ends_at_once() -> None:
    async with program("patient") as (process, _):
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert "returned" in await ending(process)
        assert time.monotonic() - started < PATIENT.drain_s / 2


async def test_work_ends_at_its_await_when_the_drain_expires() -> None:
    drain = Drain()
    steps: list[str] = []

    async def work() -> None:
        async with drain.work():
            steps.append("open")
            await asyncio.Event().wait()
            steps.append("never")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(observed(work()))
        await asyncio.sleep(0)
        assert steps == ["open"]
        drain.begin()
        await asyncio.sleep(0.01)
        assert not task.done()
        drain.expire()
    assert (steps, len(drain._open), task.result()) == (["open"], 0, Reason.SERVER_DRAINING)


async def observed(work: object) -> Reason | None:
    try:
        await work  # type: ignore[misc]
    except Problem as problem:
        return problem.reason
    return None


async def test_work_that_begins_after_the_end_does_not_wait() -> None:
    drain = Drain()
    drain.expire()
    with pytest.raises(Problem):
        async with asyncio.timeout(2), drain.work():
            await asyncio.Event().wait()


async def test_work_that_is_done_when_the_drain_expires_is_not_ended_after_its_end() -> None:
    drain = Drain()
    async with drain.work():
        drain.expire()
    await asyncio.sleep(0.01)
    async with asyncio.timeout(2):
        with pytest.raises(Problem):
            async with drain.work():
                await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_beside_the_end_goes_on_as_one() -> None:
    drain = Drain()

    async def work() -> None:
        async with drain.work():
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    drain.expire()
    drain.expire()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_work_leaves_other_failures_and_cancellations_as_they_are() -> None:
    drain = Drain()
    with pytest.raises(LookupError):
        async with drain.work():
            raise LookupError
    with pytest.raises(TimeoutError):
        async with drain.work(), asyncio.timeout(0):
            await asyncio.Event().wait()
    async with asyncio.TaskGroup() as group:

        async def wait() -> None:
            async with drain.work():
                await asyncio.Event().wait()

        task = group.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert not drain._open


def test_the_last_event_of_a_stream_is_a_whole_sse_event() -> None:
    name, data, *rest = draining_event(7).decode().split("\n")
    assert (name, rest) == ("event: error", ["", ""])
    event = json.loads(data.removeprefix("data: "))
    assert event["type"] == "error"
    assert event["code"] == "server_draining"
    assert event["sequence_number"] == 7


def test_the_last_event_of_a_stream_without_types_is_an_error_answers_body() -> None:
    data, *rest = draining_event(7, typed=False).decode().split("\n")
    assert rest == ["", ""]
    error = json.loads(data.removeprefix("data: "))["error"]
    assert (error["code"], error["retryable"]) == ("server_draining", True)
