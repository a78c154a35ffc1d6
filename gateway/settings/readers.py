"""One value from the environment (always text) or the file (typed by TOML). A reader raises ValueError with the mend."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.stores.server import Durability

Network = IPv4Network | IPv6Network
Reader = Callable[[object], Any]

_BOOLEANS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_PORTS: Final = {"https": 443, "http": 80}
_MAX_SECRET_BYTES: Final = 4_096
_LEAST_DISTINCT_BYTES: Final = 16
"""32 random bytes have about 30 distinct ones; fewer than 16 come once in 10^17 keys, and from every typed-in filler."""
_LEAST_WEBHOOK_KEY_BYTES: Final = 16


def read_text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError("must be text on one line")
    return value


def read_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise ValueError("must be true or false")


def read_int(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("must be a whole number")


def read_float(value: object) -> float:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", value):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError("must be a number")


def read_path(value: object) -> Path:
    text = read_text(str(value) if isinstance(value, Path) else value)
    if not text:
        raise ValueError("must be a path")
    return Path(text).expanduser()


def read_texts(value: object) -> tuple[str, ...]:
    """A list of the file, or a variable's values divided by commas."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list):
        raise ValueError("must be a list of texts")
    return tuple(read_text(part) for part in value)


def read_networks(value: object) -> tuple[Network, ...]:
    networks = tuple(_network(text) for text in read_texts(value))
    if any(network.prefixlen == 0 for network in networks):
        raise ValueError("must not hold every address: any client could then choose the address that it is known by")
    return networks


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError("must hold networks such as 10.0.0.0/8 or fd00::/8, without host bits") from None


def read_durability(value: object) -> str:
    text = read_text(value)
    try:
        Durability.parse(text)
    except ValueError:
        raise ValueError("must be everysec, waitaof, or wait:N for N replicas (1 to 9)") from None
    return text


def _one_of(*choices: str) -> Reader:
    def read(value: object) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return read


read_level: Final = _one_of("debug", "info", "warning", "error")
read_provider: Final = _one_of("stand-in", "openai")


def read_key(text: str) -> bytes:
    """A root key: 32 random bytes in base64 (RFC 4648 section 4)."""
    key = _decoded(text)
    if len(key) != 32:
        raise ValueError("must be 32 bytes in base64; make one with: openssl rand -base64 32")
    if len(set(key)) < _LEAST_DISTINCT_BYTES:
        raise ValueError("is no random key; make one with: openssl rand -base64 32")
    return key


def read_random(text: str) -> str:
    """A credential that nobody can guess: at least 32 random bytes in base64 (RFC 4648 section 4), as it is sent."""
    key = _decoded(text)
    if not 32 <= len(key) <= 256 or len(set(key)) < _LEAST_DISTINCT_BYTES:
        raise ValueError("must be at least 32 random bytes in base64; make one with: openssl rand -base64 32")
    return text


def read_token(text: str) -> str:
    """A password or API key."""
    if not re.fullmatch(r"[\x21-\x7e]{1,1024}", text):
        raise ValueError("must be 1 to 1,024 visible ASCII characters")
    return text


def read_webhook_secret(text: str) -> str:
    """A Standard Webhooks secret as it is handed out: `whsec_` and at least 16 bytes in base64.

    What is no base64 would make a short key or none, with which anybody can sign.
    """
    key = _decoded(text.removeprefix("whsec_"))
    if not text.startswith("whsec_") or len(key) < _LEAST_WEBHOOK_KEY_BYTES:
        raise ValueError("must be whsec_ and a key in base64, as the service shows it where the endpoint is entered")
    return text


def _decoded(text: str) -> bytes:
    """What base64 stands for; nothing where it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def read_secret_file(path: Path) -> str:
    """The text of a file that only we may read. ValueError says what is wrong with it."""
    try:
        with path.open("rb") as opened:
            state = os.fstat(opened.fileno())
            if not S_ISREG(state.st_mode):
                raise ValueError("names no regular file")
            # Credentials that systemd or Kubernetes hand over belong to root, and reach us through the group's bits.
            handed_over = state.st_uid == 0 and os.geteuid() != 0
            if state.st_mode & (0o037 if handed_over else 0o077):
                raise ValueError("names a file that others may read or change; run: chmod 600 on it")
            text = opened.read(_MAX_SECRET_BYTES)
    except OSError as error:
        raise ValueError(f"names a file that cannot be read: {error.strerror}") from None
    return text.decode("utf-8", "replace").strip()


def read_token_file(value: object) -> str:
    """The password or API key in a file that only we may read."""
    return read_token(read_secret_file(read_path(value)))


BY_TYPE: Final[dict[object, Reader]] = {
    str: read_text,
    str | None: read_text,
    bool: read_bool,
    int: read_int,
    float: read_float,
    Path: read_path,
    Path | None: read_path,
    tuple[str, ...]: read_texts,
    tuple[Network, ...]: read_networks,
}
"""Readers by a field's type, where the field names none."""


def is_written_as_origin(url: str) -> bool:
    """Whether it is what a browser sends as an origin (RFC 6454 section 6.2): http or https, the host, and a port other than the
    scheme's own, in lower case."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    written = f"{parts.scheme}://{parts.netloc}"
    return (
        parts.scheme in _PORTS
        and port != _PORTS[parts.scheme]
        and bool(parts.hostname)
        and written == url == url.lower()
    )
