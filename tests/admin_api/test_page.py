"""The admin API's page is its table, and every route has what people need to use it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.admin_api.page import describe_admin_routes
from gateway.admin_api.table import ROWS
from gateway.policy.check import check
from tests.command_fixture import ROOT
from tests.policy.folder import ACTIONS, copied

PAGE = (ROOT / "docs" / "admin.md").read_text()


def test_the_page_lists_every_route_with_its_body_and_answer_and_no_other() -> None:
    assert PAGE.partition("prints this list.\n\n")[2].strip() == "\n".join(describe_admin_routes()).strip()


def test_the_command_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["routes", "--admin"]) == 0
    assert capsys.readouterr().out.strip() in PAGE


def test_the_policy_of_the_page_holds_beside_those_that_come_along(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    policy, cases = re.findall(r"^```(?:toml)?\n((?:@id|\[\[case).+?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (folder / "webhooks.cedar").write_text(policy)
    (folder / "webhooks.cases.toml").write_text(cases)
    assert check(folder, ACTIONS, print) == 0


def test_a_route_stands_once_and_takes_no_wildcard() -> None:
    routes = [(row.method, re.sub(r"\{\w+\}", "{}", row.path)) for row in ROWS]
    assert len(set(routes)) == len(routes)
    assert {row.method for row in ROWS} == {"GET", "POST", "DELETE"}
    assert [row.path for row in ROWS if not re.fullmatch(r"(/[a-z]+|/\{[a-z]+\})+", row.path)] == []


def test_what_only_reads_takes_no_body() -> None:
    assert [row.path for row in ROWS if row.method != "POST" and row.body] == []
