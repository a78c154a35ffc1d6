"""The commands: parse, call, print. What they do is elsewhere.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage or settings. What is expected to fail says so in one block on
standard error, without a stack trace.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import uvloop

from gateway.admin import commands as desk
from gateway.admin.administration import Administration, AdminRefused
from gateway.admin.ids import Upstream
from gateway.admin.keys import LOCAL_ISSUER, parse_lifetime
from gateway.admin.routes import describe_routes
from gateway.app import UPSTREAM, Gateway, bound, open_gateway, open_shared, project_of, redact, reload_policies
from gateway.authn.api_key_form import KeyId
from gateway.errors import Problem
from gateway.ids.keys import KeyRefused
from gateway.names import Owner
from gateway.policy.actions import actions_of
from gateway.policy.check import check
from gateway.policy.source import PolicyError, shipped_folder
from gateway.settings import Settings, SettingsError, describe, load
from gateway.stores.contract import StoreError
from gateway.stores.erasures import ErasuresUnreadable
from gateway.stores.keyring import KeysMissing
from gateway.surfaces.table import ROUTES
from gateway.telemetry import configure_logging
from gateway.transport.server import Listen, serve

LOG = logging.getLogger("gateway")

T = TypeVar("T")

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


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(argv)
    if getattr(args, "raw", None) and args.owner is None:
        parser.error("adopting an ID needs its --owner")
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except SettingsError as error:
        return _fail("the settings are wrong, and nothing was done:", *map(str, error.mistakes), code=2)
    except PolicyError as error:
        return _fail("the policies cannot be used:", *error.mistakes)
    except KeyRefused:
        return _fail("the root key does not open the keys in this store: they were made with another one")
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
    return _run(_serve_until_told(settings))


async def _serve_until_told(settings: Settings) -> int:
    server, metrics = settings.server, settings.metrics
    with (
        bound(server.host, server.port, "--port") as main_socket,
        bound(metrics.host, metrics.port, "COATCHECK_METRICS_PORT") as side_socket,
    ):
        async with open_gateway(settings) as gateway:
            _settle_memory()
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGHUP, lambda: gateway.shared.tasks.spawn("reload policies", reload_policies(gateway.policies))
            )
            await serve_gateway(settings, gateway, main_socket, side_socket)
    return 0


def _settle_memory() -> None:
    """Take what was opened out of the collector's sight, and have it look less often.

    All of it stays until the end, and requests leave no circles of references behind. With the collector as it is set at
    first, a request costs 10 % more CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def serve_gateway(settings: Settings, gateway: Gateway, main: socket.socket, side: socket.socket) -> None:
    """Serves on bound sockets, the metrics on `side`, until SIGTERM or SIGINT."""
    main.listen()  # from here on a client waits instead of being turned away
    LOG.info("gateway.listening", extra={"fields": {"address": "{}:{}".format(*main.getsockname()[:2])}})
    certificate, key = settings.server.tls_certificate_file, settings.server.tls_key_file
    listen = Listen(
        sockets=(main,),
        ssl_certfile=str(certificate) if certificate else None,
        ssl_keyfile=str(key) if key else None,
    )
    await serve(
        gateway.app, gateway.limits, gateway.drain, listen, beside=((gateway.metrics, Listen(sockets=(side,))),)
    )


def _stand_in(args: argparse.Namespace) -> int:
    from gateway.demo.stand_in.server import serve as serve_stand_in  # noqa: PLC0415 - the gateway never loads it

    bound("127.0.0.1", args.port, "--port").close()
    serve_stand_in(args.port)
    return 0


def _demo(args: argparse.Namespace) -> int:
    from gateway.demo.guided import guide  # noqa: PLC0415 - the gateway never loads it

    return _run(guide(stays=not args.exit))


def _routes(args: argparse.Namespace) -> int:
    for line in describe_routes():
        print(line)
    return 0


def _policy_check(args: argparse.Namespace) -> int:
    return check(args.folder or shipped_folder(), actions_of(ROUTES), print)


def _at_desk(command: desk.Command) -> Callable[[argparse.Namespace], int]:
    async def work(settings: Settings, args: argparse.Namespace) -> int:
        async with open_shared(settings, joins=True) as shared:
            admin = Administration(shared.store, shared.keyring, shared.log)
            return await command(admin, Upstream(UPSTREAM, project_of(settings)), args)

    def run(args: argparse.Namespace) -> int:
        settings = load(serves=False)
        # What the parts log is for a gateway's log; what matters to a command is raised.
        logging.getLogger().addHandler(logging.NullHandler())
        return _run(work(settings, args))

    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m gateway", description=_ABOUT, epilog=_NOTES)
    groups = parser.add_subparsers(metavar="COMMAND", required=True)

    demo = _command(groups, "demo", "the guided demo: shows what is promised, and checks it", _demo)
    demo.add_argument("--exit", action="store_true", help="end after the demo instead of staying up")

    serving = _command(groups, "serve", "run the gateway", _serve)
    serving.formatter_class = argparse.RawDescriptionHelpFormatter
    serving.epilog = f"Settings, by their key in the file and their environment variable, which wins:\n\n{describe()}"
    serving.add_argument(
        "--config", type=Path, metavar="FILE", help="the settings' file (coatcheck.toml if there is one)"
    )
    serving.add_argument("--host", metavar="H", help="address to listen on")
    serving.add_argument("--port", type=int, metavar="P", help="port to listen on; 0 takes a free one")

    stand_in = _command(groups, "stand-in", "run the stand-in provider, which behaves like the service", _stand_in)
    stand_in.add_argument("--port", type=int, default=STAND_IN_PORT, metavar="P", help="port (default: %(default)s)")

    tenants = _group(groups, "tenant", "tenants: create, list, suspend")
    create = _command(tenants, "create", "make a tenant; prints its ID", _at_desk(desk.tenant_create))
    create.add_argument("name", metavar="NAME", help="for people; the ID is what counts")
    _command(tenants, "list", "all tenants: ID, state, name", _at_desk(desk.tenant_list))
    suspend = _command(
        tenants,
        "suspend",
        "refuse all calls of a tenant from now on; no command undoes it",
        _at_desk(desk.tenant_suspend),
    )
    suspend.add_argument("name", metavar="NAME", help="the tenant's name or ID")

    keys = _group(groups, "key", "gateway API keys: create, list, rotate, revoke")
    create = _command(keys, "create", "make a key; prints it alone on standard output", _at_desk(desk.key_create))
    _tenant(create)
    create.add_argument("--subject", required=True, metavar="SUB", help="whose key it is: a person or a service")
    create.add_argument("--issuer", default=LOCAL_ISSUER, help="who names the subject (default: %(default)s)")
    create.add_argument("--service", action="store_true", help="the key of a service, not of a person")
    create.add_argument(
        "--scope", action="append", default=[], metavar="S", help="act_as:ISSUER lets a service speak for its users"
    )
    create.add_argument(
        "--expires", type=_typed(parse_lifetime), metavar="TIME", help="90d, 12h or 30m (default: never)"
    )
    _tenant(_command(keys, "list", "a tenant's keys, without the keys themselves", _at_desk(desk.key_list)))
    rotate = _command(keys, "rotate", "make a key in the place of one; prints it alone", _at_desk(desk.key_rotate))
    revoke = _command(keys, "revoke", "refuse a key from now on", _at_desk(desk.key_revoke))
    for one in (rotate, revoke):
        one.add_argument("key_id", type=_typed(KeyId.parse), metavar="KEY_ID", help="as `key list` shows it")
    rotate.add_argument(
        "--grace", type=_typed(parse_lifetime), default="1h", metavar="TIME", help="how long the old key works on (1h)"
    )

    ids = _group(groups, "id", "IDs: adopt those of the service, show what an opaque one stands for")
    adopt = _command(
        ids, "adopt", "enter an ID of the service as somebody's; prints the opaque ID", _at_desk(desk.id_adopt)
    )
    _tenant(adopt)
    adopted = adopt.add_mutually_exclusive_group(required=True)
    adopted.add_argument("raw", nargs="?", metavar="RAW", help="the service's ID of a response or a conversation")
    adopted.add_argument(
        "--from", dest="lines", type=_typed(_read_lines), metavar="FILE",
        help="many: a line each, RAW or RAW ISSUER#SUB; prints RAW, a tab and the opaque ID",
    )  # fmt: skip
    adopt.add_argument(
        "--owner",
        type=_typed(Owner.parse),
        metavar="ISSUER#SUB",
        help="whose it becomes, such as local#alice; with --from, where a line says nothing",
    )
    show = _command(
        ids, "show", "print the service's ID behind an opaque one; this is recorded", _at_desk(desk.id_show)
    )
    _tenant(show)
    show.add_argument("opaque", metavar="OPAQUE", help="the opaque ID")

    audit = _group(groups, "audit", "the audit log: tail")
    tail = _command(audit, "tail", "a tenant's newest events; reading is recorded", _at_desk(desk.audit_tail))
    _tenant(tail)
    tail.add_argument("--follow", action="store_true", help="go on with further events until interrupted")
    tail.add_argument("--json", action="store_true", help="events as they are stored, a line of JSON each")

    _command(groups, "routes", "what is served: method, path, what is done, IDs in, IDs out; and what is not", _routes)
    policies = _group(groups, "policy", "policies: check")
    checking = _command(policies, "check", "validate the policies and run their cases", _policy_check)
    checking.add_argument(
        "folder", nargs="?", type=Path, metavar="FOLDER", help="default: the policies that come along"
    )
    return parser


def _group(parent: Any, name: str, does: str) -> Any:
    return parent.add_parser(name, help=does, description=does).add_subparsers(metavar="COMMAND", required=True)


def _command(parent: Any, name: str, does: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = parent.add_parser(name, help=does, description=does[0].upper() + does[1:] + ".")
    made.set_defaults(run=run)
    return made


def _tenant(command: argparse.ArgumentParser) -> None:
    command.add_argument("tenant", metavar="TENANT", help="the tenant's name or ID")


def _typed(parse: Callable[[str], T]) -> Callable[[str], T]:
    """An argument's type that shows its own words for a mistake."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except (AdminRefused, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"cannot read {path}: it is not UTF-8") from None


if __name__ == "__main__":
    sys.exit(main())
