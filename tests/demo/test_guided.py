"""The guided demo: it ends with 0 where every promise holds, with 1 where one does not, and it leaves nothing behind."""

from __future__ import annotations

import json
import re
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from gateway.demo.guided import leaks
from gateway.demo.screen import open_screen
from gateway.demo.wire import Exchange
from gateway.ids.form import DeploymentForm
from gateway.policy.source import shipped_folder
from tests.command_fixture import Shell, embedded_shell
from tests.stand_in_fixture import Running, stand_in

__all__ = ["embedded_shell", "stand_in"]

BROKEN_OWNERSHIP = """
import gateway.pipeline.deciding
from gateway.__main__ import main

gateway.pipeline.deciding.owns = lambda principal, resource: True
raise SystemExit(main())
"""
LEAKING_HEADER = """
from contextlib import asynccontextmanager
from dataclasses import replace

import gateway.demo.stage
from gateway.__main__ import main
from gateway.transport.client import CLIENT


class Leaking:
    def __init__(self, wire):
        self.inner = wire

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def answer(self, status, headers, body):
        self.inner.answer(status, [*headers, (b"openai-organization", b"org-4f8c1b2a9d3e7f6a5b4c3d2e")], body)


whole = gateway.demo.stage.open_gateway


@asynccontextmanager
async def leaking(settings):
    async with whole(settings) as gateway:

        async def app(scope, receive, send):
            scope[CLIENT].wire = Leaking(scope[CLIENT].wire)
            await gateway.app(scope, receive, send)

        yield replace(gateway, app=app)


gateway.demo.stage.open_gateway = leaking
raise SystemExit(main())
"""
RAW = "resp_68b1c2d3e4f5a6b700681234567890abcdef1234567890ab"


def unkeyed(shell: Shell) -> Shell:
    """The demo makes a root key of its own."""
    return Shell(shell.folder, {name: value for name, value in shell.env.items() if name != "COATCHECK_ROOT_KEY"})


def test_the_demo_keeps_every_promise_and_ends_with_0(embedded_shell: Shell, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = unkeyed(embedded_shell).using(TMPDIR=str(temporary)).spawn("demo", "--exit")
    assert done.code == 0, done.out + done.err
    assert re.search(r"All 15 promises were kept\.\n$", done.out)
    assert done.out.count("✓") == 15
    assert done.err == ""
    assert "\x1b" not in done.out
    assert list(temporary.iterdir()) == []
    assert list(embedded_shell.folder.iterdir()) == []


def test_the_demo_ends_with_1_where_ownership_is_not_checked(embedded_shell: Shell, tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    for path in shipped_folder().iterdir():
        if not path.name.startswith("ownership."):
            (policies / path.name).write_bytes(path.read_bytes())
    shell = unkeyed(embedded_shell).using(COATCHECK_POLICIES=str(policies))
    with shell.start("demo", "--exit", program=BROKEN_OWNERSHIP) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, out
    assert "✗ Carol reads OpenAI's own not-found error" in out
    assert "✓ Bob reads OpenAI's own not-found error" in out  # another tenant's records cannot even be named
    assert "✗ None of these attempts reached the provider" in out
    assert "promises were broken" in out


def test_the_demo_ends_with_1_where_an_answers_header_holds_a_raw_id(embedded_shell: Shell) -> None:
    with unkeyed(embedded_shell).start("demo", "--exit", program=LEAKING_HEADER) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, out
    assert re.search(r"✗ None of the provider's \d+ raw IDs", out)
    assert "1 of 15 promises were broken" in out


def test_the_demo_stays_up_for_programs_and_for_the_operator(embedded_shell: Shell) -> None:
    with unkeyed(embedded_shell).start("demo") as demo:
        assert demo.stdout
        shown = ""
        while "Ctrl-C" not in shown:
            line = demo.stdout.readline()
            assert line, shown
            shown += line
        url, key = re.findall(r'base_url="([^"]+)", api_key="([^"]+)"', shown)[0]
        data, root_key_file = re.findall(r"COATCHECK_DATA=(\S+) COATCHECK_ROOT_KEY_FILE=(\S+)", shown)[0]
        operator = unkeyed(embedded_shell).using(COATCHECK_DATA=data, COATCHECK_ROOT_KEY_FILE=root_key_file)
        for one in (key, operator.out("key", "create", "acme", "--subject", "erin")):
            asked = urllib.request.Request(f"{url}/models", headers={"Authorization": f"Bearer {one}"})  # noqa: S310 - a URL of ours
            with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - a URL of ours
                assert json.load(answer)["object"] == "list"
        demo.send_signal(signal.SIGINT)
        assert demo.wait(20) == 0
        assert demo.stderr
        assert demo.stderr.read() == ""
    assert not Path(data).exists()


def test_a_data_folder_that_is_named_keeps_its_tenants_and_its_root_key(embedded_shell: Shell, tmp_path: Path) -> None:
    shell = unkeyed(embedded_shell).using(COATCHECK_DATA=str(tmp_path / "kept"))
    for _ in range(2):
        done = shell.spawn("demo", "--exit")
        assert done.code == 0, done.out + done.err
    key_file = tmp_path / "kept" / "demo.key"
    assert key_file.stat().st_mode & 0o077 == 0
    tenants = shell.using(COATCHECK_ROOT_KEY_FILE=str(key_file)).out("tenant", "list")
    assert [line.split()[-1] for line in tenants.splitlines()] == ["acme", "bravo"]


def test_without_a_redis_server_the_demo_says_that_all_is_in_memory(embedded_shell: Shell) -> None:
    done = unkeyed(embedded_shell).using(PATH="").spawn("demo", "--exit")
    assert done.code == 0, done.out + done.err
    assert done.out.count("No redis-server was found") == 1


def test_with_a_real_service_the_demo_checks_all_that_can_be_seen_from_outside(
    embedded_shell: Shell, stand_in: Running
) -> None:
    shell = unkeyed(embedded_shell).using(
        COATCHECK_PROVIDER="openai", OPENAI_API_KEY="sk-x", OPENAI_BASE_URL=stand_in.api_url
    )
    done = shell.spawn("demo", "--exit")
    assert done.code == 0, done.out + done.err
    assert "only the stand-in shows what it received" in done.out
    assert {one.header("authorization") for one in stand_in.provider.received} == {"Bearer sk-x"}


def test_what_the_demo_cannot_start_with_is_told_in_one_block(embedded_shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = unkeyed(embedded_shell).using(COATCHECK_PORT=str(taken.getsockname()[1])).spawn("demo", "--exit")
    assert done.code == 1
    assert re.fullmatch(r"error: 127\.0\.0\.1:\d+: address already in use; .*COATCHECK_PORT\n", done.err)
    done = unkeyed(embedded_shell).using(COATCHECK_PROVIDER="openai").spawn("demo", "--exit")
    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err


@pytest.mark.parametrize(
    ("sent", "received", "found"),
    [
        ("GET /v1/models", f'{{"id":"{RAW}"}}', [RAW]),
        ("GET /v1/models", f"x: {RAW.removeprefix('resp_')}", [RAW.removeprefix("resp_")]),
        ("GET /v1/models", "resp_" + "1" * 50, ["resp_" + "1" * 50]),
        (f"GET /v1/responses/{RAW}", f"Response with id '{RAW}' not found.", []),
        ("GET /v1/models", "x-request-id: req_" + "1" * 32, []),
    ],
)
def test_a_raw_id_in_an_answer_is_found_unless_its_own_request_named_it(
    sent: str, received: str, found: list[str]
) -> None:
    form = DeploymentForm("d" * 16, {1: b"k" * 32}, 1)
    exchange = Exchange("Bob", sent.encode(), bytearray(received.encode()))
    secrets = {RAW, RAW.removeprefix("resp_")} if RAW not in received else {RAW}
    assert list(dict.fromkeys(leaks(form, exchange, secrets, set()))) == found


def test_output_that_is_no_terminal_has_no_colour() -> None:
    assert not open_screen(True).coloured
