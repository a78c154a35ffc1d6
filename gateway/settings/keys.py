"""The list of settings: a row for each that people write, with its place in the file, its environment variable and its bounds.

`sections.py` says what each is; from here it is read, checked and described.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from typing import Final, get_type_hints

from gateway.settings.readers import BY_TYPE, Reader
from gateway.settings.sections import (
    Admin,
    Audit,
    Console,
    Demo,
    Log,
    Metrics,
    OpenAI,
    Redis,
    Requests,
    Server,
    Settings,
    TransportLimits,
    Webhooks,
)
from gateway.upstreams.limits import UpstreamLimits

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
    "webhooks": Webhooks,
    "requests": Requests,
    "console": Console,
    "admin": Admin,
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
        doc = one.metadata.get("doc")
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
