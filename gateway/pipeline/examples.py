"""Lines of a file to train on, on their way up. They pass as they are, but for what some readers take for the end of a line,
unless one of them names an object: the service would read it for the training, whoever's it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.errors import Problem, Reason
from gateway.names import TenantId
from gateway.pipeline.exchange import Exchange, Lease
from gateway.pipeline.transfer import Rewriter
from gateway.rewrite.inbound import collect
from gateway.rewrite.jsonl import Group, LineSplitter, LineTooLong, is_blank, one_line
from gateway.rewrite.walker import Verify
from gateway.surfaces.training import EXAMPLE


@dataclass(frozen=True, slots=True)
class ExampleChecks:
    read: Callable[[bytes], Any]
    """The value of a line, parsed as a request's body is. Raises Problem."""
    lease: Callable[[TenantId], Lease]
    max_line_bytes: int

    def check(self, exchange: Exchange) -> Rewriter:
        """For the file that the request uploads."""
        lease = self.lease(exchange.known_principal.tenant)
        return _Checked(self, exchange.known_mapper.verify, LineSplitter(self.max_line_bytes), lease)


@dataclass(slots=True, eq=False)
class _Checked:
    """Raises Problem with the number of the line that may not pass; what was given by then must not become a file."""

    checks: ExampleChecks
    verify: Verify
    splitter: LineSplitter
    lease: Lease

    async def feed(self, piece: bytes) -> bytes:
        try:
            lines = self.splitter.feed(piece)
        except LineTooLong as found:
            raise found.problem(self.checks.max_line_bytes) from None
        self.lease.hold(self.splitter.held_bytes)
        return await asyncio.to_thread(self._checked, lines, b"\n") if lines else b""

    async def end(self) -> bytes:
        return await asyncio.to_thread(self._checked, self.splitter.end(), b"")

    def close(self) -> None:
        self.lease.give_back()

    def _checked(self, lines: Group, end: bytes) -> bytes:
        """The lines as they go on, each with `end` behind it."""
        for number, line in lines:
            try:
                if not is_blank(line) and _names(self.checks.read(line), self.verify):
                    raise Problem(Reason.BAD_PARAMETER, "an example to train on can name no object")
            except Problem as problem:
                problem.line = number
                raise
        return b"".join(one_line(line) + end for _, line in lines)


def _names(example: object, verify: Verify) -> Sequence[object]:
    """What an example names. Raises Problem for a raw ID out of place."""
    return collect(EXAMPLE, {}, [], example, verify).references
