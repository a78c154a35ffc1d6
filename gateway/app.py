"""The composition root: settings → stores, upstream, authenticators, policies → the ASGI apps. Opens and closes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from gateway import custody
from gateway.admin.administration import Administration, AdminRefused
from gateway.admin.desk import Desk
from gateway.admin.erasing import Ender, Place
from gateway.admin_api.tenant import TenantDoor
from gateway.audit.checkpoints import Checkpointer
from gateway.audit.log import AuditLog, AuditSettings
from gateway.audit.receivers import Trials
from gateway.audit.streams.deliver import Deliverer
from gateway.audit.streams.registry import Streams
from gateway.authn.api_key import ApiKeyAuthenticator
from gateway.authn.authenticate import Authentication
from gateway.authn.jwks import Jwks
from gateway.authn.jwks_fetch import Fetcher
from gateway.authn.jwt import JwtAuthenticator
from gateway.ids.shape import RAW
from gateway.mapping import Mappers
from gateway.pipeline.answering import Answering
from gateway.pipeline.examples import ExampleChecks
from gateway.pipeline.idempotency import Idempotency
from gateway.pipeline.line_answers import LineAnswers
from gateway.pipeline.lines import LineChecks
from gateway.pipeline.listing import Lister
from gateway.pipeline.provider import Provider
from gateway.pipeline.recorder import Recorder
from gateway.pipeline.request import Pipeline
from gateway.pipeline.routing import Routing
from gateway.pipeline.salvage import Salvage
from gateway.pipeline.settling import Settler
from gateway.pipeline.sockets import Sockets
from gateway.pipeline.standing import Watch
from gateway.pipeline.threads import Threads
from gateway.pipeline.transfer import Rewriters
from gateway.policy.actions import actions_of
from gateway.policy.engine import PolicySet
from gateway.policy.source import PolicyError, shipped_folder
from gateway.settings import Settings
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.contract import Store, StoreError
from gateway.stores.keyring import Keyring
from gateway.stores.redis import RedisStore
from gateway.surfaces import batches, training
from gateway.surfaces.table import EVERY
from gateway.tasks import Tasks
from gateway.telemetry import Metrics, metrics_app
from gateway.transport.bodies import parse_json
from gateway.transport.budget import Budget
from gateway.transport.cors import Cors
from gateway.transport.drain import Drain
from gateway.transport.guard import App
from gateway.transport.health import Health
from gateway.transport.http import GatewayApp
from gateway.transport.limits import Limits
from gateway.transport.spool import Spools
from gateway.transport.webhooks import WebhookDoors, path_of
from gateway.transport.websocket import WebSocketApp
from gateway.upstreams import Upstream, parse_base_url, tls_context
from gateway.upstreams.fleet import FIRST, Fleet, UpstreamSettings
from gateway.webhooks import deliver as webhook_delivery
from gateway.webhooks.intake import Intake, IntakeSettings, Source
from gateway.webhooks.registry import Webhooks
from gateway.webhooks.signature import load_verifier

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shared:
    """What the gateway and the operator's commands both work on."""

    store: RedisStore
    keyring: Keyring
    log: AuditLog
    checkpointer: Checkpointer
    audit_keys: AuditKeyring
    streams: Streams
    webhooks: Webhooks
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
        store = await custody.open_store(settings, joins=joins)
        stack.push_async_callback(store.aclose)
        audit_root = custody.audit_root(settings)
        keyring = Keyring(store, custody.root(settings), audit_root, settings.data / "erasures")
        await keyring.create_deployment()
        audit_keys = AuditKeyring(store, audit_root, settings.data / "erasures")
        limits = AuditSettings(settings.redis.answer_timeout_s, sweep_every_s=settings.audit.sweep_interval_s)
        log = AuditLog(store, audit_keys, limits)
        checkpointer = custody.checkpointer(settings, store, audit_keys, log)
        stack.push_async_callback(checkpointer.aclose)
        stack.push_async_callback(log.aclose)
        tasks = Tasks()
        stack.push_async_callback(tasks.aclose)
        trials = Trials()
        streams = Streams(store.streams, custody.outgoing(settings, settings.audit.stream_timeout_s), trials)
        webhooks = Webhooks(store.webhooks, custody.outgoing(settings, settings.webhooks.timeout_s), trials)
        yield Shared(store, keyring, log, checkpointer, audit_keys, streams, webhooks, tasks)


@asynccontextmanager
async def open_salvage(settings: Settings, keyring: Keyring) -> AsyncIterator[Salvage]:
    """What deletes objects upstream, for a command."""
    async with _open_upstreams(settings, Metrics()) as routing:
        yield Salvage(routing, keyring, settings.data / "undo")


def desk_of(settings: Settings, shared: Shared) -> Desk:
    """The operator's desk on the parts of this process."""

    @asynccontextmanager
    async def open_ender() -> AsyncIterator[Ender]:
        if not settings.openai.api_key and not settings.upstreams:
            raise AdminRefused("the tenant's objects are deleted at the service first: set OPENAI_API_KEY")
        async with open_salvage(settings, shared.keyring) as salvage:
            yield salvage

    return Desk(
        Administration(shared.store, shared.keyring, shared.log, shared.checkpointer),
        shared.streams,
        shared.webhooks,
        _projects(settings),
        Place(settings.data / "erased", settings.audit.backups_kept_days),
        open_ender,
    )


def _projects(settings: Settings) -> dict[str, str]:
    """The project of each upstream key by its name, the first first."""
    known = {one.name: one.scope for one in settings.upstreams}
    return {FIRST: project_of(settings), **known} if settings.openai.api_key or not known else known


@asynccontextmanager
async def _open_upstreams(settings: Settings, metrics: Metrics) -> AsyncIterator[Routing]:
    """All upstreams of the settings, `[openai]` first."""
    async with AsyncExitStack() as stack:
        tls = await asyncio.to_thread(tls_context)
        members = []
        for one in upstreams_of(settings):
            upstream = Upstream(one.name, one.scope, one.origin, settings.upstream, tls=tls)
            stack.push_async_callback(upstream.aclose)
            most, limits = settings.requests.max_answer_bytes, settings.upstream
            percent = settings.transport.tenant_percent
            calls = Budget(limits.max_connections, percent, free=0, waiting=limits.max_waiting)
            members.append(Provider(upstream, one.credential, most, metrics, calls.lease, one.weight))
        yield Routing(Fleet(members))


@asynccontextmanager
async def open_gateway(settings: Settings) -> AsyncIterator[Gateway]:
    """Everything that `serve` needs. Raises what `open_shared` raises, and PolicyError."""
    async with open_shared(settings) as shared, AsyncExitStack() as stack:
        policies = await asyncio.to_thread(load_policies, settings)
        metrics, drain, limits = Metrics(), Drain(), settings.transport
        routing = await stack.enter_async_context(_open_upstreams(settings, metrics))
        jwt = jwt_authenticator(settings)
        stack.push_async_callback(jwt.aclose)
        salvage = Salvage(routing, shared.keyring, settings.data / "undo")
        limit_s = settings.redis.answer_timeout_s
        recorder = Recorder(shared.log, shared.store, salvage, shared.tasks, metrics, limit_s, lambda: drain.expired)
        cors = Cors.of(settings.origins)
        bodies = Budget(limits.bodies_bytes, limits.tenant_percent)
        pipeline = _pipeline(settings, shared, policies, routing, jwt, recorder, cors, bodies)
        await _start(settings, shared, salvage, metrics)
        app: App = GatewayApp(
            pipeline,
            Health(lambda: answers(shared.store), drain, audit_is_whole=lambda: not shared.checkpointer.halted),
            limits,
            drain,
            cors,
            metrics,
            bodies,
            Spools(settings.data, Budget(limits.spools_bytes, limits.tenant_percent)),
            WebSocketApp(
                Sockets(pipeline, limits.websocket_frame_bytes),
                limits,
                drain,
                metrics,
                bodies,
                Budget(limits.sockets, limits.tenant_percent, free=0),
            ),
        )
        app = await _with_webhooks(settings, app, shared, pipeline.mappers, drain, bodies, metrics)
        app = TenantDoor(app, desk_of(settings, shared), pipeline.authentication, limits, drain)
        yield Gateway(app, metrics_app(metrics), limits, drain, shared, policies)


def _pipeline(
    settings: Settings,
    shared: Shared,
    policies: PolicySet,
    routing: Routing,
    jwt: JwtAuthenticator,
    recorder: Recorder,
    cors: Cors,
    bodies: Budget,
) -> Pipeline:
    upstream, requests = settings.upstream, settings.requests
    open_intent_s = round(upstream.total_timeout_s) + 60
    rewriters, threads = _rewriters(settings, shared.log, policies, recorder, bodies), Threads()
    settler = Settler(recorder, open_intent_s, threads)
    authentication = Authentication((ApiKeyAuthenticator(shared.store, shared.keyring), jwt))
    watch = Watch(authentication, shared.store)
    shared.tasks.spawn("watch", watch.run_forever())
    return Pipeline(
        authentication=authentication,
        keyring=shared.keyring,
        mappers=Mappers(routing.first.name, routing.first.project),
        log=shared.log,
        policies=policies,
        routing=routing,
        lister=Lister(routing, recorder, shared.store, policies, upstream.total_timeout_s, threads),
        answering=Answering(recorder, settler, requests.ping_interval_s, rewriters, threads, watch),
        recorder=recorder,
        idempotency=Idempotency(
            shared.store,
            shared.tasks,
            settings.redis.answer_timeout_s,
            open_intent_s,
            requests.idempotency_lifetime_s,
        ),
        admit=lambda head, principal: cors.check(head, principal.owner.issuer),  # type: ignore[arg-type]
        open_intent_s=open_intent_s,
    )


def _rewriters(settings: Settings, log: AuditLog, policies: PolicySet, recorder: Recorder, bodies: Budget) -> Rewriters:
    """For files that are looked through line by line."""
    most_bytes = settings.requests.max_line_bytes

    def read_line(line: bytes) -> object:
        return parse_json(line, settings.transport)

    lines = LineChecks(log, policies, read_line, bodies.lease, most_bytes, settings.requests.max_batch_lines)
    examples = ExampleChecks(read_line, bodies.lease, most_bytes)
    down = LineAnswers(recorder, bodies.lease, most_bytes)
    return Rewriters({batches.PURPOSE: lines.check, training.PURPOSE: examples.check}, down.translate)


async def _start(settings: Settings, shared: Shared, salvage: Salvage, metrics: Metrics) -> None:
    """What a gateway does beside its requests, once every log was compared with its anchors."""
    await shared.checkpointer.check([tenant async for tenant, _ in shared.store.tenants()])
    shared.checkpointer.start(shared.tasks)
    deliverer = Deliverer(shared.store, shared.streams, shared.audit_keys)
    shared.tasks.spawn("streams", deliverer.run_forever())
    _watch(metrics, shared.checkpointer)
    retention = custody.retention(settings, shared.store, shared.audit_keys, shared.log)
    shared.tasks.spawn("retention", retention.run())
    shared.log.start()
    shared.tasks.spawn("salvage", salvage.sweep_forever())


async def _with_webhooks(
    settings: Settings,
    app: App,
    shared: Shared,
    mappers: Mappers,
    drain: Drain,
    bodies: Budget,
    metrics: Metrics,
) -> App:
    """`app` with the endpoints for the service's webhooks, if there are any, while what comes by them is delivered."""
    sources = {
        path_of(one.name): Source(one.name, one.scope, one.webhook_secret)
        for one in upstreams_of(settings)
        if one.webhook_secret
    }
    if not sources:
        return app
    verify, store = await asyncio.to_thread(load_verifier), shared.store.webhooks
    patience = IntakeSettings(wait_s=settings.webhooks.wait_s)
    intake = Intake(store, shared.keyring, mappers, shared.log, verify, patience)
    delivery = webhook_delivery.DeliverySettings(
        lease_s=settings.webhooks.timeout_s + webhook_delivery.SLACK_S,
        first_pause_s=settings.webhooks.first_pause_s,
        longest_pause_s=settings.webhooks.longest_pause_s,
        give_up_s=settings.webhooks.give_up_s,
    )
    deliverer = webhook_delivery.Deliverer(shared.store, shared.webhooks, shared.audit_keys, shared.log, delivery)
    shared.tasks.spawn("webhooks", deliverer.run_forever())
    metrics.watch(
        "coatcheck_webhooks",
        "Webhooks that came and attempts to deliver them, by what became of them, since the process began.",
        lambda: intake.tally | deliverer.tally,
        label="outcome",
    )
    return WebhookDoors(app, intake, sources, settings.transport, drain, bodies)


def _watch(metrics: Metrics, checkpointer: Checkpointer) -> None:
    metrics.watch(
        "coatcheck_audit_halted_tenants",
        "Tenants whose log is not the one that was signed; their calls are refused.",
        lambda: {"": checkpointer.halted},
    )
    metrics.watch(
        "coatcheck_audit_unsigned_events", "Events under no checkpoint yet.", lambda: {"": checkpointer.unsigned}
    )
    metrics.watch(
        "coatcheck_audit_unanchored_tenants",
        "Tenants whose newest checkpoint is not in the anchor yet.",
        lambda: checkpointer.behind,
        label="anchor",
    )


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
    return PolicySet.load(folder, actions_of(EVERY), settings.requests.decision_cache_entries)


def upstreams_of(settings: Settings) -> tuple[UpstreamSettings, ...]:
    """Every upstream key: that of `[openai]`, if it has one, and those of the tables."""
    openai = settings.openai
    if not openai.api_key and settings.upstreams:
        return settings.upstreams
    origin = parse_base_url(openai.base_url)
    first = UpstreamSettings(
        FIRST, origin, openai.credential(), project_of(settings), openai.weight, openai.webhook_secret or ""
    )
    return (first, *settings.upstreams)


def project_of(settings: Settings) -> str:
    """The identity of the upstream project: part of every ID, so it must stay when the key is rotated."""
    return settings.openai.project or "default"


def jwt_authenticator(settings: Settings) -> JwtAuthenticator:
    fetcher = Fetcher()
    return JwtAuthenticator([(issuer, Jwks(issuer, fetcher)) for issuer in settings.issuers])


def redact(text: str) -> str:
    """A log line's text without anything of raw shape."""
    return RAW.sub("[id]", text)
