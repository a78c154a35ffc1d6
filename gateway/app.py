"""The composition root: settings → stores, upstream, authenticators, policies → the ASGI apps. Opens and closes them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from gateway.audit.log import AuditLog, AuditSettings
from gateway.authn.api_key import ApiKeyAuthenticator
from gateway.authn.authenticate import Authentication
from gateway.authn.jwks import Jwks
from gateway.authn.jwks_fetch import Fetcher
from gateway.authn.jwt import JwtAuthenticator
from gateway.ids.keys import LocalRoot
from gateway.ids.shape import RAW
from gateway.mapping import Mappers
from gateway.pipeline.answering import Answering
from gateway.pipeline.idempotency import Idempotency
from gateway.pipeline.provider import Provider
from gateway.pipeline.recorder import Recorder
from gateway.pipeline.request import Pipeline
from gateway.pipeline.salvage import Salvage
from gateway.pipeline.settling import Settler
from gateway.policy.actions import actions_of
from gateway.policy.engine import PolicySet
from gateway.policy.source import PolicyError, shipped_folder
from gateway.settings import Settings
from gateway.stores.contract import Store, StoreError
from gateway.stores.embedded import JOIN_TIMEOUT_S, START_TIMEOUT_S, open_embedded
from gateway.stores.keyring import Keyring
from gateway.stores.link import Link
from gateway.stores.redis import SCRIPTS, RedisStore
from gateway.surfaces.table import ROUTES
from gateway.tasks import Tasks
from gateway.telemetry import Metrics, metrics_app
from gateway.transport.budget import BodyBudget
from gateway.transport.cors import Cors
from gateway.transport.drain import Drain
from gateway.transport.guard import App
from gateway.transport.health import Health
from gateway.transport.http import GatewayApp
from gateway.transport.limits import Limits
from gateway.upstreams import Upstream, parse_base_url, tls_context

LOG = logging.getLogger(__name__)

UPSTREAM: Final = "openai"
"""The name of the upstream key in records and logs."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the gateway and the operator's commands both work on."""

    store: RedisStore
    keyring: Keyring
    log: AuditLog
    tasks: Tasks


@dataclass(frozen=True, slots=True)
class Gateway:
    """A composed gateway, ready to be served."""

    app: App
    metrics: App
    limits: Limits
    drain: Drain
    shared: Shared
    policies: PolicySet


@asynccontextmanager
async def open_shared(settings: Settings, *, joins: bool = False) -> AsyncIterator[Shared]:
    """Store, keys and log. `joins`: for a command, which may work on the embedded store of a gateway that is running.

    Creates the deployment's keys where there are none. Raises StoreError, KeyRefused and ErasuresUnreadable.
    """
    async with AsyncExitStack() as stack:
        link = settings.redis.link()
        if link is None:
            store = await open_embedded(settings.data, joins=joins)
        else:
            timeout_s = JOIN_TIMEOUT_S if joins else START_TIMEOUT_S
            store = RedisStore(await Link.open(link, SCRIPTS, timeout_s))
        stack.push_async_callback(store.aclose)
        root = LocalRoot(settings.root_key)
        audit_root = LocalRoot(settings.audit_root_key) if settings.audit_root_key else root.audit_root()
        keyring = Keyring(store, root, audit_root, settings.data / "erasures")
        await keyring.create_deployment()
        log = AuditLog(
            store, AuditSettings(settings.audit.begin_timeout_s, sweep_every_s=settings.audit.sweep_interval_s)
        )
        stack.push_async_callback(log.aclose)
        tasks = Tasks()
        stack.push_async_callback(tasks.aclose)
        yield Shared(store, keyring, log, tasks)


@asynccontextmanager
async def open_gateway(settings: Settings) -> AsyncIterator[Gateway]:
    """Everything that `serve` needs. Raises what `open_shared` raises, and PolicyError."""
    async with open_shared(settings) as shared, AsyncExitStack() as stack:
        policies = await asyncio.to_thread(load_policies, settings)
        origin, tls = parse_base_url(settings.openai.base_url), await asyncio.to_thread(tls_context)
        upstream = Upstream(UPSTREAM, project_of(settings), origin, settings.upstream, tls=tls)
        stack.push_async_callback(upstream.aclose)
        metrics = Metrics()
        provider = Provider(upstream, settings.openai.credential(), settings.requests.max_answer_bytes, metrics)
        jwt = jwt_authenticator(settings)
        stack.push_async_callback(jwt.aclose)
        open_intent_s = round(settings.upstream.total_timeout_s) + 60
        salvage = Salvage(provider, shared.keyring, settings.data / "spool")
        drain = Drain()
        recorder = Recorder(shared.log, shared.store, salvage, shared.tasks, metrics, lambda: drain.expired)
        settler = Settler(provider, recorder, open_intent_s)
        cors = Cors.of(settings.origins)
        pipeline = Pipeline(
            authentication=Authentication((ApiKeyAuthenticator(shared.store, shared.keyring), jwt)),
            keyring=shared.keyring,
            mappers=Mappers(provider.name, provider.project),
            log=shared.log,
            policies=policies,
            answering=Answering(provider, recorder, settler, settings.requests.ping_interval_s),
            recorder=recorder,
            idempotency=Idempotency(
                shared.store, shared.tasks, open_intent_s, settings.requests.idempotency_lifetime_s
            ),
            admit=lambda head, principal: cors.check(head, principal.owner.issuer),  # type: ignore[arg-type]
            open_intent_s=open_intent_s,
        )
        limits = settings.transport
        shared.log.start()
        shared.tasks.spawn("salvage", salvage.sweep_forever())
        app = GatewayApp(
            pipeline,
            Health(lambda: answers(shared.store), drain),
            limits,
            drain,
            cors,
            metrics,
            BodyBudget(limits.bodies_bytes),
        )
        yield Gateway(app, metrics_app(metrics), limits, drain, shared, policies)


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


async def answers(store: Store) -> bool:
    """Whether the store can be read, for readiness."""
    try:
        await store.deployment_secret("secret")
    except StoreError:
        return False
    return True


async def reload_policies(policies: PolicySet) -> None:
    """Takes the policies' folder as it is now; where it has mistakes, the old policies stay, and the log names them."""
    try:
        await asyncio.to_thread(policies.reload)
    except PolicyError as error:
        LOG.error("policies.not_reloaded", extra={"fields": {"mistakes": str(error)}})
    else:
        LOG.info("policies.reloaded")


def load_policies(settings: Settings) -> PolicySet:
    """Raises PolicyError with every mistake."""
    folder = settings.policies or shipped_folder()
    return PolicySet.load(folder, actions_of(ROUTES), settings.requests.decision_cache_entries)


def project_of(settings: Settings) -> str:
    """The identity of the upstream project: part of every ID, so it must stay when the key is rotated."""
    return settings.openai.project or "default"


def jwt_authenticator(settings: Settings) -> JwtAuthenticator:
    fetcher = Fetcher()
    return JwtAuthenticator([(issuer, Jwks(issuer, fetcher)) for issuer in settings.issuers])


def redact(text: str) -> str:
    """A log line's text without anything of raw shape."""
    return RAW.sub("[id]", text)
