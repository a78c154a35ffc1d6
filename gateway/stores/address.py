"""Where Redis is: one URL for a single server, a cluster or a Sentinel group.

    redis://[user:password@]host[:port][/db]                       rediss:// for TLS
    unix://[user:password@]/path/to/socket[?db=0]
    redis+cluster://[user:password@]host[:port][,host[:port]…]     rediss+cluster:// for TLS
    redis+sentinel://[user:password@]host[:port][,…]/service[/db]  rediss+sentinel:// for TLS to servers and sentinels

TLS options in the query: `ca` (file), `cert` and `key` (files, for a client certificate). The server's certificate is always
verified, by name too. A Sentinel's own password stands in the query as `sentinel_password`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit


class Topology(StrEnum):
    SINGLE = "single"
    CLUSTER = "cluster"
    SENTINEL = "sentinel"


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    """A name, an IP address, or the path of a unix socket where `port` is 0."""
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


@dataclass(frozen=True, slots=True)
class Target:
    topology: Topology
    addresses: tuple[Address, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0
    service: str = ""
    sentinel_password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)


_OPTIONS = frozenset({"db", "ca", "cert", "key", "sentinel_password"})


def parse_target(url: str) -> Target:
    """Raises ValueError, whose text never repeats the URL (it holds a password), for anything that is not such a URL."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    if unknown := options.keys() - _OPTIONS:
        raise ValueError(f"the Redis URL has an unknown option: {', '.join(sorted(unknown))}")
    scheme, _, form = parts.scheme.partition("+")
    if parts.fragment or scheme not in {"redis", "rediss", "unix"} or (form and scheme == "unix"):
        raise ValueError(
            "the Redis URL starts with none of redis://, rediss://, unix://, redis+cluster://, redis+sentinel://"
        )
    try:
        topology = Topology(form) if form else Topology.SINGLE
    except ValueError:
        raise ValueError("the Redis URL names neither +cluster nor +sentinel after its scheme") from None

    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    service, db = _path(parts, topology, options)
    return Target(
        topology=topology,
        addresses=(Address(unquote(parts.path), 0),) if scheme == "unix" else _addresses(hosts, topology),
        username=unquote(username) or None,
        password=unquote(password) or None,
        db=db,
        service=service,
        sentinel_password=options.get("sentinel_password"),
        tls=_tls(options) if scheme == "rediss" else None,
    )


def _addresses(hosts: str, topology: Topology) -> tuple[Address, ...]:
    standard = 26379 if topology is Topology.SENTINEL else 6379
    found = []
    for host in hosts.split(","):
        part = urlsplit(f"//{host}")
        if not part.hostname:
            raise ValueError("the Redis URL names no host")
        found.append(Address(part.hostname, part.port or standard))
    if topology is Topology.SINGLE and len(found) > 1:
        raise ValueError("the Redis URL names several hosts; use redis+cluster:// or redis+sentinel://")
    return tuple(found)


def _path(parts: SplitResult, topology: Topology, options: dict[str, str]) -> tuple[str, int]:
    """The Sentinel service and the database number."""
    segments = [] if parts.scheme == "unix" else [unquote(part) for part in parts.path.split("/") if part]
    service = segments.pop(0) if topology is Topology.SENTINEL and segments else ""
    if topology is Topology.SENTINEL and not service:
        raise ValueError("a redis+sentinel:// URL names the service: redis+sentinel://host/service")
    text = segments.pop(0) if segments else options.get("db", "0")
    if segments or not text.isdigit() or (topology is Topology.CLUSTER and text != "0"):
        raise ValueError("the Redis URL's database is a number, and 0 in a cluster")
    return service, int(text)


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ca"))
    if "cert" in options:
        context.load_cert_chain(options["cert"], options.get("key"))
    return context
