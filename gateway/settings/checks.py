"""What is wrong between settings that are right one by one."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.settings.keys import Settings
from gateway.settings.readers import read_secret_file
from gateway.upstreams.credentials import UpstreamCredential
from gateway.upstreams.origin import parse_base_url

CLOSING_S: Final = 4.0
"""What the server keeps of its time after `drain_s`: to end open streams, to close, and for the listeners beside it."""


def contradictions(settings: Settings, serves: bool) -> Iterator[tuple[str, str]]:
    """(name of the setting, mend) of each."""
    if not settings.root_key:
        yield "root_key", "is missing; make one with: openssl rand -base64 32"
    elif settings.audit_root_key == settings.root_key:
        yield "audit_root_key", "must not be the root key; leave it out to have one derived"
    if (serves or settings.demo.provider == "openai") and not settings.openai.api_key:
        yield "openai.api_key", "is missing; without a key there is only the demo: python -m gateway demo"
    for name, check in (("base_url", _base_url), ("organization", _account), ("project", _account)):
        try:
            check(getattr(settings.openai, name))
        except ValueError as error:
            yield f"openai.{name}", str(error)
    if settings.policies and not settings.policies.is_dir():
        yield "policies", "must be a folder"
    if settings.data.exists() and not settings.data.is_dir():
        yield "data", "must be a folder"
    if settings.transport.exit_s < settings.transport.drain_s + CLOSING_S:
        yield (
            "transport.exit_s",
            f"must be at least {CLOSING_S:g} s more than drain_s: open streams are told so in between",
        )
    if not settings.redis.durable_timeout_s < settings.audit.begin_timeout_s < settings.redis.unconfirmed_s:
        yield "audit.begin_timeout_s", "must be more than [redis] durable_timeout_s and less than unconfirmed_s"
    yield from _tls(settings.server.tls_certificate_file, settings.server.tls_key_file)
    if settings.production:
        yield from _only_for_trials(settings)


def _only_for_trials(settings: Settings) -> Iterator[tuple[str, str]]:
    if not settings.redis.url:
        yield "redis.url", "is missing: in production the embedded store is refused, as it is one machine's"
    if not settings.openai.base_url.startswith("https://"):
        yield "openai.base_url", "must be https in production"
    for issuer in settings.issuers:
        if issuer.allow_loopback_http:
            yield "issuer", f"{issuer.issuer}: allow_loopback_http is refused in production"


def _tls(certificate: Path | None, key: Path | None) -> Iterator[tuple[str, str]]:
    if not certificate or not key:
        if certificate or key:
            missing = "server.tls_key_file" if certificate else "server.tls_certificate_file"
            yield missing, "is missing; a certificate and its key go together"
        return
    try:
        read_secret_file(key)
    except ValueError as error:
        yield "server.tls_key_file", str(error)
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a pair in PEM"
        yield "server.tls_certificate_file", f"cannot be used with its key: {reason}"


def _base_url(url: str) -> None:
    parse_base_url(url)


def _account(value: str | None) -> None:
    UpstreamCredential("-", value, value)
