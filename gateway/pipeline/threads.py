"""Work that would hold up everybody else, in a thread.

One at a time: threads share one interpreter, and the more of them compute, the longer the event loop waits for its turn.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextvars import copy_context
from typing import Final, TypeVar

T = TypeVar("T")

LARGE_BYTES: Final = 64 * 1024
"""Of an answer or an event: from here on it is translated in a thread."""


class Threads:
    """One instance per process."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """What `work` gives, which is about `size` bytes: few are done with at once. Who is cancelled meanwhile stays until it
        has ended: what it holds is counted for so long, and nobody else touches what it works on."""
        if size <= LARGE_BYTES:
            return work()
        async with self._turn:
            done = asyncio.get_running_loop().run_in_executor(None, copy_context().run, _uncollected, work)
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                await asyncio.wait([done])
                raise


def _uncollected(work: Callable[[], T]) -> T:
    """The collector would go through a document again and again while it grows, and everybody waits for it: 480 ms to parse
    12 MB, of which 110 are the parser's."""
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()
