"""The commands on how a log is kept, and the erasure of a tenant, as a person runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.logbook import cut
from tests.command_fixture import Shell, shell
from tests.pipeline.desk import _session_stand_in, stand_in
from tests.redis_fixture import RedisServer, _session_redis_server, redis_server
from tests.stand_in_fixture import Running

__all__ = ["_session_redis_server", "_session_stand_in", "redis_server", "shell", "stand_in"]


@pytest.fixture
def tenant(shell: Shell) -> str:
    return shell.run("tenant", "create", "acme").out.strip()


def status(shell: Shell) -> dict[str, str]:
    return dict(line.split("\t") for line in shell.run("audit", "status", "acme").out.splitlines())


def test_a_command_signs_and_anchors_what_it_wrote(shell: Shell, tenant: str) -> None:
    told = status(shell)
    assert told["events"] == told["signed"] == told["anchored"] == "1"
    assert (shell.folder / ".coatcheck" / "anchors" / f"{tenant}.notes").exists()


def test_retention_hold_and_anchor_are_set_and_shown(shell: Shell, tenant: str) -> None:
    for arguments in (("retain", "acme", "90"), ("hold", "acme", "on"), ("anchor", "acme", "https://example.com/x")):
        assert shell.run("audit", *arguments).code == 0
    told = status(shell)
    assert (told["kept"], told["legal hold"], told["own anchor"]) == ("90 days", "on", "a webhook")
    for arguments in (("retain", "acme", "default"), ("hold", "acme", "off"), ("anchor", "acme", "off")):
        assert shell.run("audit", *arguments).code == 0
    told = status(shell)
    assert (told["kept"], told["legal hold"], told["own anchor"]) == ("by the settings", "off", "none")


def test_an_anchor_on_this_machine_takes_the_setting(shell: Shell, tenant: str) -> None:
    anchor = ("audit", "anchor", "acme", "http://127.0.0.1:9/")
    assert shell.run(*anchor).code == 1
    assert shell.using(COATCHECK_AUDIT_WEBHOOKS_ON_LOOPBACK="true").run(*anchor).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("retain", "acme", "9x"), 2, "a number of days"),
        (("retain", "acme", "99999"), 2, "a number of days"),
        (("hold", "acme", "maybe"), 2, "invalid choice"),
        (("anchor", "acme", "https://192.168.0.1/"), 1, "does not lead to the public internet"),
        (("reseal", "acme"), 2, "--accept-loss"),
        (("reseal", "acme", "--accept-loss"), 1, "not halted"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    shell: Shell, tenant: str, arguments: tuple[str, ...], code: int, told: str
) -> None:
    done = shell.run("audit", *arguments)
    assert done.code == code
    assert told in done.err


def test_a_halted_log_is_told_and_goes_on_after_a_reseal(shell: Shell, tenant: str, redis_server: RedisServer) -> None:
    shell.run("audit", "hold", "acme", "off")
    cut(redis_server, 2, tenant)  # type: ignore[arg-type]
    shell.run("audit", "hold", "acme", "off")
    done = shell.run("audit", "status", "acme")
    assert done.code == 1
    assert "halted\tno" not in done.out
    done = shell.run("audit", "reseal", "acme", "--accept-loss")
    assert done.code == 0, done.err
    assert "epoch 1" in done.err
    assert shell.run("audit", "hold", "acme", "off").code == 0
    assert shell.run("audit", "status", "acme").code == 0


def test_tail_opens_personal_fields_where_it_is_asked_to(shell: Shell, tenant: str) -> None:
    done = shell.run("audit", "tail", "acme", "--open", "--json")
    assert '"opened":{"subject":null,"network":null}' in done.out
    assert '"opened":true' in done.out
    assert "opened" not in shell.run("audit", "tail", "acme").out


def test_an_erased_tenants_log_verifies_and_its_public_key_is_still_told(
    shell: Shell, tenant: str, stand_in: Running
) -> None:
    assert "set OPENAI_API_KEY" in shell.run("tenant", "erase", "acme").err
    with_key = shell.using(OPENAI_API_KEY="sk-x", OPENAI_BASE_URL=stand_in.api_url)
    assert shell.run("audit", "hold", "acme", "on").code == 0
    assert "legal hold" in with_key.run("tenant", "erase", "acme").err
    assert shell.run("audit", "hold", "acme", "off").code == 0
    done = with_key.run("tenant", "erase", "acme")
    assert done.code == 0, done.err
    assert "erased" in shell.run("tenant", "list").out
    left = shell.folder / ".coatcheck" / "erased" / tenant
    keys = left / "public-keys"
    assert shell.run("audit", "key", "acme").out == keys.read_text()
    anchor = shell.folder / ".coatcheck" / "anchors" / f"{tenant}.notes"
    verified = shell.run("audit", "verify", str(left / "log"), "--key", str(keys), "--anchor", str(anchor))
    assert verified.code == 0, verified.out
    assert with_key.run("tenant", "erase", "acme").code == 0, "again: nothing is left to do"
    assert shell.run("audit", "export", "acme", "--out", str(Path("x"))).code == 1
