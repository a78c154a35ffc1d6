"""Serves until told to stop: a gateway with its metrics, a console beside it where the settings say so, or a console alone."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

from gateway.app import Gateway, Shared, desk_of, open_gateway, reload_policies
from gateway.operating import admin_api
from gateway.reviewing import Parts, open_console, open_console_alone, origin_of
from gateway.settings import Settings
from gateway.transport.client_socket import ClientSocket
from gateway.transport.drain import Drain
from gateway.transport.guard import App
from gateway.transport.server import Listen, bound, serve

LOG = logging.getLogger("gateway")


async def serve_until_told(settings: Settings) -> int:
    """A gateway, until SIGTERM or SIGINT; SIGHUP reads its policies again. The exit code. Raises what opening it raises."""
    server, metrics = settings.server, settings.metrics
    # A gateway that is still opening has nothing to read again, and does not end for it either.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with (
        bound(server.host, server.port, "--port") as main_socket,
        bound(metrics.host, metrics.port, "COATCHECK_METRICS_PORT") as side_socket,
        _console_socket(settings) as review_socket,
        _admin_socket(settings) as admin_socket,
    ):
        async with (
            open_gateway(settings) as gateway,
            _console_beside(settings, gateway.shared, review_socket) as beside,
        ):
            _settle_memory()
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGHUP, lambda: gateway.shared.tasks.spawn("reload policies", reload_policies(gateway.policies))
            )
            operated = _admin_beside(settings, gateway.shared, admin_socket)
            await _serve(settings, gateway, main_socket, side_socket, (*beside, *operated))
    return 0


def _console_socket(settings: Settings) -> AbstractContextManager[socket.socket | None]:
    """For the console, where it is served too."""
    console = settings.console
    return bound(console.host, console.port, "COATCHECK_CONSOLE_PORT") if console.enabled else nullcontext()


def _admin_socket(settings: Settings) -> AbstractContextManager[socket.socket | None]:
    """For the admin API, where it is served."""
    admin = settings.admin
    return bound(admin.host, admin.port, "COATCHECK_ADMIN_PORT") if admin.enabled else nullcontext()


def _admin_beside(settings: Settings, shared: Shared, listener: socket.socket | None) -> tuple[tuple[App, Listen], ...]:
    """The admin API on a gateway's own parts, where it has a socket to listen on."""
    if listener is None:
        return ()
    listener.listen()
    LOG.info("admin.listening", extra={"fields": {"address": "{}:{}".format(*listener.getsockname()[:2])}})
    return ((admin_api(settings, desk_of(settings, shared)), Listen.of(settings.admin, listener)),)


@asynccontextmanager
async def _console_beside(
    settings: Settings, shared: Shared, listener: socket.socket | None
) -> AsyncIterator[tuple[tuple[App, Listen], ...]]:
    """The console on a gateway's own parts, where it has a socket to listen on."""
    if listener is None:
        yield ()
        return
    port = listener.getsockname()[1]
    parts = Parts(shared.store, shared.audit_keys, shared.log, shared.streams)
    async with open_console(settings, port, parts) as console:
        listener.listen()
        LOG.info("console.listening", extra={"fields": {"address": origin_of(settings, port)}})
        yield ((console, Listen.of(settings.console, listener)),)


async def review_until_told(settings: Settings) -> int:
    """The console alone, until SIGTERM or SIGINT. The exit code. Raises what opening it raises."""
    with bound(settings.console.host, settings.console.port, "--port") as listener:
        port = listener.getsockname()[1]
        async with open_console_alone(settings, port) as console:
            listener.listen()
            LOG.info("console.listening", extra={"fields": {"address": origin_of(settings, port)}})
            await serve(console, settings.transport, Drain(), Listen.of(settings.console, listener))
    return 0


def _settle_memory() -> None:
    """Take what was opened out of the collector's sight, and have it look less often.

    All of it stays until the end, and requests leave no circles of references behind. With the collector as it is set at
    first, a request costs 10 % more CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _serve(
    settings: Settings,
    gateway: Gateway,
    main: socket.socket,
    side: socket.socket,
    beside: tuple[tuple[App, Listen], ...],
) -> None:
    """On bound sockets, with the metrics on `side`, and what is to be served `beside`."""
    main.listen()  # from here on a client waits instead of being turned away
    LOG.info("gateway.listening", extra={"fields": {"address": "{}:{}".format(*main.getsockname()[:2])}})
    await serve(
        gateway.app,
        gateway.limits,
        gateway.drain,
        Listen.of(settings.server, main),
        websocket=ClientSocket,
        beside=((gateway.metrics, Listen(sockets=(side,))), *beside),
    )
