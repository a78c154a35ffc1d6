"""Runs the stand-in on a socket: in the foreground for people, in a thread with its own loop for tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from gateway.demo.stand_in.app import StandIn, build
from gateway.demo.stand_in.provider import Options, Provider

_START_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Running:
    """A stand-in that listens. `url` has no path; the API is under `api_url`."""

    url: str
    provider: Provider

    @property
    def api_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return f"{self.url}/v1"


def serve(port: int = 8089, host: str = "127.0.0.1", options: Options | None = None) -> None:
    """Serves until interrupted. `port` 0 takes a free one; uvicorn's log says which."""
    uvicorn.Server(_config(build(options), host, port, "info")).run()


@contextmanager
def running(options: Options | None = None, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[Running]:
    """A stand-in in a thread of its own with its own event loop, on a free port unless one is given."""
    app = build(options)
    listener = socket.create_server((host, port))
    server = uvicorn.Server(_config(app, host, port, "error"))
    thread = threading.Thread(target=server.run, args=([listener],), name="stand-in", daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        bound = listener.getsockname()[1]
        yield Running(f"http://{host}:{bound}", app.state.provider)
    finally:
        server.should_exit = server.force_exit = True
        thread.join(_START_TIMEOUT_S)
        listener.close()


def _config(app: StandIn, host: str, port: int, log_level: str) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level=log_level,
        ws="websockets-sansio",
        ws_max_size=64 * 1024 * 1024,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    waited = threading.Event()
    for _ in range(int(_START_TIMEOUT_S / 0.01)):
        if server.started:
            return
        if not thread.is_alive():
            break
        waited.wait(0.01)
    raise RuntimeError("the stand-in did not start")
