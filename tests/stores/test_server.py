from __future__ import annotations

import pytest

from gateway.stores.server import Durability, Level, facts, faults, remarks

INFO = (
    b"# Server\r\nredis_version:7.2.4\r\nrun_id:abc\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
)
EVERYSEC, WAITAOF = Durability(), Durability(Level.WAITAOF)


def test_a_good_server_has_no_faults_at_any_durability() -> None:
    server = facts(INFO, {b"maxmemory-policy": b"noeviction", b"appendfsync": b"everysec"})
    assert (server.version, server.run_id, server.role) == ((7, 2, 4), "abc", "master")
    assert faults(server, EVERYSEC) == faults(server, WAITAOF) == remarks(server) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (b"7.2.4", b"6.0.16", "6.2 or newer"),
        (b"redis_version:7.2.4", b"x:y", "6.2 or newer"),
        (b"noeviction", b"allkeys-lru", "allkeys-lru"),
        (b"maxmemory_policy:noeviction", b"x:y", "neither CONFIG"),
    ],
)
def test_a_fault_says_what_to_change(old: bytes, new: bytes, fault: str) -> None:
    assert fault in "; ".join(faults(facts(INFO.replace(old, new), {}), EVERYSEC))


def test_waitaof_needs_redis_7_2_and_the_append_only_file() -> None:
    assert "7.2" in faults(facts(INFO.replace(b"7.2.4", b"7.0.15"), {}), WAITAOF)[0]
    assert "appendonly" in faults(facts(INFO.replace(b"aof_enabled:1", b"aof_enabled:0"), {}), WAITAOF)[0]


def test_a_server_that_can_lose_more_than_a_second_is_remarked_on() -> None:
    assert "appendonly is off" in remarks(facts(INFO.replace(b"aof_enabled:1", b"aof_enabled:0"), {}))[0]
    assert "appendfsync is no" in remarks(facts(INFO, {b"appendfsync": b"no"}))[0]


def test_config_counts_before_info() -> None:
    server = facts(INFO, {b"maxmemory-policy": b"volatile-lru"})
    assert server.eviction == "volatile-lru"


@pytest.mark.parametrize("text", ["", "always", "wait", "wait:0", "wait:10", "wait:x", "wait:1 "])
def test_a_durability_without_meaning_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="durability"):
        Durability.parse(text)


def test_durabilities_are_read() -> None:
    assert Durability.parse("everysec") == EVERYSEC
    assert Durability.parse("waitaof") == WAITAOF
    assert Durability.parse("wait:2") == Durability(Level.WAIT, 2)
