"""A client's WebSocket: from the upgrade that `protocol.py` has looked at, through an opening that may be refused as HTTP, to
its end. Behind the guard it is in the scope, and is written and read past ASGI's messages.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from gateway.errors import Problem
from gateway.transport.budget import Lease
from gateway.websocket import QUIET, Endpoint

SOCKET: Final = "gateway.socket"
"""The scope's key for the `ClientSocket`."""

_LOG: Final = logging.getLogger(__name__)
_FAILED: Final = 1011
_RESTARTING: Final = 1012


class ClientSocket(Endpoint):
    """What uvicorn makes for an upgrade. Messages count against `lease` from their first byte on, once there is one; where
    they find no room, `receive` raises its Problem, and whatever still comes is dropped."""

    __slots__ = (
        "_app",
        "_app_state",
        "_beside_bytes",
        "_request",
        "_response",
        "_served",
        "_server",
        "_taken_bytes",
        "lease",
    )

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(ServerProtocol(max_size=config.ws_max_size, logger=QUIET))
        self._app = config.loaded_app
        self._app_state = app_state
        self._server = server_state
        self._request: Request | None = None
        self._response: Response | None = None
        self._taken_bytes = 0
        self._beside_bytes = 0
        self._served = False
        """The app has returned."""
        self.lease: Lease | None = None

    def accept(self, request_id: str, subprotocol: str | None) -> None:
        """Opens it. What a handshake holds is let go: the guard has its own, and idle sockets are many."""
        request, response, self._response, self._request = self._request, self._response, None, None
        if request is None or response is None or self.transport.is_closing():
            return
        del response.headers["Date"]
        response.headers["x-request-id"] = request_id
        if subprotocol:
            response.headers["Sec-WebSocket-Protocol"] = subprotocol
        server = cast(ServerProtocol, self._frames)
        server.send_response(response)
        request.headers.clear()  # the parser keeps them
        self._flush()
        self._opened()

    async def receive(self) -> bytes | None:
        """As the parent's. The message before counts until then. Raises Problem, too."""
        self._taken_bytes = 0
        self._count()
        message = await super().receive()
        self._taken_bytes = len(message or b"")
        return message

    def count_beside(self, size: int) -> None:
        """What the session holds counts like a message that comes."""
        if size != self._beside_bytes:
            self._beside_bytes = size
            self._count()

    # --- what the server and the transport tell

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections.add(cast(Any, self))

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(cast(Any, self))
        super().connection_lost(exc)
        self._give_back()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._count()

    def shutdown(self) -> None:
        """Called where the process ends and this is still open."""
        self.begin_close(_RESTARTING)

    # --- the opening

    def _hear(self, event: Any) -> None:
        if not isinstance(event, Request):
            super()._hear(event)
            return
        server = cast(ServerProtocol, self._frames)
        response = server.accept(event)
        if response.status_code != 101:
            server.send_response(response)
            self._flush()
            return
        self._request, self._response = event, response
        # Before it is accepted nobody may fill the memory.
        self._hold(held=True)
        task = self._loop.create_task(self._run(self._scope(event)))
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    def _scope(self, request: Request) -> dict[str, Any]:
        path, _, query = request.path.partition("?")
        offered = request.headers.get_all("Sec-WebSocket-Protocol")
        return {
            "type": "websocket",
            "http_version": "1.1",
            "scheme": "wss" if is_ssl(self.transport) else "ws",
            "server": get_local_addr(self.transport),
            "client": get_remote_addr(self.transport),
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [
                (name.encode(), value.encode("ascii", "surrogateescape")) for name, value in request.headers.raw_items()
            ],
            "subprotocols": [token.strip() for line in offered for token in line.split(",")],
            "state": self._app_state.copy(),
            "extensions": {"websocket.http.response": {}},
            SOCKET: self,
        }

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self._app(cast(Any, scope), cast(Any, _nothing), cast(Any, self._refuse))
        except Exception:
            _LOG.exception("socket.app_failed")
        finally:
            if self._response is not None:
                self.transport.close()
            self.begin_close(_FAILED)  # where it was not closed
            self._served = True
            self._give_back()

    async def _refuse(self, message: dict[str, Any]) -> None:
        """ASGI's `send`, for the HTTP answer to an upgrade that is refused."""
        if message["type"] == "websocket.http.response.start":
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            headers.append(("connection", "close"))
            status = message["status"]
            self._response = Response(status, HTTPStatus(status).phrase, Headers(headers))
        elif self._response is not None and not self.transport.is_closing():
            response, self._response = self._response, None
            response.body = message["body"]
            cast(ServerProtocol, self._frames).send_response(response)
            self._flush()

    # --- the budget

    def _count(self) -> None:
        if self.lease is None or self._failure is not None:
            return
        try:
            size = self.buffered_bytes + self._taken_bytes + self._beside_bytes
            self.lease.hold(size)
            self.lease.shrink(size)
        except Problem as problem:
            self._drop(problem)

    def _give_back(self) -> None:
        """Once the last message was dealt with, and no more can come."""
        if self._gone and self._served and self.lease is not None:
            self.lease.give_back()
            self.lease = None


async def _nothing() -> dict[str, Any]:
    """ASGI's `receive`."""
    return {"type": "websocket.connect"}
