"""One limit for many futures."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gateway.stores.contract import StoreUnavailable
from gateway.stores.deadlines import Deadlines

LIMIT_S = 0.1


@pytest.fixture
def deadlines() -> Deadlines:
    return Deadlines(LIMIT_S)


def late() -> StoreUnavailable:
    return StoreUnavailable("late")


def watched(deadlines: Deadlines) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    deadlines.watch(future, late)
    return future


async def test_each_future_has_the_whole_limit_however_many_are_watched(deadlines: Deadlines) -> None:
    async def one(after_s: float) -> float:
        await asyncio.sleep(after_s)
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="late"):
            await watched(deadlines)
        return time.monotonic() - started

    took = await asyncio.gather(*(one(LIMIT_S / 4 * number) for number in range(6)))
    assert all(LIMIT_S - 0.005 < spent < LIMIT_S + 0.05 for spent in took), took


async def test_what_is_done_or_cancelled_in_time_stays_as_it_is(deadlines: Deadlines) -> None:
    answered, left, waiting = watched(deadlines), watched(deadlines), watched(deadlines)
    answered.set_result(b"answer")
    left.cancel()
    with pytest.raises(StoreUnavailable, match="late"):
        await waiting
    assert answered.result() == b"answer"
    assert left.cancelled()


async def test_an_answer_that_lies_unread_while_the_loop_stands_still_is_taken(deadlines: Deadlines) -> None:
    loop = asyncio.get_running_loop()
    future = watched(deadlines)
    time.sleep(LIMIT_S + 0.1)  # noqa: ASYNC251 - the loop stands still
    loop.call_later(0.01, future.set_result, b"answer")
    assert await future == b"answer"


async def test_a_loop_that_stood_still_prolongs_a_limit_but_does_not_lift_it(deadlines: Deadlines) -> None:
    future = watched(deadlines)
    time.sleep(LIMIT_S + 0.1)  # noqa: ASYNC251 - the loop stands still
    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(0.3):
            await future


async def test_many_futures_share_one_timer_and_leave_nothing_behind(deadlines: Deadlines) -> None:
    watched(deadlines).set_result(None)
    timer = deadlines._timer
    for _ in range(100):
        watched(deadlines).set_result(None)
    assert deadlines._timer is timer
    assert len(deadlines._watched) == 1
    await asyncio.sleep(LIMIT_S + 0.02)
    assert deadlines._timer is None
    assert not deadlines._watched
