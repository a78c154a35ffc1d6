"""The policies' cases: they hold, and every change of a policy turns one of them red."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from openai.types.responses.tool_param import ToolParam

from gateway.policy.check import check
from gateway.policy.source import shipped_folder
from tests.policy.folder import ACTIONS, copied, edited


def run(folder: Path) -> tuple[int, list[str]]:
    lines: list[str] = []
    return check(folder, ACTIONS, lines.append), lines


def test_every_case_of_the_shipped_policies_holds() -> None:
    status, lines = run(shipped_folder())
    assert status == 0, "\n".join(lines)
    assert all(line.startswith("ok") for line in lines[:-1])


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("access.cedar", 'Action::"responses",\n        ', ""),
        ("access.cedar", "permit", "forbid"),
        ("tenants.cedar", "unless { resource in principal.tenant }", "when { false }"),
        ("ownership.cedar", '"tenant"', '"private"'),
        ("ownership.cedar", "resource.owner == principal.owner ||", "resource.owner == principal.owner || true ||"),
        ("ownership.cedar", "resource.owner == principal.owner ||", ""),
        ("models.cedar", 'context.model like "*" &&', 'context.model like "gpt-5*" &&'),
        ("models.cedar", '"*:ft-*"', '"ft-*"'),
        ("models.cedar", '"*" &&', '"o3*" &&'),
        ("tools.cedar", "containsAll", "containsAny"),
        ("tools.cedar", '"mcp",', ""),
        ("retention.cedar", "&& context.store", ""),
        ("retention.cedar", '"no-store" && context.store', '"no-stores" && context.store'),
        ("retention.cedar", 'Action::"conversations",', 'Action::"models",'),
        ("background.cedar", "context.background && ", ""),
        ("background.cedar", "context.background", "!context.background"),
    ],
)
def test_a_case_turns_red_when_a_policy_changes(tmp_path: Path, file: str, old: str, new: str) -> None:
    status, lines = run(edited(tmp_path, file, old, new))
    assert status == 1
    assert any(line.startswith("FAIL") for line in lines)


def test_a_policy_that_no_case_is_decided_by_fails(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "night.cedar").write_text(
        '@id("night")\nforbid (principal, action, resource) when { context.max_output_tokens > 99999 };'
    )
    (folder / "night.cases.toml").write_text(
        '[[case]]\nname = "n"\naction = "models.list"\nexpect = "allow"\npolicy = "access"\n'
    )
    status, lines = run(folder)
    assert status == 1
    assert "FAIL  night: no case is decided by this policy" in lines


@pytest.mark.parametrize(
    "cases",
    [
        "",
        "[[case]",
        "[[cases]]",
        "case = [1]",
        '[[case]]\nname = "n"\naction = "threads.create"\nexpect = "allow"',
        '[[case]]\nname = "n"\naction = "models.list"\nexpect = "perhaps"',
        '[[case]]\nname = "n"\naction = "models.list"\nexpect = "deny"\ncontekst = {}',
        '[[case]]\nname = "n"\naction = "models.list"\nexpect = "deny"\ncontext = { store = "false" }',
        '[[case]]\nname = "n"\naction = "models.list"\nexpect = "deny"\ncontext = { tools = "mcp" }',
        '[[case]]\nname = "n"\naction = "models.list"\nexpect = "deny"\nprincipal = { roles = "admin" }',
        '[[case]]\nname = "n"\naction = "models.list"\nexpect = "deny"\nprincipal = { owner = "alice" }',
        '[[case]]\nname = "n"\naction = "models.list"\nexpect = "deny"\nresource = { kind = "thing" }',
        '[[case]]\naction = "models.list"\nexpect = "deny"',
    ],
)
def test_cases_that_cannot_be_read_are_a_failure_and_name_their_file(tmp_path: Path, cases: str) -> None:
    folder = copied(tmp_path)
    (folder / "tools.cases.toml").write_text(cases)
    status, lines = run(folder)
    assert status == 2
    assert lines[0].startswith("tools.cases.toml: ")
    assert "Error" not in lines[0]


def test_a_policy_file_without_cases_is_a_failure(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "tools.cases.toml").unlink()
    assert run(folder) == (2, ["tools.cases.toml: is missing; it holds the cases of tools.cedar"])


def test_policies_that_do_not_load_are_a_failure(tmp_path: Path) -> None:
    status, lines = run(edited(tmp_path, "tools.cedar", "containsAll", "holds"))
    assert status == 2
    assert lines[0].startswith("tools.cedar:7: ")


def test_the_tool_allow_list_knows_every_type_of_the_installed_openai_package() -> None:
    types = {name for tool in get_args(ToolParam) for name in get_args(get_type_hints(tool)["type"])}
    policy = (shipped_folder() / "tools.cedar").read_text()
    assert {name for name in types if f'"{name}"' not in policy} == set()
