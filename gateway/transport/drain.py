"""The end of a process: what is open may finish, what is new is refused, and what lasts too long is told so and closed.

Every request that waits for an upstream does so inside `async with drain.work()`. When the time is up the await inside is
cancelled and the block raises Problem(SERVER_DRAINING), between two sends and never within one: a stream then writes
`draining_event()` as its last event, anything else answers 503.
"""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, Self

from gateway.errors import Problem, Reason, error_fields


class Drain:
    """Shared by the server, the guard, readiness and every open request of one process. Its two flags only ever rise."""

    def __init__(self) -> None:
        self.draining = False
        """New requests are refused, `/readyz` says 503."""
        self.expired = False
        """Open requests are ended."""
        self._open: set[Work] = set()

    def begin(self) -> None:
        self.draining = True

    def expire(self) -> None:
        """End every open `work()`; one that is entered later ends at its first await."""
        self.draining = self.expired = True
        for work in tuple(self._open):
            work.end()

    def work(self) -> Work:
        return Work(self)

    def _add(self, work: Work) -> None:
        self._open.add(work)
        if self.expired:
            work.end()

    def _discard(self, work: Work) -> None:
        self._open.discard(work)


class Work:
    """One open request or socket, whose task `Drain.expire` cancels once: an `asyncio.timeout` that nothing is set for.

    Entering and leaving one takes 1 us; with an `asyncio.timeout(None)` in it that was 2.5.
    """

    __slots__ = ("_cancelling", "_drain", "_ended", "_task")

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        """Cancellations of the task that were asked for before, which are not ours."""
        self._ended = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("work is done in a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._drain._add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        self._drain._discard(self)
        if not self._ended or task is None:
            return
        # As asyncio.Timeout does it: a cancellation of somebody else's beside ours goes on as one.
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Problem(Reason.SERVER_DRAINING, retry_after_s=1) from None

    def end(self) -> None:
        """Cancel in the loop's next turn: a task that cancels itself would carry that over the block's end."""
        asyncio.get_running_loop().call_soon(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None and not self._ended:
            self._ended = True
            self._task.cancel()


def draining_event(sequence_number: int | None = None, *, typed: bool = True) -> bytes:
    """The last event of an SSE stream that the server ends (Responses API, `error` event; not `typed`: an error answer's
    body, as all other streams have it). Safe to retry."""
    message, kind, param, code = error_fields(Problem(Reason.SERVER_DRAINING))
    if not typed:
        error = {"message": message, "type": kind, "param": param, "code": code, "retryable": True}
        return b"data: " + json.dumps({"error": error}).encode() + b"\n\n"
    data: dict[str, object] = {"type": "error", "code": code, "message": message, "param": param, "retryable": True}
    if sequence_number is not None:
        data["sequence_number"] = sequence_number
    return b"event: error\ndata: " + json.dumps(data).encode() + b"\n\n"
