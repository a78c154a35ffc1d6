"""A console at work: a real Redis, two tenants with a log, a checkpointer, an identity provider, and a browser without scripts.

async with house(redis_url, folder) as home:
    auditor = await home.signed_in("ada")
    page = await auditor.get("/log")
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx2

from gateway import custody
from gateway.audit.anchors.file import FileAnchor
from gateway.audit.checkpoints import Checkpointer, CheckpointSettings
from gateway.audit.event import Event
from gateway.audit.log import AuditLog
from gateway.audit.streams.registry import Streams
from gateway.console.shield import App
from gateway.demo.identity import CLIENT_ID, Account, Identity
from gateway.ids.keys import AuditKeys, LocalRoot, Purpose, Versions
from gateway.names import TenantId
from gateway.outgoing import Outgoing, Reach
from gateway.reviewing import Parts, open_console
from gateway.settings import Settings, TransportLimits, load
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.contract import StoredEvent
from gateway.stores.keyring import Keyring
from gateway.stores.link import Link
from gateway.stores.redis import SCRIPTS, RedisStore
from gateway.tasks import Tasks
from gateway.transport.server import Listen, running
from tests.patience import PATIENT_LOG

ACME, RIVAL = TenantId("acmeacmeacmeacme"), TenantId("rivalrivalrivalr")
ROOT_KEY = bytes(range(32))
PASSWORD = "opens-the-demo"
ADAS_SUBJECT = "ada@example.com"
"""Chance writes no such thing in hex or base64, so that a text can be searched for it."""
ACCOUNTS = {
    "ada": Account(ADAS_SUBJECT, "acme", ("auditor",)),
    "max": Account("max", "acme", ("admin",)),
    "rita": Account("rita", "rival", ("auditor",)),
    "nora": Account("nora", "acme", ("developer",)),
    "otto": Account("otto", "nowhere", ("admin",)),
}


@dataclass(slots=True)
class Twisted(Identity):
    """A provider that may say what it should not."""

    twist: dict[str, Any] = field(default_factory=dict)
    """Claims in the place of the right ones; None takes one out."""
    signs: Callable[[dict[str, Any]], str] | None = None

    def claims(self, account: Account, nonce: str, now: int) -> dict[str, Any]:
        # By its name: a slotted dataclass is made anew, and `super()` would mean the first one.
        claims = Identity.claims(self, account, nonce, now) | self.twist
        return {name: value for name, value in claims.items() if value is not None}

    def sign(self, claims: dict[str, Any]) -> str:
        return self.signs(claims) if self.signs else Identity.sign(self, claims)


_COOKIE = re.compile(r"([^=]+)=([^;]*)(.*)")


@dataclass
class Browser:
    """Keeps cookies, sends what a browser sends beside, and follows redirects only when told to."""

    http: httpx2.AsyncClient
    origin: str
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, url: str, **headers: str) -> httpx2.Response:
        return await self.send("GET", url, None, **headers)

    async def post(self, url: str, form: Mapping[str, str] | None = None, **headers: str) -> httpx2.Response:
        return await self.send("POST", url, form, **headers)

    async def send(
        self, method: str, url: str, form: Mapping[str, str] | None = None, **headers: str
    ) -> httpx2.Response:
        url = urljoin(self.origin, url)
        if urlsplit(url).netloc == urlsplit(self.origin).netloc:
            beside = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        else:
            beside = {}
        sent = beside | {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies and beside:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = urlencode(form).encode() if form is not None else None
        if body is not None:
            sent["content-type"] = "application/x-www-form-urlencoded"
        answer = await self.http.request(method, url, headers={k: v for k, v in sent.items() if v}, content=body)
        for line in answer.headers.get_list("set-cookie"):
            if match := _COOKIE.fullmatch(line):
                self.cookies[match[1]] = match[2].strip('"')
                if "Max-Age=0" in match[3]:
                    del self.cookies[match[1]]
        return answer

    async def follow(self, url: str) -> httpx2.Response:
        """The page at the end of the redirects."""
        for _ in range(10):
            answer = await self.get(url)
            if answer.status_code != 303:
                return answer
            url = urljoin(url, answer.headers["location"])
        raise AssertionError("redirected without end")


@dataclass
class House:
    origin: str
    settings: Settings
    store: RedisStore
    keyring: AuditKeyring
    log: AuditLog
    checkpointer: Checkpointer
    identity: Twisted
    http: httpx2.AsyncClient

    def browser(self) -> Browser:
        return Browser(self.http, self.origin)

    async def signed_in(self, account: str, browser: Browser | None = None) -> Browser:
        browser = browser or self.browser()
        answer = await browser.get(await self.answered(account, browser))
        assert answer.status_code == 303, answer.text
        return browser

    async def answered(self, account: str, browser: Browser, **start: str) -> str:
        """The address to which the provider sends the browser back, with its answer."""
        started = await browser.get("/sign-in/start?" + urlencode({"provider": "1", "next": "/log", **start}))
        assert started.status_code == 303, started.text
        given = await browser.post(started.headers["location"], {"account": account, "password": PASSWORD})
        assert given.status_code == 303, given.text
        return str(given.headers["location"])

    async def keys(self, tenant: TenantId = ACME) -> Versions[AuditKeys]:
        return await self.keyring.tenant(tenant)

    async def rotate(self) -> None:
        """Gives ACME a further version of its audit keys, used from now on."""
        keyring = Keyring(
            self.store,
            LocalRoot(self.settings.root_key),
            custody.audit_root(self.settings),
            self.settings.data / "erasures",
            now_s=lambda: time.time() - 3600,
        )
        await keyring.rotate(ACME, Purpose.AUDIT)
        self.keyring._tenants.clear()

    async def write(self, *events: Event) -> None:
        for event in events:
            await self.log.record(event.tenant, event)

    async def sign(self) -> None:
        """Has all of the logs signed and anchored."""
        await self.checkpointer.check([ACME, RIVAL])
        await self.checkpointer.flush()

    async def events(self, tenant: TenantId = ACME) -> list[dict[str, Any]]:
        """The tenant's events, each with its number."""
        return [json.loads(one.body) | {"seq": one.seq} for one in await self.stored(tenant)]

    async def stored(self, tenant: TenantId = ACME) -> list[StoredEvent]:
        found: list[StoredEvent] = []
        while page := await self.store.read_events(tenant, found[-1].seq if found else 0, 1000):
            found += page
        return found


@contextlib.asynccontextmanager
async def house(
    redis_url: str,
    folder: Path,
    reach: Reach = Reach.PUBLIC,
    *,
    listener: socket.socket | None = None,
    issuer: str = "",
    more: str = "",
    **env: str,
) -> AsyncIterator[House]:
    """Ports are free ones. `reach`: where streams may lead; `listener`: the console's socket, bound; `issuer`: a provider in the
    place of the one that is made here; `more`: lines of its table; `env`: further settings."""
    with listener or bound_socket() as console_socket, bound_socket() as identity_socket:
        port = console_socket.getsockname()[1]
        own = f"http://127.0.0.1:{identity_socket.getsockname()[1]}"
        settings = await asyncio.to_thread(_settings, redis_url, folder, issuer or own, more, env)
        origin = f"http://127.0.0.1:{port}"
        identity = Twisted(own, f"{origin}/sign-in/done", ACCOUNTS, PASSWORD)
        async with contextlib.AsyncExitStack() as stack:
            link = settings.redis.link()
            assert link is not None
            store = RedisStore(await Link.open(link, SCRIPTS))
            stack.push_async_callback(store.aclose)
            await _tenants(store, settings)
            keyring = AuditKeyring(store, custody.audit_root(settings), settings.data / "erasures")
            checkpointer = Checkpointer(store, keyring, (FileAnchor(folder / "anchors"),), CheckpointSettings())
            log = AuditLog(store, keyring, PATIENT_LOG)
            log.watch = checkpointer
            stack.push_async_callback(checkpointer.aclose)
            stack.push_async_callback(log.aclose)
            tasks = Tasks()
            stack.push_async_callback(tasks.aclose)
            streams = Streams(store.streams, Outgoing(reach))
            console: App = await stack.enter_async_context(
                open_console(settings, port, Parts(store, keyring, log, streams))
            )
            http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False, timeout=30))
            limits = TransportLimits(drain_s=0.1, exit_s=2)
            await stack.enter_async_context(running(console, limits, listen=Listen(sockets=(console_socket,))))
            await stack.enter_async_context(running(identity.app(), limits, listen=Listen(sockets=(identity_socket,))))
            yield House(origin, settings, store, keyring, log, checkpointer, identity, http)


def bound_socket() -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made


def _settings(redis_url: str, folder: Path, issuer: str, more: str, env: Mapping[str, str]) -> Settings:
    file = folder / "console.toml"
    file.write_text(f"""
[console]
enabled = true
[[console.issuer]]
issuer = "{issuer}"
client_id = "{CLIENT_ID}"
name = "the demo provider"
tenants = {{ acme = "{ACME}", rival = "{RIVAL}" }}
tenant_claim = "org"
algorithms = ["ES256", "RS256"]
allow_loopback_http = true
{more}
""")
    given = {
        "COATCHECK_ROOT_KEY": base64.b64encode(ROOT_KEY).decode(),
        "COATCHECK_DATA": str(folder),
        "REDIS_URL": redis_url,
        **env,
    }
    return load({}, given, file, serves=False)


async def _tenants(store: RedisStore, settings: Settings) -> None:
    keyring = Keyring(store, LocalRoot(settings.root_key), custody.audit_root(settings), settings.data / "erasures")
    await keyring.create_deployment()
    for tenant in (ACME, RIVAL):
        await keyring.create_tenant(tenant)
        await store.create_tenant(tenant, b"directory record")


def query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))
