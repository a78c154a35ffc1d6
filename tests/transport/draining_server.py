"""A program that `test_drain.py` starts and sends signals to: an endless stream, an upstream that never answers, health."""

from __future__ import annotations

import asyncio
import socket
import sys

import uvloop

from gateway.errors import Problem
from gateway.transport.drain import Drain, draining_event
from gateway.transport.guard import HEAD, Receive, Scope, Send, refuse
from gateway.transport.health import Health
from gateway.transport.limits import Limits
from gateway.transport.server import Listen, serve

LIMITS = Limits(drain_s=0.7, exit_s=3.0)
PATIENT = Limits(drain_s=20.0, exit_s=25.0)
"""For what must not wait for the drain's end."""


async def store_answers() -> bool:
    return True


class Program:
    def __init__(self) -> None:
        self.drain = Drain()
        self.health = Health(store_answers, self.drain)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            print("application ended", flush=True)
            await send({"type": "lifespan.shutdown.complete"})
            return
        match scope["path"]:
            case "/stream":
                await self.stream(send)
            case "/short":
                await self.stream(send, events=8)
            case "/flood":
                await self.stream(send, event=b"data: " + b"a" * 100_000 + b"\n\n", pause_s=0)
            case "/silent":
                try:
                    async with self.drain.work():
                        await asyncio.Event().wait()
                except Problem as problem:
                    await refuse(problem, scope[HEAD].request_id, scope, send)
            case _:
                await self.health(scope, receive, send)

    async def stream(
        self, send: Send, events: int = 1_000_000, event: bytes = b"data: {}\n\n", pause_s: float = 0.05
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        try:
            async with self.drain.work():
                for _ in range(events):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
                    await asyncio.sleep(pause_s)
        except Problem:
            await send({"type": "http.response.body", "body": draining_event(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    limits = PATIENT if "patient" in sys.argv else LIMITS
    program = Program()
    uvloop.run(serve(program, limits, program.drain, Listen(sockets=(listener,))))
    print("returned", flush=True)


if __name__ == "__main__":
    main()
