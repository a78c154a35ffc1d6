"""The commands on a real Redis: what they print where, what they refuse, and how they end."""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.settings.keys import KEYS
from gateway.surfaces.denied import FAMILIES
from gateway.surfaces.table import ROUTES
from tests.command_fixture import Shell, embedded_shell, shell
from tests.redis_fixture import RedisServer, _session_redis_server, free_port, redis_server

__all__ = ["_session_redis_server", "embedded_shell", "redis_server", "shell"]

RAW = "resp_68b1c2d3e4f5a6b700681234567890abcdef1234567890ab"
OTHER = "conv_68b1c2d3e4f5a6b700681234567890abcdef1234567890cd"


def fails(shell: Shell, *arguments: str, code: int = 1) -> str:
    """What a command that must fail says: on standard error only, and never with a stack trace."""
    done = shell.spawn(*arguments)
    assert done.code == code, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    return done.err


# Help


def test_the_help_of_serve_documents_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert [row.env for row in KEYS if row.env not in shown] == []
    assert "[[issuer]]" in shown


@pytest.mark.parametrize(
    "command",
    [
        "demo", "serve", "stand-in", "tenant create", "tenant list", "tenant suspend", "tenant resume", "tenant rotate",
        "tenant erase", "deployment rewrap", "deployment retire-tag",
        "audit status", "audit retain", "audit hold", "audit anchor", "audit reseal", "key create", "key list", "key rotate",
        "key revoke", "id adopt", "id show", "audit tail", "audit export", "audit verify", "audit proof", "audit key",
        "audit stream add", "audit stream list", "audit stream remove", "audit stream test", "webhook add", "webhook list",
        "webhook test", "webhook rotate", "webhook remove", "webhook dead", "webhook replay", "console", "routes",
        "policy check",
    ],
)  # fmt: skip
def test_every_command_has_a_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert "usage: python -m gateway" in capsys.readouterr().out


def test_routes_shows_the_whole_table_and_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["routes"]) == 0
    shown = capsys.readouterr().out
    assert [route.path for route in ROUTES if f"{route.method:<8}/v1{route.path}\n" not in shown] == []
    assert [family for family in FAMILIES if f"/v1/{family}" not in shown] == []
    create = shown.partition("\n\n")[0]
    assert re.search(r"IDs in +response, conversation, item", create)
    assert re.search(r"IDs out +response, conversation, item", create)


def test_policy_check_runs_the_shipped_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check"]) == 0
    assert re.search(r"\d+ cases, \d+ policies, 0 failed", capsys.readouterr().out)


# Tenants and keys


def test_a_tenant_is_made_listed_suspended_and_resumed(shell: Shell) -> None:
    tenant = shell.out("tenant", "create", "acme")
    assert re.fullmatch("[a-z2-7]{16}", tenant)
    assert shell.out("tenant", "list").split() == [tenant, "active", "acme"]
    assert shell.out("tenant", "suspend", "acme") == ""
    assert shell.out("tenant", "list").split() == [tenant, "suspended", "acme"]
    assert shell.out("tenant", "resume", "acme") == ""
    assert shell.out("tenant", "list").split() == [tenant, "active", "acme"]
    assert "storage key" in shell.run("tenant", "rotate", "acme").err


def test_key_create_prints_the_key_alone_and_the_facts_on_standard_error(shell: Shell) -> None:
    tenant = shell.out("tenant", "create", "acme")
    done = shell.spawn("key", "create", "acme", "--subject", "alice", "--expires", "90d")
    assert re.fullmatch(rf"cck_{tenant}_[0-9A-Za-z]{{49}}\n", done.out)
    assert "local#alice" in done.err
    assert done.out.strip() not in done.err


def test_keys_are_listed_rotated_and_revoked(shell: Shell) -> None:
    shell.out("tenant", "create", "acme")
    shell.out("key", "create", "acme", "--subject", "robot", "--service", "--scope", "act_as:local")
    (row,) = shell.out("key", "list", "acme").splitlines()
    key_id, state, expires, *_, kind, owner, scope = row.split()
    assert (state, expires, kind, owner, scope) == ("live", "never", "service", "local#robot", "act_as:local")
    assert shell.out("key", "rotate", key_id, "--grace", "30m").startswith("cck_")
    assert shell.out("key", "revoke", key_id) == ""
    states = {line.split()[0]: line.split()[1] for line in shell.out("key", "list", "acme").splitlines()}
    assert sorted(states.values()) == ["live", "revoked"]
    assert states[key_id] == "revoked"


# IDs


def test_an_adopted_id_is_shown_again_and_both_are_on_record(shell: Shell) -> None:
    shell.out("tenant", "create", "acme")
    opaque = shell.out("id", "adopt", "acme", RAW, "--owner", "local#alice")
    assert re.fullmatch(r"resp_[0-9A-Za-z]{34}", opaque)
    done = shell.run("id", "show", "acme", opaque)
    assert done.out == RAW + "\n"
    assert "local#alice" in done.err
    log = shell.out("audit", "tail", "acme")
    assert "id.adopt" in log
    assert "id.show" in log
    assert RAW not in log


def test_adopting_a_file_tells_each_wrong_line_and_loses_no_other(shell: Shell) -> None:
    shell.out("tenant", "create", "acme")
    lines = ["# exported", RAW, "", "nonsense", f"{OTHER} local#bob"]
    (shell.folder / "ids").write_text("\n".join(lines))
    done = shell.run("id", "adopt", "acme", "--from", "ids", "--owner", "local#alice")
    assert done.code == 1
    pairs = dict(line.split("\t") for line in done.out.splitlines())
    assert list(pairs) == [RAW, OTHER]
    assert "line 4: " in done.err
    assert "2 adopted, 1 refused" in done.err
    for raw, owner in ((RAW, "local#alice"), (OTHER, "local#bob")):
        shown = shell.run("id", "show", "acme", pairs[raw])
        assert shown.out.strip() == raw
        assert owner in shown.err
    again = shell.run("id", "adopt", "acme", "--from", "ids", "--owner", "local#alice")
    assert again.out == done.out


# The log


def test_audit_tail_as_json_prints_the_stored_events_a_line_each(shell: Shell) -> None:
    tenant = shell.out("tenant", "create", "acme")
    rows = [json.loads(line) for line in shell.out("audit", "tail", "acme", "--json").splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[0]["event"]["type"] == "tenant.create"
    assert {row["event"]["tenant"] for row in rows} == {tenant}


def test_audit_tail_follows_until_it_is_interrupted(shell: Shell) -> None:
    shell.out("tenant", "create", "acme")
    with shell.start("audit", "tail", "acme", "--follow") as following:
        assert following.stdout
        while "audit.read" not in following.stdout.readline():
            pass
        shell.out("key", "create", "acme", "--subject", "alice")
        while "key.create" not in following.stdout.readline():
            pass
        following.send_signal(signal.SIGINT)
        _, errors = following.communicate(timeout=30)
        assert following.returncode == 130
        assert errors == ""


def test_a_reader_that_leaves_early_causes_no_noise(shell: Shell) -> None:
    shell.out("tenant", "create", "acme")
    with shell.start("audit", "tail", "acme", "--follow") as following:
        assert following.stdout
        assert following.stderr
        following.stdout.readline()
        following.stdout.close()
        for _ in range(2):
            shell.run("key", "create", "acme", "--subject", "alice")
        assert following.wait(10) == 1
        assert following.stderr.read() == ""


# Refusals


def test_all_wrong_settings_are_told_at_once(shell: Shell) -> None:
    wrong = shell.using(COATCHECK_ROOT_KEY="short", COATCHECK_PORT="99999", COATCHECK_DTA="x", REDIS_URL="http://x")
    told = fails(wrong, "serve", code=2)
    for place in ("COATCHECK_ROOT_KEY", "COATCHECK_PORT", "COATCHECK_DTA", "REDIS_URL", "OPENAI_API_KEY"):
        assert f"  {place}" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "COMMAND"),
        ("nonsense", "nonsense"),
        ("key revoke nonsense", "a key ID is"),
        ("key create acme --subject a --expires soon", "90d, 12h or 30m"),
        (f"id adopt acme {RAW}", "--owner"),
        (f"id adopt acme {RAW} --owner alice", "an issuer and a subject"),
        ("id adopt acme --from nowhere", "cannot read nowhere"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(
    arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("tenant create acme", "there is a tenant named 'acme'"),
        ("key create bravo --subject bob", "no tenant named 'bravo'"),
        ("key create acme --subject a --service --scope all", "unknown scope"),
        (f"id show acme {RAW}", "no opaque ID"),
        ("tenant rotate acme --identity", "--accept-loss"),
        ("tenant resume bravo", "no tenant named 'bravo'"),
    ],
)
def test_a_refused_operation_ends_with_1_and_one_line(shell: Shell, arguments: str, told: str) -> None:
    shell.out("tenant", "create", "acme")
    done = shell.run(*arguments.split())
    assert (done.code, done.out) == (1, "")
    assert re.fullmatch(f"error: .*{told}.*\n", done.err)


def test_another_root_key_is_told_as_such(shell: Shell) -> None:
    shell.out("tenant", "create", "acme")
    other = shell.using(COATCHECK_ROOT_KEY=base64.b64encode(bytes(range(32))).decode())
    assert "the root key does not open" in fails(other, "tenant", "list")


def test_a_data_folder_that_does_not_belong_to_the_store_is_told_with_what_to_do(shell: Shell) -> None:
    shell.out("tenant", "create", "acme")
    missing = fails(shell.using(COATCHECK_DATA="new"), "tenant", "list")
    assert "new/erasures cannot be opened" in missing
    assert "copy the list from another machine" in missing
    with RedisServer() as other:
        used = fails(shell.using(REDIS_URL=other.url), "tenant", "list")
    assert "line 1 of the erasure list" in used
    assert "set COATCHECK_DATA to a folder of its own" in used


def test_a_store_out_of_reach_is_told_in_one_line(shell: Shell) -> None:
    told = fails(shell.using(REDIS_URL=f"redis://127.0.0.1:{free_port()}"), "tenant", "list")
    assert re.fullmatch(r"error: the store cannot be used: .*\n", told)


def test_a_store_that_would_lose_mappings_is_refused(shell: Shell) -> None:
    with RedisServer(options=("--maxmemory-policy", "allkeys-lru")) as server:
        assert "noeviction" in fails(shell.using(REDIS_URL=server.url), "tenant", "list")


def test_wrong_policies_stop_the_start_and_fail_their_check(shell: Shell) -> None:
    policies = shell.folder / "policies"
    policies.mkdir()
    (policies / "schema.cedarschema").write_text("nonsense")
    serving = shell.using(COATCHECK_POLICIES=str(policies), OPENAI_API_KEY="sk-x", COATCHECK_METRICS_PORT="0")
    assert fails(serving, "serve", "--port", "0").endswith("schema.cedarschema:1: " + _last(shell, policies))
    assert main(["policy", "check", str(policies)]) == 2


def _last(shell: Shell, policies: Path) -> str:
    """What `policy check` says of the folder."""
    return shell.run("policy", "check", str(policies)).out.partition("schema.cedarschema:1: ")[2]


@pytest.mark.parametrize("arguments", [("serve", "--port"), ("stand-in", "--port")])
def test_a_port_that_is_taken_is_told_with_the_setting_to_change(shell: Shell, arguments: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        serving = shell.using(OPENAI_API_KEY="sk-x", COATCHECK_METRICS_PORT="0")
        told = fails(serving, *arguments, str(port))
    assert told == f"error: 127.0.0.1:{port}: address already in use; choose another with --port\n"


# Servers


def test_commands_reach_the_embedded_store_of_a_running_gateway_and_of_one_that_ended(embedded_shell: Shell) -> None:
    before = embedded_shell.out("tenant", "create", "acme")
    port = free_port()
    serving = embedded_shell.using(OPENAI_API_KEY="sk-x", COATCHECK_METRICS_PORT="0")
    with serving.start("serve", "--port", str(port)) as gateway:
        assert gateway.stderr
        while "gateway.listening" not in gateway.stderr.readline():
            assert gateway.poll() is None
        key = embedded_shell.out("key", "create", "acme", "--subject", "alice")
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/responses/{RAW}", headers={"Authorization": f"Bearer {key}"}
        )
        with pytest.raises(urllib.error.HTTPError) as answered:
            urllib.request.urlopen(asked, timeout=10)  # noqa: S310 - a URL of ours
        with answered.value as answer:
            assert json.load(answer)["error"]["message"] == f"Response with id '{RAW}' not found."
        gateway.send_signal(signal.SIGTERM)
        out, errors = gateway.communicate(timeout=20)
        assert gateway.returncode == 0, errors
        assert out == ""
    assert embedded_shell.out("tenant", "list").split() == [before, "active", "acme"]
    assert "responses.retrieve" in embedded_shell.out("audit", "tail", "acme")


def test_a_command_without_any_lasting_store_is_refused(embedded_shell: Shell) -> None:
    assert "no redis-server on PATH" in fails(embedded_shell.using(PATH=""), "tenant", "create", "acme")


def test_the_stand_in_runs_by_itself(shell: Shell) -> None:
    port = free_port()
    with shell.start("stand-in", "--port", str(port)) as running:
        assert running.stderr
        while "running on" not in running.stderr.readline():
            assert running.poll() is None
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers={"Authorization": "Bearer any"})
        with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - a URL of ours
            assert json.load(answer)["object"] == "list"


def test_a_running_gateway_takes_new_policies_at_a_hangup_and_keeps_the_old_ones_where_they_are_wrong(
    shell: Shell,
) -> None:
    policies = shell.folder / "policies"
    shutil.copytree(Path(__file__).parent.parent / "policies", policies)
    serving = shell.using(COATCHECK_POLICIES=str(policies), OPENAI_API_KEY="sk-x", COATCHECK_METRICS_PORT="0")
    with serving.start("serve", "--port", "0") as gateway:
        assert gateway.stderr

        def told(event: str) -> str:
            assert gateway.stderr
            while event not in (line := gateway.stderr.readline()):
                assert gateway.poll() is None
            return line

        told("gateway.listening")
        whole = (policies / "models.cedar").read_text()
        (policies / "models.cedar").write_text("permit nonsense")
        gateway.send_signal(signal.SIGHUP)
        assert "models.cedar:1" in told("policies.not_reloaded")
        (policies / "models.cedar").write_text(whole)
        gateway.send_signal(signal.SIGHUP)
        told("policies.reloaded")
        gateway.send_signal(signal.SIGTERM)
        gateway.communicate(timeout=20)
        assert gateway.returncode == 0


def test_a_hangup_does_not_end_a_gateway_that_is_still_opening(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        serving = shell.using(
            REDIS_URL=f"redis://127.0.0.1:{silent.getsockname()[1]}/0",
            OPENAI_API_KEY="sk-x",
            COATCHECK_METRICS_PORT="0",
        )
        with serving.start("serve", "--port", "0") as gateway:
            silent.settimeout(30)
            silent.accept()[0].close()
            gateway.send_signal(signal.SIGHUP)
            silent.accept()[0].close()  # it goes on trying
            gateway.terminate()
            gateway.communicate(timeout=20)
            assert gateway.returncode == -signal.SIGTERM
