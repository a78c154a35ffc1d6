"""Lines of a batch's file on their way up: requests that come by the thousand.

A line is read, decided and rewritten as the same request would be on its own, so that no batch can do what its sender cannot; one
line that may not pass refuses the file. Lines travel in groups: the records that a group names are one call of the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from gateway.audit.log import AuditLog
from gateway.authz import Policies
from gateway.errors import Problem, Reason
from gateway.names import TenantId
from gateway.pipeline import evidence
from gateway.pipeline.deciding import Wanted, check_status, decide_on, gather, open_found, wanted
from gateway.pipeline.exchange import Exchange, Lease
from gateway.pipeline.provider import replace_tokens
from gateway.pipeline.routing import check_together
from gateway.pipeline.transfer import Rewriter
from gateway.rewrite.jsonl import Group, LineGroups, LineTooLong, dump_line, is_blank
from gateway.surfaces.batches import ENDPOINTS, LINE_KEYS

_LOOKUPS: Final = 1024
"""Records that one call of the store reads, unless a single line names more."""
_TURN_LINES: Final = 32
"""Lines that are decided before others get their turn on the event loop."""
_LATER: Final = ("stream", "background")
"""Members by which a request asks for another way to get its answer."""


@dataclass(slots=True)
class _Request:
    """A line as the request that it is."""

    number: int
    said: dict[str, Any]
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class LineChecks:
    log: AuditLog
    policies: Policies
    read: Callable[[bytes], Any]
    """The value of a line, parsed as a request's body is. Raises Problem."""
    lease: Callable[[TenantId], Lease]
    max_line_bytes: int
    max_lines: int

    def check(self, exchange: Exchange) -> Rewriter:
        """For the file that the request uploads."""
        return _Checked(self, exchange, LineGroups(self.max_line_bytes), self.lease(exchange.known_principal.tenant))


@dataclass(slots=True, eq=False)
class _Checked:
    """Sets `exchange.lines` to the URL that all lines name. Raises Problem with the number of the line that may not pass; what
    was given by then must not become a file."""

    checks: LineChecks
    exchange: Exchange
    groups: LineGroups
    lease: Lease

    async def feed(self, piece: bytes) -> bytes:
        try:
            full = self.groups.feed(piece)
        except LineTooLong as found:
            raise found.problem(self.checks.max_line_bytes) from None
        self.lease.hold(self.groups.held_bytes)
        return b"".join([await self._checked(group) for group in full])

    async def end(self) -> bytes:
        written = b"".join([await self._checked(group) for group in self.groups.end()])
        if not self.exchange.lines:
            raise Problem(Reason.BAD_PARAMETER, "a batch's file must have a line", param="file")
        return written

    def close(self) -> None:
        self.lease.give_back()

    async def _checked(self, group: Group) -> bytes:
        if group[-1][0] > self.checks.max_lines:
            raise Problem(Reason.BODY_TOO_LARGE, f"{self.checks.max_lines} lines")
        # A thread, so that a file of a hundred thousand requests does not hold up everybody else.
        requests = await asyncio.to_thread(self._requests, group)
        await self._look_up(requests)
        return await self._decided(requests)

    def _requests(self, group: Group) -> list[_Request]:
        made = []
        for number, line in group:
            if not is_blank(line):
                with _at(number):
                    made.append(self._request(number, line))
        return made

    def _request(self, number: int, line: bytes) -> _Request:
        outer, said = self.exchange, self.checks.read(line)
        if not isinstance(said, dict) or said.keys() != LINE_KEYS:
            raise _refused("a line is an object of custom_id, method, url and body")
        url, body = said["url"], said["body"]
        route = ENDPOINTS.get(url) if isinstance(url, str) else None
        if route is None or said["method"] != route.method:
            raise _refused("a line's method and url must be those of a request that batches run", "url")
        if outer.lines not in ("", url):
            raise _refused("all lines of a file must name the same url", "url")
        if not isinstance(said["custom_id"], str):
            raise _refused("this must be a string", "custom_id")
        if not isinstance(body, dict):
            raise _refused("this must be an object", "body")
        for flag in _LATER:
            if body.get(flag) not in (None, False):
                raise _refused("a batch gives its answers in a file", flag)
        outer.lines = url
        outer.keeps = outer.keeps or route.stores(body)
        exchange = Exchange(outer.head, outer.started, outer.now, route, body=body)
        exchange.principal, exchange.mapper = outer.principal, outer.mapper
        gather(exchange)
        return _Request(number, said, exchange)

    async def _look_up(self, requests: Sequence[_Request]) -> None:
        """The records that `requests` name, some hundred lines in one call; each call tells the log what they name, and looks at
        tenant and key again."""
        asked: list[Exchange] = []
        named: Wanted = {}
        for request in requests:
            asked.append(request.exchange)
            named |= wanted(request.exchange)
            if len(named) >= _LOOKUPS:
                await self._ask(asked, named)
                asked, named = [], {}
        if named:
            await self._ask(asked, named)

    async def _ask(self, asked: Sequence[Exchange], named: Wanted) -> None:
        principal = self.exchange.known_principal
        begun = await self.checks.log.begin(
            principal.tenant,
            evidence.lines(self.exchange, asked),
            credential=principal.credential,
            lookups=tuple(named.values()),
        )
        check_status(tenant_active=begun.tenant_active, credential_live=begun.credential_live)
        found = open_found(self.exchange.known_mapper, named, begun.found)
        for one in asked:
            one.records = found

    async def _decided(self, requests: Sequence[_Request]) -> bytes:
        principal, written = self.exchange.known_principal, []
        for turn, request in enumerate(requests, start=1):
            with _at(request.number):
                decide_on(request.exchange, principal, self.checks.policies)
                check_together(request.exchange, self.exchange.known_provider.project)
                replace_tokens(request.exchange)
            written.append(dump_line(request.said))
            if turn % _TURN_LINES == 0:
                await asyncio.sleep(0)
        return b"".join(written)


def _refused(why: str, param: str | None = None) -> Problem:
    return Problem(Reason.BAD_PARAMETER, why, param=param)


@contextmanager
def _at(number: int) -> Iterator[None]:
    """What is refused in here is refused for this line."""
    try:
        yield
    except Problem as problem:
        problem.line = number
        raise
