"""The demo's world: provider, store, gateway, two tenants with two users each. All of it ends with the block."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import os
import secrets
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
from openai import AsyncOpenAI

from gateway.admin.administration import Administration
from gateway.admin.ids import Upstream
from gateway.admin.keys import LOCAL_ISSUER, create_key
from gateway.admin.tenants import create_tenant, list_tenants
from gateway.app import Shared, open_gateway, project_of, redact
from gateway.authn.issuer import IssuerSettings
from gateway.authn.relying_party import RelyingParty
from gateway.demo.identity import CLIENT_ID, Account, Identity
from gateway.demo.stand_in.provider import Options, Provider
from gateway.demo.stand_in.scripts import parse
from gateway.demo.stand_in.server import Running, running
from gateway.demo.wire import Exchange, RecordingTransport
from gateway.ids.form import DeploymentForm
from gateway.names import Owner, Principal, PrincipalKind, TenantId
from gateway.pipeline.evidence import actor
from gateway.reviewing import Parts, open_console, origin_of
from gateway.settings import OpenAI, Redis, Settings, load
from gateway.settings.readers import read_key, read_secret_file
from gateway.stores.embedded import EmbeddedStore
from gateway.telemetry import configure_logging
from gateway.transport.server import Listen, bound
from gateway.transport.server import running as serving
from gateway.upstreams.fleet import FIRST

USERS: Final = (("Alice", "acme"), ("Carol", "acme"), ("Bob", "bravo"), ("Dave", "bravo"))
SHARED_KEY: Final = "sk-stand-in-shared-key"
PLANTS: Final = "unknown_events"
KEY_LIFETIME_S: Final = 86_400
KEY_FILE: Final = "demo.key"
ACCOUNTS: Final = {
    "ada": Account("ada", "acme", ("auditor",)),
    "max": Account("max", "acme", ("admin",)),
    "bea": Account("bea", "bravo", ("auditor",)),
}
"""Who may review; they exist in the demo only."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class User:
    name: str
    tenant_name: str
    tenant: TenantId
    key: str
    pseudonym: str
    """As the tenant's audit log calls them."""
    client: AsyncOpenAI


@dataclass(frozen=True, slots=True)
class Stage:
    settings: Settings
    url: str
    """`http://127.0.0.1:<port>/v1`"""
    admin: Administration
    upstream: Upstream
    form: DeploymentForm
    users: dict[str, User]
    provider: Provider | None
    """The stand-in's state; None where the real service is used, which does not show what it received."""
    wire: list[Exchange]
    """Every exchange of every user, in order."""
    store: str
    """What the store is, for people."""
    in_memory: bool
    log_file: Path
    names: dict[str, str]
    """User by pseudonym."""
    clients_loop: asyncio.AbstractEventLoop
    console: str
    """`http://127.0.0.1:<port>`"""
    password: str
    """Of the console's accounts, made for this run."""

    async def aside(self, work: Coroutine[Any, Any, T]) -> T:
        """Does the users' work, which is all that calls their clients, in their loop."""
        return await _aside(self.clients_loop, work)


@contextlib.asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    """Raises SettingsError, OSError for a port that is taken, and what `open_gateway` raises."""
    async with contextlib.AsyncExitStack() as stack:
        scratch = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="coatcheck-demo-")
        stack.push_async_callback(asyncio.to_thread, scratch.cleanup)
        settings = await asyncio.to_thread(_settings, Path(scratch.name))
        log_file = settings.data / "demo.log"
        log = stack.enter_context(await asyncio.to_thread(log_file.open, "a", encoding="utf-8"))
        configure_logging(settings.log.level, redact, log)
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # the users' side, not the gateway's
        stack.callback(logging.getLogger().handlers.clear)

        stand_in = None
        if settings.demo.provider == "stand-in":
            stand_in = await stack.enter_async_context(_stand_in())
            settings = replace(settings, openai=OpenAI(SHARED_KEY, stand_in.api_url))
        listener = stack.enter_context(bound("127.0.0.1", settings.server.port, "COATCHECK_PORT"))
        gateway = await stack.enter_async_context(open_gateway(settings))
        shared = gateway.shared
        listen = Listen(sockets=(listener,))
        await stack.enter_async_context(serving(gateway.app, gateway.limits, gateway.drain, listen))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"

        admin = Administration(shared.store, shared.keyring, shared.log, shared.checkpointer)
        clients_loop = stack.enter_context(_loop_in_thread())
        wire: list[Exchange] = []
        users = {name: await _user(admin, name, tenant, url, wire) for name, tenant in USERS}
        for user in users.values():
            stack.push_async_callback(_closed, user.client, clients_loop)
        password = secrets.token_urlsafe(9)
        console = await stack.enter_async_context(_console(settings, shared, users, password))
        in_memory = not isinstance(shared.store, EmbeddedStore)
        yield Stage(
            settings=settings,
            url=url,
            admin=admin,
            upstream=Upstream(FIRST, project_of(settings)),
            form=(await shared.keyring.deployment()).form,
            users=users,
            provider=stand_in.provider if stand_in else None,
            wire=wire,
            store="in memory" if in_memory else "a private redis-server",
            in_memory=in_memory,
            log_file=log_file,
            names={user.pseudonym: user.name for user in users.values()},
            clients_loop=clients_loop,
            console=console,
            password=password,
        )


@contextlib.asynccontextmanager
async def _console(settings: Settings, shared: Shared, users: dict[str, User], password: str) -> AsyncIterator[str]:
    """The audit console, and the identity provider that its built-in accounts sign in at. Its address."""
    with (
        bound("127.0.0.1", settings.console.port, "COATCHECK_CONSOLE_PORT") as listener,
        bound("127.0.0.1", 0, "") as provider_listener,
    ):
        port = listener.getsockname()[1]
        settings = replace(settings, console=replace(settings.console, host="127.0.0.1", url=""))
        issuer = f"http://127.0.0.1:{provider_listener.getsockname()[1]}"
        origin = origin_of(settings, port)
        tenants = tuple({user.tenant_name: user.tenant for user in users.values()}.items())
        trusted = IssuerSettings(
            issuer, CLIENT_ID, tenants=tenants, tenant_claim=("org",), algorithms=("ES256",), allow_loopback_http=True
        )
        settings = replace(settings, console_issuers=(RelyingParty(trusted, "a demo account"),))
        identity: Any = Identity(issuer, f"{origin}/sign-in/done", ACCOUNTS, password).app()
        parts = Parts(shared.store, shared.audit_keys, shared.log, shared.streams)
        async with (
            serving(identity, settings.transport, listen=Listen(sockets=(provider_listener,))),
            open_console(settings, port, parts) as console,
            serving(console, settings.transport, listen=Listen(sockets=(listener,))),
        ):
            yield origin


def _settings(scratch: Path) -> Settings:
    """Those that are given, with a throw-away data folder and a free port where none is. The store is always the embedded
    one: a Redis with real keys in it is no place for a demo."""
    made = os.urandom(32)
    settings = load(
        defaults={
            "data": scratch,
            "root_key": base64.b64encode(made).decode(),
            "server.port": 0,
            "console.port": 0,
        },
        serves=False,
    )
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if settings.root_key == made:
        settings = replace(settings, root_key=_kept_key(settings.data / KEY_FILE, made))
    return replace(settings, redis=Redis())


def _kept_key(path: Path, made: bytes) -> bytes:
    """The root key of this data folder: it lasts as long as the data that it opens."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, base64.b64encode(made) + b"\n")
        os.close(descriptor)
    return read_key(read_secret_file(path))


@contextlib.asynccontextmanager
async def _stand_in() -> AsyncIterator[Running]:
    """The unkind stand-in, in a thread of its own: it plants raw IDs in every place of every answer."""
    opening = running(Options(api_key=SHARED_KEY, canary=True))
    opened = await asyncio.to_thread(opening.__enter__)
    # The model quotes no ID: its words are the user's content, where only what a request touched is replaced.
    opened.provider.script = parse(PLANTS)
    try:
        yield opened
    finally:
        await asyncio.to_thread(opening.__exit__, None, None, None)


@contextlib.contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """The users' own loop: the SDK works for long stretches (it builds its types when it first needs them), and the gateway
    must not wait for that."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="clients", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _aside(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


async def _closed(client: AsyncOpenAI, loop: asyncio.AbstractEventLoop) -> None:
    await _aside(loop, client.close())


async def _user(
    admin: Administration,
    name: str,
    tenant_name: str,
    url: str,
    wire: list[Exchange],
) -> User:
    """A user with a key of a day; the tenant is made where it is missing."""
    found = [tenant.id async for tenant in list_tenants(admin) if tenant.name == tenant_name]
    tenant = found[0] if found else await create_tenant(admin, tenant_name)
    owner = Owner(LOCAL_ISSUER, name.lower())
    made = await create_key(admin, tenant, owner, lifetime_s=KEY_LIFETIME_S)
    keys = (await admin.unlock(tenant)).keys.audit
    pseudonym = actor(keys, Principal(tenant, owner, PrincipalKind.USER, "api_key")).pseudonym
    http = httpx2.AsyncClient(transport=RecordingTransport(name, wire), timeout=60)
    client = AsyncOpenAI(api_key=made.key, base_url=url, max_retries=0, http_client=http)
    return User(name, tenant_name, tenant, made.key, pseudonym, client)
