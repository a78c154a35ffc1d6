"""What the operator's commands share: how one is declared, and how it prints.

What a program reads (a key, an ID, rows, events) goes to standard output alone, everything else to standard error. A command
returns the exit code: 0 done, 1 not all of it; what is refused as a whole is raised.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from gateway.admin.administration import AdminRefused
from gateway.admin.desk import Desk
from gateway.stores.streams import StreamState
from gateway.stores.webhooks import WebhookState

Command = Callable[[Desk, argparse.Namespace], Awaitable[int]]
"""A command on the store of a gateway."""
T = TypeVar("T")

_TICK_S: Final = 2.0


def group(parent: Any, name: str, does: str) -> Any:
    """A noun; commands are added to what it returns."""
    return parent.add_parser(name, help=does, description=does).add_subparsers(metavar="COMMAND", required=True)


def command(parent: Any, name: str, does: str, **defaults: Any) -> argparse.ArgumentParser:
    """A verb. `defaults` says how it is run: `run` by itself, `work` (a `Command`) on the store of a gateway."""
    made: argparse.ArgumentParser = parent.add_parser(name, help=does, description=does[0].upper() + does[1:] + ".")
    made.set_defaults(**defaults)
    return made


def of_tenant(parent: Any, name: str, does: str, work: Command) -> argparse.ArgumentParser:
    """A verb whose first argument is a tenant."""
    made = command(parent, name, does, work=work)
    made.add_argument("tenant", metavar="TENANT", help="the tenant's name or ID")
    return made


def typed(parse: Callable[[str], T]) -> Callable[[str], T]:
    """An argument's type that shows its own words for a mistake."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except (AdminRefused, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned columns. The heads go to standard error, so that a program reads rows only."""
    table = [heads, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    for row in table:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        print(line, file=sys.stderr if row is heads else sys.stdout, flush=True)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Ticker:
    """Tells of long work on standard error, at most once in two seconds, and not of short work."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _TICK_S

    def __call__(self, done: int, of: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TICK_S
            tell(f"{done:,} of {of:,} {self._what}")


def standing(receiver: StreamState | WebhookState, waiting: int) -> str:
    """How a receiver does that `waiting` messages or events wait for."""
    if receiver.stopped:
        return "stopped by the receiver"
    if receiver.failures:
        return f"failed {receiver.failures} times, next in {max(0, round(receiver.retry_in_s))} s"
    return "delivering" if waiting else "up to date"


def when(moment_s: float | None, seconds: str = "") -> str:
    """A moment in UTC, to the minute or with `seconds=":%S"` to the second; None: never."""
    return "never" if moment_s is None else datetime.fromtimestamp(moment_s, UTC).strftime(f"%Y-%m-%d %H:%M{seconds}Z")
