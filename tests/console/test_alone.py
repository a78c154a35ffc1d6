"""The console as a process of its own: it opens the log with the audit root key, and has no other key to lose."""

from __future__ import annotations

import base64
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.command_fixture import ROOT_KEY, Shell, shell
from tests.redis_fixture import _session_redis_server, redis_server

__all__ = ["_session_redis_server", "redis_server", "shell"]

AUDIT_KEY = base64.b64encode(bytes(range(50, 82))).decode()
CONFIG = """
[console]
port = 0
[[console.issuer]]
issuer = "https://id.example.com"
client_id = "console"
name = "Example Corp"
tenant = "TENANT"
"""


@pytest.fixture
def auditors(shell: Shell) -> Shell:
    """A store that a gateway has used, seen by a process without the root key."""
    whole = shell.using(COATCHECK_AUDIT_ROOT_KEY=AUDIT_KEY)
    tenant = whole.out("tenant", "create", "acme")
    (shell.folder / "coatcheck.toml").write_text(CONFIG.replace("TENANT", tenant))
    env = {name: value for name, value in whole.env.items() if name != "COATCHECK_ROOT_KEY"}
    return Shell(whole.folder, env)


def listening(process: subprocess.Popen[str]) -> str:
    """The console's address, as its log says."""
    return address(process, "console")


def address(process: subprocess.Popen[str], what: str) -> str:
    assert process.stderr
    said = ""
    while not (found := re.search(rf'"{what}.listening","fields":\{{"address":"([^"]+)"', said)):
        line = process.stderr.readline()
        assert line, said
        said += line
    return found[1]


def test_it_serves_with_the_audit_root_key_alone(auditors: Shell) -> None:
    with auditors.start("console") as process:
        url = listening(process)
        with urllib.request.urlopen(f"{url}/log", timeout=10) as answer:  # noqa: S310 - a URL of ours
            page = answer.read().decode()
        assert "Sign in with <bdi>Example Corp</bdi>" in page
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_another_key_opens_nothing(auditors: Shell) -> None:
    done = auditors.using(COATCHECK_AUDIT_ROOT_KEY=ROOT_KEY).spawn("console")
    assert (done.code, "the root key does not open the keys in this store" in done.err) == (1, True)


def test_without_a_key_or_a_provider_it_says_what_is_missing(auditors: Shell, tmp_path: Path) -> None:
    bare = Shell(tmp_path, {"REDIS_URL": auditors.env["REDIS_URL"]})
    (tmp_path / "coatcheck.toml").unlink()
    done = bare.spawn("console")
    assert done.code == 2
    assert "COATCHECK_AUDIT_ROOT_KEY or audit_root_key_file: is missing" in done.err
    assert "console: has no [[console.issuer]] table" in done.err


def test_a_store_that_no_gateway_has_used_is_said_to_be_one(auditors: Shell, redis_server: object) -> None:
    redis_server.command("FLUSHALL")  # type: ignore[attr-defined]
    done = auditors.spawn("console")
    assert (done.code, "start its gateway once" in done.err) == (1, True)


def test_the_gateway_serves_it_beside_itself_where_it_is_enabled(auditors: Shell) -> None:
    served = auditors.using(
        COATCHECK_ROOT_KEY=ROOT_KEY, COATCHECK_CONSOLE_ENABLED="true", COATCHECK_PORT="0", COATCHECK_METRICS_PORT="0",
        OPENAI_API_KEY="sk-x", OPENAI_BASE_URL="http://127.0.0.1:9/v1",
    )  # fmt: skip
    with served.start("serve") as process:
        with urllib.request.urlopen(f"{listening(process)}/sign-in", timeout=10) as answer:  # noqa: S310 - a URL of ours
            assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        with urllib.request.urlopen(f"http://{address(process, 'gateway')}/healthz", timeout=10) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
