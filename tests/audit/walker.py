"""Reads a tenant's log from Redis and checks every writer's chain, from the format alone (no code of the gateway's)."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from tests.redis_fixture import RedisServer

MAC_BYTES: Final = 16


def walk(server: RedisServer, tenant: str) -> list[dict[str, Any]]:
    """The events in order. AssertionError where a number, a chain or a succession is broken."""
    rows = server.command("XRANGE", f"{{t:{tenant}}}:aud", "-", "+")
    last: dict[str, tuple[int, str]] = {}
    ended: set[str] = set()
    events = []
    for seq, (row_id, fields) in enumerate(rows, start=1):
        assert row_id.decode() == f"0-{seq}", "a gap in the sequence"
        body = fields[b"e"]
        assert len(fields[b"m"]) == 1 + MAC_BYTES
        assert len(body) <= 4096
        event = json.loads(body)
        assert json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == body
        writer, wseq = event["writer"], event["wseq"]
        assert writer not in ended
        before, digest = last.get(writer, (0, "0" * 64))
        assert (wseq, event["wprev"]) == (before + 1, digest), "a writer's chain is broken"
        if event["type"] == "writer.opened":
            assert wseq == 1
            predecessor = event["changes"]["predecessor"]
            assert last[predecessor][0] >= event["changes"]["confirmed"], "confirmed events are missing"
            ended.add(predecessor)
        last[writer] = (wseq, hashlib.sha256(body).hexdigest())
        events.append(event)
    return events
