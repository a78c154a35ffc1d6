"""The commands: parse, call, print. What they do is elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.app import Gateway, open_gateway, redact
from gateway.settings import Settings, SettingsError, load
from gateway.telemetry import configure_logging
from gateway.transport.server import Listen, serve


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gateway")
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve")
    serving.add_argument("--config", type=Path)
    serving.add_argument("--host")
    serving.add_argument("--port", type=int)
    args = parser.parse_args(argv)
    try:
        overrides = {"server.host": args.host, "server.port": args.port}
        settings = load({k: v for k, v in overrides.items() if v is not None}, file=args.config)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    configure_logging(settings.log.level, redact)
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    async with open_gateway(settings) as gateway:
        await serve_gateway(settings, gateway)


async def serve_gateway(settings: Settings, gateway: Gateway) -> None:
    server = settings.server
    listen = Listen(
        server.host,
        server.port,
        ssl_certfile=str(server.tls_certificate_file) if server.tls_certificate_file else None,
        ssl_keyfile=str(server.tls_key_file) if server.tls_key_file else None,
    )
    beside = ((gateway.metrics, Listen(settings.metrics.host, settings.metrics.port)),)
    await serve(gateway.app, gateway.limits, gateway.drain, listen, beside=beside)


if __name__ == "__main__":
    sys.exit(main())
