"""The one way to start background work outside a TaskGroup, and to leave a call to itself. This module imports nothing of ours.

A task lives in a `Tasks` set whose owner closes it: it is held while it runs, its failure is logged, and it ends with its
owner. Work that belongs to one request uses `asyncio.TaskGroup`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

LOG = logging.getLogger(__name__)


def let_go(call: asyncio.Future[Any]) -> None:
    """Nobody has to wait for it: its failure is dealt with where it arrives, and asyncio does not tell of it as unseen."""
    call.add_done_callback(_seen)


def _seen(call: asyncio.Future[Any]) -> None:
    if not call.cancelled():
        call.exception()


class Tasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, name: str, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Starts `work`. A failure is logged with `name` and reaches whoever awaits the task."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def aclose(self) -> None:
        """Cancels what still runs and waits for its end."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            LOG.error("task.failed", exc_info=error, extra={"fields": {"task": task.get_name()}})
