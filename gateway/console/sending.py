"""What every form of an export shares: a zip that is sent while it is written, for as long as its session lasts."""

from __future__ import annotations

import io

from gateway.console.desk import Visit
from gateway.console.session import COOKIE


class SessionOver(Exception):
    """The session ended under an export, and so does the export: the file is not whole, and does not open."""


async def ensure_session(visit: Visit) -> None:
    """Raises SessionOver."""
    if await visit.desk.sessions.peek(visit.request.cookies.get(COOKIE, "")) is None:
        raise SessionOver


class Pieces(io.RawIOBase):
    """Takes what the archive writes, for the next piece of the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.waiting += data  # type: ignore[arg-type]
        return len(data)  # type: ignore[arg-type]

    def take(self) -> bytes:
        taken = bytes(self.waiting)
        self.waiting.clear()
        return taken
