"""What can go wrong between this gateway and an upstream: a small closed tree.

Its texts are constants: no URL, header, body or identifier ever stands in them, so they may be logged. The pipeline maps
them to what a client reads.
"""

from enum import StrEnum
from typing import Final

KEY_REFUSED: Final = frozenset({401, 407})
"""Statuses by which an upstream says that it does not take the shared key. That is the operator's business: to the client its own
credential is good."""


class Reason(StrEnum):
    """Why a call upstream failed. The values are stable: logs, metrics and audit outcomes use them."""

    CONNECT_FAILED = "connect_failed"
    TLS_FAILED = "tls_failed"
    CONNECTION_LOST = "connection_lost"
    BREAKER_OPEN = "breaker_open"
    POOL_FULL = "pool_full"
    CLOSED = "closed"

    CONNECT_TIMEOUT = "connect_timeout"
    HEADERS_TIMEOUT = "headers_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"

    MALFORMED = "malformed"
    HEADERS_TOO_LARGE = "headers_too_large"
    HEADER_BYTES = "header_bytes"
    FRAMING = "framing"
    CONTENT_CODING = "content_coding"
    TRUNCATED = "truncated"
    TOO_LARGE = "too_large"


class UpstreamError(Exception):
    """A call upstream failed for `reason`.

    `written` is False only if no byte of the request was handed to a connection, so the upstream cannot have acted on it;
    True means that nobody here can know.
    """

    def __init__(self, reason: Reason, *, written: bool) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.written = written


class UpstreamUnavailable(UpstreamError):
    """No connection, or it was lost before the first byte of an answer. `retry_after_s` is what to tell the client."""

    def __init__(self, reason: Reason, *, written: bool, retry_after_s: float = 1.0) -> None:
        super().__init__(reason, written=written)
        self.retry_after_s = retry_after_s


class UpstreamTimeout(UpstreamError):
    """A limit of `UpstreamLimits` ran out."""


class UpstreamBadAnswer(UpstreamError):
    """The upstream answered what this client does not accept, or broke off in the middle of an answer."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason, written=True)
