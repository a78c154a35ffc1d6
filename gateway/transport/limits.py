"""Every limit of the transport, each with its unit. Settings build it once at start; nothing else reads the environment."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network


@dataclass(frozen=True, slots=True)
class Limits:
    head_bytes: int = 32 * 1024
    """Request line and header fields together; also the most of chunk extensions and trailers in a row."""
    head_fields: int = 100
    head_s: float = 10.0
    """From the first byte of a request (or the connection's opening) to the end of its header."""
    body_bytes: int = 32 * 1024 * 1024
    """A JSON body, as sent and as decoded."""
    body_ratio: int = 100
    """Decoded bytes per byte sent, looked at beyond the first MiB."""
    body_idle_s: float = 30.0
    body_total_s: float = 300.0
    json_depth: int = 64
    json_containers: int = 1_000_000
    """Opening brackets in a body: what one costs in memory is many times its byte."""
    keep_alive_s: int = 75
    """An idle connection. Longer than the usual 60 s of load balancers, so that they close first."""
    linger_s: float = 1.0
    """How long a refused request's remaining bytes are read and dropped, so that its sender gets to see the answer."""
    drain_s: float = 30.0
    """After SIGTERM: how long open requests may go on."""
    exit_s: float = 35.0
    """After SIGTERM: when the process has ended."""
    websocket_frame_bytes: int = 32 * 1024 * 1024
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Peers whose `X-Forwarded-For` counts."""
