"""The HTTP/1.1 server: uvicorn on uvloop with the connections of `protocol.py`, and how it begins and ends.

It leans on names inside uvicorn, which is pinned; `tests/transport/test_server.py` holds them to a contract.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from uvicorn import Server

from gateway.settings import sections
from gateway.transport.drain import Drain
from gateway.transport.guard import App, Guard
from gateway.transport.limits import Limits
from gateway.transport.protocol import LimitedConfig, StrictProtocol

_TICK_S: Final = 0.05
"""How often what cannot be awaited is looked at while the server starts and ends."""


_APPLICATION_S: Final = 1.0
"""What is kept of `Limits.exit_s` for the application to close what it holds."""
_CANCEL_S: Final = 0.5
"""And for cancelled requests to notice."""
_ASIDE_S: Final = 2.0
"""And for the apps beside, which end last."""


class ServerConfig(LimitedConfig):
    """uvicorn's configuration with nothing left to the environment: no access log, no `server` and `date` headers, no trust
    in forwarded headers (the guard reads them), one process."""

    def __init__(
        self, app: App, limits: Limits, listen: Listen, websocket: type[asyncio.Protocol] | None = None
    ) -> None:
        self.limits = limits
        super().__init__(
            cast(Any, app),
            host=listen.host,
            port=listen.port,
            loop="uvloop",
            http=StrictProtocol,
            ws=cast(Any, websocket) or "none",
            ws_max_size=limits.websocket_frame_bytes,
            ws_per_message_deflate=False,
            lifespan="auto",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            forwarded_allow_ips=[],
            server_header=False,
            date_header=False,
            workers=1,
            timeout_keep_alive=limits.keep_alive_s,
            ssl_certfile=listen.certificate,
            ssl_keyfile=listen.certificate_key,
        )


class DrainingServer(Server):
    """uvicorn's server, ending as http.md "Shutdown" asks: it goes on listening while it drains, to say that it does."""

    def __init__(self, config: ServerConfig, drain: Drain) -> None:
        super().__init__(config)
        self.limits = config.limits
        self.drain = drain

    @property
    def port(self) -> int:
        return int(self.servers[0].sockets[0].getsockname()[1])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        exit_at = loop.time() + self.limits.exit_s
        self.drain.begin()
        self._close_idle()
        await self._tasks_end(loop.time() + self.limits.drain_s)
        self.drain.expire()
        for listener in self.servers:
            listener.close()
        for sock in sockets or []:
            sock.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await self._tasks_end(exit_at - _APPLICATION_S - _CANCEL_S)
        for task in tuple(self.server_state.tasks):
            task.cancel()
        await self._connections_end(exit_at - _APPLICATION_S)
        if not self.force_exit:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(exit_at):
                    await self.lifespan.shutdown()

    def _close_idle(self) -> None:
        """Keep-alive connections without a request; a WebSocket is an open stream, and stays."""
        for connection in tuple(self.server_state.connections):
            if isinstance(connection, StrictProtocol):
                connection.shutdown()

    async def _tasks_end(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while (tasks := tuple(self.server_state.tasks)) and not self.force_exit and loop.time() < until:
            await asyncio.wait(tasks, timeout=min(0.25, until - loop.time()))

    async def _connections_end(self, until: float) -> None:
        """Until every last byte has left; a reader that is too slow for that is cut off."""
        loop = asyncio.get_running_loop()
        while self.server_state.connections and not self.force_exit and loop.time() < until:  # noqa: ASYNC110
            await asyncio.sleep(_TICK_S)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As the parent's, without raising the signal once more at the end: the caller has things to close, too."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()


@dataclass(frozen=True, slots=True)
class Listen:
    """Where an app is served. `port` 0 takes a free one; `sockets` are bound already and make `host` and `port` void."""

    host: str = "127.0.0.1"
    port: int = 0
    sockets: tuple[socket.socket, ...] = ()
    certificate: Path | None = None
    """With its chain (PEM); None: plain HTTP."""
    certificate_key: Path | None = None

    @classmethod
    def of(cls, section: sections.Server | sections.Console | sections.Admin, listener: socket.socket) -> Listen:
        """On a socket that is bound, with the certificate that the section names."""
        return cls(sockets=(listener,), certificate=section.tls_certificate_file, certificate_key=section.tls_key_file)


def bound(host: str, port: int, setting: str) -> socket.socket:
    """A socket that does not listen yet, so that an address that is taken is found before anything is opened.

    Raises OSError, which names the address and the `setting` to change.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except OSError:
            made.close()
            raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OSError(error.errno, f"{reason}; choose another with {setting}", f"{host}:{port}") from None
    return made


async def serve(
    app: App,
    limits: Limits,
    drain: Drain,
    listen: Listen,
    *,
    websocket: type[asyncio.Protocol] | None = None,
    beside: Sequence[tuple[App, Listen]] = (),
) -> None:
    """Serve `app` behind a `Guard` until SIGTERM or SIGINT. `websocket` is the protocol class that takes over an upgrade;
    `beside` are apps on listeners of their own (metrics, console), which end last.

    Returns after the last answer has left, at most `limits.exit_s` after the signal.
    """
    aside = replace(limits, drain_s=0.0, exit_s=_ASIDE_S)
    if beside:
        limits = replace(limits, exit_s=max(limits.exit_s - _ASIDE_S, 0.0))
    async with contextlib.AsyncExitStack() as stack:
        for side_app, side in beside:
            await stack.enter_async_context(running(side_app, aside, listen=side))
        server = DrainingServer(ServerConfig(Guard(app, limits, drain), limits, listen, websocket), drain)
        await server.serve(list(listen.sockets) or None)


@contextlib.asynccontextmanager
async def running(
    app: App,
    limits: Limits,
    drain: Drain | None = None,
    listen: Listen = Listen(),
    *,
    websocket: type[asyncio.Protocol] | None = None,
) -> AsyncIterator[DrainingServer]:
    """`app` behind a `Guard`, served inside the block and drained at its end; no signal is listened to."""
    drain = drain or Drain()
    server = DrainingServer(ServerConfig(Guard(app, limits, drain), limits, listen, websocket), drain)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server._serve(list(listen.sockets) or None))
        while not server.started and not task.done():  # noqa: ASYNC110
            await asyncio.sleep(_TICK_S / 10)
        try:
            yield server
        finally:
            server.should_exit = True
            # Also where the block failed: the group would cancel the server, and its sockets stay open.
            await asyncio.wait({task})
