"""Limits of one upstream's pool. Every wait on the network and every buffer has its bound here."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """Bounds of a pool. A call may set its own time-outs. ValueError unless all are positive.

    `headers_timeout_s` runs from the last byte of the request to the last byte of the answer's header block, so it
    must cover the time in which the model writes an answer that is not streamed. `idle_timeout_s` is the longest
    silence inside an answer, or while the upstream takes no more of a request body; a reader that holds back stops its
    clock. `total_timeout_s` covers the whole call, body included.
    """

    max_connections: int = 1_000
    max_idle: int = 200
    max_waiting: int = 1_000
    idle_expiry_s: float = 30.0
    wait_timeout_s: float = 5.0
    connect_timeout_s: float = 5.0
    headers_timeout_s: float = 600.0
    idle_timeout_s: float = 300.0
    total_timeout_s: float = 3_600.0
    max_header_bytes: int = 65_536
    max_buffered_bytes: int = 65_536
    breaker_failures: int = 5
    breaker_open_s: float = 5.0
    retry_pause_s: float = 0.1

    def __post_init__(self) -> None:
        wrong = [field.name for field in fields(self) if not getattr(self, field.name) > 0]
        if wrong:
            raise ValueError(f"upstream limits must be positive: {', '.join(wrong)}")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The time-outs of one call, in seconds of the event loop's clock: two spans and an absolute end."""

    headers_timeout_s: float
    idle_timeout_s: float
    ends_at: float
