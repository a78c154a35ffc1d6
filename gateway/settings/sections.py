"""Every setting with its default, unit and meaning: the sections of `coatcheck.toml` as frozen dataclasses.

A number's unit is in its name: `_s` seconds, `_bytes` bytes. A secret never stands in the file: it comes from its
environment variable, or from the file that `<name>_file` (or the variable with `_FILE`) names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.authn.issuer import IssuerSettings
from gateway.authn.relying_party import RelyingParty
from gateway.settings.readers import (
    Network,
    Reader,
    read_durability,
    read_key,
    read_level,
    read_provider,
    read_random,
    read_token,
    read_webhook_secret,
)
from gateway.stores.address import Target
from gateway.stores.log import MOST_DAYS
from gateway.stores.node import LinkSettings
from gateway.stores.server import Durability
from gateway.upstreams.credentials import UpstreamCredential
from gateway.upstreams.fleet import MAX_WEIGHT, UpstreamSettings
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
        512 * 1024 * 1024,
        "Request bodies and answers above 64 KiB that the process holds at once; beyond, 503.",
        low=1_048_576,
    )
    body_ratio: int = key(100, "Decoded bytes per byte sent of a compressed body, looked at beyond the first MiB.")
    body_idle_s: float = key(30.0, "Longest pause inside a request body.")
    body_total_s: float = key(300.0, "From the first to the last byte of a request body.")
    form_bytes: int = key(
        2 * 1024**3, "A form with its files, as sent. They pass through, and are not held.", low=1_024
    )
    form_total_s: float = key(3600.0, "From the first to the last byte of a form.")
    form_parts: int = key(1_000, "Parts of a form.", high=100_000)
    form_text_bytes: int = key(1024 * 1024, "The fields of a form together, its files left out.", low=1_024)
    spool_bytes: int = key(
        1024**3, "The files of one form that must wait for the fields behind them, encrypted in the data folder."
    )
    spools_bytes: int = key(8 * 1024**3, "Such files of all forms at once; beyond, 503.", low=1_048_576)
    json_depth: int = key(64, "Nesting of a JSON body.", high=500)
    json_containers: int = key(
        1_000_000, "Objects and arrays in a JSON body: each costs many times its bytes in memory."
    )
    keep_alive_s: int = key(75, "An idle connection. Longer than your load balancer's, so that it closes first.")
    linger_s: float = key(1.0, "How long the rest of a refused request is read, so that its sender sees the answer.")
    drain_s: float = key(30.0, "After SIGTERM: how long open requests may go on.")
    exit_s: float = key(35.0, "After SIGTERM: when the process has ended. At least 4 s more than drain_s.")
    websocket_frame_bytes: int = key(
        32 * 1024 * 1024,
        "A WebSocket message. Above 64 KiB it counts among bodies_bytes until it has gone on.",
        low=1_024,
    )
    sockets: int = key(4_000, "WebSockets that the process holds at once; beyond, 503.", low=1)
    tenant_percent: int = key(
        50,
        "What one tenant may hold of sockets, bodies_bytes, spools_bytes and of each upstream's max_connections, in percent; "
        "beyond, 429.",
        high=100,
    )
    trusted_proxies: tuple[Network, ...] = key((), "Networks of proxies whose X-Forwarded-For counts.")


@dataclass(frozen=True, slots=True)
class Metrics:
    host: str = key("127.0.0.1", "Address of the Prometheus endpoint; it asks for no credential.")
    port: int = key(9464, "Its TCP port; 0 takes a free one.", low=0, high=HIGHEST_PORT)


@dataclass(frozen=True, slots=True)
class Console:
    enabled: bool = key(False, "Whether `serve` serves the audit console, too; `console` serves it alone.")
    host: str = key("127.0.0.1", "Address that the console listens on.")
    port: int = key(8090, "Its TCP port; 0 takes a free one.", low=0, high=HIGHEST_PORT)
    url: str = key(
        "", "Where auditors reach it: an origin such as https://audit.example.com. Empty: http on its host and port."
    )
    tls_certificate_file: Path | None = key(None, "Its own TLS certificate with its chain (PEM).")
    tls_key_file: Path | None = key(None, "The certificate's private key (PEM), readable by its owner only.")
    idle_s: int = key(1_800, "A session ends after so long without a page.", low=60, high=1_800)
    absolute_s: int = key(28_800, "And at the latest so long after the sign-in.", low=300, high=28_800)


@dataclass(frozen=True, slots=True)
class Admin:
    enabled: bool = key(False, "Whether `serve` serves the admin API, too: the operator's commands over HTTP.")
    host: str = key("127.0.0.1", "Address that it listens on; another than this machine's takes a certificate.")
    port: int = key(8091, "Its TCP port; 0 takes a free one.", low=0, high=HIGHEST_PORT)
    token: str | None = secret(
        "What its callers send as the bearer token: at least 32 random bytes in base64. It can do all that the operator can.",
        read_random,
    )
    tls_certificate_file: Path | None = key(None, "Its TLS certificate with its chain (PEM).")
    tls_key_file: Path | None = key(None, "The certificate's private key (PEM), readable by its owner only.")


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
    answer_timeout_s: float = key(
        0.5,
        "Within this what a request reads and writes here is confirmed, or it is refused with 503: before its intent is "
        "written nothing goes upstream, and what was made there and is not recorded is undone.",
    )
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
    webhook_secret: str | None = secret(
        "What the service signs its webhooks with (whsec_…). With it, they are received at /webhooks/openai, and handed on to "
        "the tenants' own receivers (`webhook`). Empty: none are received.",
        read_webhook_secret,
        env="OPENAI_WEBHOOK_SECRET",
    )
    weight: int = key(
        1, "Its share of the tenants beside the [[openai.upstream]] tables; 0 drains it.", low=0, high=MAX_WEIGHT
    )

    def credential(self) -> UpstreamCredential:
        """What is shown to the upstream. ValueError where no key was given (commands that do not serve need none)."""
        return UpstreamCredential(self.api_key or "", self.organization, self.project)


@dataclass(frozen=True, slots=True)
class Audit:
    sweep_interval_s: float = key(
        30.0, "How often intents without an outcome are looked for, to close them as unknown."
    )
    checkpoint_interval_s: float = key(
        1.0, "A tenant's log is signed at least so often where something is new; and every 256 events.", high=60
    )
    retention_days: int = key(
        0,
        "Older events go to the archive, where a tenant has no rule of its own (`audit retain`); 0: never.",
        low=0,
        high=MOST_DAYS,
    )
    webhooks_on_loopback: bool = key(
        False, "Whether webhooks may lead to this machine, by http too: for trying out; refused in production."
    )
    stream_timeout_s: float = key(15.0, "Longest wait for the receiver of a tenant's stream (`audit stream`).", high=30)
    backups_kept_days: int = key(
        30, "How long your backups of the store are kept: a report of an erasure says when the last one is gone.", low=0
    )
    bucket: str = key("", "Bucket, S3 or compatible, that checkpoints and the archive go to as well. Empty: none.")
    bucket_prefix: str = key("", "What the names of its objects begin with.")
    bucket_endpoint: str = key("", "https URL of a service other than Amazon's; plain http on loopback only.")
    bucket_region: str = key("us-east-1", "Its region.")
    bucket_key_id: str = key("", "Empty: as the machine or container says who it is.")
    bucket_secret: str | None = secret("The secret to it.", read_token)


@dataclass(frozen=True, slots=True)
class Webhooks:
    timeout_s: float = key(15.0, "Longest wait for a tenant's receiver.", high=30)
    wait_s: float = key(
        300.0,
        "How old an event of the service may be that is handed back, to come again, because nobody has its object yet.",
    )
    first_pause_s: float = key(5.0, "Pause after a message's first failure; each further one is about twice as long.")
    longest_pause_s: float = key(21_600.0, "The longest of them.")
    give_up_s: float = key(
        259_200.0, "How long a message is tried before it is a dead letter, which can be sent again (`webhook replay`)."
    )


@dataclass(frozen=True, slots=True)
class Requests:
    idempotency_lifetime_s: int = key(86_400, "How long an Idempotency-Key is remembered.", low=60, high=2_592_000)
    max_answer_bytes: int = key(
        64 * 1024 * 1024,
        "An answer in one piece; a larger one is withheld. Streams have no such limit. Above 64 KiB it counts among bodies_bytes "
        "until its client has taken it.",
        low=65_536,
    )
    max_line_bytes: int = key(
        16 * 1024 * 1024, "A line of a batch's file: a request on its way up, an answer on its way down.", low=1_024
    )
    max_batch_lines: int = key(100_000, "Lines of a file that is uploaded for a batch; the service takes 50,000.")
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


@dataclass(frozen=True, slots=True)
class Settings:
    root_key: bytes = secret("The root key, 32 bytes in base64. Keep a copy elsewhere.", read_key, default=b"")
    audit_root_key: bytes | None = secret(
        "A root key for audit keys alone; without it, one is derived from the root key.", read_key
    )
    previous_root_key: bytes | None = secret(
        "The root key before this one, until `deployment rewrap` has wrapped all keys anew.", read_key
    )
    previous_audit_root_key: bytes | None = secret("The same for the audit root key, where one was given.", read_key)
    production: bool = key(False, "Refuses what is only good for trying out: the embedded store, http for loopback.")
    data: Path = key(
        Path(".coatcheck"),
        "Folder of what is not in Redis: erased tenants, objects to undo, anchors, archive, exports, search index, embedded "
        "store. It belongs to one store and root key.",
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
    webhooks: Webhooks = Webhooks()
    requests: Requests = Requests()
    console: Console = Console()
    admin: Admin = Admin()
    demo: Demo = Demo()
    console_issuers: tuple[RelyingParty, ...] = ()
    issuers: tuple[IssuerSettings, ...] = ()
    upstreams: tuple[UpstreamSettings, ...] = ()
    """Further ones, beside `openai`."""
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The web origins from which users of an issuer (by its exact `iss`) may call the gateway in a browser."""
