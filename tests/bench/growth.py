"""A store as full as years of use leave it."""

from __future__ import annotations

import secrets
import time
from typing import Any, Final

import redis

from tests.redis_fixture import RedisServer

_BATCH: Final = 2_000
_SETTLE_TIMEOUT_S: Final = 120.0
_PATTERNS: Final = (b"{t:*}:id:*", b"own:*")
"""Keys of which there is one for each ID, or for each root; see gateway/stores/keyspace.py."""


def fill(server: RedisServer, ids: int) -> None:
    """Adds `ids` records and the claims that belong to them: copies of those that are there, under other names, with other
    bytes of the same size and the same time to live. Nobody asks for them; they are there."""
    client: Any = redis.Redis(unix_socket_path=str(server.socket_path), socket_timeout=60)
    try:
        samples = [
            [(key, client.strlen(key), client.pttl(key)) for key in client.scan_iter(pattern, count=1000)]
            for pattern in _PATTERNS
        ]
        records, claims = samples
        if not records:
            raise ValueError("there is no record to copy")
        pipe = client.pipeline(transaction=False)
        for number in range(ids // len(records)):
            for key, size, lives_ms in records + claims:
                name = key[: key.rindex(b":") + 1] + _like(key[key.rindex(b":") + 1 :])
                pipe.set(name, secrets.token_bytes(size), px=lives_ms if lives_ms > 0 else None)
            if number % _BATCH == 0:
                pipe.execute()
        pipe.execute()
        _settle(client)
    finally:
        client.close()


def _settle(client: Any) -> None:
    """Waits until the server has written its files anew, which so many new keys make it do. TimeoutError after two minutes."""
    deadline = time.monotonic() + _SETTLE_TIMEOUT_S
    while time.monotonic() < deadline:
        state = client.info("persistence")
        if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"] or state["rdb_bgsave_in_progress"]):
            return
        time.sleep(0.1)
    raise TimeoutError("the Redis server goes on rewriting its file")


def _like(name: bytes) -> bytes:
    """Another name of that length: hexadecimal where the name is."""
    try:
        return secrets.token_bytes(len(bytes.fromhex(name.decode()))).hex().encode()
    except ValueError:
        return secrets.token_bytes(len(name))
