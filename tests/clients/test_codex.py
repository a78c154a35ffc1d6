"""Codex from npm, unmodified: a turn with a tool's call, and the session resumed, over HTTP and over a socket."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients.house import House
from tests.node import PLATFORM, missing_from, node_of, skip_if

NPM: Final = Path(__file__).with_name("npm")
LAUNCHER: Final = NPM / "node_modules/@openai/codex/bin/codex.js"
# Left alone, Codex asks GitHub for plugins and releases.
SETTINGS: Final = """
model = "gpt-5"
model_provider = "coatcheck"
check_for_update_on_startup = false
features.plugins = false
analytics.enabled = false

[model_providers.coatcheck]
name = "coatcheck"
base_url = "{url}"
env_key = "COATCHECK_KEY"
wire_api = "responses"
supports_websockets = {sockets}
"""

pytestmark = skip_if(missing_from(NPM, f"@openai/codex-{PLATFORM}"))


class Codex:
    """One person's, with a home of its own. It runs what the model asks for without a sandbox, which containers may lack."""

    def __init__(self, house: House, home: Path, *, sockets: bool) -> None:
        self._house = house
        self._home = home
        (home / "config.toml").write_text(SETTINGS.format(url=house.url, sockets=str(sockets).lower()))

    def exec(self, *arguments: str) -> list[Any]:
        """What it tells of its turn. Nothing that it received, kept or said holds a raw ID."""
        ran = subprocess.run(
            [node_of(NPM), LAUNCHER, "exec", "--json", "--skip-git-repo-check",
             "--dangerously-bypass-approvals-and-sandbox", *arguments],
            cwd=self._home,
            env=os.environ
            | {
                "CODEX_HOME": str(self._home),
                "COATCHECK_KEY": self._house.keys["alice"],
                "RUST_LOG": "codex_api=trace,tungstenite=trace",  # every event and message as it came
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert '"type":"response.completed"' in ran.stderr
        kept = [path.read_bytes().decode("latin-1") for path in self._home.rglob("*") if path.is_file()]
        self._house.check_clean(ran.stdout, ran.stderr, kept)
        return [json.loads(line) for line in ran.stdout.splitlines()]


def said(told: list[Any]) -> str:
    return str([one["item"]["text"] for one in told if one.get("item", {}).get("type") == "agent_message"])


@pytest.mark.parametrize("sockets", [False, True], ids=["http", "socket"])
def test_codex_runs_a_tool_and_resumes_its_session_and_is_shown_no_raw_id(
    house: House, tmp_path: Path, *, sockets: bool
) -> None:
    codex = Codex(house, tmp_path, sockets=sockets)
    before = len(house.received())

    # The model asks for the command `Paris`, which nobody has.
    told = codex.exec("Say hello [[script: reasoning, function_call=exec_command, quote]]")
    assert [
        one["item"]["exit_code"]
        for one in told
        if one["type"] == "item.completed" and one["item"]["type"] == "command_execution"
    ] == [127]
    assert "You have sent 2 user messages" in said(told)
    assert "Paris: command not found" in said(told)

    assert "You have sent 3 user messages" in said(codex.exec("resume", "--last", "Say it again"))

    upstream = house.received()[before:]
    assert {one["method"] for one in upstream} == ({"GET", "WS"} if sockets else {"POST"})
    # The reasoning that it was shown came back as the service had sealed it, else the service had refused it.
    assert any('"encrypted_content"' in one["body"] for one in upstream)


def test_codex_goes_on_from_a_warm_up_by_the_ids_that_only_its_connection_knows(house: House, tmp_path: Path) -> None:
    before = len(house.received())
    Codex(house, tmp_path, sockets=True).exec("Say hello [[script: function_call=exec_command]]")
    frames = [json.loads(one["body"]) for one in house.received()[before:] if one["method"] == "WS"]

    issued = [one["raw"] for one in house.ask("issued") if one["place"] == "response.id"]
    warm_up, asking, answering = frames
    assert warm_up["generate"] is False
    assert [one["store"] for one in frames] == [False, False, False]
    assert [asking["previous_response_id"], answering["previous_response_id"]] == issued[-3:-1]
    assert [one["type"] for one in answering["input"]] == ["function_call_output"]
