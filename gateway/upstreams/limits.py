"""Limits of one upstream's pool. Every wait on the network and every buffer has its bound here."""

from dataclasses import dataclass, field, fields
from typing import Any


def _limit(default: float, doc: str) -> Any:
    """`doc` is its meaning among the settings."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """Bounds of a pool. A call may set its own time-outs. ValueError unless all are positive.

    `headers_timeout_s` runs from the last byte of the request to the last byte of the answer's header block, so it
    must cover the time in which the model writes an answer that is not streamed. `idle_timeout_s` is the longest
    silence inside an answer, or while the upstream takes no more of a request body; a reader that holds back stops its
    clock. `total_timeout_s` covers the whole call, body included.
    """

    max_connections: int = _limit(1_000, "Connections to the upstream, open at once.")
    max_idle: int = _limit(200, "Idle connections kept for reuse.")
    max_waiting: int = _limit(1_000, "Requests that may wait for a connection; beyond, 503.")
    idle_expiry_s: float = _limit(30.0, "An idle connection is closed after this.")
    wait_timeout_s: float = _limit(5.0, "Longest wait for a connection.")
    connect_timeout_s: float = _limit(5.0, "From the first packet to the end of the TLS handshake.")
    headers_timeout_s: float = _limit(
        600.0, "From a request's last byte to the answer's header: covers the model's work on an answer in one piece."
    )
    idle_timeout_s: float = _limit(300.0, "Longest silence inside an answer.")
    total_timeout_s: float = _limit(3_600.0, "A whole call, its stream included.")
    max_header_bytes: int = _limit(65_536, "An answer's header.")
    max_buffered_bytes: int = _limit(65_536, "Read ahead of a slow client, per answer.")
    breaker_failures: int = _limit(
        5, "Failures to connect, or refusals of its key, in a row after which an upstream counts as down."
    )
    breaker_open_s: float = _limit(5.0, "How long it then is not tried.")
    retry_pause_s: float = _limit(0.1, "Longest pause before a GET or DELETE is tried again.")

    def __post_init__(self) -> None:
        wrong = [one.name for one in fields(self) if not getattr(self, one.name) > 0]
        if wrong:
            raise ValueError(f"upstream limits must be positive: {', '.join(wrong)}")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The time-outs of one call, in seconds of the event loop's clock: two spans and an absolute end."""

    headers_timeout_s: float
    idle_timeout_s: float
    ends_at: float
