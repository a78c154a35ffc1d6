"""The one place that an upstream's requests may go to: scheme, host, port and path prefix, fixed at start."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)*", re.ASCII)
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?", re.ASCII)
# Origin-form without fragment, backslash, control or non-ASCII bytes (RFC 9112 §3.2.1), and without dot segments in any
# spelling or empty segments, which a server might resolve out of the prefix.
_TARGET = re.compile(
    rb"(?!(?:[^?]*/)?(?:\.|%2[eE]){1,2}(?:[/?]|\Z))(?![^?]*//)/[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*(?:\?[A-Za-z0-9\-._~!$&'()*+,;=:@%/?\[\]]*)?"
)
_DEFAULT_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an upstream lives. `prefix` is the base URL's path without a slash at its end."""

    tls: bool
    host: str
    port: int
    prefix: bytes
    authority: bytes


def parse_base_url(url: str, *, allow_plain_http: bool = False) -> Origin:
    """The origin of `url`; ValueError for anything but `https://host[:port][/prefix]`.

    Plain `http://` is for loopback, unless `allow_plain_http` says otherwise: the key travels in every request.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("an upstream's base URL must begin with https:// (or http:// on loopback)")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ValueError("an upstream's base URL holds neither credentials, query nor fragment")
    host = parts.hostname or ""
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    address = _address(host)
    if address is None and not _HOST_NAME.fullmatch(host):
        raise ValueError("an upstream's base URL needs a host name or an IP address")
    prefix = parts.path.rstrip("/")
    if not _PREFIX.fullmatch(prefix) or any(set(segment) == {"."} for segment in prefix.split("/")):
        raise ValueError("an upstream's base URL has a path that is not plain segments")
    loopback = host == "localhost" or (address is not None and address.is_loopback)
    if parts.scheme == "http" and not (loopback or allow_plain_http):
        raise ValueError("plain http:// is accepted for loopback upstreams only")
    name = f"[{host}]" if ":" in host else host
    authority = name if port == _DEFAULT_PORTS[parts.scheme] else f"{name}:{port}"
    return Origin(parts.scheme == "https", host, port, prefix.encode(), authority.encode())


def is_safe_target(target: bytes) -> bool:
    """True if `target` (path and query, relative to the prefix) can only name something below the prefix."""
    return _TARGET.fullmatch(target) is not None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
