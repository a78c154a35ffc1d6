"""All connections of a process to Redis, behind one function: `Link.call` puts a command on the wire and returns its future.

Calls of one slot (so: of one tenant) are carried out in the order in which they were made, whatever happens between:
reconnects, redirections (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/), a failover. A call that
cannot be carried out now takes back all later ones of its slot into a lane; the first goes ahead, the others follow once it is
through. What is sent twice is the same bytes, so every command given to this module must bear being carried out twice.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from gateway.stores.address import Address, Topology
from gateway.stores.contract import Sink, StoreMisconfigured, StoreUnavailable
from gateway.stores.durability import Waiter
from gateway.stores.node import LinkSettings, Node, State
from gateway.stores.server import Level
from gateway.stores.topology import ask_sentinels, read_slots
from gateway.stores.wire import Argument, Call, Reply, Wire, pack, refusal
from gateway.tasks import Tasks

logger = logging.getLogger(__name__)

TICK_S: Final = 0.05
REFRESH_S: Final = 0.5

_AGAIN: Final = frozenset({"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "BUSY"})
"""The server will take the call later."""
_ELSEWHERE: Final = frozenset({"READONLY"})
"""The server is a replica by now: connect anew, to whoever is the primary."""
_NOT_LOCAL: Final = "non local key"
"""A script reached for a key of a slot that is being moved; it had written nothing."""
_INSIDE: Final = re.compile(r": -([A-Z]+) ")
"""The code of an error that a command of a script met, as Redis 6.2 words it."""


class AnyLink(Protocol):
    """What the store needs of a connection; `Link` to servers, `FakeLink` in process."""

    connections: int
    """How many were made so far: after a new one the data may be older than what was read before (failover, restore)."""

    def ready(self, slot: int) -> bool: ...

    def call(
        self,
        slot: int,
        arguments: tuple[Argument, ...],
        parse: Callable[[Reply], Any] | None = None,
        *,
        tag: bytes = b"",
        durable: bool = False,
    ) -> asyncio.Future[Any]:
        """`tag`: hash tag of the slot, needed where `durable` (confirmed at the configured durability)."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.send(slot, arguments, future, parse, tag, durable=durable)
        return future

    def send(
        self,
        slot: int,
        arguments: tuple[Argument, ...],
        sink: Sink[Any],
        parse: Callable[[Reply], Any] | None,
        tag: bytes,
        *,
        durable: bool,
    ) -> None:
        """`call` for who brings a sink. A call that cannot be made fails it before this returns."""

    async def aclose(self) -> None: ...


class _Lane:
    """Calls of one slot that wait. `ahead` is on its way, and the others follow it."""

    __slots__ = ("ahead", "asking", "calls")

    def __init__(self) -> None:
        self.calls: deque[Call] = deque()
        self.ahead: Call | None = None
        self.asking: Node | None = None


class Link(AnyLink):
    """Use `await Link.open(settings, scripts)`."""

    def __init__(self, settings: LinkSettings, scripts: Sequence[bytes]) -> None:
        self._settings = settings
        self._scripts = scripts
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._nodes: dict[Address | None, Node] = {}
        """By address; in a cluster one for each primary, else one under None."""
        self._runs: dict[Node, asyncio.Task[None]] = {}
        self._slots: list[Node] | None = None
        self._waiters: dict[Node, Waiter] = {}
        self._lanes: dict[int, _Lane] = {}
        self._ticking: asyncio.TimerHandle | None = None
        self._stale = asyncio.Event()
        self._closed = False
        self.connections = 0

    @classmethod
    async def open(cls, settings: LinkSettings, scripts: Sequence[bytes], timeout_s: float = 10.0) -> Link:
        """Connected and checked. Raises StoreMisconfigured at once, StoreUnavailable after `timeout_s`."""
        link = cls(settings, scripts)
        try:
            async with asyncio.timeout(timeout_s):
                await link._start()
        except BaseException as error:
            reasons = [node.error for node in link._nodes.values() if node.error]
            await link.aclose()
            if isinstance(error, TimeoutError):
                places = " or ".join(map(str, settings.target.addresses))
                raise reasons[0] if reasons else StoreUnavailable(f"Redis at {places} is out of reach") from error
            raise
        return link

    async def aclose(self) -> None:
        """Cuts the connections; calls without an answer fail."""
        self._closed = True
        if self._ticking is not None:
            self._ticking.cancel()
        await self._tasks.aclose()
        for waiter in self._waiters.values():
            waiter.close()
        for lane in self._lanes.values():
            _fail(lane.calls)
        self._lanes.clear()

    # Calls

    def ready(self, slot: int) -> bool:
        node = self._node(slot)
        return (
            node is not None and node.state is not State.DOWN and self._waiting(node, slot) < self._settings.max_calls
        )

    def send(
        self,
        slot: int,
        arguments: tuple[Argument, ...],
        sink: Sink[Any],
        parse: Callable[[Reply], Any] | None,
        tag: bytes,
        *,
        durable: bool,
    ) -> None:
        node = None if self._closed else self._node(slot)
        if node is None or node.state is State.DOWN:
            sink.set_exception(StoreUnavailable("Redis is out of reach"))
            return
        if self._waiting(node, slot) >= self._settings.max_calls:
            sink.set_exception(StoreUnavailable("too many calls wait for Redis"))
            return
        now = self._loop.time()
        call = Call(slot, pack(arguments), sink, parse, now + self._settings.unconfirmed_s, tag, durable)
        if node.wire is None or slot in self._lanes:
            self._lane(slot).calls.append(call)
        else:
            node.wire.send(call)
        if self._ticking is None:
            self._ticking = self._loop.call_later(TICK_S, self._tick)

    def _waiting(self, node: Node, slot: int) -> int:
        """How many calls wait where the next one of the slot would."""
        if slot in self._lanes:
            return len(self._lanes[slot].calls)
        return len(node.wire.pending) if node.wire is not None else 0

    # What comes of them (called by the wires)

    def on_reply(self, wire: Wire, call: Call, reply: Reply) -> None:
        waiter = self._waiter_of(wire) if call.durable and self._waiters else None
        if waiter is None:
            call.resolve(reply)
        else:
            waiter.cover(call, reply, wire.run_id)
        if call.lane is not None:
            self._through(call)

    def on_error(self, wire: Wire, call: Call, text: str) -> None:
        code, _, rest = text.partition(" ")
        if code == "ERR" and (inner := _INSIDE.search(text)):
            code = inner[1]
        node = next((node for node in self._nodes.values() if node.wire is wire), None)
        if code in {"MOVED", "ASK"}:
            lane = self._take_back(wire, call)
            other = self._redirected(node, rest)
            if code == "ASK":
                lane.asking = other
            else:
                self._move(call.slot, other)
            self._advance(call.slot)
        elif code == "NOSCRIPT" and node is not None:
            self._take_back(wire, call)
            node.load_scripts()
            self._advance(call.slot)
        elif code in _AGAIN or _NOT_LOCAL in text:
            self._take_back(wire, call)
        elif code in _ELSEWHERE:
            self._take_back(wire, call)
            wire.abort()
        else:
            call.fail(refusal(code))
            if call.lane is not None:
                self._through(call)

    def on_lost(self, wire: Wire, unanswered: list[Call]) -> None:
        if self._closed:
            _fail(unanswered)
            return
        by_slot: dict[int, list[Call]] = {}
        for call in unanswered:
            by_slot.setdefault(call.slot, []).append(call)
        for slot, calls in by_slot.items():
            self._put_back(slot, calls)
        for node in self._nodes.values():
            node.lost(wire)
        self._stale.set()

    # Lanes

    def _lane(self, slot: int) -> _Lane:
        return self._lanes.setdefault(slot, _Lane())

    def _take_back(self, wire: Wire, call: Call) -> _Lane:
        """`call` was not carried out: it and all later ones of its slot on this connection wait in the lane."""
        later = [other for other, attempt, _ in wire.pending if other.slot == call.slot and other.attempt == attempt]
        return self._put_back(call.slot, [call, *later])

    def _put_back(self, slot: int, calls: list[Call]) -> _Lane:
        lane = self._lane(slot)
        for call in calls:
            call.attempt += 1
            call.lane = None
        lane.ahead = None
        lane.asking = None
        lane.calls.extendleft(reversed(calls))
        return lane

    def _advance(self, slot: int) -> None:
        """Sends the first call of the lane ahead, if there is a connection."""
        lane = self._lanes[slot]
        node = lane.asking or self._node(slot)
        if lane.ahead is not None or node is None or node.wire is None:
            return
        if not lane.calls:
            del self._lanes[slot]
            return
        call = lane.ahead = lane.calls.popleft()
        call.lane = lane
        if lane.asking is not None:
            node.wire.ask("ASKING").add_done_callback(lambda future: future.cancelled() or future.exception())
        node.wire.send(call)

    def _through(self, call: Call) -> None:
        """The call that went ahead has its answer: the others follow."""
        call.lane = None
        lane = self._lanes.get(call.slot)
        node = self._node(call.slot)
        if lane is None or lane.ahead is not call:
            return
        lane.ahead = None
        if lane.asking is not None or node is None or node.wire is None:
            # While a slot is being moved each call is asked for anew at its old place.
            lane.asking = None
            self._advance(call.slot)
            return
        del self._lanes[call.slot]
        for waiting in lane.calls:
            node.wire.send(waiting)

    def _tick(self) -> None:
        now = self._loop.time()
        busy = False
        for node in [*self._nodes.values(), *(waiter.node for waiter in self._waiters.values())]:
            if node.wire is not None and node.wire.pending:
                busy = True
                if node.wire.overdue(now - self._settings.reply_timeout_s):
                    node.wire.abort()
        for slot, lane in list(self._lanes.items()):
            while lane.calls and lane.calls[0].expires < now:
                lane.calls.popleft().fail(StoreUnavailable("Redis did not confirm in time"))
            self._advance(slot)
        self._ticking = self._loop.call_later(TICK_S, self._tick) if busy or self._lanes else None

    # Servers

    def _node(self, slot: int) -> Node | None:
        return self._slots[slot] if self._slots is not None else self._nodes.get(None)

    def _on_up(self, node: Node) -> None:
        self.connections += 1
        for slot in list(self._lanes):
            if self._node(slot) is node:
                self._advance(slot)

    def _add(self, address: Address | None) -> Node:
        async def locate() -> Address:
            if address is not None:
                return address
            if self._settings.target.topology is Topology.SENTINEL:
                return await ask_sentinels(self._settings)
            return self._settings.target.addresses[0]

        node = Node(self, locate, self._settings, self._scripts, self._on_up)
        self._nodes[address] = node
        self._runs[node] = self._tasks.spawn(f"redis {address or 'primary'}", node.run())
        if self._settings.durability.level is not Level.EVERYSEC:
            waiter = self._waiters[node] = Waiter(node, self._settings)
            self._runs[waiter.node] = self._tasks.spawn(f"redis waiter {address or 'primary'}", waiter.run())
        return node

    def _waiter_of(self, wire: Wire) -> Waiter | None:
        return next((waiter for node, waiter in self._waiters.items() if node.wire is wire), None)

    async def _start(self) -> None:
        if self._settings.target.topology is not Topology.CLUSTER:
            node = self._add(None)
            await self._until_up([node])
            return
        while self._slots is None:
            try:
                await self._refresh()
            except StoreUnavailable:
                await asyncio.sleep(REFRESH_S)
        await self._until_up(list(self._nodes.values()))
        self._tasks.spawn("redis slots", self._follow_slots())

    async def _until_up(self, nodes: list[Node]) -> None:
        waiters = [waiter.node for waiter in self._waiters.values()]
        while not all(node.state is State.UP for node in [*nodes, *waiters]):
            for node in nodes:
                if isinstance(node.error, StoreMisconfigured):
                    raise node.error
            await asyncio.sleep(0.01)

    # Cluster

    def _redirected(self, node: Node | None, rest: str) -> Node:
        """The server that `<slot> <host>:<port>` names; an empty host is the answering server's own."""
        host, _, port = rest.partition(" ")[2].rpartition(":")
        own = node.address.host if node is not None and node.address is not None else ""
        address = Address(host or own, int(port))
        return self._nodes.get(address) or self._add(address)

    def _move(self, slot: int, node: Node) -> None:
        if self._slots is not None:
            self._slots[slot] = node
        self._stale.set()

    async def _refresh(self) -> None:
        known = [node.address for node in self._nodes.values() if node.wire is not None and node.address is not None]
        ranges = await read_slots(self._settings, [*known, *self._settings.target.addresses])
        slots: list[Node | None] = [None] * 16384
        for first, last, address in ranges:
            node = self._nodes.get(address) or self._add(address)
            slots[first : last + 1] = [node] * (last + 1 - first)
        if any(node is None for node in slots):
            raise StoreUnavailable("the cluster does not serve all slots")
        self._slots = [node for node in slots if node is not None]
        used = set(self._slots)
        for at, node in list(self._nodes.items()):
            if node not in used and not (node.wire and node.wire.pending):
                del self._nodes[at]
                self._runs.pop(node).cancel()
                if waiter := self._waiters.pop(node, None):
                    self._runs.pop(waiter.node).cancel()
                    waiter.close()

    async def _follow_slots(self) -> None:
        while True:
            down = any(node.state is State.DOWN for node in self._nodes.values())
            try:
                async with asyncio.timeout(REFRESH_S if down else 60):
                    await self._stale.wait()
            except TimeoutError:
                pass
            self._stale.clear()
            try:
                await self._refresh()
            except Exception as failure:  # whatever a server answers, the next may answer better
                logger.warning("store.slots_unknown", extra={"fields": {"reason": str(failure)}})
                self._stale.set()
            await asyncio.sleep(REFRESH_S / 5)


def _fail(calls: Iterable[Call]) -> None:
    for call in calls:
        call.fail(StoreUnavailable("the store was closed"))
