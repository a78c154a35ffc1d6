"""What a server must be like before the gateway trusts it with records and events. Checked at every connection.

Pure: INFO and CONFIG texts in, complaints out. Redis 6.2 or newer, or Valkey
(https://redis.io/docs/latest/commands/info/, https://redis.io/docs/latest/develop/reference/eviction/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

OLDEST: Final = (6, 2)
OLDEST_WAITAOF: Final = (7, 2)


class Level(StrEnum):
    EVERYSEC = "everysec"
    """Confirmed by the primary's memory; its append-only file is synced each second. A crash loses up to that second."""
    WAITAOF = "waitaof"
    """Confirmed once the primary's append-only file is synced."""
    WAIT = "wait"
    """Confirmed once `replicas` replicas hold it in memory."""


@dataclass(frozen=True, slots=True)
class Durability:
    level: Level = Level.EVERYSEC
    replicas: int = 0

    @classmethod
    def parse(cls, text: str) -> Durability:
        """`everysec`, `waitaof` or `wait:<replicas>`. Raises ValueError."""
        if match := re.fullmatch(r"wait:([1-9])", text):
            return cls(Level.WAIT, int(match[1]))
        if text in {Level.EVERYSEC, Level.WAITAOF}:
            return cls(Level(text))
        raise ValueError("durability is everysec, waitaof or wait:<1-9>")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """`None` where the server does not tell."""

    version: tuple[int, ...]
    run_id: str
    role: str
    eviction: str | None
    appendonly: bool | None
    appendfsync: str | None
    loading: bool = False
    """It still reads its data, and what it says of its append-only file is not what will be."""


def facts(info: bytes, config: Mapping[bytes, bytes]) -> ServerFacts:
    """Reads INFO's default sections, and CONFIG GET's values where the server gave any."""
    fields = dict(line.split(":", 1) for line in info.decode("utf-8", "replace").splitlines() if ":" in line)
    said = {name.decode(): value.decode() for name, value in config.items()}
    aof = fields.get("aof_enabled")
    version = re.match(r"(\d+)\.(\d+)\.(\d+)", fields.get("redis_version", ""))
    return ServerFacts(
        version=tuple(map(int, version.groups())) if version else (),
        run_id=fields.get("run_id", ""),
        role=fields.get("role", ""),
        eviction=said.get("maxmemory-policy") or fields.get("maxmemory_policy"),
        appendonly=None if aof is None else aof == "1",
        appendfsync=said.get("appendfsync"),
        loading=fields.get("loading") == "1",
    )


def faults(server: ServerFacts, durability: Durability) -> list[str]:
    """Why this server cannot be used, each with what to change; empty if it can."""
    found = []
    if server.version < OLDEST:
        found.append("Redis must be 6.2 or newer, or Valkey; INFO must show its version")
    if server.eviction is None:
        found.append(
            "neither CONFIG GET maxmemory-policy nor INFO memory can be read; allow the gateway's user one of them"
        )
    elif server.eviction != "noeviction":
        found.append(f"maxmemory-policy is {server.eviction}, which drops records; set it to noeviction")
    if durability.level is Level.WAITAOF and server.version < OLDEST_WAITAOF:
        found.append("durability waitaof needs Redis 7.2 or newer, or Valkey; use everysec or wait:<replicas>")
    if durability.level is Level.WAITAOF and server.appendonly is False:
        found.append("durability waitaof needs appendonly yes")
    return found


def remarks(server: ServerFacts) -> list[str]:
    """What an operator should know though the server can be used."""
    if server.appendonly is False:
        return ["appendonly is off: a crash loses everything since the last snapshot"]
    if server.appendfsync not in {None, "everysec", "always"}:
        return [f"appendfsync is {server.appendfsync}: a crash can lose more than a second"]
    return []
