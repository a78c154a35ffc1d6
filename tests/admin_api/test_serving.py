"""The admin API beside a gateway, as `serve` starts it in a process of its own."""

from __future__ import annotations

import base64
import signal
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.admin_api.conftest import TOKEN
from tests.command_fixture import Shell, shell
from tests.console.test_alone import address

__all__ = ["shell"]


@pytest.fixture
def serving(shell: Shell) -> Shell:
    return shell.using(
        OPENAI_API_KEY="sk-x", COATCHECK_METRICS_PORT="0", COATCHECK_ADMIN_ENABLED="true", COATCHECK_ADMIN_PORT="0"
    )


def status(url: str, token: str = "", context: ssl.SSLContext | None = None) -> int:
    asked = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"} if token else {})  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=10, context=context) as answer:  # noqa: S310 - a URL of ours
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_it_is_served_with_its_credential_from_a_file_beside_the_gateway(serving: Shell, tmp_path: Path) -> None:
    secret = tmp_path / "admin.token"
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    with serving.using(COATCHECK_ADMIN_TOKEN_FILE=str(secret)).start("serve", "--port", "0") as process:
        admin = address(process, "admin")
        gateway = address(process, "gateway")
        assert admin.startswith("127.0.0.1:")
        assert status(f"http://{admin}/tenants", TOKEN) == 200
        assert status(f"http://{admin}/tenants") == 401
        assert status(f"http://{gateway}/tenants", TOKEN) == 401, "it is not the gateway's own port that serves it"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_it_is_off_unless_it_is_wanted(shell: Shell) -> None:
    env = {"OPENAI_API_KEY": "sk-x", "COATCHECK_METRICS_PORT": "0", "COATCHECK_ADMIN_TOKEN": TOKEN}
    with shell.using(**env).start("serve", "--port", "0") as process:
        assert process.stderr
        said = ""
        while "gateway.listening" not in said:
            said += process.stderr.readline()
        assert "admin.listening" not in said


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({}, "COATCHECK_ADMIN_TOKEN or [admin] token_file: is missing"),
        ({"COATCHECK_ADMIN_TOKEN": "short"}, "COATCHECK_ADMIN_TOKEN: must be at least 32 random bytes"),
        ({"COATCHECK_ADMIN_TOKEN": base64.b64encode(b"a" * 32).decode()}, "must be at least 32 random bytes"),
        ({"COATCHECK_ADMIN_TOKEN": base64.b64encode(bytes(range(31))).decode()}, "must be at least 32 random bytes"),
        ({"COATCHECK_ADMIN_TOKEN": TOKEN, "COATCHECK_ADMIN_HOST": "0.0.0.0"}, "tls_certificate_file: is missing"),
        ({"COATCHECK_ADMIN_TOKEN": TOKEN, "COATCHECK_ADMIN_HOST": "::"}, "tls_certificate_file: is missing"),
        ({"COATCHECK_ADMIN_TOKEN": TOKEN, "COATCHECK_ADMIN_TLS_KEY_FILE": "key.pem"}, "tls_certificate_file: is missing"),
    ],
)  # fmt: skip
def test_without_a_credential_or_in_the_clear_to_others_it_does_not_start(
    serving: Shell, env: dict[str, str], told: str
) -> None:
    done = serving.using(**env).run("serve", "--port", "0")
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "short" not in done.err


def test_commands_do_not_ask_for_its_credential(serving: Shell) -> None:
    assert serving.run("tenant", "list").code == 0
