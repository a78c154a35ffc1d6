"""`deployment …` as an operator uses it: real commands on a real Redis."""

from __future__ import annotations

import base64
import json

import pytest

from tests.command_fixture import ROOT_KEY, Shell, shell
from tests.redis_fixture import RedisServer, _session_redis_server, redis_server

__all__ = ["_session_redis_server", "redis_server", "shell"]

NEW_KEY = base64.b64encode(bytes(range(10, 42))).decode()
RAW = "resp_68b1c2d3e4f5a6b700681234567890abcdef1234567890ab"


@pytest.fixture
def opaque(shell: Shell) -> str:
    """An opaque ID of acme's; bravo is there, too."""
    shell.out("tenant", "create", "bravo")
    shell.out("tenant", "create", "acme")
    return shell.out("id", "adopt", "acme", RAW, "--owner", "local#alice")


def story(shell: Shell, tenant: str, type_: str) -> list[str]:
    events = [json.loads(line)["event"] for line in shell.out("audit", "tail", tenant, "--json").splitlines()]
    return [(one["outcome"] or {}).get("result", one["phase"]) for one in events if one["type"] == type_]


def test_a_root_key_takes_the_place_of_another_without_a_moment_in_which_nothing_opens(
    shell: Shell, opaque: str
) -> None:
    both = shell.using(COATCHECK_ROOT_KEY=NEW_KEY, COATCHECK_PREVIOUS_ROOT_KEY=ROOT_KEY)
    assert both.out("id", "show", "acme", opaque) == RAW
    assert shell.out("id", "show", "acme", opaque) == RAW, "a gateway that has not heard of the new key yet"
    done = both.spawn("deployment", "rewrap")
    assert (done.code, done.out) == (0, "")
    assert "9 keys were wrapped anew; all keys of 2 tenants" in done.err
    assert "give the command again" in done.err
    again = both.run("deployment", "rewrap")
    assert "0 keys were wrapped anew" in again.err
    assert "take them out" in again.err
    new = shell.using(COATCHECK_ROOT_KEY=NEW_KEY)
    assert new.out("id", "show", "acme", opaque) == RAW
    assert new.run("audit", "status", "acme").code == 0
    assert "root key does not open" in shell.run("tenant", "list").err
    for tenant in ("acme", "bravo"):
        assert story(new, tenant, "tenant.rewrap") == ["intent", "allow"]


def test_a_tenant_whose_key_is_not_its_own_is_left_and_named_and_the_others_are_done(
    shell: Shell, opaque: str, redis_server: RedisServer
) -> None:
    acme, bravo = (line.split()[0] for line in shell.out("tenant", "list").splitlines())
    stolen = redis_server.command("HGET", f"{{t:{bravo}}}:keys", "storage.1")
    own = redis_server.command("HGET", f"{{t:{acme}}}:keys", "storage.1")
    redis_server.command("HSET", f"{{t:{acme}}}:keys", "storage.1", stolen)
    both = shell.using(COATCHECK_ROOT_KEY=NEW_KEY, COATCHECK_PREVIOUS_ROOT_KEY=ROOT_KEY)
    done = both.run("deployment", "rewrap")
    assert done.code == 1
    assert f"{acme} is left: one of its keys opens by none of the root keys" in done.err
    assert "keep the previous keys" in done.err
    redis_server.command("HSET", f"{{t:{acme}}}:keys", "storage.1", own)
    done = both.run("deployment", "rewrap")
    assert (done.code, "3 keys were wrapped anew" in done.err) == (0, True)


def test_retiring_the_tag_key_kills_every_id_and_stands_in_every_tenants_log(shell: Shell, opaque: str) -> None:
    assert shell.run("deployment", "retire-tag").code == 2
    assert shell.out("id", "show", "acme", opaque) == RAW
    done = shell.spawn("deployment", "retire-tag", "--accept-loss")
    assert (done.code, "version 2 of 15" in done.err) == (0, True)
    assert "no opaque ID" in shell.run("id", "show", "acme", opaque).err
    for tenant in ("acme", "bravo"):
        assert story(shell, tenant, "tag.retire") == ["intent", "allow"]


def test_a_halted_log_is_named_and_does_not_hold_the_emergency_up(
    shell: Shell, opaque: str, redis_server: RedisServer
) -> None:
    acme = shell.out("tenant", "list").split()[0]
    redis_server.command("HSET", f"{{t:{acme}}}:meta", "halted", "lost")
    done = shell.run("deployment", "retire-tag", "--accept-loss")
    assert done.code == 0
    assert f"the log of {acme} is halted" in done.err
    assert story(shell, "bravo", "tag.retire") == ["intent", "allow"]


def test_what_belongs_to_no_tenant_can_be_read_and_cannot_steer_a_terminal(
    shell: Shell, redis_server: RedisServer
) -> None:
    assert shell.out("deployment", "log") == ""
    networks = {"networks": ["192.0.2.7", "192.0.2.8"], "networks_count": 40}
    lines = [
        json.dumps({"ts": 1_790_000_000_000_000, "reason": "invalid_api_key", "count": 41, **networks}),
        json.dumps(
            {"ts": 1_790_000_001_000_000, "reason": "\x1b[2J", "count": 1, "networks": [""], "networks_count": 1}
        ),
        '{"ts": "when?"}',
    ]
    for line in lines:
        redis_server.command("XADD", "operator:log", "*", "e", line)
    assert shell.out("deployment", "log").splitlines() == [
        "2026-09-21T14:13:20.000Z  41 × invalid_api_key  from 192.0.2.7, 192.0.2.8 and 38 more",
        "2026-09-21T14:13:21.000Z  1 × \\x1b[2J",
        "(not a sum of the gateway's)",
    ]
    assert shell.out("deployment", "log", "--json").splitlines() == lines
