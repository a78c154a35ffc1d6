"""Each tenant's place in this process's part of the log: its present writer, and the key under which its events get their MACs.

It is there once the tenant's audit key is open. What is to be written before waits for the key, at most as long as for an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from gateway.audit.chain import Ended, Writer
from gateway.audit.genuine import EventKey, event_key
from gateway.errors import Problem
from gateway.ids.keys import AuditKeys, KeyRefused, Versions
from gateway.names import TenantId
from gateway.stores.contract import StoreError
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.keyring import KeysMissing
from gateway.tasks import Tasks, let_go

logger = logging.getLogger(__name__)

T = TypeVar("T")

_NOT_OPENED: Final = (StoreError, KeysMissing, KeyRefused, ErasuresUnreadable, TimeoutError)


class Keys(Protocol):
    """What is needed of the `AuditKeyring`."""

    async def tenant(self, tenant: TenantId) -> Versions[AuditKeys]: ...


class Lane:
    """One tenant's present writer in this process."""

    __slots__ = ("confirmed", "ended", "key", "tenant", "used", "writer")

    def __init__(self, tenant: TenantId, key: EventKey) -> None:
        self.tenant = tenant
        self.key = key
        self.writer: Writer | None = None
        self.confirmed = 0
        """The highest number of the writer that the store has confirmed."""
        self.ended: Ended | None = None
        """The last writer with a confirmed entry, if it had to be ended."""
        self.used = 0.0
        """When it last wrote, UTC seconds."""


class Lanes:
    def __init__(self, keys: Keys, tasks: Tasks, limit_s: float) -> None:
        """`limit_s`: how long a key may take to open."""
        self._keys = keys
        self._tasks = tasks
        self._limit_s = limit_s
        self._by_tenant: dict[TenantId, Lane] = {}

    def get(self, tenant: TenantId) -> Lane | None:
        return self._by_tenant.get(tenant)

    def opened(self) -> list[Lane]:
        """All that there are now."""
        return list(self._by_tenant.values())

    def after_opening(
        self, tenant: TenantId, send: Callable[[], asyncio.Future[T]], erased: T, refusal: Callable[[], Problem]
    ) -> asyncio.Future[T]:
        """What `send` gives once the tenant has a lane, or `erased` where it has no keys. Where its key does not open in time
        the awaitable raises `refusal`. A caller who is cancelled takes nothing back."""
        heard: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._tasks.spawn("open audit key", self._open(tenant, send, heard, erased, refusal))
        return heard

    async def renew_key(self, lane: Lane) -> None:
        """Takes a rotated key into use; where it cannot be read now, the one of before is still good."""
        with contextlib.suppress(*_NOT_OPENED):
            lane.key = event_key(await self._keys.tenant(lane.tenant))

    def forget(self, lane: Lane) -> None:
        """The tenant's next event opens its key again, and begins a new writer."""
        self._by_tenant.pop(lane.tenant, None)

    async def _open(
        self,
        tenant: TenantId,
        send: Callable[[], asyncio.Future[T]],
        heard: asyncio.Future[T],
        erased: T,
        refusal: Callable[[], Problem],
    ) -> None:
        try:
            async with asyncio.timeout(self._limit_s):
                key = event_key(await self._keys.tenant(tenant))
        except KeysMissing:
            if not heard.done():
                heard.set_result(erased)
        except BaseException as error:  # also where the log is being closed: nobody is left waiting
            if not heard.done():
                heard.set_exception(refusal())
            if not isinstance(error, _NOT_OPENED):
                raise
            logger.warning("audit.key_not_opened", extra={"fields": {"tenant": tenant, "reason": str(error)}})
        else:
            self._by_tenant.setdefault(tenant, Lane(tenant, key))
            _join(send(), heard)


def _join(sent: asyncio.Future[T], heard: asyncio.Future[T]) -> None:
    """Whoever awaits `heard` awaits `sent`."""

    def answered(_: asyncio.Future[T]) -> None:
        if heard.done() or sent.cancelled():
            return
        if (error := sent.exception()) is not None:
            heard.set_exception(error)
        else:
            heard.set_result(sent.result())

    let_go(sent)
    sent.add_done_callback(answered)
    heard.add_done_callback(lambda _: sent.cancel() if heard.cancelled() else None)
