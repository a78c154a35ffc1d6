"""Questions put to a cluster or to Sentinels about where the primaries are, each over a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gateway.stores.address import Address
from gateway.stores.contract import StoreUnavailable
from gateway.stores.node import LinkSettings
from gateway.stores.wire import Argument, Call, Refused, Reply, Wire, open_wire


class _Nobody:
    """A connection that only asks its own questions has no calls to report."""

    def on_reply(self, wire: Wire, call: Call, reply: Reply) -> None: ...

    def on_error(self, wire: Wire, call: Call, text: str) -> None: ...

    def on_lost(self, wire: Wire, unanswered: list[Call]) -> None: ...


async def _ask(
    settings: LinkSettings, addresses: Iterable[Address], login: tuple[str, ...], question: tuple[Argument, ...]
) -> tuple[Address, Reply]:
    """The first answer that isn't empty, and who gave it. Raises StoreUnavailable."""
    asked = tuple(dict.fromkeys(addresses))
    for address in asked:
        wire = None
        try:
            async with asyncio.timeout(settings.connect_timeout_s / 2):
                wire = await open_wire(_Nobody(), address, settings.target.tls)
                if login:
                    await wire.ask("AUTH", *login)
                if reply := await wire.ask(*question):
                    return address, reply
        except (OSError, TimeoutError, Refused, StoreUnavailable):
            continue
        finally:
            if wire is not None:
                wire.abort()
    raise StoreUnavailable(f"nobody tells where Redis is; asked: {', '.join(map(str, asked))}")


async def ask_sentinels(settings: LinkSettings) -> Address:
    """The present primary of the service (https://redis.io/docs/latest/develop/reference/sentinel-clients/)."""
    target = settings.target
    login = (target.sentinel_password,) if target.sentinel_password else ()
    question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.service)
    _, (host, port) = await _ask(settings, target.addresses, login, question)
    return Address(host.decode(), int(port))


async def read_slots(settings: LinkSettings, addresses: Iterable[Address]) -> list[tuple[int, int, Address]]:
    """First slot, last slot and primary of each range (CLUSTER SLOTS)."""
    target = settings.target
    login = tuple(part for part in (target.username, target.password) if part)
    asked, reply = await _ask(settings, addresses, login, ("CLUSTER", "SLOTS"))
    return [
        (first, last, Address(primary[0].decode() if primary[0] else asked.host, primary[1]))
        for first, last, primary, *_ in reply
    ]
