"""A stream's mailbox between the upstream's connection and the stream's reader."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import Problem, Reason
from gateway.pipeline.streaming import Mailbox
from gateway.upstreams import UpstreamAnswer


class Connection:
    """The upstream's side of an answer."""

    def __init__(self) -> None:
        self.aborted = False
        self.answer = UpstreamAnswer(200, (), self, 1000)

    def hold_back(self) -> None: ...

    def go_on(self) -> None: ...

    def abort(self) -> None:
        self.aborted = True


def passes_dots(piece: bytes) -> bool:
    if piece == b"!":
        raise Problem(Reason.EGRESS_BLOCKED)
    return piece == b"."


async def reading(mailbox: Mailbox) -> asyncio.Task[list[bytes] | None]:
    task = asyncio.ensure_future(mailbox.pieces())
    await asyncio.sleep(0)
    return task


async def test_a_piece_passes_only_while_the_reader_waits_and_none_before_it_is_left() -> None:
    upstream = Connection()
    mailbox = Mailbox(upstream.answer, 60, passes_dots)
    upstream.answer.feed(b".")
    assert await mailbox.pieces() == [b"."]
    reader = await reading(mailbox)
    upstream.answer.feed(b".")
    assert not reader.done()
    upstream.answer.feed(b"x")
    upstream.answer.feed(b".")
    assert await reader == [b"x", b"."]
    mailbox.close()


async def test_what_stops_a_piece_from_passing_ends_the_stream_at_once() -> None:
    upstream = Connection()
    mailbox = Mailbox(upstream.answer, 60, passes_dots)
    reader = await reading(mailbox)
    upstream.answer.feed(b"!")
    assert upstream.aborted
    upstream.answer.feed(b"x")
    with pytest.raises(Problem) as caught:
        await reader
    assert caught.value.reason is Reason.EGRESS_BLOCKED
    mailbox.close()
