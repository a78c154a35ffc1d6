"""What a socket holds of its requests: nothing once they went upstream, and nothing of itself once it has ended."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator

import pytest

from gateway.pipeline.connection import Connection
from gateway.pipeline.exchange import Exchange
from gateway.rewrite.named import Reference
from tests.pipeline.desk import MODEL, Desk
from tests.sockets.test_realtime import PATH
from tests.sockets.test_shares import FRAME_BYTES, all_is_back, budget, tight
from tests.sockets.wire import Wire, opened

__all__ = ["tight"]

PADDING = "x" * 200_000
HANG = "[[script: message, hang]] x"


@pytest.fixture
def uncollected() -> Iterator[None]:
    """What is left in a circle of references is found."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive(*types: type) -> list[object]:
    return [one for one in gc.get_objects() if isinstance(one, types)]


def bodies() -> list[object]:
    return [*alive(Reference), *(one for one in alive(Exchange) if isinstance(one, Exchange) and one.body is not None)]


async def gone(*types: type) -> None:
    async with asyncio.timeout(5):
        while alive(*types):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def asked(wire: Wire, named: str, **more: str) -> None:
    frame = {"type": "response.create", "model": MODEL, "input": "x", "instructions": PADDING}
    await wire.send({**frame, "previous_response_id": named, **more})


@pytest.mark.usefixtures("uncollected")
async def test_a_lane_keeps_nothing_of_a_request_that_was_answered(at: Desk) -> None:
    named = (await at.created())["id"]
    async with opened(at) as wire:
        for lane in "abc":
            await asked(wire, named, stream_id=lane)
            await wire.until("response.completed")
        await asyncio.sleep(0.1)
        assert not bodies()
        assert len(alive(Exchange)) == 1


@pytest.mark.usefixtures("uncollected")
async def test_a_request_that_waits_for_its_answer_holds_no_body(at: Desk) -> None:
    named = (await at.created())["id"]
    async with opened(at) as wire:
        await wire.send({"type": "response.create", "model": MODEL, "input": "[[script: message, hang]] x"})
        await wire.until("response.created")
        for _ in range(3):
            await asked(wire, named)
        await wire.send({"type": "no such"})
        await wire.until("error")
        assert not bodies()


@pytest.mark.usefixtures("uncollected")
async def test_a_refused_frame_leaves_nothing_behind(at: Desk) -> None:
    async with opened(at) as wire:
        await asked(wire, "resp_0" + "a" * 33)
        await wire.until("error")
        await asyncio.sleep(0.1)
        assert not bodies()
        assert len(alive(Exchange)) == 1


async def leaves(_: Desk, wire: Wire) -> None:
    await wire.connection.close()


async def is_cut_off(_: Desk, wire: Wire) -> None:
    wire.connection.transport.abort()


async def is_closed_by_the_service(_: Desk, wire: Wire) -> None:
    await wire.send({"type": "response.create", "model": MODEL, "input": "[[script: message, close_socket=3005]] x"})
    await wire.closed()


async def is_ended_by_the_gateway(at: Desk, wire: Wire) -> None:
    at.gateway.gateway.drain.expire()
    await wire.closed()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("way", [leaves, is_cut_off, is_closed_by_the_service, is_ended_by_the_gateway])
async def test_a_socket_that_has_ended_waits_for_no_collector(
    at: Desk, way: Callable[[Desk, Wire], Awaitable[None]]
) -> None:
    named = (await at.created())["id"]
    async with opened(at) as wire:
        await asked(wire, named)
        await wire.until("response.completed")
        assert len(alive(Connection)) == 1
        await way(at, wire)
        await gone(Connection, Exchange, Reference)


@pytest.mark.usefixtures("uncollected")
async def test_a_realtime_socket_that_has_ended_waits_for_no_collector(at: Desk) -> None:
    async with opened(at, path=PATH) as wire:
        await wire.event()
    await gone(Connection, Exchange)


async def test_requests_that_wait_for_their_end_count_against_their_tenants_share(tight: Desk) -> None:
    async with opened(tight) as wire, opened(tight, "bob") as other:
        await wire.send({"type": "response.create", "model": MODEL, "input": "[[script: message, hang]] x"})
        await wire.until("response.created")
        tenant, before = await tight.tenant(), 0
        for number in range(30):
            await wire.send({"type": "response.create", "stream_id": f"{number}", "model": MODEL, "input": HANG})
            if number % 10 == 9:
                await wire.send({"type": "no such"})
                await wire.until("error")
                assert budget(tight, "bodies").held_by(tenant) > before
                before = budget(tight, "bodies").held_by(tenant)
        for number in range(30, 200):
            await wire.send({"type": "response.create", "stream_id": f"{number}", "model": MODEL, "input": HANG})
        assert (await wire.closed())[0] == 1013
        assert budget(tight, "bodies").held_by(tenant) < FRAME_BYTES
        await other.responded()
    await all_is_back(tight)
