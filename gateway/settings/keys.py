"""Every setting with its default, unit and meaning: the sections of `coatcheck.toml` as frozen dataclasses.

A number's unit is in its name: `_s` seconds, `_bytes` bytes. A secret never stands in the file: it comes from its
environment variable, or from the file that `<name>_file` (or the variable with `_FILE`) names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from gateway.authn.issuer import IssuerSettings
from gateway.settings.readers import (
    BY_TYPE,
    Network,
    Reader,
    read_durability,
    read_key,
    read_level,
    read_provider,
    read_token,
)
from gateway.stores.address import Target
from gateway.stores.node import LinkSettings
from gateway.stores.server import Durability
from gateway.upstreams.credentials import UpstreamCredential
from gateway.upstreams.limits import UpstreamLimits

HIGHEST_PORT: Final = 65_535


def key(
    default: Any,
    doc: str,
    *,
    env: str = "",
    low: float | None = None,
    high: float | None = None,
    read: Reader | None = None,
) -> Any:
    """A setting that people write. A number must be positive unless `low` says otherwise; both bounds are included."""
    return field(default=default, metadata={"doc": doc, "env": env, "low": low, "high": high, "read": read})


def secret(doc: str, read: Callable[[str], Any], *, env: str = "", default: Any = None) -> Any:
    """A secret that people hand over; `repr` does not show it."""
    return field(default=default, repr=False, metadata={"doc": doc, "env": env, "read": read, "secret": True})


@dataclass(frozen=True, slots=True)
class Server:
    host: str = key("127.0.0.1", "Address that the gateway listens on; 0.0.0.0 for all of IPv4.", env="COATCHECK_HOST")
    port: int = key(8080, "TCP port; 0 takes a free one.", env="COATCHECK_PORT", low=0, high=HIGHEST_PORT)
    tls_certificate_file: Path | None = key(
        None, "Our own TLS certificate with its chain (PEM), where no load balancer ends TLS before the gateway."
    )
    tls_key_file: Path | None = key(None, "Its private key (PEM), readable by its owner only.")


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Bounds of what clients may send and how long they may take."""

    head_bytes: int = key(
        32 * 1024, "Request line and header fields together; also chunk extensions and trailers in a row.", low=1_024
    )
    head_fields: int = key(100, "Number of header fields.", low=10)
    head_s: float = key(10.0, "From a connection's opening, or a request's first byte, to the end of its header.")
    body_bytes: int = key(32 * 1024 * 1024, "A JSON body, as sent and as decoded.", low=1_024)
    bodies_bytes: int = key(
        512 * 1024 * 1024, "Request bodies above 64 KiB that the process holds at once; beyond, 503.", low=1_048_576
    )
    body_ratio: int = key(100, "Decoded bytes per byte sent of a compressed body, looked at beyond the first MiB.")
    body_idle_s: float = key(30.0, "Longest pause inside a request body.")
    body_total_s: float = key(300.0, "From the first to the last byte of a request body.")
    json_depth: int = key(64, "Nesting of a JSON body.", high=500)
    json_containers: int = key(
        1_000_000, "Objects and arrays in a JSON body: each costs many times its bytes in memory."
    )
    keep_alive_s: int = key(75, "An idle connection. Longer than your load balancer's, so that it closes first.")
    linger_s: float = key(1.0, "How long the rest of a refused request is read, so that its sender sees the answer.")
    drain_s: float = key(30.0, "After SIGTERM: how long open requests may go on.")
    exit_s: float = key(35.0, "After SIGTERM: when the process has ended. At least 4 s more than drain_s.")
    websocket_frame_bytes: int = key(32 * 1024 * 1024, "A WebSocket message.", low=1_024)
    trusted_proxies: tuple[Network, ...] = key((), "Networks of proxies whose X-Forwarded-For counts.")


@dataclass(frozen=True, slots=True)
class Metrics:
    host: str = key("127.0.0.1", "Address of the Prometheus endpoint; it asks for no credential.")
    port: int = key(9464, "Its TCP port; 0 takes a free one.", low=0, high=HIGHEST_PORT)


@dataclass(frozen=True, slots=True)
class Log:
    level: str = key(
        "info",
        "debug, info, warning or error. No level shows an ID, token or body; debug tells why a credential was refused.",
        read=read_level,
    )


@dataclass(frozen=True, slots=True)
class Redis:
    url: str = field(
        default="",
        repr=False,
        metadata={
            "doc": "redis://, rediss:// (TLS) or unix://, with +cluster or +sentinel after the scheme. "
            "Empty: the embedded store in the data folder.",
            "env": "REDIS_URL",
        },
    )
    username: str = key("", "Redis user, where the URL names none.")
    password: str | None = secret("The user's password, where the URL holds none.", read_token)
    tls_ca_file: Path | None = key(None, "Certificate authority of the servers (PEM). Empty: the system's.")
    tls_certificate_file: Path | None = key(None, "Client certificate (PEM), where the servers ask for one.")
    tls_key_file: Path | None = key(None, "Its private key (PEM), readable by its owner only.")
    durability: str = key(
        "everysec",
        "What 'written' means: everysec (the server's own append-only file), waitaof (fsynced, Redis 7.2 or newer), "
        "or wait:N (N replicas have it).",
        read=read_durability,
    )
    connect_timeout_s: float = key(1.0, "From a connection's first packet until it is signed in and checked.")
    reply_timeout_s: float = key(2.0, "A connection whose oldest call waits longer is cut.")
    unconfirmed_s: float = key(5.0, "A call is sent again over new connections for so long, then it fails.")
    durable_timeout_s: float = key(0.4, "Longest wait for the durability that is set, where it is not everysec.")
    max_calls: int = key(8_192, "Calls without a reply; more fail at once.")
    target: Target | None = None
    """`url` and what belongs to it, read; None: the embedded store."""

    def link(self) -> LinkSettings | None:
        """What the store's connections take; None: the embedded store."""
        if self.target is None:
            return None
        return LinkSettings(
            self.target,
            Durability.parse(self.durability),
            self.connect_timeout_s,
            self.reply_timeout_s,
            self.unconfirmed_s,
            self.durable_timeout_s,
            self.max_calls,
        )


@dataclass(frozen=True, slots=True)
class OpenAI:
    api_key: str | None = secret("The shared key, which no client sees.", read_token, env="OPENAI_API_KEY")
    base_url: str = key(
        "https://api.openai.com/v1", "Where requests go. Plain http on loopback only.", env="OPENAI_BASE_URL"
    )
    organization: str | None = key(None, "Sent as OpenAI-Organization.", env="OPENAI_ORG_ID")
    project: str | None = key(None, "Sent as OpenAI-Project.", env="OPENAI_PROJECT_ID")

    def credential(self) -> UpstreamCredential:
        """What is shown to the upstream. ValueError where no key was given (commands that do not serve need none)."""
        return UpstreamCredential(self.api_key or "", self.organization, self.project)


@dataclass(frozen=True, slots=True)
class Audit:
    begin_timeout_s: float = key(
        0.5, "Within this the intent is written, or the request is refused with 503 and nothing goes upstream."
    )
    sweep_interval_s: float = key(
        30.0, "How often intents without an outcome are looked for, to close them as unknown."
    )


@dataclass(frozen=True, slots=True)
class Requests:
    idempotency_lifetime_s: int = key(86_400, "How long an Idempotency-Key is remembered.", low=60, high=2_592_000)
    max_answer_bytes: int = key(
        256 * 1024 * 1024, "An answer in one piece; a larger one is withheld. Streams have no such limit.", low=65_536
    )
    ping_interval_s: float = key(15.0, "Silence in a stream after which the gateway sends a comment line.")
    decision_cache_entries: int = key(16_384, "Policy decisions remembered by their whole input.", high=1_000_000)


@dataclass(frozen=True, slots=True)
class Demo:
    provider: str = key(
        "stand-in",
        "What the demo talks to: stand-in, or openai with your key.",
        env="COATCHECK_PROVIDER",
        read=read_provider,
    )


_UPSTREAM_DOCS: Final = {
    "max_connections": "Connections to the upstream, open at once.",
    "max_idle": "Idle connections kept for reuse.",
    "max_waiting": "Requests that may wait for a connection; beyond, 503.",
    "idle_expiry_s": "An idle connection is closed after this.",
    "wait_timeout_s": "Longest wait for a connection.",
    "connect_timeout_s": "From the first packet to the end of the TLS handshake.",
    "headers_timeout_s": "From a request's last byte to the answer's header: covers the model's work on an answer in one piece.",
    "idle_timeout_s": "Longest silence inside an answer.",
    "total_timeout_s": "A whole call, its stream included.",
    "max_header_bytes": "An answer's header.",
    "max_buffered_bytes": "Read ahead of a slow client, per answer.",
    "breaker_failures": "Failures to connect in a row after which the upstream counts as down.",
    "breaker_open_s": "How long it then is not tried.",
    "retry_pause_s": "Longest pause before a GET or DELETE is tried again.",
}


@dataclass(frozen=True, slots=True)
class Settings:
    root_key: bytes = secret("The root key, 32 bytes in base64. Keep a copy elsewhere.", read_key, default=b"")
    audit_root_key: bytes | None = secret(
        "A root key for audit keys alone; without it, one is derived from the root key.", read_key
    )
    production: bool = key(False, "Refuses what is only good for trying out: the embedded store, http for loopback.")
    data: Path = key(
        Path(".coatcheck"),
        "Folder for the list of erased tenants, the spool and the embedded store. It belongs to one store and root key.",
    )
    policies: Path | None = key(None, "Folder of the Cedar policies. Empty: those that come with the gateway.")
    server: Server = Server()
    transport: TransportLimits = TransportLimits()
    metrics: Metrics = Metrics()
    log: Log = Log()
    redis: Redis = Redis()
    openai: OpenAI = OpenAI()
    upstream: UpstreamLimits = field(default_factory=UpstreamLimits)
    audit: Audit = Audit()
    requests: Requests = Requests()
    demo: Demo = Demo()
    issuers: tuple[IssuerSettings, ...] = ()
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The web origins from which users of an issuer (by its exact `iss`) may call the gateway in a browser."""


SECTIONS: Final[dict[str, type]] = {
    "": Settings,
    "server": Server,
    "transport": TransportLimits,
    "metrics": Metrics,
    "log": Log,
    "redis": Redis,
    "openai": OpenAI,
    "upstream": UpstreamLimits,
    "audit": Audit,
    "requests": Requests,
    "demo": Demo,
}


@dataclass(frozen=True, slots=True)
class Key:
    """One row of the list of settings."""

    section: str
    name: str
    """As in the dataclass."""
    doc: str
    default: object
    env: str
    """Its environment variable."""
    read: Reader = field(repr=False)
    low: float | None = None
    high: float | None = None
    secret: bool = False

    @property
    def dotted(self) -> str:
        """Its name among the overrides."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def in_file(self) -> str:
        """Its name in the file: a secret is there by the name of the file that holds it."""
        return f"{self.name}_file" if self.secret else self.name

    @property
    def place(self) -> str:
        return f"[{self.section}] {self.in_file}" if self.section else self.in_file

    @property
    def unit(self) -> str:
        return "seconds" if self.name.endswith("_s") else "bytes" if self.name.endswith("_bytes") else ""


def _rows(section: str, cls: type) -> Iterator[Key]:
    types = get_type_hints(cls)
    for one in fields(cls):
        doc = one.metadata.get("doc") or (_UPSTREAM_DOCS[one.name] if cls is UpstreamLimits else "")
        if not doc:
            continue
        default = None if one.default is MISSING else one.default
        yield Key(
            section,
            one.name,
            doc,
            default,
            one.metadata.get("env") or "_".join(filter(None, ("COATCHECK", section, one.name))).upper(),
            one.metadata.get("read") or BY_TYPE[types[one.name]],
            one.metadata.get("low"),
            one.metadata.get("high"),
            one.metadata.get("secret", False),
        )


KEYS: Final[tuple[Key, ...]] = tuple(row for section, cls in SECTIONS.items() for row in _rows(section, cls))
