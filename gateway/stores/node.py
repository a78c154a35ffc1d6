"""One Redis server: finds it, connects, signs in, checks it, loads the scripts, and does so again whenever it breaks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from gateway.stores.address import Address, Target
from gateway.stores.contract import StoreError, StoreMisconfigured, StoreUnavailable
from gateway.stores.server import Durability, ServerFacts, facts, faults, remarks
from gateway.stores.wire import Owner, Refused, Wire, open_wire
from gateway.tasks import let_go

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0

Locate = Callable[[], Awaitable[Address]]
"""Where the server is now. Raises OSError or StoreUnavailable."""


class State(Enum):
    CONNECTING = "connecting"
    """Not known to be out of reach: calls wait."""
    UP = "up"
    DOWN = "down"
    """The last attempt failed: calls fail at once."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    target: Target
    durability: Durability = field(default_factory=Durability)
    connect_timeout_s: float = 1.0
    """From the first packet to a server that is signed in and checked."""
    reply_timeout_s: float = 2.0
    """A connection whose oldest call waits longer is cut."""
    unconfirmed_s: float = 5.0
    """A call is sent again over new connections for so long, then it fails."""
    durable_timeout_s: float = 0.4
    max_calls: int = 8192
    """Calls without a reply, per process; more fail at once."""


class Node:
    """`wire` is None unless the server may be written to."""

    def __init__(
        self,
        owner: Owner,
        locate: Locate,
        settings: LinkSettings,
        scripts: Sequence[bytes],
        on_up: Callable[[Node], None],
    ) -> None:
        self._owner = owner
        self._locate = locate
        self._settings = settings
        self._scripts = scripts
        self._on_up = on_up
        self.state = State.CONNECTING
        self.wire: Wire | None = None
        self.address: Address | None = None
        """Where the server was found last."""
        self.found = asyncio.Event()
        """Set from the first time on."""
        self.facts: ServerFacts | None = None
        self.error: StoreError | None = None
        """Why the last attempt failed."""

    async def run(self) -> None:
        """Keeps the connection up until cancelled."""
        pause = 0.0
        wire: Wire | None = None
        try:
            while True:
                try:
                    async with asyncio.timeout(self._settings.connect_timeout_s):
                        wire = await self._connect()
                except Exception as failure:  # whatever a server says, it is tried again
                    self._down(failure)
                    pause = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, pause * 2))
                    await asyncio.sleep(pause * (0.75 + random.random() / 2))  # noqa: S311 - spreads reconnects
                    continue
                if wire.closed.done():
                    continue
                pause = 0.0
                self.wire, self.state, self.error = wire, State.UP, None
                self._on_up(self)
                await wire.closed
        finally:
            self.wire = None
            if wire is not None:
                wire.abort()

    def lost(self, wire: Wire) -> None:
        """The owner heard that `wire` broke."""
        if self.wire is wire:
            self.wire, self.state = None, State.CONNECTING

    def load_scripts(self) -> None:
        """Puts the scripts on the wire ahead of whatever is sent next."""
        if self.wire is not None:
            for script in self._scripts:
                let_go(self.wire.ask("SCRIPT", "LOAD", script))  # the calls that follow tell whether it was loaded

    async def _connect(self) -> Wire:
        target = self._settings.target
        address = await self._locate()
        wire = await open_wire(self._owner, address, target.tls)
        try:
            if target.password is not None:
                login = (target.username, target.password) if target.username else (target.password,)
                try:
                    await wire.ask("AUTH", *login)
                except Refused as refusal:
                    raise StoreMisconfigured(f"Redis at {address} refuses the user or password: {refusal}") from None
            if target.db:
                await wire.ask("SELECT", target.db)
            await self._check(wire, address)
            loads = [wire.ask("SCRIPT", "LOAD", script) for script in self._scripts]
            await asyncio.gather(*loads)
        except BaseException:
            wire.abort()
            raise
        self.address = address
        self.found.set()
        return wire

    async def _check(self, wire: Wire, address: Address) -> None:
        try:
            info = await wire.ask("INFO")
        except Refused as refusal:
            if str(refusal).startswith("LOADING"):
                raise
            info = b""
        config: dict[bytes, bytes] = {}
        for name in ("maxmemory-policy", "appendfsync"):
            try:
                pair = await wire.ask("CONFIG", "GET", name)
                config |= dict(zip(pair[::2], pair[1::2], strict=True))
            except Refused:  # the user may not, or the service has no CONFIG: INFO must do
                break
        server = facts(info, config)
        if server.loading:
            raise StoreUnavailable(f"Redis at {address} is still loading its data")
        if found := faults(server, self._settings.durability):
            raise StoreMisconfigured(f"Redis at {address}: " + "; ".join(found))
        if server.role not in {"master", ""}:
            raise StoreUnavailable(f"Redis at {address} is a replica")
        if self.facts is None:
            for remark in remarks(server):
                logger.warning("store.remark", extra={"fields": {"server": str(address), "remark": remark}})
        self.facts = server
        wire.run_id = server.run_id.encode()

    def _down(self, failure: Exception) -> None:
        known = failure if isinstance(failure, StoreError) else StoreUnavailable(self._out_of_reach(failure))
        if self.state is not State.DOWN:
            logger.warning("store.out_of_reach", extra={"fields": {"reason": str(known)}})
        self.state, self.error = State.DOWN, known

    def _out_of_reach(self, failure: Exception) -> str:
        """Says where, too: an address that is written wrongly is the usual reason. No URL, which holds a password."""
        places = [self.address] if self.address else self._settings.target.addresses
        reason = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
        return f"Redis at {' or '.join(map(str, places))} is out of reach: {reason}"
