"""Upstreams: the provider's side of the gateway. An own HTTP/1.1 client and one file per provider.

Why an own client: decisions/0003-own-upstream-client.md.
"""

from gateway.upstreams.answer import BodySink, Headers, UpstreamAnswer
from gateway.upstreams.client import Upstream, UpstreamRequest
from gateway.upstreams.credentials import UpstreamCredential
from gateway.upstreams.failures import (
    KEY_REFUSED,
    Reason,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.upstreams.limits import UpstreamLimits
from gateway.upstreams.origin import Origin, parse_base_url
from gateway.upstreams.pool import tls_context
from gateway.upstreams.socket import SocketRefused, UpstreamSocket
from gateway.websocket import SocketEnded

__all__ = [
    "KEY_REFUSED",
    "BodySink",
    "Headers",
    "Origin",
    "Reason",
    "SocketEnded",
    "SocketRefused",
    "Upstream",
    "UpstreamAnswer",
    "UpstreamBadAnswer",
    "UpstreamCredential",
    "UpstreamError",
    "UpstreamLimits",
    "UpstreamRequest",
    "UpstreamSocket",
    "UpstreamTimeout",
    "UpstreamUnavailable",
    "parse_base_url",
    "tls_context",
]
