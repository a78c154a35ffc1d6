"""What is wrong between settings that are right one by one."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.authn.issuer import LOOPBACK, acceptable_url
from gateway.settings.readers import is_written_as_origin, read_secret_file
from gateway.settings.sections import Admin, Audit, Settings
from gateway.upstreams.credentials import UpstreamCredential
from gateway.upstreams.origin import parse_base_url

CLOSING_S: Final = 4.0
"""What the server keeps of its time after `drain_s`: to end open streams, to close, and for the listeners beside it."""


def contradictions(settings: Settings, *, serves: bool, reviews: bool) -> Iterator[tuple[str, str]]:
    """(name of the setting, mend) of each."""
    yield from _root_keys(settings, reviews=reviews)
    needed = (serves and not settings.upstreams) or settings.demo.provider == "openai"
    if needed and not settings.openai.api_key:
        yield (
            "openai.api_key",
            (
                "is missing; without one there are the demo (python -m gateway demo), and the stand-in provider "
                "(python -m gateway stand-in), which takes any key"
            ),
        )
    for name, check in (("base_url", _base_url), ("organization", _account), ("project", _account)):
        try:
            check(getattr(settings.openai, name))
        except ValueError as error:
            yield f"openai.{name}", str(error)
    first = settings.openai.weight if settings.openai.api_key else 0
    if serves and not needed and first == 0 and not any(upstream.weight for upstream in settings.upstreams):
        yield "openai.weight", "is 0, and so is each [[openai.upstream]]'s: one of them must take new objects"
    if settings.policies and not settings.policies.is_dir():
        yield "policies", "must be a folder"
    if settings.data.exists() and not settings.data.is_dir():
        yield "data", "must be a folder"
    if settings.transport.exit_s < settings.transport.drain_s + CLOSING_S:
        yield (
            "transport.exit_s",
            f"must be at least {CLOSING_S:g} s more than drain_s: open streams are told so in between",
        )
    yield from _shares(settings)
    if not settings.redis.durable_timeout_s < settings.redis.answer_timeout_s < settings.redis.unconfirmed_s:
        yield "redis.answer_timeout_s", "must be more than durable_timeout_s and less than unconfirmed_s"
    yield from _tls("server", settings.server.tls_certificate_file, settings.server.tls_key_file)
    yield from _object_storage(settings.audit)
    if reviews or settings.console.enabled:
        yield from _console(settings)
    if serves and settings.admin.enabled:
        yield from _admin(settings.admin)
    if settings.production:
        yield from _only_for_trials(settings)


def _root_keys(settings: Settings, *, reviews: bool) -> Iterator[tuple[str, str]]:
    if reviews and not settings.root_key:
        if not settings.audit_root_key:
            yield "audit_root_key", "is missing; the console opens audit keys with it"
    elif not settings.root_key:
        yield "root_key", "is missing; make one with: openssl rand -base64 32"
    elif settings.audit_root_key == settings.root_key:
        yield "audit_root_key", "must not be the root key; leave it out to have one derived"
    for name, newest, previous in (
        ("root_key", settings.root_key, settings.previous_root_key),
        ("audit_root_key", settings.audit_root_key, settings.previous_audit_root_key),
    ):
        if previous is not None and previous == newest:
            yield f"previous_{name}", f"must be another key than {name}; leave it out where there was none"


def _shares(settings: Settings) -> Iterator[tuple[str, str]]:
    """What one tenant may hold must be enough for the largest thing that it may send or get."""
    limits, most_answer = settings.transport, settings.requests.max_answer_bytes
    whole = {
        "transport.body_bytes": (limits.body_bytes, limits.bodies_bytes),
        "transport.websocket_frame_bytes": (limits.websocket_frame_bytes, limits.bodies_bytes),
        "transport.spool_bytes": (limits.spool_bytes, limits.spools_bytes),
        "transport.sockets": (1, limits.sockets),
        "upstream.max_connections": (1, settings.upstream.max_connections),
        "requests.max_answer_bytes": (most_answer, limits.bodies_bytes),
    }
    for name, (most, total) in whole.items():
        if most > total * limits.tenant_percent // 100:
            yield name, "is more than tenant_percent leaves to one tenant, which could never have it"


def _only_for_trials(settings: Settings) -> Iterator[tuple[str, str]]:
    if not settings.redis.url:
        yield "redis.url", "is missing: in production the embedded store is refused, as it is one machine's"
    if not settings.openai.base_url.startswith("https://"):
        yield "openai.base_url", "must be https in production"
    if settings.audit.webhooks_on_loopback:
        yield "audit.webhooks_on_loopback", "is refused in production"
    providers = {"issuer": settings.issuers, "console.issuer": [party.provider for party in settings.console_issuers]}
    for table, issuers in providers.items():
        for issuer in issuers:
            if issuer.allow_loopback_http:
                yield table, f"{issuer.issuer}: allow_loopback_http is refused in production"


def _console(settings: Settings) -> Iterator[tuple[str, str]]:
    console = settings.console
    yield from _tls("console", console.tls_certificate_file, console.tls_key_file)
    if not settings.console_issuers:
        yield "console", "has no [[console.issuer]] table, so nobody could sign in (docs/console.md shows one)"
    loopback = console.host in LOOPBACK
    if not console.url and not loopback:
        yield "console.url", "is missing, as the console listens on more than this machine"
    if console.url and not is_origin(console.url, allow_loopback_http=not settings.production):
        yield "console.url", "must be an https origin such as https://audit.example.com (http for this machine alone)"
    elif settings.production and not console.url:
        yield "console.url", "is missing: in production auditors reach the console by https"


def _admin(admin: Admin) -> Iterator[tuple[str, str]]:
    yield from _tls("admin", admin.tls_certificate_file, admin.tls_key_file)
    if not admin.token:
        yield "admin.token", "is missing; make one with: openssl rand -base64 32"
    if admin.host not in LOOPBACK and not admin.tls_certificate_file:
        yield "admin.tls_certificate_file", "is missing, as the admin API listens on more than this machine"


def is_origin(url: str, *, allow_loopback_http: bool) -> bool:
    """Whether `url` is the origin of a site that a browser trusts (https://w3c.github.io/webappsec-secure-contexts/)."""
    return acceptable_url(url, allow_loopback_http=allow_loopback_http) and is_written_as_origin(url)


def _object_storage(audit: Audit) -> Iterator[tuple[str, str]]:
    if not audit.bucket:
        return
    if bool(audit.bucket_key_id) != bool(audit.bucket_secret):
        missing = "bucket_secret" if audit.bucket_key_id else "bucket_key_id"
        yield f"audit.{missing}", "is missing; the two go together"
    if audit.bucket_endpoint:
        try:
            parse_base_url(audit.bucket_endpoint)
        except ValueError:
            yield "audit.bucket_endpoint", "must be an https URL without query (or http on loopback)"


def _tls(section: str, certificate: Path | None, key: Path | None) -> Iterator[tuple[str, str]]:
    if not certificate or not key:
        if certificate or key:
            missing = "tls_key_file" if certificate else "tls_certificate_file"
            yield f"{section}.{missing}", "is missing; a certificate and its key go together"
        return
    try:
        read_secret_file(key)
    except ValueError as error:
        yield f"{section}.tls_key_file", str(error)
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a pair in PEM"
        yield f"{section}.tls_certificate_file", f"cannot be used with its key: {reason}"


def _base_url(url: str) -> None:
    parse_base_url(url)


def _account(value: str | None) -> None:
    UpstreamCredential("-", value, value)
