"""Answers that stay open: how many there are at once of a session, of a tenant and of the process.

A person may sign in as often as they like, so that a limit of sessions alone would leave one tenant's people all the room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.console.session import Session

_ALL: Final = "all"


class Seats:
    """At most so many at once."""

    def __init__(self, of_session: int, of_tenant: int, of_all: int) -> None:
        self._most = (of_session, of_tenant, of_all)
        self._taken: Counter[str] = Counter()

    def are_full(self, session: Session) -> bool:
        """Whether `session` gets no further one."""
        return any(self._taken[name] >= most for name, most in zip(_names(session), self._most, strict=True))

    @contextmanager
    def taken(self, session: Session) -> Iterator[None]:
        """One of them, as long as the body runs."""
        self._taken.update(_names(session))
        try:
            yield
        finally:
            self._taken.subtract(_names(session))
            # Names of sessions that are over would stay for ever.
            self._taken = +self._taken


class Seated(StreamingResponse):
    """An answer that leaves its seat (`held`) when it ends, however it ends."""

    def __init__(self, held: ExitStack, content: AsyncIterator[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(content, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


def _names(session: Session) -> tuple[str, str, str]:
    return session.name, session.reviewer.tenant, _ALL
