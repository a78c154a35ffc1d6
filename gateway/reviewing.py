"""The console's composition root: settings → store, audit keys, search, sign-in → its ASGI app.

A process that serves the console alone is made here whole. It holds the audit root key and neither imports nor needs what knows
a raw ID or the upstream's key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gateway import custody
from gateway.audit.log import AuditLog, AuditSettings
from gateway.audit.search.engine import IndexedSearch
from gateway.audit.streams.registry import Streams
from gateway.console.app import Console
from gateway.console.desk import Desk
from gateway.console.integrity import Integrity
from gateway.console.pages import Pages
from gateway.console.session import Box, Sessions
from gateway.console.sign_in import SignIn
from gateway.settings import Settings
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.redis import RedisStore
from gateway.tasks import Tasks
from gateway.transport.guard import HEAD, App, Head


@dataclass(frozen=True, slots=True)
class Parts:
    """What the console works on: a gateway's own, or opened for it alone."""

    store: RedisStore
    keyring: AuditKeyring
    log: AuditLog
    streams: Streams


@asynccontextmanager
async def open_console_alone(settings: Settings, port: int) -> AsyncIterator[App]:
    """The console of a process of its own, on the store of a gateway. `port`: the one that it listens on.

    Raises StoreError, KeyRefused, ErasuresUnreadable, and KeysMissing where no gateway has used the store yet.
    """
    async with AsyncExitStack() as stack:
        store = await custody.open_store(settings, joins=True)
        stack.push_async_callback(store.aclose)
        keyring = AuditKeyring(store, custody.audit_root(settings), settings.data / "erasures")
        log = AuditLog(store, keyring, AuditSettings(settings.redis.answer_timeout_s))
        checkpointer = custody.checkpointer(settings, store, keyring, log)
        stack.push_async_callback(checkpointer.aclose)
        stack.push_async_callback(log.aclose)
        tasks = Tasks()
        stack.push_async_callback(tasks.aclose)
        log.start()
        checkpointer.start(tasks)
        streams = Streams(store.streams, custody.outgoing(settings, settings.audit.stream_timeout_s))
        yield await stack.enter_async_context(open_console(settings, port, Parts(store, keyring, log, streams)))


@asynccontextmanager
async def open_console(settings: Settings, port: int, parts: Parts) -> AsyncIterator[App]:
    """The console's app. `port`: the one that it listens on."""
    async with AsyncExitStack() as stack:
        deployment = await parts.keyring.deployment()
        tasks = Tasks()
        stack.push_async_callback(tasks.aclose)
        box, origin, store = Box(deployment.console), origin_of(settings, port), parts.store
        sign_in = SignIn(settings.console_issuers, store, box, origin)
        stack.push_async_callback(sign_in.aclose)
        search = IndexedSearch(store, settings.data / "search")
        stack.push_async_callback(search.aclose)
        tasks.spawn("console search", search.follow_forever())
        desk = Desk(
            store=store,
            logs=store.log,
            keyring=parts.keyring,
            log=parts.log,
            search=search,
            integrity=Integrity(store, store.log, deployment.deployment, tasks),
            streams=parts.streams,
            retention_days=settings.audit.retention_days,
            sessions=Sessions(store, box, settings.console.idle_s, settings.console.absolute_s),
            sign_in=sign_in,
            origin=origin,
            client=_client,
            deployment=deployment.deployment,
            folder=settings.data / "exports",
        )
        yield Console(desk, await asyncio.to_thread(Pages.load)).app


def origin_of(settings: Settings, port: int) -> str:
    """Where browsers reach the console."""
    console = settings.console
    scheme = "https" if console.tls_certificate_file else "http"
    host = f"[{console.host}]" if ":" in console.host else console.host
    return console.url or f"{scheme}://{host}:{port}"


def _client(scope: Mapping[str, Any]) -> str:
    head: Head | None = scope.get(HEAD)
    return head.client if head else ""
