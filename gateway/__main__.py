"""The commands: parse, call, print. What they do is elsewhere.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage or settings. What is expected to fail says so in one block on
standard error, without a stack trace.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import uvloop

from gateway.admin import (
    deployment_commands,
    evidence_commands,
    id_commands,
    keeping_commands,
    key_commands,
    stream_commands,
    tenant_commands,
    webhook_commands,
)
from gateway.admin.administration import AdminRefused
from gateway.admin.command_line import Command, command, group
from gateway.admin.routes import describe_routes
from gateway.admin_api.page import describe_admin_routes
from gateway.app import desk_of, open_shared, redact
from gateway.errors import Problem
from gateway.ids.keys import KeyRefused
from gateway.policy.actions import actions_of
from gateway.policy.check import check
from gateway.policy.source import PolicyError, shipped_folder
from gateway.serving import review_until_told, serve_until_told
from gateway.settings import Settings, SettingsError, describe, load
from gateway.stores.contract import StoreError
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.keyring import KeysMissing
from gateway.surfaces.table import EVERY
from gateway.telemetry import configure_logging
from gateway.transport.server import bound

STAND_IN_PORT: Final = 8089
_ABOUT: Final = """Coatcheck: one OpenAI key for many tenants, and no ID of the service for any of them."""
_NOTES: Final = """\
Settings come from coatcheck.toml (another file: COATCHECK_CONFIG) and the environment; `serve --help` lists them.
The commands on tenants, keys, IDs and the log work on the store of a gateway, whether it runs or not: give them its settings.
"""
_ERASURES_MENDS: Final = (
    "if this machine or data folder is new: copy the list from another machine that uses this store, or from its backup",
    "if the folder was used with another store or root key: set COATCHECK_DATA to a folder of its own",
)

_ROOT_KEY_MENDS: Final = (
    "give the key that this store was begun with as COATCHECK_ROOT_KEY (or the file of it as COATCHECK_ROOT_KEY_FILE)",
    "where another key takes its place: give that one, and the former as COATCHECK_PREVIOUS_ROOT_KEY (docs/keys.md)",
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(argv)
    if getattr(args, "raw", None) and args.owner is None:
        parser.error("adopting an ID needs its --owner")
    try:
        code: int = args.run(args) if "run" in args else _on_store(load(serves=False), args.work, args)
        sys.stdout.flush()
    except SettingsError as error:
        return _fail("the settings are wrong, and nothing was done:", *map(str, error.mistakes), code=2)
    except PolicyError as error:
        return _fail("the policies cannot be used:", *error.mistakes)
    except KeyRefused:
        return _fail(
            "the root key does not open the keys in this store: they were made with another one", *_ROOT_KEY_MENDS
        )
    except (AdminRefused, ErasuresUnreadable, KeysMissing) as error:
        return _fail(str(error), *(_ERASURES_MENDS if isinstance(error, ErasuresUnreadable) else ()))
    except StoreError as error:
        return _fail(f"the store cannot be used: {error}")
    except Problem:
        return _fail("the audit log cannot be written right now, so nothing goes on")
    except BrokenPipeError:
        # Whoever read the output has gone: nothing more is written, not even at the interpreter's end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(": ".join(str(part) for part in (error.filename, error.strerror or "timed out") if part))
    except KeyboardInterrupt:
        return 130
    return code


def _fail(text: str, *lines: str, code: int = 1) -> int:
    print(f"error: {text}", *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)
    return code


def _run(work: Coroutine[Any, Any, int]) -> int:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _serve(args: argparse.Namespace) -> int:
    overrides = {"server.host": args.host, "server.port": args.port}
    settings = load({name: value for name, value in overrides.items() if value is not None}, file=args.config)
    configure_logging(settings.log.level, redact)
    return _run(serve_until_told(settings))


def _console(args: argparse.Namespace) -> int:
    overrides = {"console.host": args.host, "console.port": args.port}
    settings = load(
        {name: value for name, value in overrides.items() if value is not None}, file=args.config, reviews=True
    )
    configure_logging(settings.log.level, redact)
    return _run(review_until_told(settings))


def _stand_in(args: argparse.Namespace) -> int:
    from gateway.demo.stand_in.server import serve as serve_stand_in  # noqa: PLC0415 - the gateway never loads it

    bound("127.0.0.1", args.port, "--port").close()
    serve_stand_in(args.port)
    return 0


def _demo(args: argparse.Namespace) -> int:
    from gateway.demo.guided import guide  # noqa: PLC0415 - the gateway never loads it

    return _run(guide(stays=not args.exit))


def _routes(args: argparse.Namespace) -> int:
    for line in describe_admin_routes() if args.admin else describe_routes():
        print(line)
    return 0


def _policy_check(args: argparse.Namespace) -> int:
    return check(args.folder or shipped_folder(), actions_of(EVERY), print)


def _on_store(settings: Settings, command: Command, args: argparse.Namespace) -> int:
    """A command on the store of a gateway."""

    async def opened() -> int:
        async with open_shared(settings, joins=True) as shared:
            return await command(desk_of(settings, shared), args)

    # What the parts log is for a gateway's log; what matters to a command is raised.
    logging.getLogger().addHandler(logging.NullHandler())
    return _run(opened())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m gateway", description=_ABOUT, epilog=_NOTES)
    groups = parser.add_subparsers(metavar="COMMAND", required=True)

    demo = command(groups, "demo", "the guided demo: shows what is promised, and checks it", run=_demo)
    demo.add_argument("--exit", action="store_true", help="end after the demo instead of staying up")

    serving = command(groups, "serve", "run the gateway", run=_serve)
    serving.formatter_class = argparse.RawDescriptionHelpFormatter
    reviewing = command(
        groups, "console", "run the audit console alone; it needs the audit root key and no other", run=_console
    )
    serving.epilog, reviewing.epilog = (
        f"Settings, by their key in the file and their environment variable, which wins:\n\n{describe()}",
        "Its settings are [console], [[console.issuer]], [redis] and [audit]; `serve --help` lists them.",
    )
    for one in (serving, reviewing):
        one.add_argument(
            "--config", type=Path, metavar="FILE", help="the settings' file (coatcheck.toml if there is one)"
        )
        one.add_argument("--host", metavar="H", help="address to listen on")
        one.add_argument("--port", type=int, metavar="P", help="port to listen on; 0 takes a free one")

    stand_in = command(groups, "stand-in", "run the stand-in provider, which behaves like the service", run=_stand_in)
    stand_in.add_argument("--port", type=int, default=STAND_IN_PORT, metavar="P", help="port (default: %(default)s)")

    tenant_commands.declare(groups)
    key_commands.declare(groups)
    id_commands.declare(groups)
    audit = group(
        groups, "audit", "the audit log: tail, export, verify, proof, key; status, retain, hold, anchor, reseal"
    )
    evidence_commands.declare(audit)
    keeping_commands.declare(audit)
    stream_commands.declare(audit)
    webhook_commands.declare(groups)
    deployment_commands.declare(groups)

    routes = command(
        groups, "routes", "what is served: method, path, what is done, IDs in, IDs out; and what is not", run=_routes
    )
    routes.add_argument("--admin", action="store_true", help="the admin API's instead: bodies and answers")
    policies = group(groups, "policy", "policies: check")
    checking = command(policies, "check", "validate the policies and run their cases", run=_policy_check)
    checking.add_argument(
        "folder", nargs="?", type=Path, metavar="FOLDER", help="default: the policies that come along"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
